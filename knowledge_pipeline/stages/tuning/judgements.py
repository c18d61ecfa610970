"""Judged and clicked results as answers to the questions that people asked. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, cast, get_args

from knowledge_pipeline.contract.types import SearchType
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion
from knowledge_pipeline.stages.tuning.pairs import Pair

_WORTH = {"useful": 2, "clicked": 1, "useless": -2}
_MAX_RELEVANCE = 10


def iter_judgement_pairs(
    queries: Iterable[Mapping[str, Any]],
    feedback: Iterable[Mapping[str, Any]],
    documents: Mapping[str, str],
) -> Iterator[Pair]:
    """A pair for each text and search type, with the documents that more readers found useful than useless.

    Args:
        queries: rows with `query_id`, `text` and `type`.
        feedback: rows with `query_id`, `result_id`, `judgement` and `at`.
        documents: id of a chunk that is still indexed -> "source:uri" of its document.
    """
    asked = {row["query_id"]: (row["text"], row["type"]) for row in queries}
    worth: defaultdict[tuple[str, str], defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    newest: dict[tuple[str, str], tuple[datetime, str]] = {}
    for row in feedback:
        key, document = asked.get(row["query_id"]), documents.get(row["result_id"])
        if key and document and key[1] in get_args(SearchType) and key[1] != "similar":
            worth[key][document] += _WORTH[row["judgement"]]
            newest[key] = max(newest.get(key, (row["at"], "")), (row["at"], row["query_id"]))
    for (text, type_), found in worth.items():
        places = [
            GoldenAnswer(document, relevance=min(value, _MAX_RELEVANCE))
            for document, value in sorted(found.items())
            if value > 0
        ]
        if places and text.strip():
            question = GoldenQuestion(text, tuple(places), cast("SearchType", type_))
            made_at, query_id = newest[text, type_]
            yield Pair("judgement", question, query_id, made_at)
