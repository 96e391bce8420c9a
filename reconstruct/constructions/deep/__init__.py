"""The deep and narrow construction (Theorem 2)."""
