"""Every error of ours as a response."""

from __future__ import annotations

import pytest

from knowledge_pipeline import errors
from knowledge_pipeline.serve.http.problems import build_error_problem


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (errors.TooManyRequests("slower", retry_after_s=7.4), 429, "7"),
        (errors.TooManyRequests("slower", retry_after_s=0.1), 429, "1"),
        (errors.Busy("others write"), 503, "1"),
        (errors.ResponseTimeout("too long"), 504, "1"),
        (errors.StoreError("broken"), 503, None),
        (errors.NotFound("nowhere"), 404, None),
    ],
)
def test_what_a_retry_may_help_says_when(error: errors.KnowledgeError, status: int, retry_after: str | None):
    problem = build_error_problem(error, request_id="r")
    assert (problem.status_code, problem.headers.get("Retry-After")) == (status, retry_after)
