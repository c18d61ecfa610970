"""HTML pages as Markdown: what a reader reads, without scripts, navigation and forms."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, cast

from bs4 import BeautifulSoup
from bs4.dammit import EncodingDetector
from bs4.element import NavigableString, PreformattedString, Tag
from markdownify import ATX, MarkdownConverter

from knowledge_pipeline.encodings import find_codec
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.markdown import (
    TableCell,
    expand_spans,
    find_first_heading,
    format_code_block,
    format_inline_code,
    format_link,
    format_list_item,
    format_table,
    parse_span,
)
from knowledge_pipeline.extraction.text_decoding import DecodedText, ExtractedText, add_note, decode_text

_EMBEDDED_TAGS = {"svg", "canvas", "iframe", "object", "embed", "audio", "video"}
_CONTROL_TAGS = {"nav", "button", "input", "select", "textarea", "dialog"}
_SKIPPED_TAGS = _EMBEDDED_TAGS | _CONTROL_TAGS | {"script", "style", "noscript", "template", "link", "meta"}
_SKIPPED_ROLES = re.compile(r"^(?:navigation|banner|contentinfo|search|menu|menubar|toolbar)$", re.IGNORECASE)
_HIDDEN_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_LANGUAGE_CLASS = re.compile(r"^(?:language|lang|highlight|brush:)-?(?P<name>[\w+#-]+)$")
_IGNORED_ENCODINGS = re.compile(r"^(?:utf[-_]?(?:7|16|32)|.*escape|undefined|idna|punycode)", re.IGNORECASE)
_BREAK_TRANSLATION = str.maketrans({"\xa0": " ", "\xad": None, "\u200b": None})  # breaks and their bans
_WBR_TAG = re.compile(r"<wbr\b[^<>]*>", re.IGNORECASE)  # libxml2 waits for its end
_EMPHASIS_TAGS = frozenset({"b", "strong", "i", "em", "del", "s"})
_INLINE_TAGS = _EMPHASIS_TAGS | {"span", "u", "ins", "mark", "small", "font", "abbr", "cite", "var"}
_INLINE_CODE_TAGS = ("code", "kbd", "samp", "tt")
_LINE_MARKERS = re.compile(r"(?:#+ |> |- |\d+\. )*")
_FIELD_TAGS = {"input", "select", "textarea"}
_TITLE_TAGS = ("h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary")
_POPUP_ROLES = re.compile(r"^(?:dialog|alertdialog|listbox|menu|tooltip|tree|grid)$", re.IGNORECASE)
_ACCORDION_CLASS = re.compile(r"accordion|collaps|faq|question", re.IGNORECASE)
_SENTENCE_ENDS = (".", "!", "?", ":", "…", "。", "！", "？", "।")
_WORD = re.compile(r"[^\W_]")
_ANCHOR_SIGNS = frozenset("¶#§🔗")


def read_html(payload: bytes, encoding: str | None = None, declared: str | None = None) -> ExtractedText:
    """The page's body as Markdown, and its title; what its encoding is, see `decode_text`."""
    source, note = _decode(payload, encoding, declared)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a page looks like XML, or like an address
            page = BeautifulSoup(_WBR_TAG.sub("", source), "lxml")
        title = " ".join(page.title.get_text().translate(_BREAK_TRANSLATION).split()) if page.title else ""
        text = _to_markdown(page)
    except RecursionError as error:
        raise DocumentSkipped("HTML nested too deeply") from error
    metadata = add_note({"format": "html"}, note)
    return ExtractedText(text, title or find_first_heading(text), metadata, language="markdown")


def _decode(payload: bytes, encoding: str | None, declared: str | None) -> DecodedText:
    """UTF-8 where it is that; else what it came with declares, or the page itself."""
    if not declared or find_codec(declared) is None:
        declared = EncodingDetector.find_declared_encoding(payload, is_html=True)
        if declared and _IGNORED_ENCODINGS.match(declared):  # no page that can be read so far is in one
            declared = None
    return decode_text(payload, encoding, declared)


