"""The values of a record's front matter, or why they cannot be read."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import yaml

from knowledge_pipeline.front_matter import MAX_CHARS, locate_front_matter

_FIELD = re.compile(r"[\w-]+[ \t]*[:=]")


class InvalidFrontMatter(Exception):
    """There is front matter, and it cannot be read; `str(error)` says why."""


def parse_front_matter(text: str) -> Mapping[Any, Any]:
    """The values of a text's front matter; none where it has no front matter.

    Values may share parts, as aliases in YAML make them: they are not to be written out whole.

    Raises:
        InvalidFrontMatter: it has no end, or is not YAML or TOML with fields.
    """
    found = locate_front_matter(text)
    if found is None:
        return {}
    if found.end is None and _FIELD.match(found.inner):
        raise InvalidFrontMatter(f"its front matter has no end within {MAX_CHARS} characters")
    if found.end is None or not _FIELD.search(found.inner):
        return {}  # rulers
    language = "TOML" if found.delimiter == "+++" else "YAML"
    try:
        value = tomllib.loads(found.inner) if language == "TOML" else yaml.safe_load(found.inner)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise InvalidFrontMatter(f"its front matter is no valid YAML (line {line})") from error
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFrontMatter(f"its front matter is no valid {language}") from error
    if not isinstance(value, Mapping):
        raise InvalidFrontMatter("its front matter has no fields")
    return value
