"""Takes new rows into a table's indexes, at a cost that follows the rows and not the table.

An index is made of segments, each over some fragments. New rows become a segment of their own, which absorbs
those before it as soon as they hold no more than a few times as many rows. A row is thus written into a
segment a few times in its life, and a search reads a handful of segments, whatever the table's size.

A segment with a graph of vectors is expensive: absorbing it, or rewriting one of its fragments, builds the
whole graph anew (a minute for 100,000 rows). A refresh leaves large ones alone; maintenance does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

MERGE_RATIO = 4  # newer rows absorb a segment, or a fragment, of at most so many times their number
SETTLED_MIN_ROWS = 1_000  # of a fragment; fewer are soon written again
SETTLED_MAX_DELETED_SHARE = 0.1  # of more, its file holds too much that is gone
EXPENSIVE_GRAPH_ROWS = 20_000  # a graph of so many vectors takes 10 to 20 s to build
MAX_GRAPH_SEGMENTS = 8  # a search reads them one after the other; maintenance unites more


def plan_merges(
    dataset: Any, *, merge_graphs: bool = False, with_graphs: bool = True
) -> Mapping[int, list[str]]:
    """How the indexes take in the rows that they lack, in one commit each.

    By how many of their newest segments are united with the new rows, the names of indexes. With
    `merge_graphs` all large graphs of vectors are united, where they are many.
    """
    rows = _rows_by_fragment(dataset)
    names_by_count: defaultdict[int, list[str]] = defaultdict(list)
    for index in dataset.describe_indices():
        fragments = [rows.keys() & set(segment.fragment_ids) for segment in index.segments]
        tail = _count_rows(rows, rows.keys() - set(chain.from_iterable(fragments)))
        sizes, is_graph = [_count_rows(rows, ids) for ids in fragments], _is_vector_graph(index)
        if is_graph and not with_graphs:
            continue
        if merge_graphs and is_graph and len(sizes) > MAX_GRAPH_SEGMENTS:
            names_by_count[len(sizes)].append(index.name)
        elif tail:
            max_rows = EXPENSIVE_GRAPH_ROWS if is_graph else None
            names_by_count[count_merged_segments(sizes, tail, max_rows=max_rows)].append(index.name)
    return names_by_count


def list_fragments_beyond(dataset: Any, column: str) -> list[Any]:
    """Lance's fragments that no index of a column has taken in."""
    indexes = [index for index in dataset.describe_indices() if index.field_names == [column]]
    segments = [segment for index in indexes for segment in index.segments]
    indexed = {fragment for segment in segments for fragment in segment.fragment_ids}
    return [fragment for fragment in dataset.get_fragments() if fragment.fragment_id not in indexed]


def count_rows_beyond(dataset: Any, column: str) -> int:
    """How many rows no index of a column has taken in; Lance's statistics look into the indexes for it."""
    fragments = list_fragments_beyond(dataset, column)
    return sum(fragment.physical_rows - fragment.num_deletions for fragment in fragments)


def has_many_graphs(dataset: Any) -> bool:
    """Whether a search reads so many graphs of vectors that uniting them pays."""
    return any(
        _is_vector_graph(index) and len(index.segments) > MAX_GRAPH_SEGMENTS
        for index in dataset.describe_indices()
    )


def count_merged_segments(sizes: Sequence[int], new_rows: int, *, max_rows: int | None = None) -> int:
    """How many of the newest segments, by the rows of each, oldest first, are united with new rows.

    A segment of more than `max_rows` is left alone.
    """
    count = 0
    for rows in reversed(sizes):
        if rows > MERGE_RATIO * new_rows or (max_rows is not None and rows > max_rows):
            break
        new_rows += rows
        count += 1
    return count


def expensive_fragments(dataset: Any) -> list[int]:
    """Fragments of large graphs of vectors: rewriting one builds its whole graph anew."""
    rows = _rows_by_fragment(dataset)
    graphs = filter(_is_vector_graph, dataset.describe_indices())
    fragments = [rows.keys() & set(segment.fragment_ids) for index in graphs for segment in index.segments]
    expensive = (ids for ids in fragments if _count_rows(rows, ids) > EXPENSIVE_GRAPH_ROWS)
    return sorted(set(chain.from_iterable(expensive)))


def settled_fragments(dataset: Any) -> list[int]:
    """Fragments that a compaction leaves alone: they hold many times the rows of all smaller ones."""
    settled, smaller = list[int](), 0
    for fragment in sorted(dataset.get_fragments(), key=lambda listed: listed.physical_rows):
        rows = fragment.physical_rows
        is_large = rows >= SETTLED_MIN_ROWS and rows > MERGE_RATIO * smaller
        if is_large and fragment.num_deletions <= SETTLED_MAX_DELETED_SHARE * rows:
            settled.append(fragment.fragment_id)
        smaller += rows
    return settled


def _is_vector_graph(index: Any) -> bool:
    return "HNSW" in index.index_type


def _rows_by_fragment(dataset: Any) -> dict[int, int]:
    """Rows of each fragment, deleted ones included: no file is opened."""
    return {fragment.fragment_id: fragment.physical_rows for fragment in dataset.get_fragments()}


def _count_rows(rows: dict[int, int], fragments: Iterable[int]) -> int:
    return sum(rows[fragment] for fragment in fragments)
