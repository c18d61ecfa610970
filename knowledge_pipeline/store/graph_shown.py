"""What an answer shows of a symbol, as one column.

Rows that lie far apart cost by the column: a hundred of them as eleven columns take three times as long
as one text, and questions to the code graph read little else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

COLUMNS = (
    *("node", "source", "path", "language", "url", "kind", "name", "full_name", "signature"),
    *("start_line", "end_line"),
)


def shown(row: Mapping[str, Any]) -> str:
    """The column `shown` of a row of `schemas.SYMBOLS`."""
    return json.dumps([row.get(column) for column in COLUMNS], separators=(",", ":"))


def read(text: str) -> dict[str, Any]:
    """The columns that `shown` put into one."""
    return dict(zip(COLUMNS, json.loads(text), strict=True))
