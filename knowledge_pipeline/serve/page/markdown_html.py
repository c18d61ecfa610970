"""Markdown as safe HTML: no raw HTML, no images, no scripts in links."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from knowledge_pipeline.languages import detect_language
from knowledge_pipeline.serve.page.code_html import render_lines, render_marked
from knowledge_pipeline.serve.page.term_matching import TermMatcher

_LINE_END = Markup("\n")
_SCHEMES = ("http", "https", "mailto")
_MAX_CELLS = 20_000  # of all tables of a text: 0.3 s to render
_DELIMITER_ROW = re.compile(r"[ \t>]*[|:-][ \t|:-]*")  # below the head of a table


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
        _assign_line_ids(tokens, first_line)
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


def _assign_line_ids(tokens: Sequence[Token], first_line: int) -> None:
    """Give the outermost block that begins on a line the line's id."""
    numbered = set[int]()
    for token in tokens:
        if token.map and token.nesting >= 0 and token.type != "inline" and token.map[0] not in numbered:
            numbered.add(token.map[0])
            token.attrSet("id", f"L{first_line + token.map[0]}")


@cache
def _build_parser() -> MarkdownIt:
    """A parser without raw HTML; images become their texts, and `_render_link` resolves links."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: True  # `_render_link` decides where a link leads
    parser.add_render_rule("text", _render_text)
    parser.add_render_rule("code_inline", _render_inline_code)
    parser.add_render_rule("fence", _render_fence)
    parser.add_render_rule("code_block", _render_fence)
    parser.add_render_rule("image", _render_image)
    parser.add_render_rule("link_open", _render_link)
    return parser


def _render_text(
    _: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Mapping[str, Any]
) -> str:
    return str(render_marked(tokens[index].content, env["matcher"]))


def _render_inline_code(
    _: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Mapping[str, Any]
) -> str:
    return f"<code>{render_marked(tokens[index].content, env['matcher'])}</code>"


def _render_fence(
    _: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Mapping[str, Any]
) -> str:
    token = tokens[index]
    name = (token.info.split() or [""])[0]
    language = detect_language(f"x.{name}") or name.lower()
    lines = render_lines(token.content.rstrip("\n"), language, env["matcher"])
    id_ = f' id="{escape(token.attrGet("id"))}"' if token.attrGet("id") else ""
    return f"<pre{id_}><code>{_LINE_END.join(lines)}</code></pre>\n"


def _render_image(
    _: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Mapping[str, Any]
) -> str:
    return f'<span class="picture">{escape(tokens[index].content or "picture")}</span>'


def _render_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    """A link that leads somewhere, else an anchor without an address."""
    href = str(tokens[index].attrGet("href") or "")
    target = href if _is_followable(href) else env["resolve_link"](href)
    tokens[index].attrs = {"href": target, "rel": "noopener noreferrer nofollow"} if target else {}
    return renderer.renderToken(tokens, index, options, env)


def _is_followable(url: str) -> bool:
    """Whether an address can be followed as it is; `javascript:` and its like cannot."""
    try:
        return urlsplit(url).scheme.lower() in _SCHEMES
    except ValueError:
        return False
