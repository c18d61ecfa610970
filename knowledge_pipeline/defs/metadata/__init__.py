"""What the UI shows of an asset: materialization metadata, columns, lineage, provenance, plots."""
