"""Colours of code: what they are, and that no text takes long."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.file_languages import LANGUAGES
from knowledge_pipeline.highlighting import find_pattern, iter_highlighted
from knowledge_pipeline_tests.test_patterns import MAX_SECONDS, SHAPES

TRIED = sorted(LANGUAGES | {"diff", "c#", "sh"})
COLOURLESS = {
    *(
        "asciidoc",
        "cobol",
        "csv",
        "haml",
        "notebook",
        "org",
        "procfile",
        "pug",
        "rst",
        "sass",
        "slim",
        "text",
    ),
    "vim",
}
MORE_SHAPES = (
    *(
        "::",
        "a::",
        "#",
        "//",
        "/*",
        "(*",
        "{-",
        "--[[",
        '"""',
        "'''",
        '\\"',
        '"\\',
        "a='",
        "@a",
        "@a.",
        "1e+",
    ),
    *(
        "1_",
        "</",
        "<a:",
        "a-",
        "\n- ",
        "\n[",
        "\n#",
        "\n  a ",
        "#[",
        "'\\",
        "/>",
        "--",
        "<!--a",
        "\n+",
        "{\n",
        ";",
    ),
)


@pytest.mark.parametrize(
    ("language", "text", "pieces"),
    [
        (
            "python",
            'def f(x=1):  # why\n    """Say."""\n    return "a\\"b"',
            [
                ("keyword", "def"),
                ("function", "f"),
                ("number", "1"),
                ("comment", "# why"),
                ("doc", '"""Say."""'),
                ("keyword", "return"),
                ("string", '"a\\"b"'),
            ],
        ),
        ("sh", 'echo "a\nb" $# # c', [("string", '"a\nb"'), ("comment", "# c")]),
        ("rust", "fn a<'x>(c: &'x str) { 'y' }", [("keyword", "fn"), ("function", "a"), ("builtin", "str")]),
        (
            "c++",
            "#include <a>\nclass B; // c",
            [("attribute", "#include"), ("keyword", "class"), ("type", "B")],
        ),
        ("yaml", "a: yes # b", [("keyword", "a"), ("keyword", "yes"), ("comment", "# b")]),
        ("html", '<p class="a">b</p>', [("keyword", "<p"), ("attribute", "class"), ("string", '"a"')]),
        ("diff", "@@ 1 @@\n-a\n+b", [("function", "@@ 1 @@"), ("deleted", "-a"), ("string", "+b")]),
        ("sql", "SELECT a -- b", [("keyword", "SELECT"), ("comment", "-- b")]),
        ("unheard of", "def f", []),
        (None, "def f", []),
    ],
)
def test_what_has_a_meaning_has_a_colour(
    language: str | None, text: str, pieces: list[tuple[str, str]]
) -> None:
    coloured = [piece for piece in iter_highlighted(text, language) if piece[0]]
    assert coloured[: len(pieces)] == pieces
    assert bool(coloured) == bool(pieces)


@given(st.text(alphabet="ab1 \n\"'`#/*-{}()[]<>=:@\\é", max_size=60), st.sampled_from(TRIED))
def test_the_pieces_are_the_text(text: str, language: str) -> None:
    assert "".join(piece for _, piece in iter_highlighted(text, language)) == text


def test_nearly_every_language_has_colours() -> None:
    assert {name for name in TRIED if not _has_colours(name)} == COLOURLESS


def _has_colours(language: str) -> bool:
    text = "<!-- a\n# a\n// a\n-- a\n; a\n% a\n! a\n' a\nREM a\n+a\nif for"
    return any(kind for kind, _ in iter_highlighted(text, language))


@pytest.mark.parametrize("language", ["ini", "python", "javascript", "html", "rust", "yaml"])
def test_no_text_takes_longer_than_in_proportion(language: str) -> None:
    assert _find_slow(lambda text: iter_highlighted(text, language), ("::", *MORE_SHAPES)) == []


@pytest.mark.slow
def test_the_pattern_of_no_language_takes_longer_than_in_proportion() -> None:
    patterns = {find_pattern(language): language for language in TRIED}
    assert len(patterns) > 40
    for pattern, language in patterns.items():
        find = re.compile(pattern, re.MULTILINE).finditer
        assert _find_slow(find, (*SHAPES, *MORE_SHAPES)) == [], language


def _find_slow(
    iterate: Callable[[str], Iterable[object]], shapes: tuple[str, ...]
) -> list[tuple[str, float]]:
    slow: list[tuple[str, float]] = []
    for shape in shapes:
        text = (shape * 30_000)[:30_000]
        started = time.thread_time()
        for _ in iterate(text):
            pass
        if (seconds := time.thread_time() - started) > MAX_SECONDS:
            slow.append((shape, seconds))
    return slow


@pytest.mark.parametrize(
    "fence", ["py", "pycon", "js", "ts", "rb", "rs", "yml", "shell-session", "PS1", "objective-c"]
)
def test_a_fence_has_the_colours_of_its_language(fence: str) -> None:
    kinds = {kind for kind, _ in iter_highlighted('a: "text" 12 # // import', fence)}
    assert {"string", "number"} <= kinds
