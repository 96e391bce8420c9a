"""The statements, one file per group, in the order in which the proof uses them."""
