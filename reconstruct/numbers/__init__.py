"""One home for arithmetic: directed rounding, double-double, exact and modular numbers, formats."""
