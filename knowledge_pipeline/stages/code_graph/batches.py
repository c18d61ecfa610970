"""Rows of one schema as Arrow's columns: what is the same in many rows is said once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

Row = dict[str, Any]


class BatchBuilder:
    """Takes the rows of one file after the other, none of which needs a dictionary of all columns."""

    def __init__(self, schema: pa.Schema, constants: Mapping[str, Any]) -> None:
        """Start without a row; `constants` are the columns that are the same in all rows."""
        self._schema, self._constants = schema, constants
        self._groups: list[tuple[Mapping[str, Any], Sequence[Row]]] = []

    def add_rows(self, columns: Mapping[str, Any], rows: Sequence[Row]) -> None:
        """Add rows, and the columns that are the same in all of these; what neither has is null."""
        self._groups.append((columns, rows))

    def build(self) -> pa.RecordBatch:
        """All rows, in the order in which they came."""
        count = sum(len(rows) for _, rows in self._groups)
        if not count:  # of which `repeat` makes no list
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        arrow: Any = pa  # whose stubs give neither fields nor arrays a type
        schema: Any = self._schema
        columns: list[Any] = []
        for name in self._schema.names:
            type_ = schema.field(name).type
            if name in self._constants:
                columns.append(arrow.repeat(arrow.scalar(self._constants[name], type_), count))
            else:
                columns.append(arrow.array(self._list_values(name), type_))
        return arrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def _list_values(self, column: str) -> list[Any]:
        values: list[Any] = []
        for columns, rows in self._groups:
            if column in columns:
                values += [columns[column]] * len(rows)
            else:
                values += [row.get(column) for row in rows]
        return values
