"""Slack: its client, documents, permissions and members."""
