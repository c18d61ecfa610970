"""Confluence: its client, documents, permissions and members."""
