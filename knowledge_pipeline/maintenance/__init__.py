"""Maintenance of the store: compaction, garbage collection, and erasing for good."""
