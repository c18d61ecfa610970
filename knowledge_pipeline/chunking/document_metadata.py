"""A chunk's place in its document: title, section, links, tags, page."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from knowledge_pipeline.chunking.front_matter import parse_front_matter
from knowledge_pipeline.chunking.headings import HeadingOutline, find_title, has_headings
from knowledge_pipeline.json_values import is_list
from knowledge_pipeline.records import Chunk, Document, Metadata

VERSION = 1

_MAX_LINKS = 50
_MAX_TAGS = 50
_MAX_LINK_CHARS = 1000
_LINK = re.compile(
    r"\]\(\s{0,9}<?([^\s<>()]+(?:\([^\s<>()]*\)[^\s<>()]*)*)"  # [text](target)
    r"|^ {0,3}\[[^\]\n]{1,999}\]:[ \t]{0,99}<?([^\s<>]+)"  # [label]: target
    r"|`[^`<>\n]{0,999}<([^<>`\s]+)>`_"  # `text <target>`_ of reStructuredText
    r"|\b(https?://[^\s<>\"'`\[\](){}|\\^]+)",
    re.MULTILINE,
)


class DocumentMetadataExtractor:
    """Extracts the metadata of a document's chunks."""

    def __init__(self, document: Document) -> None:
        self._outline = HeadingOutline(document)
        page_starts: Any = document.metadata.get("page_starts", ())
        self._page_starts = sorted(int(start) for start in page_starts)
        self._front_matter: Metadata = parse_front_matter(document.text) if has_headings(document) else {}
        # an attachment's own title says which document it hangs on
        self._title = "" if "attached_to" in document.metadata else find_title(document)
        self.tags = _parse_tags(self._front_matter)

    def extract(self, chunk: Chunk) -> Metadata:
        """Metadata of one chunk; unknown facts are left out.

        The section is that of the chunk's first character, else of the first heading in it.
        """
        facts: dict[str, Any] = {}
        section = self._outline.section_at(chunk.start_char) or self._outline.section_at(chunk.end_char - 1)
        if section is not None:
            facts |= {"section": section.trail[-1], "header_level": section.level}
            facts["parent_section"] = section.trail[-2] if len(section.trail) > 1 else ""
        facts["title"] = self._title
        facts["links"] = extract_links(chunk.text)
        facts["front_matter"] = self._front_matter
        if self._page_starts:
            facts["page"] = max(1, bisect_right(self._page_starts, chunk.start_char))
        return {key: fact for key, fact in facts.items() if fact not in ("", [], {})}


def extract_links(text: str) -> list[str]:
    """The targets of a text's links, each once, in order; at most 50."""
    found: dict[str, None] = {}
    for match in _LINK.finditer(text):
        target = (match[1] or match[2] or match[3] or match[4].rstrip(".,;:!?*_")).strip()
        if target and len(target) <= _MAX_LINK_CHARS:
            found[target] = None
        if len(found) == _MAX_LINKS:
            break
    return list(found)


def _parse_tags(metadata: Metadata) -> list[str]:
    """Tags and keywords of front matter, whether listed or written with commas."""
    found: dict[str, None] = {}
    for key in ("tags", "keywords"):
        given = metadata.get(key)
        listed = given.split(",") if isinstance(given, str) else given
        for tag in listed if is_list(listed) else []:
            if isinstance(tag, str | int) and str(tag).strip():
                found[str(tag).strip()] = None
    return list(found)[:_MAX_TAGS]
