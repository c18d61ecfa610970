"""Confluence's storage format as Markdown-like text: what a reader of the page reads.

Words are not escaped and emphasis is not marked, so that the text says what the page says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from knowledge_pipeline.sources.confluence.links import date, emoticon, image, link, resources
from knowledge_pipeline.sources.confluence.macros import has_body, macro_blocks, macro_line
from knowledge_pipeline.sources.confluence.tables import table_blocks
from knowledge_pipeline.sources.confluence.tree import (
    LINE_BREAK,
    Element,
    attribute,
    child,
    children,
    name,
    parse,
    raw_text,
)
from knowledge_pipeline.sources.markdown_writing import coded, fenced, hanging, linked, quoted

SOMEONE = "@someone"
"""Who is mentioned, where the service does not tell a name."""

_ACCOUNT = re.compile(r"\bri:(?:account-id|userkey)=[\"']([^\"'<>]{1,200})[\"']")
_PAGE = re.compile(r"/pages/(?:viewpage\.action\?(?:[^#\s]*&)?pageId=)?(\d+)\b")
_HOST = re.compile(r"https?://([^/?#]+)", re.IGNORECASE)
_LIST_ITEM = re.compile(r"- |\d+\. ")
_MACROS = frozenset({"ac:structured-macro", "ac:macro"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    """
    p div section article header footer main ul ol li dl dt dd table pre blockquote hr center figure address
    h1 h2 h3 h4 h5 h6 ac:layout ac:layout-section ac:layout-cell ac:task-list ac:task ac:task-body
    ac:adf-extension ac:adf-node ac:adf-content ac:adf-fallback ac:rich-text-body
    """.split()  # noqa: SIM905 - in quotes they read worse
)
_LINES = frozenset({"a", "ac:link", "ac:image", "img", "code", "ac:emoticon", "time"})  # whatever they hold
_UNREAD = frozenset(
    """
    ac:parameter ac:default-parameter ac:placeholder ac:task-id ac:task-uuid ac:task-status ac:adf-attribute
    ac:adf-mark ac:adf-parameter script style head colgroup col hr
    """.split()  # noqa: SIM905 - in quotes they read worse
)


@dataclass(frozen=True, slots=True)
class Converted:
    """A page's text, and what it refers to: "page/123", "SPACE/Page title", "PROJ-12"."""

    text: str
    references: tuple[str, ...]


def markdown_of(
    storage: str, *, space: str = "", site: str = "", people: Mapping[str, str] | None = None
) -> Converted:
    """A page, or a comment, as Markdown; whatever is given, something comes back.

    Args:
        storage: the body in storage format.
        space: key of the space that the page is in, where links that name none lead to.
        site: the address of the Confluence site; links to its pages are references.
        people: display names by account id (Cloud) or user key (Server).
    """
    root = parse(storage)
    page = _Page(root, space, site, people or {})
    try:
        text = "\n\n".join(page.blocks(root))
    except RecursionError:  # nested hundreds of levels deep: no person wrote that, but its words count
        text = " ".join(raw_text(root).split())
    return Converted(text.replace(LINE_BREAK, "\n").strip(), tuple(sorted(page.references)))


def people_in(storage: str) -> set[str]:
    """The account ids and user keys of everybody whom a body mentions."""
    return set(_ACCOUNT.findall(storage))


