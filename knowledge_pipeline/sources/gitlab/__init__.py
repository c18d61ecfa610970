"""Merge requests and issues of GitLab."""
