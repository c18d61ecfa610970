"""A project as the resolution of one file sees it: records each question about other files with its answer.

A file must be resolved again only if its own facts changed, or the answer to one of its
questions did: verifying traces, as in Mokhov, Mitchell and Peyton Jones, "Build Systems à la
Carte", ICFP 2018, section 4.2.2. A trace keeps a hash of three bytes for each key that was looked up in
another file, so that it stays small. Two keys with one hash count as one: a file may be resolved again
for nothing, but never kept when it should be resolved.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from knowledge_pipeline.code_graph.extraction import build_interface
from knowledge_pipeline.code_graph.facts import FileFacts, split_head
from knowledge_pipeline.code_graph.file_index import EXPORT_LIST, FileIndex, ScopedName, build_index
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.registry import get_language
from knowledge_pipeline.code_graph.project import Layout, ProjectFiles

Asked = str | tuple[str, int]
"""A question (see `Trace`), or a look-up in another file: its path, and the hash of the key.

With `CYCLES` as the path, a question of an `EvaluationCache` that depends on itself, or on one that does: its
answer depends on what was asked before.
"""

WHOLE_FILE = 0  # the hash of what every look-up in a file depends on

CYCLES = ""

_MAX_HASH = 0xFFFFFF

Result = TypeVar("Result")


class LookupLog:
    """What was asked about other files since `mask` was last set to 0.

    Each thing that can be asked has a bit, and a set of them is a whole number: a cached answer hands on
    what was asked for it at the cost of one addition.
    """

    def __init__(self) -> None:
        self.mask = 0
        self.is_cut_short = False  # whether a limit of depth or work was met: then the order of uses counts
        self.asked: list[Asked] = []  # by the place of their bit
        self.asked_without_bit: dict[Asked, None] = {}  # beyond `_MAX_BITS`: any use may have asked it
        self._bits: dict[Asked, int] = {}
        self.cycle_bit = self.get_bit((CYCLES, WHOLE_FILE))  # of any cycle

    def get_bit(self, lookup: Asked) -> int:
        """The bit that stands for something that can be asked."""
        bit = self._bits.get(lookup)
        if bit is None and len(self.asked) < _MAX_BITS:
            bit = self._bits[lookup] = 1 << len(self.asked)
            self.asked.append(lookup)
        if bit is None:
            self.is_cut_short = True
            self.asked_without_bit[lookup] = None
            return 0
        return bit

    def note_cycle(self, question: tuple[str, ...]) -> None:
        """Note a question that depends on itself, or on one that does."""
        number = 1 + zlib.crc32("\t".join(question).encode(errors="replace")) % _MAX_HASH
        self.mask |= self.cycle_bit | self.get_bit((CYCLES, number))

    def record(self, compute: Callable[[], Result]) -> tuple[Result, int]:
        """What is computed, and what was asked for it."""
        around, self.mask = self.mask, 0
        result, mask = compute(), self.mask
        self.mask |= around
        return result, mask

    def remember(
        self, cache: dict[str, tuple[Result, int]], key: str, compute: Callable[[], Result]
    ) -> Result:
        """What is computed for a key, once; each time, all is noted that was asked for it."""
        if key not in cache:
            cache[key] = self.record(compute)
        result, mask = cache[key]
        self.mask |= mask
        return result


Value = TypeVar("Value")
Other = TypeVar("Other")
AnyKey = TypeVar("AnyKey", str, ScopedName)

AnswerDigests = Mapping[int, int]  # by the hash of a key, a digest of the answers to all keys with that hash

_TABLES = tuple(table.name for table in fields(FileIndex) if str(table.type).startswith("Mapping"))
_HASH_BYTES = 3
_NO_ITERATION = "look up other files by key"


class _KeyBits(dict["str | ScopedName", int]):
    def __init__(self, path: str, log: LookupLog) -> None:
        super().__init__()
        self._path, self._log = path, log

    def __missing__(self, key: str | ScopedName) -> int:
        bit = self[key] = self._log.get_bit((self._path, _hash_keys([key])[0]))
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
    facts = index.facts
    settings = sorted(setting for setting in facts.settings.items() if setting[0] != EXPORT_LIST)
    file = (facts.language, facts.module, settings, index.has_star_imports, index.has_export_list)
    parts: dict[int, list[str]] = {WHOLE_FILE: [repr(file)]}
    for name in _TABLES:
        table: Mapping[str | ScopedName, Any] = getattr(index, name)
        without_lines = _WITHOUT_LINES.get(name)
        for key_hash, (key, answer) in zip(_hash_keys(table), table.items(), strict=True):
            comparable = [*map(without_lines, answer)] if without_lines else answer
            parts.setdefault(key_hash, []).append(f"{name} {key!r} {comparable!r}")
    texts = {key: "\n".join(sorted(answers)).encode(errors="replace") for key, answers in parts.items()}
    return {key: int.from_bytes(blake2b(text, digest_size=8).digest(), "big") for key, text in texts.items()}


def encode_hashes(hashes: Iterable[int]) -> str:
    """The hashes of keys as a short text, without that of the file itself."""
    encoded = (key_hash.to_bytes(_HASH_BYTES, "big") for key_hash in sorted(hashes) if key_hash != WHOLE_FILE)
    return b64encode(b"".join(encoded)).decode()


def decode_hashes(text: str) -> list[int]:
    """The hashes that `encode_hashes` wrote, in their order."""
    data = b64decode(text)
    return [int.from_bytes(data[at : at + _HASH_BYTES], "big") for at in range(0, len(data), _HASH_BYTES)]


def _hash_keys(keys: Iterable[str | ScopedName]) -> list[int]:
    """The hashes of keys: each of its scope or type, and the name that its path starts with."""
    pairs = (("", key) if isinstance(key, str) else (key[0], split_head(key[1], 1)[0]) for key in keys)
    names = (f"{scope}.{name}" if scope else name for scope, name in pairs)
    return [zlib.crc32(name.encode(errors="replace")) & _MAX_HASH for name in names]


_WITHOUT_LINES: Mapping[str, Callable[[Any], object]] = {
    "imports": attrgetter("module", "name", "local", "scope", "exported"),
    "tables": tuple,
}
"""By table, what makes comparable values of the records in its answers."""


def _digest(content: bytes, size: int) -> bytes:
    return blake2b(content, digest_size=size).digest()


_MAX_CACHED_FILES = 2_000
_MAX_BITS = 16_384  # things that a file asks: each set of them takes two kilobytes then

Trace = dict[str, str]
"""Question by question, a digest of its answer. A question's parts are joined by tabs:
"modules, LANGUAGE, PATH, NAME", "siblings, LANGUAGE, PATH, NAME", "defining, NAME", "name, LANGUAGE, PATH"
for the full name of the file itself.