class _Page:
    """One way through a page's tree; a `Writer`."""

    def __init__(self, root: Element, space: str, site: str, people: Mapping[str, str]) -> None:
        self.references: set[str] = set()
        self._space = space
        self._host = found[1] if (found := _HOST.match(site)) else ""
        self._people = people
        self._all = list(root.iter())  # lxml's elements are equal to themselves only while they are held
        self._holding_blocks = self._with_blocks()
        self._by_name: dict[str, Callable[[Element], Iterator[str]]] = {
            **dict.fromkeys(_HEADINGS, self._heading),
            **dict.fromkeys(_MACROS, lambda element: macro_blocks(self, element)),
            "ul": self._list,
            "ol": self._list,
            "table": lambda element: table_blocks(self, element),
            "pre": lambda element: self._pre(element),
            "blockquote": self._quote,
            "ac:task-list": self._tasks,
            "ac:adf-extension": self._extension,
        }

    def blocks(self, element: Element) -> Iterator[str]:
        """An element's content: runs of text as paragraphs, and the blocks between them."""
        run = [element.text or ""]
        for each in element:
            if self._is_block(each):
                yield from self._paragraph(run)
                yield from self._by_name.get(name(each), self.blocks)(each)
                run = []
            else:
                run.append(self._piece(each))
            run.append(each.tail or "")
        yield from self._paragraph(run)

    def line(self, element: Element) -> str:
        """An element's content on one line."""
        return " ".join(self._run(element).replace(LINE_BREAK, " ").split())

    def person(self, account: str) -> str:
        """A person's display name; the service's ids are for nobody to read."""
        known = self._people.get(account)
        return f"@{known}" if known else SOMEONE

    def refer(self, target: str) -> None:
        """Note a reference."""
        self.references.add(target)

    def page(self, title: str, space: str | None) -> str:
        """Note a reference to a page by its title, which is unique in its space."""
        self.refer(f"{space or self._space}/{title}")
        return title

    def _with_blocks(self) -> set[Element]:
        found: set[Element] = set()
        for element in self._all:
            kind = name(element)
            above = element if kind in _BLOCKS or (kind in _MACROS and has_body(element)) else None
            while above is not None and above not in found:
                found.add(above)
                above = above.getparent()
        return found

    def _is_block(self, element: Element) -> bool:
        return (
            element in self._holding_blocks and name(element) not in _LINES and name(element) not in _UNREAD
        )

    def _paragraph(self, run: list[str]) -> Iterator[str]:
        lines = (" ".join(line.split()) for line in "".join(run).split(LINE_BREAK))
        if text := "\n".join(line for line in lines if line):
            yield text

    def _run(self, element: Element) -> str:
        parts = [element.text or ""]
        for each in element:
            parts += (self._piece(each), each.tail or "")
        return "".join(parts)

    def _piece(self, element: Element) -> str:
        """One element within running text."""
        kind = name(element)
        if kind in _UNREAD:
            return ""
        if kind in _MACROS:
            return macro_line(self, element)
        if kind.startswith("ri:"):
            return " ".join(resources(self, element))
        pieces: dict[str, Callable[[Element], str]] = {
            "br": lambda _: LINE_BREAK,
            "a": self._anchor,
            "ac:link": lambda each: link(self, each),
            "ac:image": lambda each: image(self, each),
            "img": lambda each: image(self, each),
            "ac:emoticon": emoticon,
            "time": date,
            "code": self._code,
        }
        if kind in pieces:
            return pieces[kind](element)
        text = self._run(element)
        if kind in ("s", "del", "strike") and text.strip():
            return f"~~{text.strip()}~~"
        return f" {text} " if kind in _BLOCKS or kind in ("td", "th", "tr") else text

    def _anchor(self, element: Element) -> str:
        address = "".join(attribute(element, "href").split())
        host = _HOST.match(address)
        ours = address.startswith("/") if host is None else host[1] == self._host
        if ours and (found := _PAGE.search(address)):
            self.refer(f"page/{found[1]}")
        return linked(self.line(element), "" if address.startswith("#") else address)

    def _code(self, element: Element) -> str:
        return coded(self.line(element))

    def _heading(self, element: Element) -> Iterator[str]:
        if text := self.line(element):
            yield f"{'#' * _HEADINGS[name(element)]} {text}"

    def _pre(self, element: Element) -> Iterator[str]:
        if (text := raw_text(element).strip("\n").rstrip()).strip():
            yield fenced(text)

    def _quote(self, element: Element) -> Iterator[str]:
        if text := "\n\n".join(self.blocks(element)):
            yield quoted(text)

    def _extension(self, element: Element) -> Iterator[str]:
        """What the editor of Cloud adds: its content, or else what it gives to others in its place."""
        own = [each for each in element.iter() if name(each) == "ac:adf-content"]
        fallback = child(element, "ac:adf-fallback")
        if own and fallback is not None:
            element.remove(fallback)
        yield from self.blocks(element)

    def _list(self, element: Element) -> Iterator[str]:
        ordered = name(element) == "ol"
        items: list[str] = []
        loose = [list(self._paragraph([element.text or ""]))]
        for each in element:
            loose += [self._item_blocks(each), list(self._paragraph([each.tail or ""]))]
        for blocks in loose:
            if blocks:
                items.append(_item(f"{len(items) + 1}. " if ordered else "- ", blocks))
        if items:
            yield "\n".join(items)

    def _item_blocks(self, element: Element) -> list[str]:
        if name(element) == "li" or not self._is_block(element):
            return list(self.blocks(element))
        return list(self._by_name.get(name(element), self.blocks)(element))

    def _tasks(self, element: Element) -> Iterator[str]:
        items: list[str] = []
        for task in children(element, "ac:task"):
            status, body = child(task, "ac:task-status"), child(task, "ac:task-body")
            done = status is not None and raw_text(status).strip() == "complete"
            if body is not None and (blocks := list(self.blocks(body))):
                items.append(_item(f"- [{'x' if done else ' '}] ", blocks))
        if items:
            yield "\n".join(items)


def _item(marker: str, blocks: list[str]) -> str:
    """One item of a list: what follows its first line is indented below it; a list in it stays close."""
    text = blocks[0]
    for block in blocks[1:]:
        text += f"\n{block}" if _LIST_ITEM.match(block) else f"\n\n{block}"
    return hanging(marker, text)
