"""Tells subscribers what happened in a store: over a stream of the server, and by webhooks."""
