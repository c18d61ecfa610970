"""Whether reading a file takes time in proportion to its length."""

from __future__ import annotations

import time

from knowledge_pipeline.code_graph.extract import extract


def assert_in_proportion(path: str, language: str, text: str) -> None:
    """Eight times the text takes no more than four times eight of the time."""
    once = min(_seconds(path, language, text) for _ in range(3))
    most = 8 * 4 * once + 0.2
    assert any(_seconds(path, language, text * 8) < most for _ in range(3))  # memory is tidied now and then


def _seconds(path: str, language: str, text: str) -> float:
    start = time.process_time()
    extract(path, text, language)
    return time.process_time() - start
