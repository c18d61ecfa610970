"""Confluence's storage format as Markdown-like text: what a reader of the page reads.

Words are not escaped and emphasis is not marked, so that the text says what the page says. What a macro only
gathers when the page is shown (tables of contents, lists of pages) is left out. An unknown macro keeps its
body, and what its parameters link to. What is not XML is read as a browser would read it, so that a careless
program's page still gives its text.

Source: https://confluence.atlassian.com/doc/confluence-storage-format-790796544.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape, unescape
from html.entities import html5
from typing import Any

from lxml import etree

from knowledge_pipeline.extraction import markdown

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


def get_attribute(element: Element, *names: str) -> str:
    """The first of the attributes, by their names with the usual prefix, that has a value, else ""."""
    attributes = {_prefixed_name(str(key)): str(value) for key, value in element.attrib.items()}
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

    Links that name no space lead to `space`, those to pages of `site` are references; `people`: display names
    by account id (Cloud) or user key (Server).
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
    def __init__(self, root: Element, space: str, site: str, people: Mapping[str, str]) -> None:
        self.references: set[str] = set()
        self._space = space
        self._host = match[1] if (match := _HOST.match(site)) else ""
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
        """An element's content as blocks of Markdown."""
        run = [element.text or ""]
        for child in element:
            if self._is_block(child):
                yield from self._render_paragraph(run)
                yield from self._render_block(child)
                run = []
            else:
                run.append(self._render_inline(child))
            run.append(child.tail or "")
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
                yield markdown.format_code_block(text)
        elif kind == "blockquote":
            if text := "\n\n".join(self.render_blocks(element)):
                yield markdown.format_quote(text)
        elif kind == "ac:task-list":
            yield from self._render_tasks(element)
        elif kind == "ac:adf-node" and get_attribute(element, "type") == "panel":
            attributes = find_children(element, "ac:adf-attribute")
            values = {get_attribute(child, "key"): collect_raw_text(child).strip() for child in attributes}
            label = markdown.PANEL_LABELS.get(values.get("panel-type", ""), values.get("panel-icon-text", ""))
            content = find_child(element, "ac:adf-content")
            yield from self.render_panel(label, element if content is None else content)
        else:
            if kind == "ac:adf-extension":  # its content, or else what it gives to others in its place
                fallback = find_child(element, "ac:adf-fallback")
                if fallback is not None and "ac:adf-content" in map(name_of, element.iter()):
                    element.remove(fallback)
            yield from self.render_blocks(element)

    def render_panel(self, label: str, body: Element) -> Iterator[str]:
        """A panel's content after its label."""
        blocks = list(self.render_blocks(body))
        if blocks and label:
            is_paragraph = (body.text or "").strip() or (len(body) > 0 and name_of(body[0]) == "p")
            blocks[:1] = [f"{label}: {blocks[0]}"] if is_paragraph else [f"{label}:", blocks[0]]
        yield from blocks

    def render_line(self, element: Element) -> str:
        """An element's content as one line of text."""
        return " ".join(self._render_run(element).replace(LINE_BREAK, " ").split())

    def format_person(self, account: str) -> str:
        """A person's display name; never an id of the service."""
        name = self._people.get(account)
        return f"@{name}" if name else UNKNOWN_PERSON

    def add_reference(self, target: str) -> None:
        """Note that the page refers to something."""
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
        for child in element:
            parts += (self._render_inline(child), child.tail or "")
        return "".join(parts)

    def _render_inline(self, element: Element) -> str:
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
                return collect_raw_text(element).strip() or get_attribute(element, "datetime")
            case "code":  # line by line: a comment ends where its line does
                lines = (" ".join(line.split()) for line in self._render_run(element).split(LINE_BREAK))
                return LINE_BREAK.join(markdown.format_inline_code(line) for line in lines if line)
            case "sup":
                return markdown.format_superscript(self._render_run(element), _text_before(element))
            case _:
                text = self._render_run(element)
                if kind in ("s", "del", "strike") and text.strip():
                    return f"~~{text.strip()}~~"
                return f" {text} " if kind in _BLOCK_ELEMENTS or kind in ("td", "th", "tr") else text

    def _render_anchor(self, element: Element) -> str:
        address = "".join(get_attribute(element, "href").split())
        host = _HOST.match(address)
        ours = address.startswith("/") if host is None else host[1] == self._host
        if ours and (match := _PAGE_LINK.search(address)):
            self.add_reference(f"page/{match[1]}")
        return markdown.format_link(self.render_line(element), "" if address.startswith("#") else address)

    def _render_list(self, element: Element) -> Iterator[str]:
        ordered = name_of(element) == "ol"
        start = get_attribute(element, "start")
        first = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 1
        items: list[str] = []
        loose = [list(self._render_paragraph([element.text or ""]))]
        for child in element:
            is_item = name_of(child) == "li" or not self._is_block(child)
            blocks = self.render_blocks(child) if is_item else self._render_block(child)
            loose += [list(blocks), list(self._render_paragraph([child.tail or ""]))]
        for blocks in loose:
            if blocks:
                items.append(_format_item(f"{len(items) + first}. " if ordered else "- ", blocks))
        if items:
            yield "\n".join(items)

    def _render_tasks(self, element: Element) -> Iterator[str]:
        """Tasks; what stands between them, as a list of indented ones does, belongs to the one before."""
        items = [f"- {text}" for text in self._render_paragraph([element.text or ""])]
        for child in element:
            if name_of(child) == "ac:task":
                status, body = find_child(child, "ac:task-status"), find_child(child, "ac:task-body")
                done = status is not None and collect_raw_text(status).strip() == "complete"
                if blocks := list(self.render_blocks(child if body is None else body)):
                    items.append(_format_item(f"- [{'x' if done else ' '}] ", blocks))
            elif name_of(child) not in _SKIPPED_ELEMENTS:
                blocks = self._render_block(child) if self._is_block(child) else self.render_blocks(child)
                items += (markdown.format_list_item("  ", block) for block in blocks)
            items += (
                markdown.format_list_item("  ", text) for text in self._render_paragraph([child.tail or ""])
            )
        if items:
            yield "\n".join(items)


