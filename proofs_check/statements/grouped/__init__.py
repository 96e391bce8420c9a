"""Frozen layers in groups: linear cost."""
