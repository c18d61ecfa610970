"""Small neighbours join, by the sizes of the groups alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.chunking.merging import PieceGroup, merge_small_groups

LEAST, MOST = 4, 12


def merged(*sizes: int, gaps: frozenset[int] = frozenset()) -> list[int]:
    """The sizes after merging groups of these, a token a character; before some of them is a gap."""
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    groups = [
        PieceGroup(end - size, end, None, after_gap=at in gaps)
        for at, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]
    found = merge_small_groups(
        groups, min_tokens=LEAST, max_tokens=MOST, count_tokens=lambda start, end: end - start
    )
    return [each.end_char - each.start_char for each in found]


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ((1, 2, 9), (12,)),  # with each other first
        ((9, 2, 5), (9, 7)),  # then with the smaller neighbour
        ((5, 2, 9), (7, 9)),
        ((5, 5), (5, 5)),  # what is large enough stays
        ((3, 10), (3, 10)),  # and so does what would be too large
        ((9, 9, 3), (9, 12)),  # the last one too
        ((5, 3), (8,)),
    ],
)
def test_a_small_group_joins_the_smaller_of_its_neighbours(sizes: tuple[int, ...], found: tuple[int, ...]):
    assert merged(*sizes) == [*found]


def test_nothing_is_joined_over_a_gap():
    assert merged(2, 2, 5, gaps=frozenset({1})) == [2, 7]


@given(st.lists(st.integers(1, MOST), max_size=12))
def test_a_small_group_is_left_only_where_no_neighbour_has_room(sizes: list[int]):
    found = merged(*sizes)
    assert sum(found) == sum(sizes)
    assert all(min(pair) >= LEAST or sum(pair) > MOST for pair in pairwise(found))
