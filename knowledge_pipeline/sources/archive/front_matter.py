"""Front matter of a record: YAML between `---`, or TOML between `+++`, at the top of its text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import yaml

_MAX_CHARS = 20_000
_OPENING_DELIMITER = re.compile(r"(---|\+\+\+)[ \t]*\n")
_FIELD = re.compile(r"[\w-]+[ \t]*[:=]")


class InvalidFrontMatter(Exception):
    """There is front matter, and it cannot be read; `str(error)` says why."""


def parse_front_matter(text: str) -> Mapping[Any, Any]:
    """The values of a text's front matter; none where it has no front matter.

    Values may share parts, as aliases in YAML make them: they are not to be written out whole.

    Raises:
        BrokenFrontMatter: it is there, and has no end, or is no YAML or TOML with fields.
    """
    opening = _OPENING_DELIMITER.match(text)
    if opening is None:
        return {}
    closing = re.compile(rf"^(?:{re.escape(opening[1])}|\.\.\.)[ \t]*$", re.MULTILINE)
    found = closing.search(text, opening.end(), opening.end() + _MAX_CHARS)
    if found is None:
        if _FIELD.match(text, opening.end()):
            raise InvalidFrontMatter(f"its front matter has no end within {_MAX_CHARS} characters")
        return {}  # a ruler
    inner = text[opening.end() : found.start()]
    if not _FIELD.search(inner):
        return {}  # two rulers
    value = _parse_block(opening[1], inner)
    if not isinstance(value, Mapping):
        raise InvalidFrontMatter("its front matter has no fields")
    return value


def _parse_block(delimiter: str, block: str) -> Any:
    try:
        return tomllib.loads(block) if delimiter == "+++" else yaml.safe_load(block)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise InvalidFrontMatter(f"its front matter is no valid YAML (line {line})") from error
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError, RecursionError) as error:
        what = "TOML" if delimiter == "+++" else "YAML"
        raise InvalidFrontMatter(f"its front matter is no valid {what}") from error
