"""Theorem 1: each map of the target by two frozen layers of width m·k."""
