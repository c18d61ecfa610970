"""Graded targets are counted once, by lines, commits and documents."""

from __future__ import annotations

from math import log2

import pytest

from benchmarks.mixed_measure import (
    Place,
    Success,
    Target,
    compute_auroc,
    compute_ndcg,
    judge_success,
    parse_questions,
)

LINES = Target(Place("a.py", 10, 20), 2)
PAGE = Target(Place("wiki/ci"), 1)


@pytest.mark.parametrize(
    ("first_line", "last_line", "hit"), [(1, 9, False), (1, 10, True), (20, 30, True), (21, 30, False)]
)
def test_lines_are_hit_where_one_of_them_is_shown(first_line, last_line, hit):
    assert LINES.is_hit_by(Place("a.py", first_line, last_line)) is hit
    assert not LINES.is_hit_by(Place("b.py", first_line, last_line))


def test_a_target_without_a_last_line_reaches_to_the_end():
    assert Target(Place("a.py", 5), 1).is_hit_by(Place("a.py", 900, 901))
    assert PAGE.is_hit_by(Place("wiki/ci"))


def test_questions_are_read_with_targets_of_each_form():
    targets = [
        {"path": "a.py", "start": 3, "end": 4, "grade": 2},
        {"commit": "abc", "grade": 1},
        {"document": "HTTPX-1", "grade": 2},
    ]
    line = (
        f'{{"id": "q", "kind": "who", "question": "x?", "targets": {str(targets).replace(chr(39), chr(34))}}}'
    )
    (question,) = parse_questions([line, ""])
    assert question.targets == (
        Target(Place("a.py", 3, 4), 2),
        Target(Place("commit/abc"), 1),
        Target(Place("HTTPX-1"), 2),
    )
    with pytest.raises(KeyError, match="targets"):
        parse_questions(['{"id": "q", "kind": "who", "question": "x?"}'])


def test_a_target_counts_once_at_the_first_result_that_hits_it():
    twice = [Place("c.py"), Place("a.py", 1, 10), Place("a.py", 11, 12), Place("wiki/ci")]
    gain = 2 / log2(3) + 1 / log2(5)
    assert compute_ndcg([LINES, PAGE], twice) == pytest.approx(gain / (2 + 1 / log2(3)))
    assert compute_ndcg([PAGE, LINES], [Place("a.py", 10, 10), Place("wiki/ci")]) == pytest.approx(1)
    assert compute_ndcg([LINES], []) == 0


def test_a_result_that_hits_several_targets_counts_with_the_highest_grade():
    near = Target(Place("a.py", 15, 30), 1)
    assert compute_ndcg([near, LINES], [Place("a.py", 1, 40)]) == pytest.approx(2 / (2 + 1 / log2(3)))


def test_only_ten_results_and_ten_targets_count():
    targets = [Target(Place(f"{number}.py"), 1) for number in range(12)]
    assert compute_ndcg(targets, [target.place for target in targets]) == pytest.approx(1)
    assert compute_ndcg([PAGE], [Place("x.py")] * 10 + [Place("wiki/ci")]) == 0
    with pytest.raises(ValueError, match="without targets"):
        compute_ndcg([], [])


def test_success_needs_a_target_that_answers_by_itself():
    assert judge_success([LINES, PAGE], [Place("wiki/ci"), Place("a.py", 10, 10)]) == Success(
        False, True, True
    )
    assert judge_success([PAGE], [Place("wiki/ci")]) == Success(False, False, False)
    assert judge_success([LINES], [Place("x.py")] * 10 + [Place("a.py")]) == Success(False, False, False)


def test_auroc_counts_pairs_in_the_right_order():
    assert compute_auroc([0.9, 0.5], [0.5, 0.1]) == pytest.approx(3.5 / 4)
    with pytest.raises(ValueError, match="both kinds"):
        compute_auroc([0.9], [])
