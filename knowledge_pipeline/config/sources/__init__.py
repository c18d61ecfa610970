"""Sources: what the entries of `sources` in `knowledge.yaml` may say."""
