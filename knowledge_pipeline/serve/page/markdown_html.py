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

from knowledge_pipeline.languages import language_of
from knowledge_pipeline.serve.page.code_html import lines_of, marked
from knowledge_pipeline.serve.page.term_matching import Marks

_LINE_END = Markup("\n")
_SCHEMES = ("http", "https", "mailto")


Leads = Callable[[str], str | None]
"""Where a link without a host leads to; None: nowhere."""


def html_of(
    text: str, marks: Marks, *, leads: Leads = lambda _: None, first_line: int | None = None
) -> Markup:
    """Markdown as HTML; with `first_line`, blocks have the ids of their lines: "L12"."""
    env: dict[str, Any] = {"marks": marks, "leads": leads}
    tokens = _markdown().parse(text, env)
    if first_line is not None:
        _number(tokens, first_line)
    return Markup(_markdown().renderer.render(tokens, _markdown().options, env))  # noqa: S704 - see `_markdown`


def _number(tokens: Sequence[Token], first_line: int) -> None:
    """Give the outermost block that begins on a line the line's id."""
    numbered = set[int]()
    for token in tokens:
        if token.map and token.nesting >= 0 and token.type != "inline" and token.map[0] not in numbered:
            numbered.add(token.map[0])
            token.attrSet("id", f"L{first_line + token.map[0]}")


@cache
def _markdown() -> MarkdownIt:
    """A parser without raw HTML; images become their texts, and `_link` says where links lead."""
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.validateLink = _taken
    made.add_render_rule("text", _text)
    made.add_render_rule("code_inline", _inline_code)
    made.add_render_rule("fence", _fence)
    made.add_render_rule("code_block", _fence)
    made.add_render_rule("image", _image)
    made.add_render_rule("link_open", _link)
    return made


def _taken(url: str) -> bool:
    """Every link is read as one; `_link` decides where it leads."""
    return True


def _text(_: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Mapping[str, Any]) -> str:
    return str(marked(tokens[at].content, env["marks"]))


def _inline_code(
    _: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Mapping[str, Any]
) -> str:
    return f"<code>{marked(tokens[at].content, env['marks'])}</code>"


def _fence(_: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Mapping[str, Any]) -> str:
    token = tokens[at]
    named = (token.info.split() or [""])[0]
    language = language_of(f"x.{named}") or named.lower()
    lines = lines_of(token.content.rstrip("\n"), language, env["marks"])
    id_ = f' id="{escape(token.attrGet("id"))}"' if token.attrGet("id") else ""
    return f"<pre{id_}><code>{_LINE_END.join(lines)}</code></pre>\n"


def _image(_: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Mapping[str, Any]) -> str:
    return f'<span class="picture">{escape(tokens[at].content or "picture")}</span>'


def _link(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    """A link that leads somewhere, else an anchor without an address."""
    href = str(tokens[at].attrGet("href") or "")
    lead = href if _is_elsewhere(href) else env["leads"](href)
    tokens[at].attrs = {"href": lead, "rel": "noopener noreferrer nofollow"} if lead else {}
    return renderer.renderToken(tokens, at, options, env)


def _is_elsewhere(url: str) -> bool:
    """Whether an address can be followed as it is; `javascript:` and its like cannot."""
    try:
        return urlsplit(url).scheme.lower() in _SCHEMES
    except ValueError:
        return False
