"""Writes what was asked and what it cost: queries, feedback and calls of language models."""
