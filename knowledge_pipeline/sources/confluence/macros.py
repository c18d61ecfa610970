"""Macros of a Confluence page: what a reader reads of them.

What a macro only gathers when the page is shown (tables of contents, lists of pages) is left out.
What is unknown keeps its body, and what its parameters link to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge_pipeline.sources.confluence.links import resources
from knowledge_pipeline.sources.confluence.tree import (
    Element,
    Writer,
    attribute,
    child,
    children,
    name,
    raw_text,
)
from knowledge_pipeline.sources.markdown_writing import fenced, linked

_GATHERED = frozenset(
    """
    toc children pagetree pagetreesearch livesearch recently-updated recently-updated-dashboard navmap
    contentbylabel listlabels popular-labels related-labels contributors contributors-summary search
    index blog-posts attachments gallery change-history favpages create-from-template create-space-button
    detailssummary content-report-table tasks-report-macro space-attachments spaces spaces-list anchor
    global-reports network bookmarks userlister users breadcrumbs pageindex space-details gadget
    """.split()  # noqa: SIM905 - in quotes they read worse
)
_CODE = frozenset(
    {"code", "noformat", "code-block", "html", "style", "sql", "latex", "mathblock", "mathinline"}
)
_INCLUDED = frozenset({"include", "excerpt-include"})
_LANGUAGES = {"c#": "csharp", "js": "javascript", "py": "python", "none": "", "text": "", "plain": ""}
_KEY = re.compile(r"^[A-Z][A-Z0-9_]+-\d+$")


def macro_kind(element: Element) -> str:
    """The name of a macro in lower case."""
    return attribute(element, "ac:name").lower()


def has_body(element: Element) -> bool:
    """Whether a macro is a block of its own rather than a part of a line."""
    return macro_kind(element) not in _GATHERED and _body(element) is not None


def macro_blocks(writer: Writer, element: Element) -> Iterator[str]:
    """A macro as blocks: its title, then its body."""
    kind = macro_kind(element)
    if kind in _GATHERED:
        return
    rich, plain = child(element, "ac:rich-text-body"), child(element, "ac:plain-text-body")
    if rich is None and plain is None:
        if shown := macro_line(writer, element):
            yield shown
        return
    if title := _parameter(element, "title"):
        yield title
    if rich is not None:
        yield from writer.blocks(rich)
    if plain is not None:
        yield from _plain_body(kind, element, raw_text(plain))


def macro_line(writer: Writer, element: Element) -> str:
    """A macro within a line: a status's text, a ticket's key, what it links to."""
    kind = macro_kind(element)
    if kind in _GATHERED:
        return ""
    if kind == "status":
        return _parameter(element, "title")
    if kind in ("jira", "jiraissues"):
        return _tickets(writer, element)
    named = resources(writer, element)
    if kind in _INCLUDED:
        named = named or _page_by_name(writer, _parameter(element, "", "pageTitle", "default-parameter"))
        return f"Included page: {', '.join(named)}" if named else ""
    address = _parameter(element, "url", "src")
    if address.startswith(("http://", "https://")):
        named.append(linked(_parameter(element, "title"), address))
    body = _body(element)
    return " ".join([*named, *([writer.line(body)] if body is not None else [])])


def _plain_body(kind: str, element: Element, text: str) -> Iterator[str]:
    text = text.replace("\r\n", "\n").strip("\n").rstrip()
    if not text.strip():
        return
    if kind == "markdown":
        yield text
        return
    language = _parameter(element, "language", "lang", "") if kind in _CODE else ""
    language = language.strip().lower()
    language = _LANGUAGES.get(language, language)
    yield fenced(text, language if re.fullmatch(r"[\w+.#-]*", language) else "")


def _tickets(writer: Writer, element: Element) -> str:
    """The key of one ticket, or the query of a list of them."""
    key = _parameter(element, "key", "")
    if _KEY.match(key):
        writer.refer(key)
        return key
    query = _parameter(element, "jqlQuery", "jql")
    return f"Jira issues: {query}" if query else key


def _page_by_name(writer: Writer, told: str) -> list[str]:
    """A page named in text, as older pages do: "Title" or "SPACE:Title"."""
    space, colon, title = told.partition(":")
    if colon and re.fullmatch(r"~?[\w.-]+", space) and title.strip():
        return [writer.page(title.strip(), space)]
    return [writer.page(told, None)] if told else []


def _parameter(element: Element, *names: str) -> str:
    """The first of the parameters that has a value; "" names the one without a name."""
    known = {
        attribute(each, "ac:name"): " ".join(raw_text(each).split())
        for each in children(element, "ac:parameter")
    }
    if (default := child(element, "ac:default-parameter")) is not None:
        known.setdefault("", " ".join(raw_text(default).split()))
    return next((known[each] for each in names if known.get(each)), "")


def _body(element: Element) -> Element | None:
    return next((each for each in element if name(each) in ("ac:rich-text-body", "ac:plain-text-body")), None)
