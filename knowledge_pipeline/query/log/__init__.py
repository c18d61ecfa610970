"""The logs of queries, feedback and model calls: the only part of `query/` that writes to the store."""
