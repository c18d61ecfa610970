"""What people write on GitHub as clean Markdown: without what its pages do not show.

Comments of HTML (the hints of templates) are gone, the tags that GitHub allows within Markdown
become Markdown or nothing, entities become their characters. Code is left as it is written.
"""

from __future__ import annotations

import html
import re

_PLACES = re.compile(
    r"(?P<fence>^ {0,3}(?P<marks>`{3,}|~{3,})[^\n]*$)|(?P<ticks>`+)|(?P<comment><!--)"
    r"|(?P<tag></?(?P<name>[A-Za-z][A-Za-z0-9]{0,11})(?P<attributes>(?:\s[^<>]{0,2000})?)/?>)",
    re.MULTILINE,
)
_VALUE = r"""\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>]+))"""
_ATTRIBUTES = {name: re.compile(rf"\b{name}{_VALUE}", re.IGNORECASE) for name in ("href", "src", "alt")}
_BLANK = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")

_OPENED = {"br": "\n", "hr": "\n\n---\n\n", "li": "\n- ", "tr": "\n", "td": " | ", "th": " | ", "img": ""}
_OPENED |= {f"h{level}": f"\n\n{'#' * level} " for level in range(1, 7)}
_BOTH = {"b": "**", "strong": "**", "em": "*", "i": "*", "s": "~~", "del": "~~", "strike": "~~"}
_BOTH |= dict.fromkeys(("code", "kbd", "samp", "tt"), "`") | {"pre": "\n```\n"}
_BLOCKS = {"p", "div", "details", "summary", "blockquote", "center", "section", "figure"}
_BLOCKS |= {"ul", "ol", "dl", "dt", "dd", "table", "thead", "tbody", "tfoot"}
_INLINE = {"span", "sub", "sup", "ins", "mark", "small", "var", "q", "cite", "abbr", "picture", "source"}
_INLINE |= {"video", "font", "ruby", "rt", "rp", "u"}


def clean(written: str) -> str:
    """The text as its page shows it, in Markdown; anything is taken."""
    text = written.replace("\r\n", "\n").replace("\r", "\n")
    parts: list[str] = []
    links: list[str] = []
    unclosed: set[str] = set()  # ends that were looked for in vain: never again, so that it stays linear
    place = 0
    while found := _PLACES.search(text, place):
        parts.append(html.unescape(text[place : found.start()]))
        taken, place = _taken(text, found, links, unclosed)
        parts.append(taken)
    parts.append(html.unescape(text[place:]))
    parts.extend(reversed(links))  # links that were opened and never closed
    return _without_blank_lines("".join(parts))


def _taken(text: str, found: re.Match[str], links: list[str], unclosed: set[str]) -> tuple[str, int]:
    """What stands for what was found, and where to go on."""
    if found["fence"]:
        end = re.compile(rf"^ {{0,3}}{found['marks']}[`~]*[ \t]*$", re.MULTILINE).search(text, found.end())
        stop = end.end() if end else len(text)
        return text[found.start() : stop], stop
    if ticks := found["ticks"]:
        if ticks not in unclosed:
            end = re.compile(rf"(?<!`){ticks}(?!`)").search(text, found.end())
            if end:
                return text[found.start() : end.end()], end.end()
            unclosed.add(ticks)
        return ticks, found.end()
    if found["comment"]:
        stop = -1 if "-->" in unclosed else text.find("-->", found.end())
        if stop < 0:
            unclosed.add("-->")
            return found["comment"], found.end()
        return "", stop + 3
    return _tag(found, links), found.end()


def _tag(found: re.Match[str], links: list[str]) -> str:
    """A tag's Markdown; what is no tag of HTML, `List<String>`, stays."""
    name, closes = found["name"].lower(), found[0].startswith("</")
    if name in _BOTH:
        return _BOTH[name]
    if name == "a":
        return _link(found["attributes"], closes, links)
    if name == "img" and not closes:
        source = _attribute(found["attributes"], "src")
        return f"![{_attribute(found['attributes'], 'alt')}]({source})" if source else ""
    if name in _OPENED:
        ended = "\n\n" if name[0] == "h" else ""  # a heading ends its line
        return ended if closes else _OPENED[name]
    if name in _BLOCKS:
        return "\n\n"
    return "" if name in _INLINE else found[0]


def _link(attributes: str, closes: bool, links: list[str]) -> str:
    if closes:
        return links.pop() if links else ""
    target = _attribute(attributes, "href")
    links.append(f"]({target})" if target else "")
    return "[" if target else ""


def _attribute(attributes: str, name: str) -> str:
    found = _ATTRIBUTES[name].search(attributes)
    value = next((group for group in found.groups() if group is not None), "") if found else ""
    return html.unescape(value).strip()


def _without_blank_lines(text: str) -> str:
    """At most one empty line together, outside code as inside."""
    return _BLANK.sub("\n\n", text).strip()
