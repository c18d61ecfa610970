"""Paths of facts, taken apart: `self.lake.index().rows` is self, .lake, .index, (), .rows."""

from __future__ import annotations

import re
from functools import lru_cache

_STEP = re.compile(r"\.[^.()\[\]]+|\(\)|\[\w*\]|[^.()\[\]]+")
_HEAD = re.compile(r"[^.()\[\]]*")


@lru_cache(100_000)
def split_steps(path: str) -> tuple[str, ...]:
    """The head of a path, and its steps: ".name", "()", "[]", "[1]"."""
    return tuple(_STEP.findall(path))


def first_segment(path: str) -> str:
    """The name that a path starts with."""
    found = _HEAD.match(path)
    return found[0] if found else ""


def parent_scope(scope: str) -> str:
    """The scope around a scope; "" around the outermost."""
    return scope.rpartition(".")[0]


def last_segment(name: str) -> str:
    """The last segment of a qualified name or path, calls left off."""
    return name.rpartition(".")[2].rstrip("()[]0123456789") or name
