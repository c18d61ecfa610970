"""What is made is written beside the making of the next, in order, and never past an error."""

import threading

import pytest

from knowledge_pipeline.store.reconcile import open_background_writer


def test_work_is_done_beside_the_caller_one_at_a_time_and_in_order():
    done, begun, go_on = [], threading.Event(), threading.Event()

    def first():
        begun.set()
        assert go_on.wait(60)
        done.append("first")

    with open_background_writer() as hand_over:
        hand_over(first)
        assert begun.wait(60)
        assert done == []  # the caller goes on meanwhile
        go_on.set()
        hand_over(lambda: done.append("second"))
        assert done[0] == "first"
    assert done == ["first", "second"]


def test_an_error_reaches_the_caller_and_nothing_more_is_begun():
    done = []

    def fail():
        raise OSError("disk full")

    def three_pieces():
        with open_background_writer() as hand_over:
            hand_over(fail)
            hand_over(lambda: done.append("after"))

    with pytest.raises(OSError, match="disk full"):
        three_pieces()
    assert done == []


def test_the_error_of_the_last_piece_is_not_lost():
    def fail():
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), open_background_writer() as hand_over:
        hand_over(fail)


def test_what_was_handed_over_is_done_when_the_caller_fails():
    done = []
    with pytest.raises(ValueError, match="no model"), open_background_writer() as hand_over:
        hand_over(lambda: done.append("kept"))
        raise ValueError("no model")
    assert done == ["kept"]
