"""Confluence's storage format as a tree: XHTML with `ac:` and `ri:` elements, read leniently.

What is not XML is read as a browser would read it, so that a careless program's page still gives its text.
Source: https://confluence.atlassian.com/doc/confluence-storage-format-790796544.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape, unescape
from html.entities import html5
from typing import Any

from lxml import etree

LINE_BREAK = "\x0b"
"""A hard line break within running text; no control character of a page gets past `parse`."""

Element = Any  # lxml's, which has no type of its own

_ILLEGAL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.DOTALL)
_CHARACTER_REFERENCE = re.compile(r"&(#[0-9]{1,7};|#[xX][0-9a-fA-F]{1,6};|[A-Za-z][A-Za-z0-9]{1,40};)?")
_PREFIX = re.compile(r"[<\s/]([A-Za-z][\w.-]*):[A-Za-z]")
_NAMESPACE = re.compile(r"^\{(\w[\w.-]*)\}")


def parse_storage(storage: str) -> Element:
    """The root of a page's tree; its own name means nothing."""
    source = _CDATA.sub(lambda match: escape(match[1], quote=False), storage)
    source = _ILLEGAL_CHARACTERS.sub("", _CHARACTER_REFERENCE.sub(_decode_reference, source))
    prefixes = {prefix for prefix in _PREFIX.findall(source) if prefix.lower() not in ("xml", "xmlns")}
    declared = "".join(f' xmlns:{prefix}="{prefix}"' for prefix in sorted(prefixes))
    strict = etree.XMLParser(
        resolve_entities=False, no_network=True, huge_tree=True, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(f"<body{declared}>{source}</body>".encode(), strict)
    except etree.XMLSyntaxError:
        return _parse_leniently(source)


def name_of(element: Element) -> str:
    """An element's name with its usual prefix, in lower case: "p", "ac:link"; "" for none."""
    return _prefixed_name(element.tag).lower() if isinstance(element.tag, str) else ""


def attributes_of(element: Element) -> Mapping[str, str]:
    """An element's attributes by their names with the usual prefix."""
    return {_prefixed_name(str(key)): str(value) for key, value in element.attrib.items()}


def get_attribute(element: Element, *names: str) -> str:
    """The first of the attributes that has a value, else ""."""
    attributes = attributes_of(element)
    return next((attributes[name].strip() for name in names if attributes.get(name, "").strip()), "")


def find_children(element: Element, *names: str) -> Iterator[Element]:
    """The children of these names."""
    return (child for child in element if name_of(child) in names)


def find_child(element: Element, *names: str) -> Element | None:
    """The first child of one of these names."""
    return next(find_children(element, *names), None)


def collect_raw_text(element: Element) -> str:
    """All text within, white space kept, `<br/>` as a new line."""
    parts: list[str] = []
    for event, inner in etree.iterwalk(element, events=("start", "end")):
        if event == "start":
            parts.append("\n" if name_of(inner) == "br" else inner.text or "")
        elif inner is not element:
            parts.append(inner.tail or "")
    return "".join(parts)


def _parse_leniently(source: str) -> Element:
    lenient = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        page = etree.fromstring(f"<html><body>{source}</body></html>".encode(), lenient)
    except etree.XMLSyntaxError:
        page = None
    bare = unescape(re.sub(r"<[^<>]*>", " ", source))
    # libxml2 drops text that is nested too deep
    if page is None or (bare.strip() and not collect_raw_text(page).strip()):
        page = etree.Element("body")
        page.text = bare
    return page


def _decode_reference(match: re.Match[str]) -> str:
    """A character reference as its character; XML knows five names only, Confluence writes all of HTML's."""
    reference = match[1]
    if reference is None:
        return "&amp;"
    if not reference.startswith("#"):
        character = html5.get(reference)
        return "&amp;" + reference if character is None else escape(character, quote=True)
    number = int(reference[2:-1], 16) if reference[1] in "xX" else int(reference[1:-1])
    return escape(chr(number), quote=True) if 0 < number < 0x110000 else ""


def _prefixed_name(qualified: str) -> str:
    return _NAMESPACE.sub(r"\1:", qualified)
