"""Any value as JSON of bounded size, for metadata."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeVar, cast

from knowledge_pipeline.strings import replace_surrogates, truncate

_Value = TypeVar("_Value")

_MAX_DEPTH = 8
_MAX_STRING_CHARS = 500


def to_bounded_json(value: Any, *, max_values: int) -> Any:
    """JSON values with at most so many leaves and containers; long strings are cut, the rest is left out.

    A value that JSON does not have becomes its `str`. The depth is at most 8.
    """
    return _BoundedConverter(max_values).convert(value, 0)


class _BoundedConverter:
    def __init__(self, max_values: int) -> None:
        self.remaining = max_values

    def convert(self, value: Any, depth: int) -> Any:
        self.remaining -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if value.bit_length() < 64 else "…"
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
        if not is_list and not isinstance(value, Mapping):
            return _truncate(str(cast("object", value)))
        if depth == _MAX_DEPTH:
            return "…"
        if isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value).items()
            return {_truncate(str(key)): self.convert(inner, depth + 1) for key, inner in self._take(entries)}
        return [self.convert(inner, depth + 1) for inner in self._take(cast("Sequence[Any]", value))]

    def _take(self, values: Iterable[_Value]) -> Iterator[_Value]:
        """The values as long as there is room for more."""
        return takewhile(lambda _: self.remaining > 0, values)


def _truncate(text: str) -> str:
    return truncate(replace_surrogates(text), _MAX_STRING_CHARS)  # JSON escapes can make lone surrogates
