"""The code graph's tables: columns, and reading them at a released version."""
