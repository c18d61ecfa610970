"""The values of a Markdown file's front matter."""

from __future__ import annotations

import tomllib
from typing import Any, cast

from knowledge_pipeline.chunking.bounded_json import to_bounded_json
from knowledge_pipeline.chunking.openapi.yaml_positions import parse_yaml
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.front_matter import FrontMatter, locate_front_matter
from knowledge_pipeline.records import Metadata

_MAX_VALUES = 200


def find_front_matter_end(text: str) -> int:
    """Where the text after the front matter begins; 0 where there is none."""
    found = locate_front_matter(text)
    return (found.end or 0) if found and not _is_between_rulers(found) else 0


def parse_front_matter(text: str) -> Metadata:
    """The front matter as at most 200 JSON values; empty where there is none, or it cannot be read."""
    found = locate_front_matter(text)
    if found is None or found.end is None or _is_between_rulers(found):
        return {}
    try:
        value: Any = (
            tomllib.loads(found.inner.replace("\r\n", "\n"))
            if found.delimiter == "+++"
            else parse_yaml(found.inner).value
        )
    except (DocumentSkipped, ValueError, RecursionError):
        return {}
    return cast("Metadata", to_bounded_json(value, max_values=_MAX_VALUES)) if isinstance(value, dict) else {}


def _is_between_rulers(found: FrontMatter) -> bool:
    return found.delimiter == "---" and ":" not in found.inner
