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

from knowledge_pipeline.code_graph.access_paths import first_segment
from knowledge_pipeline.code_graph.facts import Binding, Import
from knowledge_pipeline.code_graph.file_index import FileIndex, ScopedName
from knowledge_pipeline.code_graph.index_builder import EXPORT_LIST

Value = TypeVar("Value")
Other = TypeVar("Other")
AnyKey = TypeVar("AnyKey", str, ScopedName)

LookupKeys = set[str | ScopedName]
"""Keys that were looked up in the tables of a file."""

AnswerDigests = Mapping[int, int]
"""All that a file tells: by mark, a digest of the answers to all its keys."""

_TABLES = tuple(each.name for each in fields(FileIndex) if str(each.type).startswith("Mapping"))
_HASH_BYTES = 3
_FILE_HASH = 0  # the mark of what every question depends on


class _RecordingMapping(Mapping[AnyKey, Value]):
    """A table of which it is noted what is looked up. It cannot be gone through."""

    __slots__ = ("_mapping", "_recorded")

    def __init__(self, mapping: Mapping[AnyKey, Value], recorded: LookupKeys) -> None:
        self._mapping, self._recorded = mapping, recorded

    def __getitem__(self, key: AnyKey) -> Value:
        self._recorded.add(key)
        return self._mapping[key]

    def __contains__(self, key: object) -> bool:
        self._recorded.add(key)  # pyright: ignore[reportArgumentType]
        return key in self._mapping

    @overload
    def get(self, key: AnyKey, /) -> Value | None: ...
    @overload
    def get(self, key: AnyKey, /, default: Value | Other) -> Value | Other: ...
    def get(self, key: AnyKey, /, default: Any = None) -> Any:
        """A look-up, which is noted whether there is an answer or not."""
        self._recorded.add(key)
        return self._mapping.get(key, default)

    def __iter__(self) -> Any:
        raise TypeError("other files are asked by key")

    def __len__(self) -> int:
        raise TypeError("other files are asked by key")


def record_lookups(index: FileIndex, recorded: LookupKeys) -> FileIndex:
    """The same index, that adds to `asked` what is looked up in it."""
    tables: dict[str, Any] = {name: _RecordingMapping(getattr(index, name), recorded) for name in _TABLES}
    return replace(index, **tables)


def digest_answers(index: FileIndex) -> AnswerDigests:
    """All that a file tells; lines, and the order of what has different keys, do not count."""
    parts: dict[int, list[str]] = {_FILE_HASH: [_file_properties(index)]}
    for name in _TABLES:
        table: Mapping[str | ScopedName, Any] = getattr(index, name)
        for key, answer in table.items():
            parts.setdefault(_hash_key(key), []).append(f"{name} {key!r} {_to_comparable(answer)!r}")
    texts = {mark: "\n".join(sorted(each)).encode(errors="replace") for mark, each in parts.items()}
    return {mark: int.from_bytes(_digest(text, 8), "big") for mark, text in texts.items()}


def digest_interface(digests: AnswerDigests) -> str:
    """A digest of all that a file tells."""
    return _digest(repr(sorted(digests.items())).encode(), 8).hex()


def encode_lookup_keys(keys: Iterable[str | ScopedName]) -> str:
    """What was asked, as a short text."""
    marks = sorted({_hash_key(key) for key in keys})
    return b64encode(b"".join(mark.to_bytes(_HASH_BYTES, "big") for mark in marks)).decode()


def digest_lookups(digests: AnswerDigests, encoded_keys: str) -> str:
    """A digest of the answers to what was asked."""
    read = b64decode(encoded_keys)
    asked = (int.from_bytes(read[at : at + _HASH_BYTES], "big") for at in range(0, len(read), _HASH_BYTES))
    found = [digests.get(mark, 0) for mark in (_FILE_HASH, *asked)]
    return b64encode(_digest(b"".join(each.to_bytes(8, "big") for each in found), 9)).decode()


def _hash_key(key: str | ScopedName) -> int:
    """A look-up by the name that it starts with, in the table of a scope or type."""
    if not isinstance(key, str):
        scope, path = key
        key = f"{scope}.{first_segment(path)}" if scope else first_segment(path)
    return crc32(key.encode(errors="replace")) & 0xFFFFFF


def _file_properties(index: FileIndex) -> str:
    facts = index.facts
    settings = sorted(each for each in facts.settings.items() if each[0] != EXPORT_LIST)
    return repr((facts.language, facts.module, settings, index.has_star_imports, index.has_export_list))


def _to_comparable(answer: Any) -> Any:
    return [_to_comparable_item(each) for each in answer] if isinstance(answer, list) else answer  # pyright: ignore


def _to_comparable_item(item: Any) -> Any:
    if isinstance(item, Binding):
        return item.scope, item.path, item.value, item.declared
    if isinstance(item, Import):
        return item.module, item.name, item.local, item.scope, item.exported
    return item


def _digest(content: bytes, size: int) -> bytes:
    return blake2b(content, digest_size=size).digest()
