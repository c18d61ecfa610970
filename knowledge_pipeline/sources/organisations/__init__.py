"""The listings of organisations: one module for each service."""
