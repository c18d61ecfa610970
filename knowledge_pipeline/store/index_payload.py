"""What an answer shows of a row of the index beside its text, as one column.

Rows that lie far apart cost by the column: two hundred as thirty-three columns take four times as long as
the text and this one, and a search reads little else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
"""Who may see a row is not among them: it is nobody's business who else may. When it was written is not
either: a row that is made again is the same but for that."""


def build_payload(row: Mapping[str, Any]) -> str:
    """The column `shown` of a row of `schemas.index`; times as ISO 8601, the metadata as it is."""
    values = [_to_json_value(row.get(column)) for column in PAYLOAD_COLUMNS[:-1]]
    return json.dumps([*values, json.loads(row["metadata"] or "{}")], separators=(",", ":"))


def parse_payload(text: str) -> dict[str, Any]:
    """The columns that `shown` put into one; the metadata as an object."""
    return dict(zip(PAYLOAD_COLUMNS, json.loads(text), strict=True))


def _to_json_value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
