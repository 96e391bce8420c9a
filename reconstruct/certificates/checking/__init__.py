"""The checker's own arithmetic: nothing here is shared with what makes certificates."""