"interface, PATH" stands for all look-ups in another file. Its answer has three words: a digest of all that
can be looked up in that file (see `interface_digest`), a digest of the answers, and the keys. The answers
are compared only where the first digest has changed.

`CYCLES_ENTRY` and `USES` are no questions about others. The first has the hashes of the file's own questions
that depend on themselves, the second says which use asked what (see `UseLookups`)."""

CYCLES_ENTRY = "cycles"
USES = "uses"
OWN_ENTRIES = frozenset({CYCLES_ENTRY, USES})


class IndexedFile:
    """The facts of one file, with what is derived from them once it is asked for."""

    def __init__(self, facts: FileFacts) -> None:
        self.facts = facts

    @cached_property
    def own_index(self) -> FileIndex:
        """All that the file says."""
        return build_index(self.facts, get_language(self.facts.language))

    @cached_property
    def index(self) -> FileIndex:
        """What others see of it."""
        return build_interface(self.facts)

    @cached_property
    def answer_digests(self) -> AnswerDigests:
        """Digests of all that others can look up in it."""
        return digest_answers(self.index)

    @cached_property
    def interface_digest(self) -> str:
        """One digest of all that others can look up in it. Lines do not count."""
        return _digest(repr(sorted(self.answer_digests.items())).encode(), 8).hex()

    def digest_lookups(self, encoded_keys: str) -> str:
        """A digest of the answers to some keys."""
        keys = (WHOLE_FILE, *decode_hashes(encoded_keys))
        answers = (self.answer_digests.get(key_hash, 0) for key_hash in keys)
        return b64encode(_digest(b"".join(answer.to_bytes(8, "big") for answer in answers), 9)).decode()


class Project(ProjectFiles):
    """The source whose files are resolved, at one moment: an edit makes another project.

    What is derived from it is shared by all files that are resolved.
    """

    def __init__(self) -> None:
        self._files: dict[str, IndexedFile] = {}
        self._digests: Trace = {}
        self._answers: dict[str, tuple[str, ...]] = {}

    @abstractmethod
    def file(self, path: str) -> IndexedFile:
        """What a file says; asked more than once for a file, so keep some."""

    def facts(self, path: str) -> FileFacts:
        """The facts of a file alone."""
        return self.file(path).facts

    @cached_property
    def layout(self) -> Layout:
        """Its paths, and what languages have worked out of them."""
        return Layout(self)

    def answer_question(self, question: str) -> tuple[str, ...]:
        """The paths that answer a question."""
        if question not in self._answers:
            kind, *rest = question.split("\t")
            if kind == "defining":
                answer = tuple(sorted(self.files_defining(rest[0])))
            else:
                language, (_, path, name) = get_language(rest[0]), rest
                find = language.find_modules if kind == "modules" else language.find_siblings
                answer = find(name, path, self.layout)
            self._answers[question] = answer
        return self._answers[question]

    def digest_answer(self, question: str) -> str:
        """A digest of a question's answer; not of what was asked of another file."""
        if question not in self._digests:
            kind, _, rest = question.partition("\t")
            if kind == "name":
                language, path = rest.split("\t")
                exists = path in self.layout.paths
                answer = get_language(language).full_name(path, "", self.layout) if exists else ""
            else:
                lines = "\n".join(self.answer_question(question)).encode(errors="replace")
                answer = _digest(lines, 8).hex()
            self._digests[question] = answer
        return self._digests[question]

    def build_trace(self, lookups: Iterable[Asked]) -> Trace:
        """The trace of a file for which all this was asked."""
        trace, hashes_by_path = Trace(), dict[str, list[int]]()
        for lookup in lookups:
            if isinstance(lookup, tuple):
                hashes_by_path.setdefault(lookup[0], []).append(lookup[1])
            else:
                trace[lookup] = self.digest_answer(lookup)
        if cycles := hashes_by_path.pop(CYCLES, None):
            trace[CYCLES_ENTRY] = encode_hashes(cycles)
        for path, hashes in hashes_by_path.items():
            trace[f"interface\t{path}"] = self.trace_entry(path, encode_hashes(hashes))
        return trace

    def trace_entry(self, path: str, encoded_keys: str) -> str:
        """The entry of a trace for another file in which some keys were looked up."""
        other = self.foreign_file(path)
        return f"{other.interface_digest} {other.digest_lookups(encoded_keys)} {encoded_keys}"

    def renew_entry(self, question: str, answer: str, interfaces: Mapping[str, str]) -> str | None:
        """The entry that a trace would have now; None where the answer is another."""
        kind, _, path = question.partition("\t")
        if kind != "interface":
            return answer if self.digest_answer(question) == answer else None
        interface, answered, marks = answer.split(" ")
        if interfaces.get(path) == interface:
            return answer
        now = self.trace_entry(path, marks) if path in interfaces else ""
        return now if now.split(" ")[1:2] == [answered] else None

    def find_changed(
        self, trace: Trace, interfaces: Mapping[str, str], earlier_files: Mapping[str, IndexedFile]
    ) -> set[Asked]:
        """What has another answer now of all that a trace says was asked; see `resolution.Earlier`."""
        changed: set[Asked] = set()
        for question, answer in trace.items():
            if question in OWN_ENTRIES or self.renew_entry(question, answer, interfaces) is not None:
                continue
            kind, _, path = question.partition("\t")
            if kind != "interface":
                changed.add(question)
                continue
            interface, _, marks = answer.split(" ")
            due = {WHOLE_FILE, *decode_hashes(marks)}
            before = earlier_files.get(path)
            if before is not None and before.interface_digest == interface and path in interfaces:
                now = self.foreign_file(path).answer_digests
                others = {key for key in due if before.answer_digests.get(key) != now.get(key)}
                due = due if WHOLE_FILE in others else others
            changed.update((path, key) for key in due)
        return changed

    def foreign_file(self, path: str) -> IndexedFile:
        """Another file; the last two thousand are cached."""
        file = self._files.pop(path, None)
        if file is None:
            file = self.file(path)
            if len(self._files) >= _MAX_CACHED_FILES:
                del self._files[next(iter(self._files))]
        self._files[path] = file
        return file


