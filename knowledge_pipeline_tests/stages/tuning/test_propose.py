"""Proposed golden questions: a file in the golden format, in which nothing counts until it is reviewed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion, load_golden_set
from knowledge_pipeline.extensions.tuning import format_proposals, select_proposals
from knowledge_pipeline.extensions.tuning_examples import Pair, PairKind


def pair(kind: PairKind, text: str = 'what "does" it: {really} # say') -> Pair:
    answers = (GoldenAnswer("a b.py", "Store.get"), GoldenAnswer("ü.py", None, 2))
    return Pair(kind, GoldenQuestion(text, answers, "code", {"sources": ("app",)}), "app:commit\n/1")


def test_reviewed_entries_are_the_pairs_and_others_are_no_questions(tmp_path: Path) -> None:
    first, second = pair("commit"), pair("docstring", "question two\nin two lines")
    path = tmp_path / "proposed.yaml"
    text = format_proposals([first, second])
    path.write_text(text)
    with pytest.raises(ConfigError, match="found no questions"):
        load_golden_set([path])
    reviewed = re.sub(r"^  # (?!\w+ of )", "  ", text, flags=re.MULTILINE)
    path.write_text(reviewed)
    expected = tuple(replace(each.question, file="proposed.yaml") for each in (first, second))
    assert load_golden_set([path]).questions == expected


def test_each_kind_is_proposed_in_turn_and_what_people_asked_first() -> None:
    pairs = [pair("docstring")] * 3 + [pair("commit")] * 1 + [pair("judgement")] * 2
    kinds = [each.kind for each in select_proposals(pairs, limit=5)]
    assert kinds == ["judgement", "commit", "docstring", "judgement", "docstring"]
    assert select_proposals(iter(pairs), limit=1) == [pair("judgement")]
    assert select_proposals([], limit=5) == []
