from __future__ import annotations

import pytest

from knowledge_pipeline.contract.responses import ScoreExplanation
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk
from knowledge_pipeline.query.search.second_look import MAX_NAMES, find_related_names
from knowledge_pipeline.query.search.understand import understand


def hit(text: str, *symbols: str) -> Hit:
    passage = IndexedChunk(
        id=text, source="s", uri="u", path="p", text=text, content_hash="", symbols=symbols
    )
    return Hit(passage, 0.5, ScoreExplanation("space", 1, 0.5, None, None, {}, 0.5))


@pytest.mark.parametrize(
    ("asked", "text", "names"),
    [
        ("how is the lock released", "with FileLock() as held: acquire_lock()", ("FileLock", "acquire_lock")),
        ("what does the wal do", "the write_ahead_log is flushed", ("write_ahead_log",)),
        ("how is the lock released", "a locksmith at the clockwork", ()),
        ("how is the lock released", "LOCK_MAX = 3", ()),
        ("what does file_lock do", "def file_lock(): pass", ()),
        ("to be or so", "toBe = orToBe", ()),
    ],
)
def test_names_share_a_part_with_the_question_or_abbreviate_to_a_word_of_it(asked, text, names):
    assert find_related_names(understand(asked), [hit(text)]) == names


def test_the_names_nearest_to_the_question_come_first_and_there_are_few():
    many = " ".join(f"lock_{letter}_{letter}{letter}_end" for letter in "abcdefgh")
    found = find_related_names(understand("lock timeout"), [hit(many), hit("", "Store.LockTimeout")])
    assert found[0] == "LockTimeout" and len(found) == MAX_NAMES
