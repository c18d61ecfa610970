"""Rows of files and databases as documents."""
