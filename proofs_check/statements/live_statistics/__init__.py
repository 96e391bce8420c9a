"""Beyond the paper: norms that divide by the statistics of their own input (LayerNorm, RMSNorm)."""
