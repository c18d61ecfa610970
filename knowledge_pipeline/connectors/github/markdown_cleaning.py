"""What people write on GitHub as clean Markdown: without what its pages do not show.

Comments of HTML (the hints of templates) are gone, the tags that GitHub allows within Markdown
become Markdown or nothing, entities become their characters. Code is left as it is written.
"""

from __future__ import annotations

import html
import re

_TOKEN = re.compile(
    r"(?P<fence>^ {0,3}(?P<marks>`{3,}|~{3,})[^\n]*$)|(?P<ticks>`+)|(?P<comment><!--)"
    r"|(?P<tag></?(?P<name>[A-Za-z][A-Za-z0-9]{0,11})(?P<attributes>(?:\s[^<>]{0,2000})?)/?>)",
    re.MULTILINE,
)
_ATTRIBUTE_VALUE = r"""\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>]+))"""
_ATTRIBUTES = {
    name: re.compile(rf"\b{name}{_ATTRIBUTE_VALUE}", re.IGNORECASE) for name in ("href", "src", "alt")
}
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
    parts: list[str] = []
    links: list[str] = []
    unclosed: set[str] = set()  # ends that were looked for in vain: never again, so that it stays linear
    position = 0
    while match := _TOKEN.search(text, position):
        parts.append(html.unescape(text[position : match.start()]))
        replacement, position = _replace_token(text, match, links, unclosed)
        parts.append(replacement)
    parts.append(html.unescape(text[position:]))
    parts.extend(reversed(links))  # links that were opened and never closed
    return _BLANK_LINES.sub("\n\n", "".join(parts)).strip()  # in code too


def _replace_token(text: str, match: re.Match[str], links: list[str], unclosed: set[str]) -> tuple[str, int]:
    if match["fence"]:
        end = re.compile(rf"^ {{0,3}}{match['marks']}[`~]*[ \t]*$", re.MULTILINE).search(text, match.end())
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
    return _render_tag(match, links), match.end()


def _render_tag(match: re.Match[str], links: list[str]) -> str:
    """A tag's Markdown; what is no tag of HTML, `List<String>`, stays."""
    name, closes = match["name"].lower(), match[0].startswith("</")
    if name in _PAIRED_TAGS:
        return _PAIRED_TAGS[name]
    if name == "a":
        if closes:
            return links.pop() if links else ""
        target = _get_attribute(match["attributes"], "href")
        links.append(f"]({target})" if target else "")
        return "[" if target else ""
    if name == "img" and not closes:
        source = _get_attribute(match["attributes"], "src")
        return f"![{_get_attribute(match['attributes'], 'alt')}]({source})" if source else ""
    if name in _START_TAGS:
        ended = "\n\n" if name[0] == "h" else ""  # a heading ends its line
        return ended if closes else _START_TAGS[name]
    if name in _BLOCK_TAGS:
        return "\n\n"
    return "" if name in _INLINE_TAGS else match[0]


def _get_attribute(attributes: str, name: str) -> str:
    match = _ATTRIBUTES[name].search(attributes)
    value = next((group for group in match.groups() if group is not None), "") if match else ""
    return html.unescape(value).strip()
