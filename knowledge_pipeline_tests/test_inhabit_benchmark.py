"""What `benchmarks.inhabit` counts, on small sources."""

from __future__ import annotations

import ast
from textwrap import dedent

from benchmarks.inhabit import (
    count_import_lines,
    find_global_caches,
    find_remembering_functions,
    list_function_lengths,
    list_parameters,
    list_variables,
)
from benchmarks.inhabit_calls import Call, Calls, count_calls


def parse(text: str) -> ast.Module:
    return ast.parse(dedent(text))


def test_imports_count_wherever_they_stand_with_all_their_lines():
    assert (
        count_import_lines(parse("import os\n\nfrom a import (\n    b,\n)\n\ndef f():\n    import c\n")) == 5
    )


def test_variables_are_what_is_assigned_or_looped_over_but_constants():
    tree = parse(
        """
        LIMIT = 3

        def find(self, place, *, named=None):
            found = [each for each in place]
            for row, _ in found:
                total: int = row
            if (known := total):
                return known
        """
    )
    assert sorted(list_variables(tree)) == ["_", "each", "found", "known", "row", "total"]
    assert sorted(list_parameters(tree)) == ["named", "place"]
    assert list_function_lengths(tree) == [6]


def test_a_global_cache_is_a_collection_that_a_function_changes():
    tree = parse(
        """
        from weakref import WeakKeyDictionary

        _read = {"a": 1}
        _appended: list[str] = []
        _held = WeakKeyDictionary()
        _nested = {}
        _answers = AnswerCache(10)
        _last = None
        _filled = []
        _filled.append("at import")

        def change(value, local):
            global _last
            _last = _read["a"]
            _appended.append(value)
            del _held[value]
            _nested[value]["x"] = 1
            _answers.pop(value)
            local["a"] = 2
        """
    )
    assert find_global_caches(tree) == ["_answers", "_appended", "_held", "_last", "_nested"]


def test_a_cache_of_texts_and_numbers_is_not_told():
    tree = parse(
        """
        @lru_cache(maxsize=10)
        def stem(word: str, *, times: int | None = None): ...

        @functools.cache
        def parse(path: Path): ...

        @cache
        def unknown(value): ...

        @cache
        def constant(): ...

        @wraps
        def plain(path: Path): ...
        """
    )
    assert find_remembering_functions(tree) == ["parse", "unknown"]


def test_switches_are_between_consecutive_calls_and_generators_make_none():
    named = [Call("a.py", "f", 1), Call("b.py", "g", 1), Call("a.py", "f", 1)]
    comprehension, generator = Call("a.py", "<listcomp>", 2), Call("c.py", "rows", 1, is_generator=True)
    calls = [named[0], comprehension, named[1], generator, generator, named[2]]
    assert count_calls(calls) == Calls(files=3, functions=3, calls=4, switches=2)
    assert count_calls([]) == Calls()
