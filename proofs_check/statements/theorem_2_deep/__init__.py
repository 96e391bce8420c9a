"""Theorem 2: deep and narrow, one block of inputs after another."""
