"""What a response shows of a symbol, packed into one column, and the id that edges use.

Reading scattered rows costs by the column: a hundred rows of eleven columns take three times as long as
one text, and queries of the code graph read little else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from knowledge_pipeline.records import hash_strings

PAYLOAD_COLUMNS = (
    *("node", "source", "path", "language", "url", "kind", "name", "full_name", "signature"),
    *("start_line", "end_line"),
)


def build_payload(row: Mapping[str, Any]) -> str:
    """The column `shown` of a row of `schemas.SYMBOLS`."""
    return json.dumps([row.get(column) for column in PAYLOAD_COLUMNS], separators=(",", ":"))


def parse_payloads(texts: Iterable[str]) -> list[dict[str, Any]]:
    """The columns that `shown` holds, of many rows: parsing them together is faster."""
    return [dict(zip(PAYLOAD_COLUMNS, row, strict=True)) for row in json.loads(f"[{','.join(texts)}]")]


@lru_cache(50_000)  # most edges of a file lead to few definitions
def node_id(source: str, path: str, name: str) -> str:
    """The id by which edges name a definition; `name` is qualified within its file, "" for the file."""
    return hash_strings(source, path, name)