class TracedView:
    """The project from one file: what it looks up in others goes into its trace."""

    def __init__(self, project: Project, path: str) -> None:
        self.project = project
        self.path = path
        self.log = LookupLog()
        self._files = {path: (project.file(path).own_index, 0)}  # with the bit of the file

    def index(self, path: str) -> FileIndex:
        """The index of a file: of the own one with all facts, of others with what they show."""
        entry = self._files.get(path)
        if entry is None:
            index = record_lookups(self.project.foreign_file(path).index, self.log)
            entry = self._files[path] = index, self.log.get_bit((path, WHOLE_FILE))
        self.log.mask |= entry[1]
        return entry[0]

    def find_modules(self, language: Language, path: str, name: str) -> tuple[str, ...]:
        """The files that a module's name means, as it is written in a file."""
        return self._answer(f"modules\t{language.name}\t{path}\t{name}")

    def find_siblings(self, language: Language, path: str, name: str) -> tuple[str, ...]:
        """Files that may define a name which a file sees without import."""
        return self._answer(f"siblings\t{language.name}\t{path}\t{name}")

    def files_defining(self, name: str) -> tuple[str, ...]:
        """Files with a definition of a simple name."""
        return self._answer(f"defining\t{name}")

    def full_name(self, name: str) -> str:
        """The full name of a definition of the file; it depends on the folders around it."""
        language = self._files[self.path][0].language
        self.log.mask |= self.log.get_bit(f"name\t{language.name}\t{self.path}")
        return language.full_name(self.path, name, self.project.layout)

    def _answer(self, question: str) -> tuple[str, ...]:
        self.log.mask |= self.log.get_bit(question)
        return self.project.answer_question(question)


