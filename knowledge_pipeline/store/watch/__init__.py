"""What the watchers of a store say of themselves."""
