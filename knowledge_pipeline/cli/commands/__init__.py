"""A module for each command of `knowledge`."""
