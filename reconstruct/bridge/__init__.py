"""The bridge to PyTorch: modules read as networks (`from_torch`), networks made into modules
(`to_torch`), and norms.npz beside state dicts (`norms`)."""
