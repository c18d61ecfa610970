"""Whether the work of reading a file is in proportion to its length."""

from __future__ import annotations

from knowledge_pipeline.code_graph import extract
from knowledge_pipeline_tests.counted import steps


def assert_in_proportion(path: str, language: str, text: str, *, before: str = "", after: str = "") -> None:
    """Four times the text, within `before` and `after`, takes at most five times the steps."""

    def taken(times: int) -> int:
        whole = before + text * times + after
        return steps(lambda: extract(path, whole, language))

    taken(2)  # what is made once a process; another text, since the last ones are kept parsed
    assert taken(4) <= 5 * taken(1)
