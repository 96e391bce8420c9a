"""Theorem 3: sparse weights, whose pattern decides the rank."""
