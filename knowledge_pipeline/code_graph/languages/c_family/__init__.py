"""C and C++: what its files say, and how its names are resolved."""
