"""Source code as tree-sitter reads it: grammars, and the definitions and imports of a file."""
