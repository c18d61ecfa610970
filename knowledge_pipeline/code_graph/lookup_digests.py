"""Records which keys are looked up in other files, and compares the answers by their digests.

A trace keeps a hash of three bytes for each key, so that it stays small. Two keys with one hash count as one:
a file may be resolved again for nothing, but never kept when it should be resolved.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from typing import Any, TypeVar, cast, overload
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
"""By the hash of a key, a digest of the answers to all keys with that hash."""

_TABLES = tuple(each.name for each in fields(FileIndex) if str(each.type).startswith("Mapping"))
_HASH_BYTES = 3
_NO_ITERATION = "look up other files by key"
_FILE_HASH = 0  # the hash of what every look-up depends on


class _RecordingMapping(Mapping[AnyKey, Value]):
    """A table that records the keys that are looked up in it, and cannot be iterated over."""

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
        """Looks a key up, and records it whether there is an answer or not."""
        self._recorded.add(key)
        return self._mapping.get(key, default)

    def __iter__(self) -> Any:
        raise TypeError(_NO_ITERATION)

    def __len__(self) -> int:
        raise TypeError(_NO_ITERATION)


def record_lookups(index: FileIndex, recorded: LookupKeys) -> FileIndex:
    """The same index, which adds the keys that are looked up in it to `recorded`."""
    tables: dict[str, Any] = {name: _RecordingMapping(getattr(index, name), recorded) for name in _TABLES}
    return replace(index, **tables)


def digest_answers(index: FileIndex) -> AnswerDigests:
    """Digests of all answers of a file; lines, and the order of different keys, do not count."""
    parts: dict[int, list[str]] = {_FILE_HASH: [_file_properties(index)]}
    for name in _TABLES:
        table: Mapping[str | ScopedName, Any] = getattr(index, name)
        for key, answer in table.items():
            comparable = (
                list(map(_to_comparable, cast(list[Any], answer))) if isinstance(answer, list) else answer
            )
            parts.setdefault(_hash_key(key), []).append(f"{name} {key!r} {comparable!r}")
    texts = {key: "\n".join(sorted(each)).encode(errors="replace") for key, each in parts.items()}
    return {key: int.from_bytes(_digest(text, 8), "big") for key, text in texts.items()}


def digest_interface(digests: AnswerDigests) -> str:
    """A digest of all answers of a file."""
    return _digest(repr(sorted(digests.items())).encode(), 8).hex()


def encode_lookup_keys(keys: Iterable[str | ScopedName]) -> str:
    """Keys as a short text of their hashes."""
    hashes = sorted({_hash_key(key) for key in keys})
    return b64encode(b"".join(each.to_bytes(_HASH_BYTES, "big") for each in hashes)).decode()


def digest_lookups(digests: AnswerDigests, encoded_keys: str) -> str:
    """A digest of the answers to some keys."""
    held = b64decode(encoded_keys)
    hashes = (int.from_bytes(held[at : at + _HASH_BYTES], "big") for at in range(0, len(held), _HASH_BYTES))
    found = [digests.get(each, 0) for each in (_FILE_HASH, *hashes)]
    return b64encode(_digest(b"".join(each.to_bytes(8, "big") for each in found), 9)).decode()


def _hash_key(key: str | ScopedName) -> int:
    """The hash of a key: of its scope or type, and the name that its path starts with."""
    if not isinstance(key, str):
        scope, path = key
        key = f"{scope}.{first_segment(path)}" if scope else first_segment(path)
    return crc32(key.encode(errors="replace")) & 0xFFFFFF


def _file_properties(index: FileIndex) -> str:
    facts = index.facts
    settings = sorted(each for each in facts.settings.items() if each[0] != EXPORT_LIST)
    return repr((facts.language, facts.module, settings, index.has_star_imports, index.has_export_list))


def _to_comparable(item: Any) -> Any:
    if isinstance(item, Binding):
        return item.scope, item.path, item.value, item.declared
    if isinstance(item, Import):
        return item.module, item.name, item.local, item.scope, item.exported
    return item


def _digest(content: bytes, size: int) -> bytes:
    return blake2b(content, digest_size=size).digest()