def _text_before(element: Element) -> str:
    previous = element.getprevious()
    if previous is None:
        return element.getparent().text or ""
    return previous.tail or collect_raw_text(previous)


def _format_item(marker: str, blocks: list[str]) -> str:
    """One item of a list: what follows its first line is indented below it; a list in it stays close."""
    text = blocks[0]
    for block in blocks[1:]:
        text += f"\n{block}" if _LIST_ITEM.match(block) else f"\n\n{block}"
    return markdown.format_list_item(marker, text)


_RESOURCE_KINDS = ("page", "blog-post", "attachment", "user", "url", "shortcut", "space", "content-entity")
_RESOURCE_ELEMENTS = frozenset(f"ri:{kind}" for kind in _RESOURCE_KINDS)


def render_link(writer: _PageRenderer, element: Element) -> str:
    """An `ac:link`: its label, and what it leads to where the label does not say so."""
    resource = next((child for child in element if name_of(child) in _RESOURCE_ELEMENTS), None)
    body = find_child(element, "ac:link-body", "ac:plain-text-link-body")
    label = writer.render_line(body) if body is not None else ""
    if resource is None:  # a link within the page
        return label or get_attribute(element, "ac:anchor")
    if name_of(resource) == "ri:url":
        return markdown.format_link(label, get_attribute(resource, "ri:value"))
    target = describe_resource(writer, resource)
    return f"{label} ({target})" if label and target and target not in label else label or target


def describe_resource(writer: _PageRenderer, resource: Element) -> str:
    """What an `ri:` element stands for, by the name that a reader knows it by."""
    kind = name_of(resource)
    if kind in ("ri:page", "ri:blog-post"):
        title, space = get_attribute(resource, "ri:content-title"), get_attribute(resource, "ri:space-key")
        return writer.add_page_reference(title, space or None) if title else ""
    if kind == "ri:user":
        account = get_attribute(resource, "ri:account-id", "ri:userkey")
        username = get_attribute(resource, "ri:username")
        return f"@{username}" if username else writer.format_person(account)
    if kind == "ri:content-entity":
        number = get_attribute(resource, "ri:content-id")
        if number.isdigit():
            writer.add_reference(f"page/{number}")
        return ""
    return get_attribute(resource, "ri:filename", "ri:value", "ri:space-key", "ri:parameter", "ri:key")


def describe_resources(writer: _PageRenderer, element: Element) -> list[str]:
    """What all `ri:` elements within stand for, each once."""
    resources = (inner for inner in element.iter() if name_of(inner) in _RESOURCE_ELEMENTS)
    return list(dict.fromkeys(filter(None, (describe_resource(writer, resource) for resource in resources))))


def render_image(writer: _PageRenderer, element: Element) -> str:
    """An `ac:image` or `img` by its alternative text, its caption, or else its file's name."""
    caption = find_child(element, "ac:caption")
    names = [get_attribute(element, "ac:alt", "alt") or get_attribute(element, "ac:title", "title")]
    if caption is not None:
        names.append(writer.render_line(caption))
    if not any(names):
        file_name = get_attribute(element, "src").rpartition("/")[2].partition("?")[0]
        resources = describe_resources(writer, element) or [file_name]
        names = [resource.rpartition("/")[2] or resource for resource in resources]
    shown = ": ".join(dict.fromkeys(name for name in names if name))
    marks = find_children(element, "ac:adf-mark")
    link = next((get_attribute(mark, "href") for mark in marks if get_attribute(mark, "key") == "link"), "")
    return markdown.format_link(
        f"[image: {shown}]" if shown else "", link or get_attribute(element, "ac:href")
    )


def render_emoticon(element: Element) -> str:
    """The character, where the page has it, else its name between colons."""
    fallback = get_attribute(element, "ac:emoji-fallback")
    if fallback and not fallback.startswith(":"):
        return fallback
    short = get_attribute(element, "ac:emoji-shortname") or fallback
    return short or (f":{name}:" if (name := get_attribute(element, "ac:name")) else "")


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


