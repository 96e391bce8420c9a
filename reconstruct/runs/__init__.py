"""One whole run, a comparison, a rebuilt network: what the commands do, as calls."""
