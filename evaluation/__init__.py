"""Golden questions, and their scores through the product's own search."""
