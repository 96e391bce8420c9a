"""Stacked layers without skip connections: a map as a product of frozen factors and diagonals."""
