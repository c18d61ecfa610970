"""Channels of Slack, by its API and out of an export."""
