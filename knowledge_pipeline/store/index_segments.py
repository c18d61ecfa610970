"""Taking new rows into a table's indexes, at a cost that follows the rows and not the table.

An index is made of segments, each over some fragments. New rows become a segment of their own, which takes in
those before it as soon as they hold no more than a few times as many rows. So a row is written into a segment
a few times in its life, and a search asks a handful of segments, whatever the table's size.

A segment with a graph of vectors is dear: taking it in, or rewriting one of its fragments, makes the whole
graph anew (a minute for 100,000 rows). A refresh leaves a large one alone; maintenance does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

GROWTH = 4  # a segment is taken in by newer ones that hold at least this part of its rows
DEAR_ROWS = 20_000  # of a graph of vectors: so many take 10 to 20 s to be made
FEW = 8  # large graphs that a search asks one after the other; maintenance makes one of more


class Merge(NamedTuple):
    """Indexes, and how many of their newest segments become one with the new rows."""

    names: list[str]
    segments: int


def merges(dataset: Any, *, thorough: bool = False) -> Iterator[Merge]:
    """How the rows that no index holds yet are taken in: a commit for each.

    Args:
        dataset: of Lance, at the newest version.
        thorough: make one of all large graphs of vectors, where they are many.
    """
    rows = _rows(dataset)
    alike: defaultdict[int, list[str]] = defaultdict(list)
    for index in dataset.describe_indices():
        held = [rows.keys() & set(segment.fragment_ids) for segment in index.segments]
        tail = _sum(rows, rows.keys() - set(chain.from_iterable(held)))
        sizes, is_dear = [_sum(rows, each) for each in held], _is_graph(index)
        if thorough and is_dear and len(sizes) > FEW:
            alike[len(sizes)].append(index.name)
        elif tail:
            alike[merged(sizes, tail, most_rows=DEAR_ROWS if is_dear else None)].append(index.name)
    return (Merge(names, segments) for segments, names in alike.items())


def many_graphs(dataset: Any) -> bool:
    """Whether a search asks so many graphs of vectors that making one of them pays."""
    return any(_is_graph(index) and len(index.segments) > FEW for index in dataset.describe_indices())


def merged(sizes: Sequence[int], tail: int, *, most_rows: int | None = None) -> int:
    """How many of the newest segments become one with new rows.

    Args:
        sizes: rows in each segment, the oldest first.
        tail: how many rows are new.
        most_rows: a segment of more is left alone.
    """
    count = 0
    for rows in reversed(sizes):
        if rows > GROWTH * tail or (most_rows is not None and rows > most_rows):
            break
        tail += rows
        count += 1
    return count


def dear_fragments(dataset: Any) -> list[int]:
    """Fragments of large graphs of vectors: rewriting one makes its whole graph anew."""
    rows = _rows(dataset)
    graphs = filter(_is_graph, dataset.describe_indices())
    held = (rows.keys() & set(segment.fragment_ids) for index in graphs for segment in index.segments)
    return sorted({each for fragments in held if _sum(rows, fragments) > DEAR_ROWS for each in fragments})


def _is_graph(index: Any) -> bool:
    return "HNSW" in index.index_type


def _rows(dataset: Any) -> dict[int, int]:
    """By fragment, with those that were deleted: no file is opened."""
    return {each.fragment_id: each.physical_rows for each in dataset.get_fragments()}


def _sum(rows: dict[int, int], fragments: Iterable[int]) -> int:
    return sum(rows[each] for each in fragments)
