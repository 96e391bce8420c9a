"""Kronecker and Khatri-Rao products, the vec identity, and the linear algebra around them."""
