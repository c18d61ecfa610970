"""Every pattern takes time in proportion to its text: no input, and no document, holds the interpreter."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import knowledge_pipeline
from knowledge_pipeline.chunking.markup import parse_markdown, parse_rst
from knowledge_pipeline.highlighting import iter_highlighted
from knowledge_pipeline.serve.page.markdown_html import TermMatcher, render_lines, render_markdown

CHARS = 20_000  # what a request may have; documents are larger, but none of them is waited for
FEWER_CHARS = {  # what reaches these at most
    "extensions.decomposition._AND_ASKS": 4_000,
    "extensions.decomposition._COMPARISONS": 4_000,
    "extensions.llm_steps._CHAIN": 4_000,  # of a model that the operator chose, white space folded
    "query.plan._USAGE_QUESTION": 300,
    "sanitizing.secrets._NAME_BEFORE": 30,
    "connectors.jira.query._SPRINT_NAME": 1_000,
    "code_graph.languages.bash._SOURCE_ARGUMENT": 200,
    "code_graph.languages.ecmascript_components._VUE_LOOP": 500,
    "config.edit._OPENAPI": 4_096,
    "config.edit._BLANK_END": 2_000,  # the operator's own file
    "config.edit._FLOW_LINE_REST": 2_000,
}
MAX_SECONDS = 0.5  # of the processor; a linear pattern takes a few milliseconds, a quadratic one seconds
SHAPES = (
    *("a", "1", " ", "\n", '"', "'", "(", "[", "<", "`", "=", "|", "\\", "{"),
    *(
        "a ",
        "1 ",
        " \n",
        "a\n",
        "a.",
        "a/",
        "a@",
        "_a",
        "aB",
        "::a",
        "- ",
        "| a ",
        "<a ",
        "<!--",
        "[a](",
        "a:b ",
    ),
    *(
        "why was ",
        "where is ",
        "+1111111111111111111111x ",
        "http://a",
        "https://a@b:",
        "path:'",
        "${",
        "A1 ",
    ),
)
_MATCHER = TermMatcher("how was a session signed")
LIBRARIES: Mapping[str, Callable[[str], Any]] = {  # by what texts of documents reach them
    "markdown-it, on the page": lambda text: render_markdown(text, _MATCHER),
    "markdown-it, of chunks": lambda text: list(parse_markdown(text)),
    "reStructuredText, of chunks": lambda text: list(parse_rst(text)),
    "colours of a fence": lambda text: render_markdown(f"```ini\n{text}\n```", _MATCHER),
    "colours of C": lambda text: list(iter_highlighted(text, "c")),
    "lines with marked words": lambda text: render_lines(text, "python", _MATCHER),
}
MARKUP_SHAPES = (
    *(
        "*",
        "_",
        "[",
        "]",
        "](",
        "[a](",
        "![",
        "``a",
        "*a",
        "_a ",
        "**a",
        "~~",
        "&#",
        "> ",
        "1. ",
        "::",
        ":::",
    ),
    *(
        "[a]: b\n",
        "[a][b]",
        "[a](<",
        "a\n=\n",
        "a|b\n-|-\n",
        "    a\n",
        "<table>\n",
        "<table><tr>",
        "\t",
        "a*",
        "signed session ",
    ),
    *("= =\n", "= =\na b\n", "= =\na b\n= =\nc d\n", "+-+\n", "+-+\n|a|\n", ".. list-table::\n  :a: b\n"),
)
_IN_PLACE = {"match", "fullmatch"}  # tried at one place of the text, not at each
_USES = re.compile(r"\b(\w+)\.(match|fullmatch|search|finditer|findall|sub|subn|split)\b")


def _walk(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and type(value) is dict:
        yield from _walk([*value, *value.values()], depth + 1)
    elif depth < 4 and (type(value) in (list, tuple, set, frozenset) or _is_own_tuple(value)):
        for each in value:
            yield from _walk(each, depth + 1)


def _is_own_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and type(value).__module__.startswith("knowledge_pipeline.")


def _list_patterns() -> dict[str, tuple[re.Pattern[Any], str]]:
    """The patterns of all modules by name, with how they are tried."""
    found: dict[str, tuple[re.Pattern[Any], str]] = {}
    seen: set[Any] = set()
    for each in pkgutil.walk_packages(knowledge_pipeline.__path__, "knowledge_pipeline."):
        if each.name.startswith("knowledge_pipeline.defs") or each.name.endswith("__main__"):
            continue
        module = importlib.import_module(each.name)
        uses: dict[str, set[str]] = {}
        for name, method in _USES.findall(inspect.getsource(module)):
            uses.setdefault(name, set()).add(method)
        for name, value in vars(module).items():
            for number, pattern in enumerate(_walk(value)):
                methods = uses.get(name, {"finditer"})
                method = methods.pop() if methods < _IN_PLACE or len(methods) == 1 else "finditer"
                method = method if method in _IN_PLACE else "finditer"
                if (pattern, method) not in seen:
                    seen.add((pattern, method))
                    found[f"{each.name}.{name}[{number}]"] = pattern, method
    return found


def _seconds(trial: Callable[[str], Any], text: Any) -> float:
    started = time.thread_time()
    result = trial(text)
    if isinstance(result, Iterator):
        for _ in result:
            pass
    return time.thread_time() - started


def _find_slow(shapes: tuple[str, ...]) -> list[tuple[str, str, str, float]]:
    slow = []
    for name, (pattern, method) in _list_patterns().items():
        chars = FEWER_CHARS.get(name.removeprefix("knowledge_pipeline.").partition("[")[0], CHARS)
        for shape in shapes:
            text: Any = (shape * chars)[:chars] + "!"
            if isinstance(pattern.pattern, bytes):
                text = text.encode()
            if (seconds := _seconds(getattr(pattern, method), text)) > MAX_SECONDS:
                slow.append((name, method, shape, round(seconds, 2)))
                break
    return slow


def test_a_quadratic_pattern_is_noticed() -> None:
    assert _seconds(re.compile(r"\s+$").finditer, " " * CHARS + "!") > MAX_SECONDS


@pytest.mark.slow
def test_every_pattern_takes_time_in_proportion_to_its_text() -> None:
    assert len(_list_patterns()) > 200
    assert _find_slow(SHAPES) == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_takes_time_in_proportion_to_its_text(library: str) -> None:
    slow = {
        shape: seconds
        for shape in MARKUP_SHAPES
        if (seconds := _seconds(LIBRARIES[library], (shape * CHARS)[:CHARS] + "!"))
        > 4 * MAX_SECONDS  # markdown-it takes a second for some
    }
    assert slow == {}
