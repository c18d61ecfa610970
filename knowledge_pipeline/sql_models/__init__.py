"""The SQL models of `dbt_like_sql/`: read, ordered, run, with their column lineage."""
