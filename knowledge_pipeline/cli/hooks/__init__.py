"""`hooks`: git hooks that refresh what reads a repository, at once."""
