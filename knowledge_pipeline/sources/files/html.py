"""HTML pages as Markdown: what a reader reads, without scripts, navigation and forms."""

from __future__ import annotations

import re

from bs4 import BeautifulSoup, Comment
from bs4.dammit import EncodingDetector
from bs4.element import Tag
from markdownify import ATX, MarkdownConverter

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.files.extraction import Extracted
from knowledge_pipeline.sources.files.reading import text_of

_UNREAD = (
    *(
        "script",
        "style",
        "noscript",
        "template",
        "svg",
        "canvas",
        "iframe",
        "object",
        "embed",
        "link",
        "meta",
    ),
    *("nav", "button", "input", "select", "textarea", "dialog", "audio", "video"),
)
_UNREAD_ROLES = re.compile(r"^(?:navigation|banner|contentinfo|search|menu|menubar|toolbar)$", re.IGNORECASE)
_LANGUAGE_CLASS = re.compile(r"^(?:language|lang|highlight|brush:)-?(?P<name>[\w+#-]+)$")


def read_html(payload: bytes) -> Extracted:
    """The page's body as Markdown, its title beside it.

    Raises:
        DocumentSkipped: no encoding can be told, or it is nested too deeply to be read.
    """
    try:
        page = BeautifulSoup(_decoded(payload), "lxml")
        title = " ".join(page.title.get_text().split()) if page.title else ""
        text = _markdown(page)
    except RecursionError as error:
        raise DocumentSkipped("HTML nested too deeply") from error
    heading = re.search(r"^#+ (.+)$", text, re.MULTILINE)
    return Extracted(text, title or (heading[1] if heading else ""), {"format": "html"}, language="markdown")


def _decoded(payload: bytes) -> str:
    """UTF-8 where it is that; else what the page declares; else what any text file may be."""
    declared = EncodingDetector.find_declared_encoding(payload, is_html=True)
    for encoding in ("utf-8", declared):
        try:
            if encoding and b"\0" not in payload:
                return payload.decode(encoding).removeprefix("\ufeff")
        except (UnicodeDecodeError, LookupError):
            continue
    return text_of(payload)


def _markdown(page: BeautifulSoup) -> str:
    for comment in page.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    for element in page.find_all(_is_unread):
        element.decompose()
    body = page.find("main") or page.body or page
    text = _Converter(heading_style=ATX, bullets="-", escape_misc=False).convert_soup(body)
    text = "\n".join(line.rstrip() for line in text.replace("\xa0", " ").splitlines())
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _is_unread(element: Tag) -> bool:
    if element.name in _UNREAD or element.has_attr("hidden"):
        return True
    if element.name in {"header", "footer"}:  # those of the page, not those of an article in it
        return element.find_parent(["article", "main", "section"]) is None and element.find("h1") is None
    return _UNREAD_ROLES.match(str(element.get("role", ""))) is not None


class _Converter(MarkdownConverter):
    """Markdownify's conversion without escapes, which would change words, and without images' addresses."""

    class Options:
        """What is unlike markdownify's defaults."""

        escape_asterisks = False
        escape_underscores = False
        code_language_callback = staticmethod(lambda block: _language_of_block(block))

    def convert_img(self, el, text, parent_tags):
        return " ".join(str(el.get("alt", "")).split())


def _language_of_block(block: Tag) -> str:
    code = block.find("code")
    for element in (block, code):
        classes = element.get("class") if isinstance(element, Tag) else None
        for name in classes if isinstance(classes, list) else ():
            if match := _LANGUAGE_CLASS.match(name):
                return match["name"]
    return ""
