"""What differs between two versions of a table, and the replacement of rows by others."""
