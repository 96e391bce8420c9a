"""Labelled examples: scikit-learn's digits, any .npz, the CIFAR-10 folders."""
