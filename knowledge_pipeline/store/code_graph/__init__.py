"""The code graph's tables: columns, indexes, and reading them at a released version."""
