"""Java: what its files say, and how its names are resolved."""
