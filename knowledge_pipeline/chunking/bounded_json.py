"""Any value as JSON values of bounded size, for metadata."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

_MAX_DEPTH = 8
_MAX_STRING_CHARS = 500


def to_bounded_json(value: Any, *, max_values: int) -> Any:
    """JSON values with at most so many leaves and containers; long strings are cut, the rest is left out.

    What is no JSON value becomes its `str`; depth is at most 8.
    """
    return _BoundedConverter(max_values).convert(value, 0)


class _BoundedConverter:
    def __init__(self, values: int) -> None:
        self.remaining = values

    def convert(self, value: Any, depth: int) -> Any:
        self.remaining -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if value.bit_length() < 64 else "…"
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, Mapping):
            return self._convert_mapping(cast("Mapping[Any, Any]", value), depth)
        if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
            return self._convert_list(cast("Iterable[Any]", value), depth)
        return _truncate(str(value))

    def _convert_mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any] | str:
        if depth == _MAX_DEPTH:
            return "…"
        taken: dict[str, Any] = {}
        for key, inner in value.items():
            if self.remaining <= 0:
                break
            taken[_truncate(str(key))] = self.convert(inner, depth + 1)
        return taken

    def _convert_list(self, value: Iterable[Any], depth: int) -> list[Any] | str:
        if depth == _MAX_DEPTH:
            return "…"
        taken: list[Any] = []
        for inner in value:
            if self.remaining <= 0:
                break
            taken.append(self.convert(inner, depth + 1))
        return taken


def _truncate(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")  # JSON escapes can make lone surrogates
    return text if len(text) <= _MAX_STRING_CHARS else text[: _MAX_STRING_CHARS - 1] + "…"
