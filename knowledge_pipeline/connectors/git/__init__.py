"""Repositories over git: files, history, blame."""
