from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.embedding.endpoints import split_batches


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 50), max_size=60),
    max_texts=st.integers(1, 10),
    max_tokens=st.integers(1, 100),
)
def test_batches_hold_every_text_once_in_order_within_the_limits(sizes, max_texts, max_tokens):
    parts = list(split_batches(sizes, max_texts=max_texts, max_tokens=max_tokens))

    assert [position for part in parts for position in part] == list(range(len(sizes)))
    for part in parts:
        assert 1 <= len(part) <= max_texts
        assert len(part) == 1 or sum(sizes[position] for position in part) <= max_tokens


def test_batches_are_as_full_as_the_limits_allow():
    assert list(split_batches([3, 3, 3, 3, 9, 1], max_texts=10, max_tokens=9)) == [
        range(0, 3),
        range(3, 4),
        range(4, 5),
        range(5, 6),
    ]
