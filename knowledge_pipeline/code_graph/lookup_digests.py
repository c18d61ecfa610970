"""What is asked of other files: noted by key, and told apart by digests of the answers.

A key is kept as a mark of three bytes, so that a trace stays small. Two keys with one mark are taken
for one: a file may be resolved again for nothing, never the other way round.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from typing import Any, TypeVar, overload
from zlib import crc32

from knowledge_pipeline.code_graph.access_paths import head_of
from knowledge_pipeline.code_graph.facts import Binding, Import
from knowledge_pipeline.code_graph.file_index import FileIndex, Key
from knowledge_pipeline.code_graph.index_builder import LIST

Value = TypeVar("Value")
Other = TypeVar("Other")
AnyKey = TypeVar("AnyKey", str, Key)

Asked = set[str | Key]
"""Keys that were looked up in the tables of a file."""

Told = Mapping[int, int]
"""All that a file tells: by mark, a digest of the answers to all its keys."""

_TABLES = tuple(each.name for each in fields(FileIndex) if str(each.type).startswith("Mapping"))
_MARK_BYTES = 3
_ALWAYS = 0  # the mark of what every question depends on


class _Noting(Mapping[AnyKey, Value]):
    """A table of which it is noted what is looked up. It cannot be gone through."""

    __slots__ = ("_asked", "_held")

    def __init__(self, held: Mapping[AnyKey, Value], asked: Asked) -> None:
        self._held, self._asked = held, asked

    def __getitem__(self, key: AnyKey) -> Value:
        self._asked.add(key)
        return self._held[key]

    def __contains__(self, key: object) -> bool:
        self._asked.add(key)  # pyright: ignore[reportArgumentType]
        return key in self._held

    @overload
    def get(self, key: AnyKey, /) -> Value | None: ...
    @overload
    def get(self, key: AnyKey, /, default: Value | Other) -> Value | Other: ...
    def get(self, key: AnyKey, /, default: Any = None) -> Any:
        """A look-up, which is noted whether there is an answer or not."""
        self._asked.add(key)
        return self._held.get(key, default)

    def __iter__(self) -> Any:
        raise TypeError("other files are asked by key")

    def __len__(self) -> int:
        raise TypeError("other files are asked by key")


def noting(index: FileIndex, asked: Asked) -> FileIndex:
    """The same index, that adds to `asked` what is looked up in it."""
    tables: dict[str, Any] = {name: _Noting(getattr(index, name), asked) for name in _TABLES}
    return replace(index, **tables)


def told(index: FileIndex) -> Told:
    """All that a file tells; lines, and the order of what has different keys, do not count."""
    parts: dict[int, list[str]] = {_ALWAYS: [_always(index)]}
    for name in _TABLES:
        table: Mapping[str | Key, Any] = getattr(index, name)
        for key, answer in table.items():
            parts.setdefault(_mark(key), []).append(f"{name} {key!r} {_plain(answer)!r}")
    texts = {mark: "\n".join(sorted(each)).encode(errors="replace") for mark, each in parts.items()}
    return {mark: int.from_bytes(_digest(text, 8), "big") for mark, text in texts.items()}


def whole(tells: Told) -> str:
    """A digest of all that a file tells."""
    return _digest(repr(sorted(tells.items())).encode(), 8).hex()


def marks_of(asked: Iterable[str | Key]) -> str:
    """What was asked, as a short text."""
    marks = sorted({_mark(key) for key in asked})
    return b64encode(b"".join(mark.to_bytes(_MARK_BYTES, "big") for mark in marks)).decode()


def answers(tells: Told, marks: str) -> str:
    """A digest of the answers to what was asked."""
    read = b64decode(marks)
    asked = (int.from_bytes(read[at : at + _MARK_BYTES], "big") for at in range(0, len(read), _MARK_BYTES))
    found = [tells.get(mark, 0) for mark in (_ALWAYS, *asked)]
    return b64encode(_digest(b"".join(each.to_bytes(8, "big") for each in found), 9)).decode()


def _mark(key: str | Key) -> int:
    """A look-up by the name that it starts with, in the table of a scope or type."""
    if not isinstance(key, str):
        scope, path = key
        key = f"{scope}.{head_of(path)}" if scope else head_of(path)
    return crc32(key.encode(errors="replace")) & 0xFFFFFF


def _always(index: FileIndex) -> str:
    facts = index.facts
    settings = sorted(each for each in facts.settings.items() if each[0] != LIST)
    return repr((facts.language, facts.module, settings, index.has_stars, index.has_list))


def _plain(answer: Any) -> Any:
    return [_told_of(each) for each in answer] if isinstance(answer, list) else answer  # pyright: ignore


def _told_of(each: Any) -> Any:
    if isinstance(each, Binding):
        return each.scope, each.path, each.value, each.declared
    if isinstance(each, Import):
        return each.module, each.name, each.local, each.scope, each.exported
    return each


def _digest(told_bytes: bytes, size: int) -> bytes:
    return blake2b(told_bytes, digest_size=size).digest()
