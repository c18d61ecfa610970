"""Confluence's storage format as Markdown-like text: what a reader of the page reads.

Words are not escaped and emphasis is not marked, so that the text says what the page says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from knowledge_pipeline.sources.confluence.links import (
    describe_resources,
    render_date,
    render_emoticon,
    render_image,
    render_link,
)
from knowledge_pipeline.sources.confluence.macros import (
    is_block_macro,
    render_macro_blocks,
    render_macro_line,
)
from knowledge_pipeline.sources.confluence.tables import render_table_blocks
from knowledge_pipeline.sources.confluence.tree import (
    LINE_BREAK,
    Element,
    collect_raw_text,
    find_child,
    find_children,
    get_attribute,
    name_of,
    parse_storage,
)
from knowledge_pipeline.sources.markdown_writing import (
    format_code_block,
    format_inline_code,
    format_link,
    format_list_item,
    format_quote,
)

UNKNOWN_PERSON = "@someone"
"""Who is mentioned, where the service does not tell a name."""

_ACCOUNT = re.compile(r"\bri:(?:account-id|userkey)=[\"']([^\"'<>]{1,200})[\"']")
_PAGE_LINK = re.compile(r"/pages/(?:viewpage\.action\?(?:[^#\s]*&)?pageId=)?(\d+)\b")
_HOST = re.compile(r"https?://([^/?#]+)", re.IGNORECASE)
_LIST_ITEM = re.compile(r"- |\d+\. ")
_MACRO_ELEMENTS = frozenset({"ac:structured-macro", "ac:macro"})
_HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_ELEMENTS = frozenset(
    """
    p div section article header footer main ul ol li dl dt dd table pre blockquote hr center figure address
    h1 h2 h3 h4 h5 h6 ac:layout ac:layout-section ac:layout-cell ac:task-list ac:task ac:task-body
    ac:adf-extension ac:adf-node ac:adf-content ac:adf-fallback ac:rich-text-body
    """.split()  # noqa: SIM905 - in quotes they read worse
)
_SKIPPED_ELEMENTS = frozenset(
    """
    ac:parameter ac:default-parameter ac:placeholder ac:task-id ac:task-uuid ac:task-status ac:adf-attribute
    ac:adf-mark ac:adf-parameter script style head colgroup col hr
    """.split()  # noqa: SIM905 - in quotes they read worse
)
# these are inline whatever they hold
_NOT_BLOCKS = _SKIPPED_ELEMENTS | {"a", "ac:link", "ac:image", "img", "code", "ac:emoticon", "time"}


@dataclass(frozen=True, slots=True)
class ConvertedPage:
    """A page's text, and what it refers to: "page/123", "SPACE/Page title", "PROJ-12"."""

    text: str
    references: tuple[str, ...]


def storage_to_markdown(
    storage: str, *, space: str = "", site: str = "", people: Mapping[str, str] | None = None
) -> ConvertedPage:
    """A page, or a comment, as Markdown; whatever is given, something comes back.

    Args:
        storage: the body in storage format.
        space: key of the space that the page is in, where links that name none lead to.
        site: the address of the Confluence site; links to its pages are references.
        people: display names by account id (Cloud) or user key (Server).
    """
    root = parse_storage(storage)
    page = _PageRenderer(root, space, site, people or {})
    try:
        text = "\n\n".join(page.render_blocks(root))
    except RecursionError:  # nested hundreds of levels deep: no person wrote that, but its words count
        text = " ".join(collect_raw_text(root).split())
    return ConvertedPage(text.replace(LINE_BREAK, "\n").strip(), tuple(sorted(page.references)))


def find_mentioned_accounts(storage: str) -> set[str]:
    """The account ids and user keys of everybody whom a body mentions."""
    return set(_ACCOUNT.findall(storage))


