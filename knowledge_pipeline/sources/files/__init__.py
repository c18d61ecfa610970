"""Files of a tree, wherever it lies, and what is read out of them."""
