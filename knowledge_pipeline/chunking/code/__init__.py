"""Source code to chunks, by syntax."""
