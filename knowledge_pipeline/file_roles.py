"""Tells by its path what a file is for: source, test or example, generated, template, changelog, …"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

FileRole = Literal["source", "test", "generated"]
SideRole = Literal["test", "generated", "template", "changelog", "about", "configuration"]
"""What a file is for that is neither source code nor documentation of how to use it."""

_TEST_FOLDERS = frozenset(
    (
        *("test", "tests", "testing", "testdata", "spec", "specs", "fixture", "fixtures", "mock", "mocks"),
        *("example", "examples", "sample", "samples", "benchmark", "benchmarks", "e2e"),
    )
)
_TEST_STEMS = frozenset(("test", "tests", "spec", "conftest"))
ROLE_WORDS: dict[SideRole, tuple[str, ...]] = {
    "test": (*sorted(_TEST_FOLDERS), "demo"),
    "generated": ("generated", "vendored", "vendor", "lock"),
    "template": ("template", "stylesheet", "css", "html", "translation"),
    "changelog": ("changelog", "release", "changed", "changes", "new", "introduced", "removed"),
    "about": ("license", "licence", "contributing", "contribute", "security", "author", "governance"),
    "configuration": ("ci", "workflow", "github", "yaml", "toml", "makefile", "docker", "configuration"),
}
"""Words of a question that asks for files of such a role."""

_GENERATED_FOLDERS = frozenset(
    ("vendor", "vendored", "node_modules", "third_party", "dist", "generated", "gen", "site-packages")
)
_GENERATED_NAME = re.compile(
    r"_pb2(_grpc)?\.pyi?$|\.pb\.|\.min\.|\.generated\.|\.lock$|-lock\.|^(changelog|changes|history|news)\b",
    re.I,
)
_SIDE_ROLES: dict[SideRole, re.Pattern[str]] = {  # the first that fits the path in lower case
    "changelog": re.compile(r"(^|/)(changelog|changes|history|release.?notes|news)[^/]*$"),
    "about": re.compile(
        r"(^|/)(licen[cs]e|copying|contributing|code_of_conduct|security|authors|governance|maintainers)[^/]*$"
        r"|(^|/)(issue_template|pull_request_template)"
    ),
    "configuration": re.compile(
        r"(^|/)\.(github|circleci|gitlab)[/-]|\.(ya?ml|toml|cfg|ini)$|(^|/)(makefile|dockerfile)"
    ),
    "template": re.compile(r"\.(css|scss|less|svg|html?|j2|jinja2?|po|map)$"),
}
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


@lru_cache(maxsize=16_384)
def find_side_role(path: str) -> SideRole | None:
    """What a file is for beside source code and documentation; None where it is one of these."""
    role = classify_file(path)
    if role == "test":
        return "test"
    lower = path.lower()
    return next((side for side, form in _SIDE_ROLES.items() if form.search(lower)), None) or (
        "generated" if role == "generated" else None
    )
