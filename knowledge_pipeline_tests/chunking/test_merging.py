"""Small neighbours join, by the sizes of the groups alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.chunking.pack import GroupJoiner, PieceGroup

LEAST, MOST = 4, 12


def merged(*sizes: int, gaps: frozenset[int] = frozenset()) -> list[int]:
    """The sizes after merging groups of these, a token a character; before some of them is a gap."""
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    groups = [
        PieceGroup(end - size, end, None, after_gap=at in gaps)
        for at, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]
    found = GroupJoiner("", LEAST, MOST, lambda start, end: end - start).merge_siblings(groups)
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


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=12),
    gaps=st.frozensets(st.integers(1, 11)),
    line=st.integers(2, 20),
)
def test_joining_scraps_loses_nothing_and_keeps_the_limit_and_gaps(
    sizes: list[int], gaps: frozenset[int], line: int
):
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    text = "".join("\n" if at % line == line - 1 else "x" for at in range(ends[-1]))
    groups = [
        PieceGroup(end - size, end, None, after_gap=at in gaps)
        for at, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]
    found = GroupJoiner(text, 40, 64, lambda start, end: end - start).join_scraps(groups)
    assert [found[0].start_char, found[-1].end_char] == [0, ends[-1]]
    assert all(first.end_char == second.start_char for first, second in pairwise(found))
    assert all(each.end_char - each.start_char <= 64 for each in found)
    starts = {each.start_char for each in found if each.after_gap}
    assert starts == {ends[at] - size for at, size in enumerate(sizes) if at in gaps}
    for first, second in pairwise(found):
        pair = [each.end_char - each.start_char for each in (first, second)]
        assert second.after_gap or min(pair) >= 32 or sum(pair) > 64
