"""Keeps what was counted in a store's tables, for as long as none of them changes.

Counting opens every table, and opening one imports Lance, half a second in all; comparing stamps opens none.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.store.lance_storage import read_version_stamp

_COUNTED = (
    "snapshot/*/*.lance",
    "chunks/*/*.lance",
    "index/*.lance",
    "releases.lance",
)  # of lake.py's layout


class CountsCache:
    """The last counts of a store, in its folder `cache`; none of a store that is elsewhere.

    Made before counting: what changes meanwhile makes the counts outdated, as it should.

    Args:
        store: where the tables are.
        key: what the counts depend on besides the tables; another one recalls nothing. JSON values.
    """

    def __init__(self, store: Path | ObjectStore, **key: Any) -> None:
        self._root = store if isinstance(store, Path) else None
        self._stamp: Any = None
        if self._root:
            paths = sorted(path for pattern in _COUNTED for path in self._root.glob(pattern))
            tables = {str(path.relative_to(self._root)): read_version_stamp(path) for path in paths}
            self._stamp = json.loads(json.dumps({"tables": tables, **key}))

    def recall(self) -> dict[str, Any] | None:
        """What was counted last, if nothing has changed since."""
        if self._root is None:
            return None
        with suppress(OSError, ValueError):
            kept: Any = json.loads(self._file.read_bytes())
            if is_object(kept) and kept.get("stamp") == self._stamp and is_object(kept.get("counts")):
                return kept["counts"]
        return None

    def keep(self, counts: dict[str, Any]) -> None:
        """Keep what was counted, where the folder can be written."""
        if self._root is None:
            return
        with suppress(OSError):
            self._file.parent.mkdir(exist_ok=True)  # not the store: a question does not make one
            with NamedTemporaryFile("w", dir=self._file.parent, delete=False) as written:
                json.dump({"stamp": self._stamp, "counts": counts}, written)
            Path(written.name).replace(self._file)

    @property
    def _file(self) -> Path:
        assert self._root is not None
        return self._root / "cache" / "counts.json"
