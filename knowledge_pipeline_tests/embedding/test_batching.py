from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.embedding.batching import Pace, batches


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 50), max_size=60),
    max_texts=st.integers(1, 10),
    max_tokens=st.integers(1, 100),
)
def test_batches_hold_every_text_once_in_order_within_the_limits(sizes, max_texts, max_tokens):
    parts = list(batches(sizes, max_texts=max_texts, max_tokens=max_tokens))

    assert [position for part in parts for position in part] == list(range(len(sizes)))
    for part in parts:
        assert 1 <= len(part) <= max_texts
        assert len(part) == 1 or sum(sizes[position] for position in part) <= max_tokens


def test_batches_are_as_full_as_the_limits_allow():
    assert list(batches([3, 3, 3, 3, 9, 1], max_texts=10, max_tokens=9)) == [
        range(0, 3),
        range(3, 4),
        range(4, 5),
        range(5, 6),
    ]


def test_a_rate_of_60_a_minute_lets_one_start_a_second_even_after_a_pause():
    pace = Pace(60)
    waits = [pace.reserve() for _ in range(4)]
    assert [round(wait) for wait in waits] == [0, 1, 2, 3]


def test_a_large_request_delays_the_next_one_by_its_size():
    pace = Pace(6000)
    assert pace.reserve(1000) == 0
    assert 9.5 < pace.reserve(1) <= 10


def test_without_a_rate_nobody_waits():
    pace = Pace(None)
    assert [pace.reserve(10**9) for _ in range(3)] == [0, 0, 0]


def test_a_hold_delays_everybody_and_a_shorter_one_does_not_lift_it():
    pace = Pace(None)
    pace.hold(5)
    pace.hold(1)
    assert 4.5 < pace.reserve() <= 5
