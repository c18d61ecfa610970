"""What a table of an index is made of besides its rows."""
