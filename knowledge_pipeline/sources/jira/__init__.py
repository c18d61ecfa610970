"""Tickets of Jira, Cloud and Server."""
