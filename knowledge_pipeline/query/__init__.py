"""Answers questions from the live release; reads the store, and never writes it."""
