"""Jira: its client, documents, permissions and members."""
