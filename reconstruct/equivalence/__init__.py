"""Any two networks: a joint bound of their difference by branch and bound."""
