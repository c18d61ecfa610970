"""The title that a document gives itself: in its front matter, or by its first heading."""

from __future__ import annotations

import html
import re
import tomllib
from contextlib import suppress
from typing import Any

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.markdown import HTML_TAG, html_to_line
from knowledge_pipeline.records import FrontMatter, locate_front_matter
from knowledge_pipeline.text import is_object

TITLES_VERSION = "2"
"""Changes whenever the same text may have another title."""

_TITLE_FIELD = re.compile(
    r"""^title:[ \t]*(?P<quote>["']?)(?P<title>[^\n]*?)(?P=quote)[ \t]*$""", re.MULTILINE
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r"^ {0,3}#{1,6}[ \t]+(?P<title>.*?)(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r"^ {0,3}(?:=+|-{2,})[ \t]*$")
_HTML_START = re.compile(r"<h[1-6]\b", re.IGNORECASE)
_HTML_HEADING = re.compile(r"<h([1-6])\b[^<>]*>(.{0,1000}?)</h\1\s*>", re.IGNORECASE | re.DOTALL)
_UNDERLINE = re.compile(r"""^([=\-`:.'"~^_*+#<>!$%&(),/;?@\[\\\]{|}])\1+[ \t]*$""")
_SHORTEST_UNDERLINE = 3  # of a longer title
_PEP_HEADER = re.compile(
    r"\APEP:[ \t]*(?P<number>\d+)[ \t]*\n(?:[^\n]+\n)*?Title:(?P<title>[^\n]+(?:\n[ \t]+[^\n]+)*)"
)
_INLINE_MARKUP = re.compile(
    rf"!\[[^\]]*\]\([^)]*\)|{HTML_TAG.pattern}|<(?:https?|mailto):[^<>]*>|(?<=\])\([^)]*\)|[\[\]*`]"
)
_RST_TARGET = re.compile(r"(?<=[^\s`])[ \t]{1,9}<[^<>`]*>(?=`)")  # of `text <target>`
_SCANNED_CHARS = 65_536
_MAX_LINE_CHARS = 1_000  # a longer line is not a heading


def extract_title(path: str, text: str, language: str | None) -> str:
    """The title that a document gives itself, else its file name."""
    title = ""
    if language == "markdown":
        title = _extract_markdown_title(text[:_SCANNED_CHARS])
    elif language == "rst":
        title = _extract_rst_title(text[:_SCANNED_CHARS])
    return title or path.rpartition("/")[2]


def _extract_markdown_title(text: str) -> str:
    front = locate_front_matter(text)
    if front is not None and front.end is not None:
        if title := _extract_front_matter_title(front):
            return title
        text = text[front.end :]
    fence, above = "", ""
    offset = 0
    for whole_line in text.splitlines(keepends=True):
        line = whole_line.rstrip("\r\n") if len(whole_line) <= _MAX_LINE_CHARS else "."
        start, offset = offset, offset + len(whole_line)
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence, above = mark[1], ""
        elif heading := _ATX.match(line):
            if title := _strip_markup(heading["title"]):
                return title
        elif (tag := _HTML_START.search(line)) and (
            heading := _HTML_HEADING.match(text, start + tag.start())
        ):
            if title := html_to_line(heading[2]):
                return title
        elif above and _SETEXT.match(line) and (title := _strip_markup(above)):
            return title
        else:
            above = line
    return ""


def _extract_front_matter_title(front: FrontMatter) -> str:
    """As YAML or TOML say it; of what is no valid YAML, what its line says."""
    from knowledge_pipeline.untrusted_yaml import (
        parse_yaml,  # its library takes longer to import than a listing
    )

    fields: Any = None
    with suppress(DocumentSkipped, ValueError, RecursionError):
        fields = tomllib.loads(front.inner) if front.delimiter == "+++" else parse_yaml(front.inner).value
    title = fields.get("title") if is_object(fields) else None
    if isinstance(title, str) and title.strip():
        return " ".join(title.split())
    match = _TITLE_FIELD.search(front.inner) if front.delimiter == "---" else None
    return match["title"].strip() if match else ""


def _extract_rst_title(text: str) -> str:
    if pep := _PEP_HEADER.match(text):  # whose title stands there alone
        return f"PEP {pep['number']} \u2013 {_strip_markup(pep['title'])}"
    above = ""
    for line in (line if len(line) <= _MAX_LINE_CHARS else "." for line in text.splitlines()):
        may_be_title = above and not _UNDERLINE.match(above) and not above.startswith((" ", "..", ":"))
        is_long_enough = len(line.rstrip()) >= min(len(above), _SHORTEST_UNDERLINE)
        if may_be_title and is_long_enough and _UNDERLINE.match(line):
            return _strip_markup(_RST_TARGET.sub("", above))
        above = line.rstrip() if not above or _UNDERLINE.match(above) else line.lstrip() and line.rstrip()
    return ""


def _strip_markup(heading: str) -> str:
    return " ".join(html.unescape(_INLINE_MARKUP.sub("", heading)).split())