_Bits = np.ndarray[Any, np.dtype[np.bool_]]


class UseLookups(NamedTuple):
    """What each use of a file asked, as a table of bits; uses name their row.

    A row for each set of what was asked, of which a file has few; a column for each thing that was asked, in
    the order that the trace gives them.
    """

    lookups: Sequence[Asked]  # by column
    sets: _Bits  # shape (sets, lookups)
    rows: Sequence[int]  # the set of each use

    @classmethod
    def from_masks(cls, lookups: Sequence[Asked], masks: Iterable[int]) -> UseLookups:
        """Those that a `LookupLog` noted, use by use."""
        numbers: dict[int, int] = {}
        rows = [numbers.setdefault(mask, len(numbers)) for mask in masks]
        width = (len(lookups) + 7) // 8
        packed = np.frombuffer(b"".join(mask.to_bytes(width, "little") for mask in numbers), np.uint8)
        sets = np.unpackbits(packed.reshape(-1, width), axis=1, count=len(lookups), bitorder="little")
        return cls(tuple(lookups), sets.astype(np.bool_), rows)

    @classmethod
    def from_trace(cls, trace: Trace) -> UseLookups | None:
        """Those of a trace; None where it has none, and the file must be resolved as a whole."""
        if USES not in trace:
            return None
        lookups = list(_iter_asked(trace))
        text, width = zlib.decompress(b64decode(trace[USES])), (len(lookups) + 7) // 8
        size = int.from_bytes(text[:4], "little")
        packed = np.frombuffer(text[4 : 4 + size * width], np.uint8).reshape(-1, width)
        sets = np.unpackbits(packed, axis=1, count=len(lookups)).astype(np.bool_)
        return cls(lookups, sets, np.frombuffer(text[4 + size * width :], "<u2").tolist())

    def format(self, trace: Trace) -> str:
        """The entry of a trace of which all other entries are there."""
        columns = {lookup: column for column, lookup in enumerate(_iter_asked(trace))}
        wide = np.zeros((len(self.sets), len(columns)), np.bool_)
        wide[:, [columns[lookup] for lookup in self.list_asked()]] = self.sets[:, self._used_columns()]
        numbers: dict[bytes, int] = {}
        by_set = [row.tobytes() for row in np.packbits(wide, axis=1)]
        rows = [numbers.setdefault(by_set[row], len(numbers)) for row in self.rows]
        text = len(numbers).to_bytes(4, "little") + b"".join(numbers) + np.array(rows, "<u2").tobytes()
        return b64encode(zlib.compress(text)).decode()

    def find(self, lookups: Iterable[Asked]) -> set[int]:
        """The uses that asked any of this."""
        wanted = set(lookups)
        selected: Any = self.sets[:, [lookup in wanted for lookup in self.lookups]]
        hit = selected.any(axis=1)
        return {use for use, row in enumerate(self.rows) if hit[row]}

    def find_cycles(self, uses: Iterable[int]) -> set[Asked]:
        """The questions with cycles that some uses asked."""
        rows: Any = self.sets[sorted({self.rows[use] for use in uses})]
        hits = zip(self.lookups, rows.any(axis=0), strict=True)
        return {lookup for lookup, hit in hits if hit and lookup[0] == CYCLES and lookup[1]}

    def list_asked(self) -> list[Asked]:
        """All that any use asked."""
        used = self._used_columns()
        return [lookup for lookup, is_used in zip(self.lookups, used, strict=True) if is_used]

    def _used_columns(self) -> _Bits:
        used: Any = self.sets[sorted(set(self.rows))]
        return used.any(axis=0)

    def replace(self, uses: Sequence[int], other: UseLookups) -> UseLookups:
        """The same with what others say of some uses, in their order."""
        columns = {lookup: column for column, lookup in enumerate(self.lookups)}
        lookups = [*self.lookups, *(lookup for lookup in other.lookups if lookup not in columns)]
        columns |= {lookup: column for column, lookup in enumerate(lookups)}
        sets = np.zeros((len(self.sets) + len(other.sets), len(lookups)), np.bool_)
        sets[: len(self.sets), : len(self.lookups)] = self.sets
        sets[len(self.sets) :, [columns[lookup] for lookup in other.lookups]] = other.sets
        rows = list(self.rows)
        for use, row in zip(uses, other.rows, strict=True):
            rows[use] = len(self.sets) + row
        return UseLookups(lookups, sets, rows)


def _iter_asked(trace: Trace) -> Iterator[Asked]:
    """Everything that a trace says was asked, in one order."""
    yield CYCLES, WHOLE_FILE
    for question in sorted(trace):
        kind, _, path = question.partition("\t")
        if kind == "interface":
            marks = trace[question].split(" ")[2]
            yield path, WHOLE_FILE
            yield from ((path, key_hash) for key_hash in decode_hashes(marks))
        elif question == CYCLES_ENTRY:
            yield from ((CYCLES, key_hash) for key_hash in decode_hashes(trace[question]))
        elif question != USES:
            yield question
