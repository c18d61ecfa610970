"""The values that list columns of an index hold, in memory: most names that a text mentions are none of them.

Asking the index for names that no row has takes it some milliseconds, and a question in a store of code asks
for little else.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection
from typing import Any

MAX_VALUES = 200_000  # of a column; about 100 bytes each
_MIN_USES = 2  # of one version: a process that asks once would read more than it saves


class ListedValues:
    """What the list columns of one version of an index hold, whoever may see it. Threads may share it."""

    def __init__(self, dataset: Any, *, max_values: int = MAX_VALUES) -> None:
        self._dataset, self._max_values = dataset, max_values
        self._uses = Counter[str]()
        self._values: dict[str, frozenset[str] | None] = {}  # None: too many
        self._reading = threading.Lock()

    def knows(self, column: str) -> bool:
        """Whether the values of a column are known, so that asking reads nothing."""
        return column in self._values

    def keep_listed(self, column: str, values: Collection[str]) -> list[str]:
        """Those of the values that a row may have in the column; all of them where that is not known."""
        known = self._load_if_due(column) if values else None
        return list(values) if known is None else [value for value in values if value in known]

    def _load_if_due(self, column: str) -> frozenset[str] | None:
        self._uses[column] += 1
        if column in self._values or self._uses[column] < _MIN_USES:
            return self._values.get(column)
        if not self._reading.acquire(blocking=False):
            return None  # another search reads them
        try:
            self._values[column] = self._read(column)
            return self._values[column]
        finally:
            self._reading.release()

    def _read(self, column: str) -> frozenset[str] | None:
        found = set[str]()
        for batch in self._dataset.to_batches(columns=[column]):
            found.update(batch.column(0).flatten().unique().to_pylist())
            if len(found) > self._max_values:
                return None
        return frozenset(found)
