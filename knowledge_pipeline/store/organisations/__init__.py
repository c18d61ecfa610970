"""What machines of one store share of organisations."""
