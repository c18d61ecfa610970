"""Markdown and code as safe HTML, with the words of the query marked.

Markdown becomes HTML without raw HTML, images, or scripts in links; code has colours.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from itertools import islice
from operator import itemgetter
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.highlighting import TokenKind, iter_highlighted
from knowledge_pipeline.query.plan import remove_stopwords, understand
from knowledge_pipeline.words import CUT_LETTERS, expand_identifiers, is_cut, normalize, normalize_aligned

Range = tuple[int, int]  # half-open

_MAX_WORDS = 40
_SUFFIXES = ("ings", "ing", "ies", "ied", "es", "ed", "s", "e")
_MIN_STEM_CHARS = 3


class TermMatcher:
    """Finds the words of a query in texts, as whole words, as parts of identifiers, or inside a sentence."""

    def __init__(self, query: str) -> None:
        try:
            plain = understand(query).text
        except InvalidQuery:  # filters alone, or far too long
            plain = ""
        words = expand_identifiers(remove_stopwords(normalize(plain))).split()[:_MAX_WORDS]
        stems = set(_iter_stems(word for word in words if not is_cut(word)))
        begins = rf"(?<![^\W_])|(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[{CUT_LETTERS}])"
        ends = r"(?:[A-Z]{1,3}(?![A-Za-z])|[a-z]{0,3}(?![a-z]))"
        self._word = re.compile(rf"(?:{begins})(?i:{_match_any(stems)}){ends}") if stems else None
        pairs = set(filter(is_cut, words))
        self._pair = re.compile(f"(?=({_match_any(pairs)}))") if pairs else None  # they overlap

    def find_ranges(self, text: str) -> list[Range]:
        """The ranges of the words, in order, without overlap."""
        if text.isascii():
            return self._find_words(text)
        plain, starts, ends = normalize_aligned(text)
        pairs = [match.span(1) for match in self._pair.finditer(plain)] if self._pair else []
        matches = sorted(self._find_words(plain) + pairs)
        united: list[Range] = []
        for first, last in ((starts[first], ends[last - 1]) for first, last in matches):
            if united and first < united[-1][1]:
                united[-1] = united[-1][0], max(united[-1][1], last)
            else:
                united.append((first, last))
        return united

    def _find_words(self, text: str) -> list[Range]:
        return [match.span() for match in self._word.finditer(text)] if self._word else []


def _match_any(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


def split_at_ranges(start: int, text: str, ranges: Sequence[Range]) -> Iterator[tuple[str, bool]]:
    """The pieces of a text that starts at `start`, each inside one range or outside of all.

    The ranges are in order and do not overlap.
    """
    done, end = start, start + len(text)
    first_range = bisect_right(ranges, start, key=itemgetter(1))
    for first, last in islice(ranges, first_range, None):
        if first >= end:
            break
        first, last = max(first, done), min(last, end)
        if first > done:
            yield text[done - start : first - start], False
        yield text[first - start : last - start], True
        done = last
    if done < end:
        yield text[done - start :], False


def _iter_stems(words: Iterable[str]) -> Iterator[str]:
    """Words without the endings that English gives them, so that "signing" marks "signed"."""
    for word in (word.strip("_").lower() for word in words):
        if len(word) < 2:
            continue
        ending = next((end for end in _SUFFIXES if word.endswith(end)), "")
        stem = word.removesuffix(ending)
        yield stem if len(stem) >= _MIN_STEM_CHARS else word


_CSS_CLASSES: Mapping[TokenKind | None, str] = {
    **{None: "", "comment": "c", "doc": "d", "string": "s", "number": "m", "keyword": "k"},
    **{"function": "f", "type": "t", "attribute": "a", "builtin": "b", "deleted": "x"},
}
"""In page.css."""


def render_lines(text: str, language: str | None, matcher: TermMatcher) -> list[Markup]:
    """A text as HTML, line by line, without line ends."""
    lines, ranges, start = [list[str]()], matcher.find_ranges(text), 0
    for kind, piece in iter_highlighted(text, language):
        for inner, marked in split_at_ranges(start, piece, ranges):
            for number, part in enumerate(inner.split("\n")):
                if number:
                    lines.append([])
                if part:
                    lines[-1].append(_render_part(part, _CSS_CLASSES[kind], marked=marked))
        start += len(piece)
    return [Markup("".join(line)) for line in lines]  # noqa: S704 - made of escaped parts alone


def render_marked(text: str, matcher: TermMatcher) -> Markup:
    """A text without colours, as HTML."""
    pieces = split_at_ranges(0, text, matcher.find_ranges(text))
    html = (_render_part(piece, "", marked=marked) for piece, marked in pieces)
    return Markup("".join(html))  # noqa: S704 - made of escaped parts alone


def _render_part(text: str, css_class: str, *, marked: bool) -> str:
    html = escape(text)
    if marked:
        html = f"<mark>{html}</mark>"
    return f'<span class="{css_class}">{html}</span>' if css_class else str(html)


_LINE_END = Markup("\n")
_SCHEMES = ("http", "https", "mailto")
_MAX_CELLS = 20_000  # of all tables of a text: 0.3 s to render
_DELIMITER_ROW = re.compile(r"[ \t>]*[|:-][ \t|:-]*")  # below the head of a table


Tokens = Sequence[Token]
Env = MutableMapping[str, Any]
LinkResolver = Callable[[str], str | None]
"""Resolves a link without a host; None: it leads nowhere."""


def render_markdown(
    text: str,
    matcher: TermMatcher,
    *,
    resolve_link: LinkResolver = lambda _: None,
    first_line: int | None = None,
) -> Markup:
    """Markdown as HTML; with `first_line`, blocks have the ids of their lines: "L12".

    A text whose tables have too many cells stays as it is written: each row is filled up to the width of
    its table, so that 17 kB can become gigabytes of HTML.
    """
    if _count_cells(text) > _MAX_CELLS:
        id_ = Markup(' id="L{}"').format(first_line) if first_line is not None else Markup("")
        return Markup("<pre{}>{}</pre>").format(id_, text)
    parser, env = _build_parser(), {"matcher": matcher, "resolve_link": resolve_link}
    tokens = parser.parse(text, env)
    _set_headings(tokens, in_outline=first_line is not None)
    if first_line is not None:
        numbered = set[int]()
        for token in tokens:
            if token.map and token.nesting >= 0 and token.type != "inline" and token.map[0] not in numbered:
                numbered.add(token.map[0])
                token.attrSet("id", f"L{first_line + token.map[0]}")
    return Markup(parser.renderer.render(tokens, parser.options, env))  # noqa: S704 - see `_build_parser`


def _count_cells(text: str) -> int:
    """The cells of its tables, or somewhat more: what a table is, the parser decides."""
    cells = columns = 0
    for line in text.splitlines():
        if "-" in line and _DELIMITER_ROW.fullmatch(line):
            columns = max(columns, line.count("|") + 1)
        cells += columns
        if not line.strip():
            columns = 0
    return cells


def _set_headings(tokens: Sequence[Token], *, in_outline: bool) -> None:
    """Fit headings below that of the page, without a level left out; an excerpt has none, but bold lines."""
    level, tag = 1, "p"
    for token in tokens:
        if token.type == "heading_open":
            if in_outline:
                level = min(int(token.tag[1]) + 1, level + 1, 6)
                tag = f"h{level}"
            else:
                token.attrSet("class", "heading")
        if token.type in ("heading_open", "heading_close"):
            token.tag = tag


@cache
def _build_parser() -> MarkdownIt:
    """A parser without raw HTML; images become their texts, and `_render_link` resolves links."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: True  # `_render_link` decides where a link leads
    parser.add_render_rule("text", _render_text)
    parser.add_render_rule("code_inline", _render_text)
    parser.add_render_rule("fence", _render_fence)
    parser.add_render_rule("code_block", _render_fence)
    parser.add_render_rule("image", _render_image)
    parser.add_render_rule("link_open", _render_link)
    return parser


