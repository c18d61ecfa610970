"""Text and structure of files: one module for each family of formats."""
