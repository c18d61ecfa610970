"""What people write on GitHub as clean Markdown: without what its pages do not show.

Comments of HTML (the hints of templates) are gone, the tags that GitHub allows within Markdown
become Markdown or nothing, entities become their characters. Code is left as it is written.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from markdown_it import MarkdownIt

from knowledge_pipeline.extraction.markdown import format_code_block, format_superscript

_TOKEN = re.compile(
    r"(?P<fence>^ {0,3}(?P<marks>`{3,}|~{3,})[^\n]*$)|(?P<ticks>`+)|(?P<comment><!--)"
    r"|(?P<tag></?(?P<name>[A-Za-z][A-Za-z0-9]{0,11})(?P<attributes>(?:\s[^<>]{0,2000})?)/?>)",
    re.MULTILINE,
)
_ATTRIBUTE_VALUE = r"""\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>]+))"""
_ATTRIBUTES = {
    name: re.compile(rf"\b{name}{_ATTRIBUTE_VALUE}", re.IGNORECASE)
    for name in ("href", "src", "alt", "start")
}
_RAISED = re.compile(r"([^<>\n]{1,100})</sup\s*>", re.IGNORECASE)
_PRE_END = re.compile(r"</pre\s*>", re.IGNORECASE)
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ANY_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_LANGUAGE = re.compile(
    r"""\b(?:class\s*=\s*["']?(?:language|lang)-|lang\s*=\s*["']?)([\w+#-]+)""", re.IGNORECASE
)
_MAX_CODE_HEAD = 500
_INDENTED = ("    ", "\t")
_INDENTED_LINE = re.compile(r"^(?: {4}| {0,3}\t)[^\n]*[<&`]", re.MULTILINE)
_BLOCK_PARSER = MarkdownIt("commonmark").disable("inline")
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")

_HEADING_TAGS = {f"h{level}": f"\n\n{'#' * level} " for level in range(1, 7)}
_ROW_TAGS = {"tr": "\n", "td": " | ", "th": " | "}
_START_TAGS = {"br": "\n", "hr": "\n\n---\n\n", "li": "\n- ", "img": ""} | _ROW_TAGS | _HEADING_TAGS
_EMPHASIS_TAGS = {"b": "**", "strong": "**", "em": "*", "i": "*", "s": "~~", "del": "~~", "strike": "~~"}
_PAIRED_TAGS = _EMPHASIS_TAGS | dict.fromkeys(("code", "kbd", "samp", "tt"), "`") | {"pre": "\n```\n"}
_SECTION_TAGS = {"p", "div", "details", "summary", "blockquote", "center", "section", "figure"}
_BLOCK_TAGS = _SECTION_TAGS | {"ul", "ol", "dl", "dt", "dd", "table", "thead", "tbody", "tfoot"}
_TEXT_TAGS = {"span", "sub", "sup", "ins", "mark", "small", "var", "q", "cite", "abbr", "font", "u"}
_INLINE_TAGS = _TEXT_TAGS | {"ruby", "rt", "rp", "picture", "source", "video"}


def clean_markdown(markdown: str) -> str:
    """The text as its page shows it, in Markdown; anything is taken."""
    text = markdown.replace("\r\n", "\n").replace("\r", "\n")
    cleaner = _Cleaner()
    parts: list[str] = []
    position = 0
    for start, end in _find_indented_code(text):
        parts += (cleaner.clean(text[position:start]), text[start:end])
        position = end
    parts += (cleaner.clean(text[position:]), *reversed(cleaner.links))  # links never closed
    cleaned = _BLANK_LINES.sub("\n\n", "".join(parts)).rstrip()  # in code too
    return cleaned.strip("\n") if cleaned.startswith(_INDENTED) else cleaned.lstrip()


def _find_indented_code(text: str) -> Iterator[tuple[int, int]]:
    """Where code stands that is marked by its indentation alone, of four spaces: first character and end."""
    if not _INDENTED_LINE.search(text):
        return
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
    for token in _BLOCK_PARSER.parse(text):
        if token.type == "code_block" and token.map is not None:
            yield starts[token.map[0]], starts[min(token.map[1], len(starts) - 1)]


class _Cleaner:
    """Cleans the parts of one text in turn."""

    def __init__(self) -> None:
        self.links: list[str] = []  # what ends the links that are open
        self._numbers: list[int | None] = []  # of the next item of each open list; None: no numbers

    def clean(self, text: str) -> str:
        """A part that begins at the beginning of a line."""
        parts: list[str] = []
        unclosed: set[str] = set()  # ends that were looked for in vain: never again, so that it stays linear
        position = 0
        while match := _TOKEN.search(text, position):
            parts.append(html.unescape(text[position : match.start()]))
            replacement, position = self._replace_token(text, match, parts, unclosed)
            parts.append(replacement)
        parts.append(html.unescape(text[position:]))
        return "".join(parts)

    def _replace_token(
        self, text: str, match: re.Match[str], above: list[str], unclosed: set[str]
    ) -> tuple[str, int]:
        if match["fence"]:
            end = re.compile(rf"^ {{0,3}}{match['marks']}[`~]*[ \t]*$", re.MULTILINE).search(
                text, match.end()
            )
            stop = end.end() if end else len(text)
            return text[match.start() : stop], stop
        if ticks := match["ticks"]:
            if ticks not in unclosed:
                if end := re.compile(rf"(?<!`){ticks}(?!`)").search(text, match.end()):
                    return text[match.start() : end.end()], end.end()
                unclosed.add(ticks)
            return ticks, match.end()
        if match["comment"]:
            stop = -1 if "-->" in unclosed else text.find("-->", match.end())
            if stop < 0:
                unclosed.add("-->")
                return match["comment"], match.end()
            return "", stop + 3
        name = match["name"].lower()
        if name == "sup" and (raised := _RAISED.match(text, match.end())):
            before = "".join(above[-9:])[-99:].rstrip("*_~`")
            return format_superscript(html.unescape(raised[1]), before), raised.end()
        if name == "pre" and not match[0].startswith("</") and "</pre>" not in unclosed:
            if end := _PRE_END.search(text, match.end()):
                return _render_code(match["attributes"], text[match.end() : end.start()]), end.end()
            unclosed.add("</pre>")
        return self._render_tag(match, name), match.end()

    def _render_tag(self, match: re.Match[str], name: str) -> str:
        """A tag's Markdown; what is no tag of HTML, `List<String>`, stays."""
        closes = match[0].startswith("</")
        if name in _PAIRED_TAGS:
            return _PAIRED_TAGS[name]
        if name == "a":
            if closes:
                return self.links.pop() if self.links else ""
            target = _get_attribute(match["attributes"], "href")
            self.links.append(f"]({target})" if target else "")
            return "[" if target else ""
        if name == "img" and not closes:
            source = _get_attribute(match["attributes"], "src")
            return f"![{_get_attribute(match['attributes'], 'alt')}]({source})" if source else ""
        if name in ("ol", "ul"):
            self._open_or_close_list(match, name, closes)
        if name == "li" and not closes and self._numbers and (number := self._numbers[-1]) is not None:
            self._numbers[-1] = number + 1
            return f"\n{number}. "
        if name in _START_TAGS:
            ended = "\n\n" if name[0] == "h" else ""  # a heading ends its line
            return ended if closes else _START_TAGS[name]
        if name in _BLOCK_TAGS:
            return "\n\n"
        return "" if name in _INLINE_TAGS else match[0]

    def _open_or_close_list(self, match: re.Match[str], name: str, closes: bool) -> None:
        if not closes:
            start = _get_attribute(match["attributes"], "start")
            first = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 1
            self._numbers.append(first if name == "ol" else None)
        elif self._numbers:
            self._numbers.pop()


def _render_code(attributes: str, source: str) -> str:
    """What stands in `<pre>`, in which `<code class="language-x">` and colours may be."""
    language = _LANGUAGE.search(attributes + source[:_MAX_CODE_HEAD])
    code = html.unescape(_ANY_TAG.sub("", _LINE_BREAK.sub("\n", source)))
    return f"\n{format_code_block(code, language[1] if language else '')}\n" if code.strip() else ""


def _get_attribute(attributes: str, name: str) -> str:
    match = _ATTRIBUTES[name].search(attributes)
    value = next((group for group in match.groups() if group is not None), "") if match else ""
    return html.unescape(value).strip()
