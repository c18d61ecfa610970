"""Sensors: by commit, by changed file, and by changed configuration."""