class _PageRenderer:
    """One way through a page's tree; a `Writer`."""

    def __init__(self, root: Element, space: str, site: str, people: Mapping[str, str]) -> None:
        self.references: set[str] = set()
        self._space = space
        self._host = found[1] if (found := _HOST.match(site)) else ""
        self._people = people
        self._elements = list(root.iter())  # lxml's elements are equal to themselves only while they are held
        self._block_elements: set[Element] = set()
        for element in self._elements:
            kind, above = name_of(element), element
            if kind in _BLOCK_ELEMENTS or (kind in _MACRO_ELEMENTS and is_block_macro(element)):
                while above is not None and above not in self._block_elements:
                    self._block_elements.add(above)
                    above = above.getparent()

    def render_blocks(self, element: Element) -> Iterator[str]:
        run = [element.text or ""]
        for each in element:
            if self._is_block(each):
                yield from self._render_paragraph(run)
                yield from self._render_block(each)
                run = []
            else:
                run.append(self._render_inline(each))
            run.append(each.tail or "")
        yield from self._render_paragraph(run)

    def _render_block(self, element: Element) -> Iterator[str]:
        kind = name_of(element)
        if kind in _HEADING_LEVELS:
            if text := self.render_line(element):
                yield f"{'#' * _HEADING_LEVELS[kind]} {text}"
        elif kind in _MACRO_ELEMENTS:
            yield from render_macro_blocks(self, element)
        elif kind in ("ul", "ol"):
            yield from self._render_list(element)
        elif kind == "table":
            yield from render_table_blocks(self, element)
        elif kind == "pre":
            if (text := collect_raw_text(element).strip("\n").rstrip()).strip():
                yield format_code_block(text)
        elif kind == "blockquote":
            if text := "\n\n".join(self.render_blocks(element)):
                yield format_quote(text)
        elif kind == "ac:task-list":
            yield from self._render_tasks(element)
        else:
            if kind == "ac:adf-extension":  # its content, or else what it gives to others in its place
                fallback = find_child(element, "ac:adf-fallback")
                if fallback is not None and any(name_of(each) == "ac:adf-content" for each in element.iter()):
                    element.remove(fallback)
            yield from self.render_blocks(element)

    def render_line(self, element: Element) -> str:
        return " ".join(self._render_run(element).replace(LINE_BREAK, " ").split())

    def format_person(self, account: str) -> str:
        """A person's display name; never an id of the service."""
        known = self._people.get(account)
        return f"@{known}" if known else UNKNOWN_PERSON

    def add_reference(self, target: str) -> None:
        self.references.add(target)

    def add_page_reference(self, title: str, space: str | None) -> str:
        """Note a reference to a page by its title, which is unique in its space."""
        self.add_reference(f"{space or self._space}/{title}")
        return title

    def _is_block(self, element: Element) -> bool:
        return element in self._block_elements and name_of(element) not in _NOT_BLOCKS

    def _render_paragraph(self, run: list[str]) -> Iterator[str]:
        lines = (" ".join(line.split()) for line in "".join(run).split(LINE_BREAK))
        if text := "\n".join(line for line in lines if line):
            yield text

    def _render_run(self, element: Element) -> str:
        parts = [element.text or ""]
        for each in element:
            parts += (self._render_inline(each), each.tail or "")
        return "".join(parts)

    def _render_inline(self, element: Element) -> str:
        """One element within running text."""
        kind = name_of(element)
        if kind in _SKIPPED_ELEMENTS:
            return ""
        if kind in _MACRO_ELEMENTS:
            return render_macro_line(self, element)
        if kind.startswith("ri:"):
            return " ".join(describe_resources(self, element))
        match kind:
            case "br":
                return LINE_BREAK
            case "a":
                return self._render_anchor(element)
            case "ac:link":
                return render_link(self, element)
            case "ac:image" | "img":
                return render_image(self, element)
            case "ac:emoticon":
                return render_emoticon(element)
            case "time":
                return render_date(element)
            case "code":
                return format_inline_code(self.render_line(element))
            case _:
                text = self._render_run(element)
                if kind in ("s", "del", "strike") and text.strip():
                    return f"~~{text.strip()}~~"
                return f" {text} " if kind in _BLOCK_ELEMENTS or kind in ("td", "th", "tr") else text

    def _render_anchor(self, element: Element) -> str:
        address = "".join(get_attribute(element, "href").split())
        host = _HOST.match(address)
        ours = address.startswith("/") if host is None else host[1] == self._host
        if ours and (found := _PAGE_LINK.search(address)):
            self.add_reference(f"page/{found[1]}")
        return format_link(self.render_line(element), "" if address.startswith("#") else address)

    def _render_list(self, element: Element) -> Iterator[str]:
        ordered = name_of(element) == "ol"
        items: list[str] = []
        loose = [list(self._render_paragraph([element.text or ""]))]
        for each in element:
            is_item = name_of(each) == "li" or not self._is_block(each)
            blocks = self.render_blocks(each) if is_item else self._render_block(each)
            loose += [list(blocks), list(self._render_paragraph([each.tail or ""]))]
        for blocks in loose:
            if blocks:
                items.append(_format_item(f"{len(items) + 1}. " if ordered else "- ", blocks))
        if items:
            yield "\n".join(items)

    def _render_tasks(self, element: Element) -> Iterator[str]:
        items: list[str] = []
        for task in find_children(element, "ac:task"):
            status, body = find_child(task, "ac:task-status"), find_child(task, "ac:task-body")
            done = status is not None and collect_raw_text(status).strip() == "complete"
            if body is not None and (blocks := list(self.render_blocks(body))):
                items.append(_format_item(f"- [{'x' if done else ' '}] ", blocks))
        if items:
            yield "\n".join(items)


def _format_item(marker: str, blocks: list[str]) -> str:
    """One item of a list: what follows its first line is indented below it; a list in it stays close."""
    text = blocks[0]
    for block in blocks[1:]:
        text += f"\n{block}" if _LIST_ITEM.match(block) else f"\n\n{block}"
    return format_list_item(marker, text)
