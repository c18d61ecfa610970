"""Which columns of which tables each column of a SQL model is made of, read from the SQL."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.lineage import lineage

from knowledge_pipeline.store.duckdb_session import RAW_TABLES

ColumnOrigin = tuple[str, str]
"""A model or raw table, and a column of it."""


def trace_column_origins(selects: Mapping[str, exp.Query]) -> dict[str, dict[str, list[ColumnOrigin]]]:
    """For each model, its columns with the columns that they are made of.

    A column that counts rows or is a constant is made of none. Only what a value is computed
    from counts: not what rows are chosen, joined or ordered by.

    Args:
        selects: each after what it reads. They are changed: names are qualified.
    """
    schema = {name: dict.fromkeys(columns.names, "unknown") for name, columns in RAW_TABLES.items()}
    found: dict[str, dict[str, list[ColumnOrigin]]] = {}
    for name, select in selects.items():
        read = {table.name for table in select.find_all(exp.Table)}
        known = {table: columns for table, columns in schema.items() if table in read}
        nodes = lineage(None, select, known, dialect="duckdb", copy=False, trim_selects=False)
        found[name] = {
            column: sorted(
                {
                    (leaf.expression.name, leaf.name.rpartition(".")[2])
                    for leaf in node.walk()
                    if not leaf.downstream and isinstance(leaf.expression, exp.Table)
                }
            )
            for column, node in nodes.items()
        }
        schema[name] = dict.fromkeys(found[name], "unknown")
    return found
