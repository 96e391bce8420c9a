"""Benchmarks: each answers a question and writes JSON rows with seed, versions and machine."""
