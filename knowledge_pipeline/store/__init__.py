"""The only interface to Lance and DuckDB: schemas, tables, reconciling, releases, reading."""

import os

os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # or Lance warns of its default