def _to_markdown(page: BeautifulSoup) -> str:
    for hidden in page.find_all(string=lambda text: isinstance(text, PreformattedString)):
        hidden.extract()  # comments and such
    _open_panels(page)
    for element in page.find_all(_is_skipped):
        element.decompose()
    page.smooth()  # texts that a comment parted are one
    unwrap_layout_tables(page)
    for code in page.find_all(_INLINE_CODE_TAGS):  # it can hold no link, which says more than that it is code
        if code.find("a", href=True) is not None and code.find_parent("pre") is None:
            code.unwrap()
    for ordered_list in page.find_all("ol"):
        start = str(ordered_list.get("start", ""))
        first = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 1
        for number, item in enumerate(ordered_list.find_all("li", recursive=False), first):
            item["value"] = str(number)  # counting at every item takes minutes on a long list
    # the main part, where exactly one has text
    main_parts = [element for element in page.find_all("main") if element.get_text(strip=True)]
    main = main_parts[0] if len(main_parts) == 1 else page.body or page
    if main.name == "main":
        for element in _find_intro(main):
            main.insert(0, element)
    text = _PageConverter(heading_style=ATX, bullets="-", escape_misc=False).convert_soup(main)
    text = "\n".join(line.rstrip() for line in text.translate(_BREAK_TRANSLATION).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _open_panels(page: BeautifulSoup) -> None:
    """Show what a click shows, such as an answer or a tab, and the text of the button that shows it.

    Source: the patterns of accordions and tabs, https://www.w3.org/WAI/ARIA/apg/patterns/
    """
    for panel in page.find_all(role="tabpanel"):
        _show(panel)
    by_id = {str(element["id"]): element for element in page.find_all(id=True)}
    is_content: dict[int, bool] = {}  # by panel: whether it is more than a menu or a window
    for control in page.find_all(_opens_panel):
        title = control.find_parent(_TITLE_TAGS)
        panel = by_id.get(_target_of(control)) or _find_hidden_sibling(title or control)
        is_new = panel is not None and id(panel) not in is_content
        if panel is not None:
            if not is_content.setdefault(id(panel), is_new and _has_content(panel)):
                continue
            _show(panel)
            if is_new and control.name == "button" and control.get("role") == "tab":
                panel.insert(0, page.new_tag("p", string=control.get_text()))  # the label of this tab
                continue
        if control.name == "button":
            control.name = "span" if title else "div"


def _target_of(control: Tag) -> str:
    """The id of what a control opens, as ARIA or Bootstrap name it."""
    names = (str(control.get(name, "")) for name in ("aria-controls", "data-bs-target", "data-target"))
    return next(filter(None, names), "").partition(" ")[0].removeprefix("#")


def _find_hidden_sibling(element: Tag) -> Tag | None:
    sibling = element.find_next_sibling()
    return sibling if isinstance(sibling, Tag) and _is_hidden(sibling) else None


def _opens_panel(element: Tag) -> bool:
    if element.name in _FIELD_TAGS or element.has_attr("aria-haspopup"):
        return False
    if element.has_attr("aria-controls"):
        return True
    if element.name != "button":
        return False
    if element.has_attr("aria-expanded") or element.get("role") == "tab":
        return True
    if _ACCORDION_CLASS.search(" ".join(map(str, element.get_attribute_list("class")))):
        return True
    title = element.find_parent(_TITLE_TAGS)  # which is the button's text, or else it copies a link to it
    return (
        title is not None and len(title.find_all("button", limit=2)) == 1 and _text(title) == _text(element)
    )


def _has_content(panel: Tag) -> bool:
    if _POPUP_ROLES.match(str(panel.get("role", ""))):
        return False
    return any(text.strip() and text.find_parent("a") is None for text in panel.find_all(string=True))


def _show(panel: Tag) -> None:
    for name in ("hidden", "style"):
        if name in panel.attrs:
            del panel[name]


def _text(element: Tag) -> str:
    return "".join(element.get_text().split())


def _find_intro(main: Tag) -> list[Tag]:
    """What is before the main part and belongs to it, the last first: its title, and whole sentences."""
    has_title = main.find("h1") is not None
    intro: list[Tag] = []
    for element in (main, *main.parents):
        if element.name in {"body", "html", "[document]"}:
            break
        for sibling in element.previous_siblings:
            if not isinstance(sibling, Tag) or sibling.name == "aside":
                continue
            if sibling.name == "h1" or sibling.find("h1") is not None:
                is_intro = not has_title  # else it is the site's
            else:
                paragraphs = [sibling] if sibling.name == "p" else sibling.find_all("p")
                is_intro = any(_text(paragraph).endswith(_SENTENCE_ENDS) for paragraph in paragraphs)
            if is_intro:
                intro.append(sibling)
    return intro


def _is_hidden(element: Tag) -> bool:
    return element.has_attr("hidden") or _HIDDEN_STYLE.search(str(element.get("style", ""))) is not None


def _is_skipped(element: Tag) -> bool:
    if element.name in _SKIPPED_TAGS or _is_hidden(element):
        return True
    if element.name in {"header", "footer"}:  # those of the page, not those of an article in it
        return element.find_parent(["article", "main", "section"]) is None and element.find("h1") is None
    return _SKIPPED_ROLES.match(str(element.get("role", ""))) is not None


class _PageConverter(MarkdownConverter):
    """Markdownify's conversion without escapes, which would change words, and without images' addresses."""

    class Options:
        """What is unlike markdownify's defaults."""

        escape_asterisks = False
        escape_underscores = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._cells: dict[int, str] = {}  # what each cell of a table says, by the id of its element

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return " ".join(str(el.get("alt", "")).split())

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        if not text.strip():
            return ""
        if "_inline" in parent_tags:
            return format_inline_code(text.strip())
        return f"\n\n{format_code_block(text, _language_of_block(el))}\n\n"

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        address = re.sub(r"[\t\r\n]", "", str(el.get("href", ""))).strip().replace(" ", "%20")
        leads_nowhere = not address or address.lower().startswith(("javascript:", "data:"))
        if "_noformat" in parent_tags or leads_nowhere or not text.strip():
            return text
        if address.startswith("#") and text.strip() in _ANCHOR_SIGNS:  # next to a heading, to be copied
            return ""
        return _link_text(text, address)

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        text = text.strip()
        numbered = el.parent is not None and el.parent.name == "ol"
        return format_list_item(f"{el['value']}. " if numbered else "- ", text) + "\n" if text else "\n"

    def convert_td(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        if "table" not in parent_tags:  # libxml2 leaves a cell where it is, and so outside of any table
            return self._convert_block(el, text, parent_tags)
        self._cells[id(el)] = text
        return ""

    convert_th = convert_td

    def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return text

    def convert_table(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """What is not in a cell, such as a caption, then the cells."""
        return f"\n\n{text.strip()}\n\n{render_table(el, self._cells)}\n\n"

    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:
        """A heading; in a line, as in a cell of a table, apart from what is before and after it."""
        if "_inline" in parent_tags:
            return self._convert_block(el, text, parent_tags)
        return cast("Any", super()).convert_hN(n, el, text, parent_tags)  # whose stubs lack it

    def convert_b(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return _emphasize(el, text, "**", parent_tags, {"b", "strong"})

    def convert_em(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return _emphasize(el, text, "*", parent_tags, {"i", "em"})

    def convert_del(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return _emphasize(el, text, "~~", parent_tags, {"del", "s"})

    convert_strong, convert_i, convert_s = convert_b, convert_em, convert_del

    def convert_dd(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n{format_list_item(':   ', text.strip())}\n" if text.strip() else "\n"

    def _convert_block(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        if "_inline" in parent_tags:
            return f" {text.strip()} "
        return f"\n\n{text.strip()}\n\n" if text.strip() else ""

    convert_address = convert_aside = convert_caption = convert_center = convert_details = _convert_block
    convert_fieldset = convert_figure = convert_footer = convert_form = convert_header = _convert_block
    convert_hgroup = convert_legend = convert_main = convert_menu = convert_search = _convert_block
    convert_summary = _convert_block


def _link_text(text: str, address: str) -> str:
    """A link; of one over several lines, the first that has words is linked, if one can be."""
    stripped = text.strip()
    before, after = text.split(stripped, 1)
    lines = stripped.split("\n")
    for at, line in enumerate(lines):
        if len(lines) > 1 and line.startswith(("```", "|")):  # code or a table
            break
        marks = match[0] if len(lines) > 1 and (match := _LINE_MARKERS.match(line)) else ""
        if _WORD.search(line, len(marks)):
            lines[at] = marks + format_link(line[len(marks) :], address)
            return before + "\n".join(lines) + after
    if len(lines) == 1:
        return before + format_link(stripped, address) + after
    return f"{before}{stripped}\n\n{format_link('↗', address)}\n\n"


def _emphasize(el: Tag, text: str, mark: str, parent_tags: set[str], same_tags: set[str]) -> str:
    """Marked, unless it is already, is within code, has several blocks, or is a part of a word."""
    stripped = text.strip()
    if not stripped or same_tags & parent_tags or "_noformat" in parent_tags or "\n\n" in stripped:
        return text
    if _is_inside_word(el, text[0], "previous_sibling", -1) or _is_inside_word(
        el, text[-1], "next_sibling", 0
    ):
        return text
    before, after = text.split(stripped, 1)
    return f"{before}{mark}{stripped}{mark}{after}"


def _is_inside_word(el: Tag, edge: str, sibling: str, edge_index: int) -> bool:
    """Whether a word begins outside of an element and goes on in it, or the other way round."""
    if not edge.isalnum():
        return False
    node: Any = el
    while True:
        while getattr(node, sibling) is None and node.parent is not None and node.parent.name in _INLINE_TAGS:
            node = node.parent
        node = getattr(node, sibling)
        if not (isinstance(node, NavigableString) or (isinstance(node, Tag) and node.name in _INLINE_TAGS)):
            return False
        if text := node.get_text():
            return text[edge_index].isalnum()


def _language_of_block(block: Tag) -> str:
    code = block.find("code")
    for element in (block, code):
        classes = element.get("class") if isinstance(element, Tag) else None
        for name in classes if isinstance(classes, list) else ():
            if match := _LANGUAGE_CLASS.match(name):
                return match["name"]
    return ""


_CELL_TAGS = ("td", "th")
_TABLE_TAGS = ("caption", "colgroup", "tr", "thead", "tbody", "tfoot", *_CELL_TAGS)
_LAYOUT_ROLE = re.compile(r"^(?:presentation|none)$", re.IGNORECASE)


def unwrap_layout_tables(page: BeautifulSoup) -> None:
    """Make blocks of the tables that do not fit in lines: of one cell a row, with tables or code in them."""
    for element in [table for table in page.find_all("table") if _is_layout(table)]:
        for part in [element, *element.find_all(_TABLE_TAGS)]:
            if part is element or part.find_parent("table") is None:
                part.name = "div"


def render_table(element: Tag, texts: Mapping[int, str]) -> str:
    """A pipe table; a cell that spans rows is repeated in each. `texts` are those of cells, by `id`."""

    def to_cell(cell: Tag) -> TableCell:
        rows, columns = (parse_span(str(cell.get(name, ""))) for name in ("rowspan", "colspan"))
        return TableCell(texts.get(id(cell), ""), rows, columns)

    return format_table(expand_spans([to_cell(cell) for cell in row] for row in _group_cells(element)))


def _is_layout(element: Tag) -> bool:
    if _LAYOUT_ROLE.match(str(element.get("role", ""))):
        return True
    if element.find("table") or any("\n" in code.get_text().strip() for code in element.find_all("pre")):
        return True
    return all(len(row) < 2 for row in _group_cells(element))


def _group_cells(element: Tag) -> list[list[Tag]]:
    """The cells by the row that each is in, however a page wraps them: in forms, or in no row."""
    rows: dict[int, list[Tag]] = {}
    for cell in element.find_all(_CELL_TAGS):
        rows.setdefault(id(cell.find_parent(("tr", "table"))), []).append(cell)
    return list(rows.values())
