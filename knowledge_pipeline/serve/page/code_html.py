"""Code as lines of HTML, highlighted by Pygments, with the words of the query marked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]  # its **options
from pygments.token import Token
from pygments.util import ClassNotFound

from knowledge_pipeline.serve.page.term_matching import TermMatcher, split_at_ranges

MAX_HIGHLIGHTED_CHARS = 200_000  # a longer text is not highlighted

_LEXER_ALIASES = {
    "c_sharp": "csharp",
    "common_lisp": "common-lisp",
    "cuda": "cuda",
    "elisp": "emacs-lisp",
    "go_module": "text",
    "jinja": "html+jinja",
    "markdown": "markdown",
    "notebook": "markdown",
    "objective_c": "objective-c",
    "objective_cpp": "objective-c++",
    "visual_basic": "vb.net",
}
_CSS_CLASSES = (  # the first that holds a token gives its class in page.css
    (Token.Comment, "c"),
    (Token.Literal.String.Doc, "d"),
    (Token.Literal.String, "s"),
    (Token.Literal.Number, "m"),
    (Token.Keyword, "k"),
    (Token.Operator.Word, "k"),
    (Token.Name.Function, "f"),
    (Token.Name.Class, "t"),
    (Token.Name.Decorator, "a"),
    (Token.Name.Attribute, "a"),
    (Token.Name.Tag, "k"),
    (Token.Name.Builtin, "b"),
    (Token.Name.Exception, "b"),
    (Token.Generic.Heading, "k"),
    (Token.Generic.Subheading, "f"),
    (Token.Generic.Inserted, "s"),
    (Token.Generic.Deleted, "x"),
)


def render_lines(text: str, language: str | None, matcher: TermMatcher) -> list[Markup]:
    """A text as HTML, line by line, without line ends."""
    lines, ranges = [list[str]()], matcher.find_ranges(text)
    for start, colour, piece in _iter_highlighted(text, language):
        for inner, marked in split_at_ranges(start, piece, ranges):
            for number, part in enumerate(inner.split("\n")):
                if number:
                    lines.append([])
                if part:
                    lines[-1].append(_render_part(part, colour, marked=marked))
    return [Markup("".join(line)) for line in lines]  # noqa: S704 - made of escaped parts alone


def render_marked(text: str, matcher: TermMatcher) -> Markup:
    """A text without colours, as HTML."""
    pieces = split_at_ranges(0, text, matcher.find_ranges(text))
    html = (_render_part(piece, "", marked=found) for piece, found in pieces)
    return Markup("".join(html))  # noqa: S704 - made of escaped parts alone


def _render_part(text: str, css_class: str, *, marked: bool) -> str:
    html = escape(text)
    if marked:
        html = f"<mark>{html}</mark>"
    return f'<span class="{css_class}">{html}</span>' if css_class else str(html)


def _iter_highlighted(text: str, language: str | None) -> Iterator[tuple[int, str, str]]:
    """Pieces of the text in order, with their start and class."""
    lexer = _find_lexer(language or "text") if len(text) <= MAX_HIGHLIGHTED_CHARS else _find_lexer("text")
    done = 0
    for start, token, piece in lexer.get_tokens_unprocessed(text):
        if start < done or not piece:  # some lexers yield a piece twice
            continue
        if start > done:
            yield done, "", text[done:start]
        yield start, _css_class_of(token), piece
        done = start + len(piece)
    if done < len(text):
        yield done, "", text[done:]


@cache
def _find_lexer(language: str) -> Lexer:
    try:
        return get_lexer_by_name(_LEXER_ALIASES.get(language, language))
    except ClassNotFound:
        return get_lexer_by_name("text")


@cache
def _css_class_of(token: Any) -> str:
    return next((name for kind, name in _CSS_CLASSES if token in kind), "")
