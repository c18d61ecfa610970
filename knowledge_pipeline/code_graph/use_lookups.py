"""Which use of a file asked what about other files, as its trace keeps it.

A table of bits: a row for each set of what was asked, of which a file has few, and a column for each thing
that was asked, in the order that the trace gives them. Uses name their row.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from knowledge_pipeline.code_graph.lookup_digests import decode_hashes
from knowledge_pipeline.code_graph.lookup_log import CYCLES, WHOLE_FILE, Asked
from knowledge_pipeline.code_graph.traced_view import CYCLES_ENTRY, USES, Trace

_Bits = np.ndarray[Any, np.dtype[np.bool_]]


class UseLookups(NamedTuple):
    """What each use asked."""

    asked: Sequence[Asked]  # by column
    sets: _Bits  # shape (sets, asked)
    rows: Sequence[int]  # the set of each use

    @classmethod
    def from_masks(cls, asked: Sequence[Asked], masks: Iterable[int]) -> UseLookups:
        """Those that a `LookupLog` noted, use by use."""
        numbers: dict[int, int] = {}
        rows = [numbers.setdefault(mask, len(numbers)) for mask in masks]
        width = (len(asked) + 7) // 8
        packed = np.frombuffer(b"".join(mask.to_bytes(width, "little") for mask in numbers), np.uint8)
        sets = np.unpackbits(packed.reshape(-1, width), axis=1, count=len(asked), bitorder="little")
        return cls(tuple(asked), sets.astype(np.bool_), rows)

    @classmethod
    def from_trace(cls, trace: Trace) -> UseLookups | None:
        """Those of a trace; None where it has none, and the file must be resolved as a whole."""
        if USES not in trace:
            return None
        asked = list(_iter_asked(trace))
        text, width = zlib.decompress(b64decode(trace[USES])), (len(asked) + 7) // 8
        size = int.from_bytes(text[:4], "little")
        packed = np.frombuffer(text[4 : 4 + size * width], np.uint8).reshape(-1, width)
        sets = np.unpackbits(packed, axis=1, count=len(asked)).astype(np.bool_)
        return cls(asked, sets, np.frombuffer(text[4 + size * width :], "<u2").tolist())

    def format(self, trace: Trace) -> str:
        """The entry of a trace of which all other entries are there."""
        columns = {each: place for place, each in enumerate(_iter_asked(trace))}
        wide = np.zeros((len(self.sets), len(columns)), np.bool_)
        used = self._used_columns()
        places = [columns[each] for each, is_used in zip(self.asked, used, strict=True) if is_used]
        wide[:, places] = self.sets[:, used]
        packed = np.packbits(wide, axis=1)
        numbers: dict[bytes, int] = {}
        by_set = [each.tobytes() for each in packed]
        rows = [numbers.setdefault(by_set[row], len(numbers)) for row in self.rows]
        text = len(numbers).to_bytes(4, "little") + b"".join(numbers) + np.array(rows, "<u2").tobytes()
        return b64encode(zlib.compress(text)).decode()

    def find(self, asked: Iterable[Asked]) -> set[int]:
        """The uses that asked any of this."""
        wanted = set(asked)
        columns = [place for place, each in enumerate(self.asked) if each in wanted]
        found: Any = self.sets[:, columns]
        hit = found.any(axis=1)
        return {use for use, row in enumerate(self.rows) if hit[row]}

    def find_cycles(self, uses: Iterable[int]) -> set[Asked]:
        """The questions with cycles that some uses asked."""
        columns = [place for place, each in enumerate(self.asked) if each[0:1] == (CYCLES,) and each[1]]
        if not columns:
            return set()
        rows: Any = self.sets[sorted({self.rows[use] for use in uses})]
        hits = rows[:, columns].any(axis=0)
        return {self.asked[place] for place, hit in zip(columns, hits, strict=True) if hit}

    def list_asked(self) -> list[Asked]:
        """All that any use asked."""
        used = self._used_columns()
        return [each for each, is_used in zip(self.asked, used, strict=True) if is_used]

    def _used_columns(self) -> _Bits:
        used: Any = self.sets[sorted(set(self.rows))]
        return used.any(axis=0)

    def replace(self, uses: Sequence[int], other: UseLookups) -> UseLookups:
        """The same with what others say of some uses, in their order."""
        columns = {each: place for place, each in enumerate(self.asked)}
        asked = [*self.asked, *(each for each in other.asked if each not in columns)]
        columns |= {each: place for place, each in enumerate(asked)}
        sets = np.zeros((len(self.sets) + len(other.sets), len(asked)), np.bool_)
        sets[: len(self.sets), : len(self.asked)] = self.sets
        sets[len(self.sets) :, [columns[each] for each in other.asked]] = other.sets
        rows = list(self.rows)
        for use, row in zip(uses, other.rows, strict=True):
            rows[use] = len(self.sets) + row
        return UseLookups(asked, sets, rows)


def _iter_asked(trace: Trace) -> Iterator[Asked]:
    """Everything that a trace says was asked, in one order."""
    yield CYCLES, WHOLE_FILE
    for question in sorted(trace):
        kind, _, path = question.partition("\t")
        if kind == "interface":
            marks = trace[question].split(" ")[2]
            yield path, WHOLE_FILE
            yield from ((path, each) for each in decode_hashes(marks))
        elif question == CYCLES_ENTRY:
            yield from ((CYCLES, each) for each in decode_hashes(trace[question]))
        elif question != USES:
            yield question
