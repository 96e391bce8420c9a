"""The remark to Theorem 1: a map of low rank as two maps in a row."""
