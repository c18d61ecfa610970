"""What a result shows of an index row besides its text, packed into one column.

Reading scattered rows costs by the column: two hundred rows of thirty-three columns take four times as
long as the text and this one, and a search reads little else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

PAYLOAD_COLUMNS = (
    *("id", "source", "uri", "path", "content_hash", "header", "title", "url"),
    *("start_char", "start_line", "end_line"),
    *("source_type", "repo", "branch", "language", "author", "last_modified"),
    *("anchor", "symbol", "symbol_kind", "section", "page"),
    *("tags", "labels", "project", "status", "wiki_space", "tokens"),
    *("archived", "metadata"),
)
"""Who may see a row is left out: callers must not learn who else may. So is the time of writing: a row
that is built again is otherwise the same."""


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=datetime.isoformat)


def build_payload(row: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> str:
    """The column `shown` of a row of an index table; times as ISO 8601, the metadata as it is.

    The metadata may be given as parsed, where the caller has it so.
    """
    values = [row.get(column) for column in PAYLOAD_COLUMNS[:-1]]
    values.append(json.loads(row["metadata"] or "{}") if metadata is None else metadata)
    return _ENCODER.encode(values)


def parse_payloads(texts: Iterable[str]) -> list[dict[str, Any]]:
    """The columns that `shown` holds, of many rows, whose metadata are objects: together that is faster."""
    return [dict(zip(PAYLOAD_COLUMNS, row, strict=True)) for row in json.loads(f"[{','.join(texts)}]")]
