"""Traces each column of a SQL model to the columns that it comes from, by its SQL."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.lineage import lineage  # pyright: ignore[reportUnknownVariableType]  # a bare dict in its signature

from knowledge_pipeline.store.duckdb_session import RAW_TABLES

ColumnOrigin = tuple[str, str]
"""A model or raw table, and a column of it."""


def trace_column_origins(selects: Mapping[str, exp.Query]) -> dict[str, dict[str, list[ColumnOrigin]]]:
    """For each model, its columns with their origins.

    A column that counts rows, or is a constant, has none. Origins are what a value is computed from, not what
    selects, joins or orders rows. Each select follows what it reads; names in it become qualified.
    """
    schema = {name: dict.fromkeys(columns.names, "unknown") for name, columns in RAW_TABLES.items()}
    origins: dict[str, dict[str, list[ColumnOrigin]]] = {}
    for name, select in selects.items():
        reads = {table.name for table in select.find_all(exp.Table)}
        known = {table: columns for table, columns in schema.items() if table in reads}
        nodes = lineage(None, select, known, dialect="duckdb", copy=False, trim_selects=False)
        origins[name] = {
            column: sorted(
                {
                    (leaf.expression.name, leaf.name.rpartition(".")[2])
                    for leaf in node.walk()
                    if not leaf.downstream and isinstance(leaf.expression, exp.Table)
                }
            )
            for column, node in nodes.items()
        }
        schema[name] = dict.fromkeys(nodes, "unknown")
    return origins
