"""A query is refused at once where its turn would come after it may wait."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from knowledge_pipeline.errors import Overloaded
from knowledge_pipeline.serve.service import Admission


def test_queries_are_refused_once_those_before_them_take_longer_than_they_may_wait() -> None:
    admission = Admission(timeout_s=30)
    with ExitStack() as waiting:
        for _ in range(40):  # nothing is known yet
            waiting.enter_context(admission.wait())
        for second in range(25):
            admission.note_ended(float(second))
        assert admission.estimate_wait_s() == pytest.approx(40.0)
        with pytest.raises(Overloaded) as refused, admission.wait():
            pass
        assert refused.value.retry_after_s == pytest.approx(25.0)
        assert "40 queries wait" in str(refused.value)
    with admission.wait():  # nobody waits any more
        assert admission.estimate_wait_s() == pytest.approx(1.0)


def test_pauses_in_which_nobody_waits_do_not_count() -> None:
    admission = Admission(timeout_s=30)
    for second in range(0, 100_000, 1_000):
        admission.note_ended(float(second))
    with admission.wait():
        assert admission.estimate_wait_s() == 0.0
