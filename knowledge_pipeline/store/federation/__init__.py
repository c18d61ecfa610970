"""Reads the tables of several stores as one."""