def _render_text(_: RendererHTML, tokens: Tokens, index: int, options: Any, env: Env) -> str:
    html = render_marked(tokens[index].content, env["matcher"])
    return f"<code>{html}</code>" if tokens[index].type == "code_inline" else str(html)


def _render_fence(_: RendererHTML, tokens: Tokens, index: int, options: Any, env: Env) -> str:
    token = tokens[index]
    name = (token.info.split() or [""])[0]
    language = detect_language(f"x.{name}") or name.lower()
    lines = render_lines(token.content.rstrip("\n"), language, env["matcher"])
    id_ = f' id="{escape(token.attrGet("id"))}"' if token.attrGet("id") else ""
    return f"<pre{id_}><code>{_LINE_END.join(lines)}</code></pre>\n"


def _render_image(_: RendererHTML, tokens: Tokens, index: int, options: Any, env: Env) -> str:
    return f'<span class="picture">{escape(tokens[index].content or "picture")}</span>'


def _render_link(renderer: RendererHTML, tokens: Tokens, index: int, options: Any, env: Env) -> str:
    """A link that leads somewhere, else an anchor without an address, as for `javascript:` and its like."""
    href = str(tokens[index].attrGet("href") or "")
    try:
        is_followable = urlsplit(href).scheme.lower() in _SCHEMES
    except ValueError:
        is_followable = False
    target = href if is_followable else env["resolve_link"](href)
    tokens[index].attrs = {"href": target, "rel": "noopener noreferrer nofollow"} if target else {}
    return renderer.renderToken(tokens, index, options, env)
