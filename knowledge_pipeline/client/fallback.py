"""What a client answers, instead of raising, while its server cannot: nothing, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any, Literal

from knowledge_pipeline.errors import TransientError

OnError = Literal["raise", "empty"]

FAILURES_TO_OPEN = 3  # in a row
OPEN_S = 30.0  # without a request, before one is tried again

_QUERY: Mapping[str, Any] = {"query_id": "", "took_ms": 0.0, "release": 0, "degraded": ["server"]}
EMPTY_RESPONSES: Mapping[str, Mapping[str, Any]] = {
    "search": {**_QUERY, "results": [], "timings_ms": {}, "cached": False, "embedded_share": 0.0},
    "related": {
        **_QUERY,
        **{"documents": [], "relations": [], "unresolved_mentions": [], "is_truncated": False},
    },
    "graph": {
        **_QUERY,
        **{"operation": "", "target": "", "nodes": [], "edges": [], "candidates": [], "notes": []},
        "timings_ms": {},
    },
    "context": {
        **_QUERY,
        **{"kind": "code_generation", "text": "", "tokens": 0, "max_tokens": 0, "tokenizer": ""},
        **{"template": "", "excerpts": [], "omitted": [], "searches": []},
    },
}
"""By kind of question; `problem` is added, the reason in a sentence."""


class CircuitBreaker:
    """Stops asking a server that failed several times in a row, for a while; then one request tries again."""

    def __init__(self) -> None:
        self._failures, self._open_until_s, self._reason = 0, float("-inf"), ""

    def check(self) -> None:
        """Raise `TransientError` while the server is not to be asked."""
        rest_s = self._open_until_s - monotonic()
        if rest_s > 0:
            raise TransientError(
                f"{self._reason} (it failed {self._failures} times in a row, and is asked again "
                f"in {rest_s:.0f} s)"
            )

    def note_success(self) -> None:
        """The server answers."""
        self._failures, self._open_until_s = 0, float("-inf")

    def note_failure(self, error: TransientError) -> None:
        """The server could not answer."""
        self._failures, self._reason = self._failures + 1, str(error)
        if self._failures >= FAILURES_TO_OPEN:
            self._open_until_s = monotonic() + OPEN_S
