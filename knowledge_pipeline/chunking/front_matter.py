"""Front matter: the block of YAML (`---`) or TOML (`+++`) at the top of a Markdown file."""

from __future__ import annotations

import re
import tomllib
from typing import Any, cast

from knowledge_pipeline.chunking.bounded_json import to_bounded_json
from knowledge_pipeline.chunking.openapi.yaml_positions import parse_yaml
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Metadata

_MAX_CHARS = 20_000
_MAX_VALUES = 200
_OPENING = re.compile(r"\ufeff?(---|\+\+\+)[ \t]*(?:\r\n?|\n)")


def find_front_matter_end(text: str) -> int:
    """Where the text behind the front matter begins; 0 where there is none."""
    found = _locate_front_matter(text)
    return found[2] if found else 0


def parse_front_matter(text: str) -> Metadata:
    """The front matter as at most 200 JSON values; empty where there is none, or it cannot be read."""
    found = _locate_front_matter(text)
    if found is None:
        return {}
    mark, inner, _ = found
    try:
        value: Any = tomllib.loads(inner.replace("\r\n", "\n")) if mark == "+++" else parse_yaml(inner).value
    except (DocumentSkipped, ValueError, RecursionError):
        return {}
    return cast("Metadata", to_bounded_json(value, max_values=_MAX_VALUES)) if isinstance(value, dict) else {}


def _locate_front_matter(text: str) -> tuple[str, str, int] | None:
    """The fence, what is between the two fences, and the end of the second's line."""
    opening = _OPENING.match(text)
    if opening is None:
        return None
    mark = opening[1]
    closing = re.compile(rf"^(?:{re.escape(mark)}|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.MULTILINE)
    found = closing.search(text, opening.end(), opening.end() + _MAX_CHARS)
    if found is None:
        return None
    inner = text[opening.end() : found.start()]
    if mark == "---" and ":" not in inner:
        return None  # two rulers
    return mark, inner, found.end()
