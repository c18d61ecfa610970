"""The title of a text document: its front matter's, its first heading, or its file name."""

from __future__ import annotations

import re

from knowledge_pipeline.front_matter import locate_front_matter

_TITLE_FIELD = re.compile(
    r"""^title:[ \t]*(?P<quote>["']?)(?P<title>[^\n]*?)(?P=quote)[ \t]*$""", re.MULTILINE
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r"^ {0,3}#{1,6}[ \t]+(?P<title>.*?)(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r"^ {0,3}(?:=+|-{2,})[ \t]*$")
_UNDERLINE = re.compile(r"""^([=\-`:.'"~^_*+#<>!$%&(),/;?@\[\\\]{|}])\1{2,}[ \t]*$""")
_INLINE_MARKUP = re.compile(r"!\[[^\]]*\]\([^)]*\)|<[^>]+>|(?<=\])\([^)]*\)|[\[\]*`]")
_SCANNED_CHARS = 65_536
_MAX_LINE_CHARS = 1_000  # a longer line is not a heading


def extract_title(path: str, text: str, language: str | None) -> str:
    """The title that a document gives itself, else its file name."""
    found = ""
    if language == "markdown":
        found = _extract_markdown_title(text[:_SCANNED_CHARS])
    elif language == "rst":
        found = _extract_rst_title(text[:_SCANNED_CHARS])
    return found or path.rpartition("/")[2]


def _extract_markdown_title(text: str) -> str:
    front = locate_front_matter(text)
    if front is not None and front.end is not None and front.delimiter == "---":
        if (named := _TITLE_FIELD.search(front.inner)) and (title := named["title"].strip()):
            return title
        text = text[front.end :]
    fence, above = "", ""
    for line in _split_lines(text):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence, above = mark[1], ""
        elif heading := _ATX.match(line):
            if title := _strip_markup(heading["title"]):
                return title
        elif above and _SETEXT.match(line) and (title := _strip_markup(above)):
            return title
        else:
            above = line
    return ""


def _extract_rst_title(text: str) -> str:
    above = ""
    for line in _split_lines(text):
        may_be_title = above and not _UNDERLINE.match(above) and not above.startswith((" ", "..", ":"))
        if may_be_title and _UNDERLINE.match(line):
            return _strip_markup(above)
        above = line.rstrip() if not above or _UNDERLINE.match(above) else line.lstrip() and line.rstrip()
    return ""


def _split_lines(text: str) -> list[str]:
    return [line if len(line) <= _MAX_LINE_CHARS else "." for line in text.splitlines()]


def _strip_markup(heading: str) -> str:
    return " ".join(_INLINE_MARKUP.sub("", heading).split())