def render_macro_blocks(writer: _PageRenderer, element: Element) -> Iterator[str]:
    """A macro as blocks: its title, then its body."""
    kind = macro_kind(element)
    if kind in _GENERATED_MACROS:
        return
    rich, plain = find_child(element, "ac:rich-text-body"), find_child(element, "ac:plain-text-body")
    if rich is None and plain is None:
        if shown := render_macro_line(writer, element):
            yield shown
        return
    title, label = _get_parameter(element, "title"), markdown.PANEL_LABELS.get(kind, "")
    if title:
        yield f"{label}: {title}" if label else title
    if rich is not None:
        yield from writer.render_panel("" if title else label, rich)
    if plain is not None and (text := _render_plain_body(kind, element, collect_raw_text(plain))):
        yield text


def render_macro_line(writer: _PageRenderer, element: Element) -> str:
    """A macro within a line: a status's text, a ticket's key, what it links to."""
    kind = macro_kind(element)
    if kind in _GENERATED_MACROS:
        return ""
    if kind == "status":
        return _get_parameter(element, "title")
    if kind in ("jira", "jiraissues"):
        key = _get_parameter(element, "key", "")
        if _TICKET_KEY.match(key):
            writer.add_reference(key)
            return key
        query = _get_parameter(element, "jqlQuery", "jql")
        return f"Jira issues: {query}" if query else key
    targets = describe_resources(writer, element)
    if kind in ("include", "excerpt-include"):
        targets = targets or _add_page(writer, _get_parameter(element, "", "pageTitle", "default-parameter"))
        return f"Included page: {', '.join(targets)}" if targets else ""
    address = _get_parameter(element, "url", "src")
    if address.startswith(("http://", "https://")):
        targets.append(markdown.format_link(_get_parameter(element, "title"), address))
    if formula := _get_parameter(element, *markdown.FORMULA_PARAMETERS):
        targets.append(markdown.format_inline_code(formula))
    body = find_child(element, *_BODY_ELEMENTS)
    return " ".join([*targets, *([writer.render_line(body)] if body is not None else [])])


def _render_plain_body(kind: str, element: Element, text: str) -> str:
    text = text.replace("\r\n", "\n").strip("\n").rstrip()
    if not text or kind == "markdown":
        return text
    language = _get_parameter(element, "language", "lang", "").lower() if kind in _CODE_MACROS else ""
    language = _LANGUAGE_ALIASES.get(language, language)
    return markdown.format_code_block(text, language if re.fullmatch(r"[\w+.#-]*", language) else "")


def _add_page(writer: _PageRenderer, value: str) -> list[str]:
    """A page named in text, as older pages do: "Title" or "SPACE:Title"."""
    space, colon, title = value.partition(":")
    if colon and re.fullmatch(r"~?[\w.-]+", space) and title.strip():
        return [writer.add_page_reference(title.strip(), space)]
    return [writer.add_page_reference(value, None)] if value else []


def _get_parameter(element: Element, *names: str) -> str:
    """The first of the parameters that has a value; "" names the one without a name."""
    parameters = {
        get_attribute(child, "ac:name"): " ".join(collect_raw_text(child).split())
        for child in find_children(element, "ac:parameter")
    }
    if (default := find_child(element, "ac:default-parameter")) is not None:
        parameters.setdefault("", " ".join(collect_raw_text(default).split()))
    return next((parameters[name] for name in names if parameters.get(name)), "")


_SECTION_ELEMENTS = frozenset({"thead", "tbody", "tfoot"})
_COLUMN_ELEMENTS = frozenset({"col", "colgroup"})


def render_table_blocks(writer: _PageRenderer, table: Element) -> Iterator[str]:
    """What a table holds outside of its rows, then the table, or blocks where cells hold code or tables."""
    elements: list[Element] = []
    for element in table:
        elements += element if name_of(element) in _SECTION_ELEMENTS else (element,)
    rows: list[list[tuple[Element, list[str]]]] = []  # each cell with its blocks
    for element in elements:
        if name_of(element) == "tr":
            cells = (cell for cell in element if name_of(cell) in ("td", "th"))
            rows.append([(cell, list(writer.render_blocks(cell))) for cell in cells])
        elif name_of(element) not in _COLUMN_ELEMENTS:
            yield from writer.render_blocks(element)
    rows = [row for row in rows if any(blocks for _, blocks in row)]
    laid_out = [block for row in rows for _, blocks in row for block in blocks]
    has_structure = any(block.startswith(("```", "|")) or "\n```" in block for block in laid_out)
    if has_structure or all(len(row) == 1 for row in rows):
        yield from laid_out
    else:
        yield markdown.format_table(
            markdown.expand_spans([_build_cell(*cell) for cell in row] for row in rows)
        )


def _build_cell(element: Element, blocks: list[str]) -> markdown.TableCell:
    lines = (line.strip() for block in blocks for line in block.splitlines())
    text = " / ".join(line for line in lines if line)
    rowspan, colspan = (markdown.parse_span(get_attribute(element, name)) for name in ("rowspan", "colspan"))
    return markdown.TableCell(text, rowspan, colspan)
