"""Markdown as HTML that is safe to show: no HTML of its own, no images, no scripts in links."""

from __future__ import annotations

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


LinkResolver = Callable[[str], str | None]
"""Where a link without a host leads to; None: nowhere."""


def render_markdown(
    text: str,
    matcher: TermMatcher,
    *,
    resolve_link: LinkResolver = lambda _: None,
    first_line: int | None = None,
) -> Markup:
    """Markdown as HTML; with `first_line`, blocks have the ids of their lines: "L12"."""
    env: dict[str, Any] = {"marks": matcher, "leads": resolve_link}
    tokens = _build_parser().parse(text, env)
    if first_line is not None:
        _assign_line_ids(tokens, first_line)
    return Markup(_build_parser().renderer.render(tokens, _build_parser().options, env))  # noqa: S704 - see `_markdown`


def _assign_line_ids(tokens: Sequence[Token], first_line: int) -> None:
    """Give the outermost block that begins on a line the line's id."""
    numbered = set[int]()
    for token in tokens:
        if token.map and token.nesting >= 0 and token.type != "inline" and token.map[0] not in numbered:
            numbered.add(token.map[0])
            token.attrSet("id", f"L{first_line + token.map[0]}")


@cache
def _build_parser() -> MarkdownIt:
    """A parser without raw HTML; images become their texts, and `_link` says where links lead."""
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.validateLink = _accept_link
    made.add_render_rule("text", _render_text)
    made.add_render_rule("code_inline", _render_inline_code)
    made.add_render_rule("fence", _render_fence)
    made.add_render_rule("code_block", _render_fence)
    made.add_render_rule("image", _render_image)
    made.add_render_rule("link_open", _render_link)
    return made


def _accept_link(url: str) -> bool:
    """Every link is read as one; `_link` decides where it leads."""
    return True


def _render_text(
    _: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Mapping[str, Any]
) -> str:
    return str(render_marked(tokens[index].content, env["marks"]))


def _render_inline_code(
    _: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Mapping[str, Any]
) -> str:
    return f"<code>{render_marked(tokens[index].content, env['marks'])}</code>"


def _render_fence(
    _: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Mapping[str, Any]
) -> str:
    token = tokens[index]
    named = (token.info.split() or [""])[0]
    language = detect_language(f"x.{named}") or named.lower()
    lines = render_lines(token.content.rstrip("\n"), language, env["marks"])
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
    lead = href if _is_followable(href) else env["leads"](href)
    tokens[index].attrs = {"href": lead, "rel": "noopener noreferrer nofollow"} if lead else {}
    return renderer.renderToken(tokens, index, options, env)


def _is_followable(url: str) -> bool:
    """Whether an address can be followed as it is; `javascript:` and its like cannot."""
    try:
        return urlsplit(url).scheme.lower() in _SCHEMES
    except ValueError:
        return False
