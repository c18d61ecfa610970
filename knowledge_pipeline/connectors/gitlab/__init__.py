"""GitLab: its client, documents, permissions and members."""
