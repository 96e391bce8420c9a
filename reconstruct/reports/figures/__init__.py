"""The figures of the page: each file draws one, from numbers in the run's files."""
