"""GitHub: its client, documents, permissions and members."""
