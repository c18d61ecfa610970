"""Publishes the live release to a database from which others serve it."""
