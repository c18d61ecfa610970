"""The only door to Lance and DuckDB: schemas, tables, reconciling, releases, reading."""
