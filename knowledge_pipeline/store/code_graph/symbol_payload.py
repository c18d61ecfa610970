"""What an answer shows of a symbol, as one column, and what it is named by.

Rows that lie far apart cost by the column: a hundred of them as eleven columns take three times as long
as one text, and questions to the code graph read little else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from knowledge_pipeline.records import hash_strings

PAYLOAD_COLUMNS = (
    *("node", "source", "path", "language", "url", "kind", "name", "full_name", "signature"),
    *("start_line", "end_line"),
)


def build_payload(row: Mapping[str, Any]) -> str:
    """The column `shown` of a row of `schemas.SYMBOLS`."""
    return json.dumps([row.get(column) for column in PAYLOAD_COLUMNS], separators=(",", ":"))


def parse_payloads(texts: Iterable[str]) -> list[Mapping[str, Any]]:
    """The columns that `shown` put into one, of many rows: faster together than each by itself."""
    return [dict(zip(PAYLOAD_COLUMNS, row, strict=True)) for row in json.loads(f"[{','.join(texts)}]")]


def node_id(source: str, path: str, name: str) -> str:
    """What edges name a definition by.

    Args:
        source: that has it.
        path: of its file.
        name: qualified within the file; empty for the file itself.
    """
    return hash_strings(source, path, name)
