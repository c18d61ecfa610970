"""Tells by its path what a file is for: source, test or example, generated or vendored."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

FileRole = Literal["source", "test", "generated"]

_TEST_FOLDERS = frozenset(
    (
        *("test", "tests", "testing", "testdata", "spec", "specs", "fixture", "fixtures", "mock", "mocks"),
        *("example", "examples", "sample", "samples", "benchmark", "benchmarks", "e2e"),
    )
)
_TEST_STEMS = frozenset(("test", "tests", "spec", "conftest"))
ROLE_WORDS = (*sorted(_TEST_FOLDERS), "generated", "vendored", "changelog")
"""Words of a question that asks for files of another role than source."""

_GENERATED_FOLDERS = frozenset(
    ("vendor", "vendored", "node_modules", "third_party", "dist", "generated", "gen", "site-packages")
)
_GENERATED_NAME = re.compile(
    r"_pb2(_grpc)?\.pyi?$|\.pb\.|\.min\.|\.generated\.|\.lock$|-lock\.|^(changelog|changes|history|news)\b",
    re.I,
)
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")


@lru_cache(maxsize=16_384)
def classify_file(path: str) -> FileRole:
    """By the words of its folders and of its name: "src/api_tests/FooTest.java" is a test."""
    *folders, name = path.split("/")
    if not _GENERATED_FOLDERS.isdisjoint(folder.lower() for folder in folders) or _GENERATED_NAME.search(
        name
    ):
        return "generated"
    folder_words = {word.lower() for folder in folders for word in _WORD.findall(folder)}
    stem_words = [word.lower() for word in _WORD.findall(name.rpartition(".")[0] or name)]
    if not _TEST_FOLDERS.isdisjoint(folder_words) or not _TEST_STEMS.isdisjoint(
        stem_words[:1] + stem_words[-1:]
    ):
        return "test"
    return "source"
