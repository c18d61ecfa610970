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

MERGE_RATIO = 4  # a segment is taken in by newer ones that hold at least this part of its rows
EXPENSIVE_GRAPH_ROWS = 20_000  # of a graph of vectors: so many take 10 to 20 s to be made
MAX_GRAPH_SEGMENTS = 8  # large graphs that a search asks one after the other; maintenance makes one of more


class SegmentMerge(NamedTuple):
    """Indexes, and how many of their newest segments become one with the new rows."""

    index_names: list[str]
    segment_count: int


def plan_merges(dataset: Any, *, merge_graphs: bool = False) -> Iterator[SegmentMerge]:
    """How the rows that no index holds yet are taken in: a commit for each.

    Args:
        dataset: of Lance, at the newest version.
        thorough: make one of all large graphs of vectors, where they are many.
    """
    rows = _rows_by_fragment(dataset)
    alike: defaultdict[int, list[str]] = defaultdict(list)
    for index in dataset.describe_indices():
        held = [rows.keys() & set(segment.fragment_ids) for segment in index.segments]
        tail = _count_rows(rows, rows.keys() - set(chain.from_iterable(held)))
        sizes, is_dear = [_count_rows(rows, each) for each in held], _is_vector_graph(index)
        if merge_graphs and is_dear and len(sizes) > MAX_GRAPH_SEGMENTS:
            alike[len(sizes)].append(index.name)
        elif tail:
            alike[
                count_merged_segments(sizes, tail, max_rows=EXPENSIVE_GRAPH_ROWS if is_dear else None)
            ].append(index.name)
    return (SegmentMerge(names, segments) for segments, names in alike.items())


def has_many_graphs(dataset: Any) -> bool:
    """Whether a search asks so many graphs of vectors that making one of them pays."""
    return any(
        _is_vector_graph(index) and len(index.segments) > MAX_GRAPH_SEGMENTS
        for index in dataset.describe_indices()
    )


def count_merged_segments(sizes: Sequence[int], new_rows: int, *, max_rows: int | None = None) -> int:
    """How many of the newest segments become one with new rows.

    Args:
        sizes: rows in each segment, the oldest first.
        tail: how many rows are new.
        most_rows: a segment of more is left alone.
    """
    count = 0
    for rows in reversed(sizes):
        if rows > MERGE_RATIO * new_rows or (max_rows is not None and rows > max_rows):
            break
        new_rows += rows
        count += 1
    return count


def expensive_fragments(dataset: Any) -> list[int]:
    """Fragments of large graphs of vectors: rewriting one makes its whole graph anew."""
    rows = _rows_by_fragment(dataset)
    graphs = filter(_is_vector_graph, dataset.describe_indices())
    held = (rows.keys() & set(segment.fragment_ids) for index in graphs for segment in index.segments)
    return sorted(
        {
            each
            for fragments in held
            if _count_rows(rows, fragments) > EXPENSIVE_GRAPH_ROWS
            for each in fragments
        }
    )


def _is_vector_graph(index: Any) -> bool:
    return "HNSW" in index.index_type


def _rows_by_fragment(dataset: Any) -> dict[int, int]:
    """By fragment, with those that were deleted: no file is opened."""
    return {each.fragment_id: each.physical_rows for each in dataset.get_fragments()}


def _count_rows(rows: dict[int, int], fragments: Iterable[int]) -> int:
    return sum(rows[each] for each in fragments)
