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
from knowledge_pipeline.code_graph.lookup_log import WHOLE_FILE, LookupLog

Value = TypeVar("Value")
Other = TypeVar("Other")
AnyKey = TypeVar("AnyKey", str, ScopedName)

AnswerDigests = Mapping[int, int]
"""By the hash of a key, a digest of the answers to all keys with that hash."""

_TABLES = tuple(each.name for each in fields(FileIndex) if str(each.type).startswith("Mapping"))
_HASH_BYTES = 3
_NO_ITERATION = "look up other files by key"


class _KeyBits(dict["str | ScopedName", int]):
    """The bits of the keys of a file."""

    def __init__(self, path: str, log: LookupLog) -> None:
        super().__init__()
        self._path, self._log = path, log

    def __missing__(self, key: str | ScopedName) -> int:
        bit = self[key] = self._log.get_bit((self._path, _hash_key(key)))
        return bit


class _RecordingMapping(Mapping[AnyKey, Value]):
    """A table that records the keys that are looked up in it, and cannot be iterated over."""

    __slots__ = ("_bits", "_log", "_mapping")

    def __init__(self, mapping: Mapping[AnyKey, Value], log: LookupLog, bits: _KeyBits) -> None:
        self._mapping, self._log, self._bits = mapping, log, bits

    def __getitem__(self, key: AnyKey) -> Value:
        self._log.mask |= self._bits[key]
        return self._mapping[key]

    def __contains__(self, key: object) -> bool:
        self._log.mask |= self._bits[key]  # pyright: ignore[reportArgumentType]
        return key in self._mapping

    @overload
    def get(self, key: AnyKey, /) -> Value | None: ...
    @overload
    def get(self, key: AnyKey, /, default: Value | Other) -> Value | Other: ...
    def get(self, key: AnyKey, /, default: Any = None) -> Any:
        """Looks a key up, and records it whether there is an answer or not."""
        self._log.mask |= self._bits[key]
        return self._mapping.get(key, default)

    def __iter__(self) -> Any:
        raise TypeError(_NO_ITERATION)

    def __len__(self) -> int:
        raise TypeError(_NO_ITERATION)


def record_lookups(index: FileIndex, log: LookupLog) -> FileIndex:
    """The same index, which notes the keys that are looked up in it."""
    bits = _KeyBits(index.facts.path, log)
    tables: dict[str, Any] = {name: _RecordingMapping(getattr(index, name), log, bits) for name in _TABLES}
    return replace(index, **tables)


def digest_answers(index: FileIndex) -> AnswerDigests:
    """Digests of all answers of a file; lines, and the order of different keys, do not count."""
    parts: dict[int, list[str]] = {WHOLE_FILE: [_file_properties(index)]}
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


def encode_hashes(hashes: Iterable[int]) -> str:
    """The hashes of keys as a short text, without that of the file itself."""
    held = (each.to_bytes(_HASH_BYTES, "big") for each in sorted(hashes) if each != WHOLE_FILE)
    return b64encode(b"".join(held)).decode()


def decode_hashes(text: str) -> list[int]:
    """The hashes that `encode_hashes` wrote, in their order."""
    held = b64decode(text)
    return [int.from_bytes(held[at : at + _HASH_BYTES], "big") for at in range(0, len(held), _HASH_BYTES)]


def digest_lookups(digests: AnswerDigests, encoded_keys: str) -> str:
    """A digest of the answers to some keys."""
    found = [digests.get(each, 0) for each in (WHOLE_FILE, *decode_hashes(encoded_keys))]
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
