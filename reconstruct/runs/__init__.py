"""Whole runs: target in, directory out; the directory's files, and the network from its seed."""
