"""Where a text's front matter is: YAML between `---`, or TOML between `+++`, at the top of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_CHARS = 20_000
_OPENING = re.compile(r"\ufeff?(---|\+\+\+)[ \t]*(?:\r\n?|\n)")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What stands between two delimiters; nobody has read it, and it may be text between two rulers."""

    delimiter: str  # "---" or "+++"
    inner: str
    end: int | None  # where the rest of the text begins; None: no closing delimiter within `MAX_CHARS`


def locate_front_matter(text: str) -> FrontMatter | None:
    """The front matter of a text; None where the text begins with something else."""
    opening = _OPENING.match(text)
    if opening is None:
        return None
    closing = re.compile(rf"^(?:{re.escape(opening[1])}|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.MULTILINE)
    found = closing.search(text, opening.end(), opening.end() + MAX_CHARS)
    if found is None:
        return FrontMatter(opening[1], text[opening.end() : opening.end() + MAX_CHARS], None)
    return FrontMatter(opening[1], text[opening.end() : found.start()], found.end())
