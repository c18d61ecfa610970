"""Macros of a Confluence page: what a reader reads of them.

What a macro only gathers when the page is shown (tables of contents, lists of pages) is left out.
What is unknown keeps its body, and what its parameters link to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge_pipeline.sources.confluence.links import describe_resources
from knowledge_pipeline.sources.confluence.tree import (
    Element,
    PageWriter,
    collect_raw_text,
    find_child,
    find_children,
    get_attribute,
)
from knowledge_pipeline.sources.markdown_writing import format_code_block, format_link

_GENERATED_MACROS = frozenset(
    """
    toc children pagetree pagetreesearch livesearch recently-updated recently-updated-dashboard navmap
    contentbylabel listlabels popular-labels related-labels contributors contributors-summary search
    index blog-posts attachments gallery change-history favpages create-from-template create-space-button
    detailssummary content-report-table tasks-report-macro space-attachments spaces spaces-list anchor
    global-reports network bookmarks userlister users breadcrumbs pageindex space-details gadget
    """.split()  # noqa: SIM905 - in quotes they read worse
)
_CODE_MACROS = frozenset(
    {"code", "noformat", "code-block", "html", "style", "sql", "latex", "mathblock", "mathinline"}
)
_BODY_ELEMENTS = ("ac:rich-text-body", "ac:plain-text-body")
_LANGUAGE_ALIASES = {"c#": "csharp", "js": "javascript", "py": "python", "none": "", "text": "", "plain": ""}
_TICKET_KEY = re.compile(r"^[A-Z][A-Z0-9_]+-\d+$")


def macro_kind(element: Element) -> str:
    """The name of a macro in lower case."""
    return get_attribute(element, "ac:name").lower()


def is_block_macro(element: Element) -> bool:
    """Whether a macro is a block of its own rather than a part of a line."""
    return macro_kind(element) not in _GENERATED_MACROS and find_child(element, *_BODY_ELEMENTS) is not None


def render_macro_blocks(writer: PageWriter, element: Element) -> Iterator[str]:
    """A macro as blocks: its title, then its body."""
    kind = macro_kind(element)
    if kind in _GENERATED_MACROS:
        return
    rich, plain = find_child(element, "ac:rich-text-body"), find_child(element, "ac:plain-text-body")
    if rich is None and plain is None:
        if shown := render_macro_line(writer, element):
            yield shown
        return
    if title := _get_parameter(element, "title"):
        yield title
    if rich is not None:
        yield from writer.render_blocks(rich)
    if plain is not None and (text := _render_plain_body(kind, element, collect_raw_text(plain))):
        yield text


def render_macro_line(writer: PageWriter, element: Element) -> str:
    """A macro within a line: a status's text, a ticket's key, what it links to."""
    kind = macro_kind(element)
    if kind in _GENERATED_MACROS:
        return ""
    if kind == "status":
        return _get_parameter(element, "title")
    if kind in ("jira", "jiraissues"):
        return _render_tickets(writer, element)
    named = describe_resources(writer, element)
    if kind in ("include", "excerpt-include"):
        named = named or _add_page(writer, _get_parameter(element, "", "pageTitle", "default-parameter"))
        return f"Included page: {', '.join(named)}" if named else ""
    address = _get_parameter(element, "url", "src")
    if address.startswith(("http://", "https://")):
        named.append(format_link(_get_parameter(element, "title"), address))
    body = find_child(element, *_BODY_ELEMENTS)
    return " ".join([*named, *([writer.render_line(body)] if body is not None else [])])


def _render_plain_body(kind: str, element: Element, text: str) -> str:
    text = text.replace("\r\n", "\n").strip("\n").rstrip()
    if not text or kind == "markdown":
        return text
    language = _get_parameter(element, "language", "lang", "").lower() if kind in _CODE_MACROS else ""
    language = _LANGUAGE_ALIASES.get(language, language)
    return format_code_block(text, language if re.fullmatch(r"[\w+.#-]*", language) else "")


def _render_tickets(writer: PageWriter, element: Element) -> str:
    """The key of one ticket, or the query of a list of them."""
    key = _get_parameter(element, "key", "")
    if _TICKET_KEY.match(key):
        writer.add_reference(key)
        return key
    query = _get_parameter(element, "jqlQuery", "jql")
    return f"Jira issues: {query}" if query else key


def _add_page(writer: PageWriter, value: str) -> list[str]:
    """A page named in text, as older pages do: "Title" or "SPACE:Title"."""
    space, colon, title = value.partition(":")
    if colon and re.fullmatch(r"~?[\w.-]+", space) and title.strip():
        return [writer.add_page_reference(title.strip(), space)]
    return [writer.add_page_reference(value, None)] if value else []


def _get_parameter(element: Element, *names: str) -> str:
    """The first of the parameters that has a value; "" names the one without a name."""
    known = {
        get_attribute(each, "ac:name"): " ".join(collect_raw_text(each).split())
        for each in find_children(element, "ac:parameter")
    }
    if (default := find_child(element, "ac:default-parameter")) is not None:
        known.setdefault("", " ".join(collect_raw_text(default).split()))
    return next((known[each] for each in names if known.get(each)), "")
