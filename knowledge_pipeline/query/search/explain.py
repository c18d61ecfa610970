"""What an answer says of how it came to be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from knowledge_pipeline.query.filters import Filters
from knowledge_pipeline.query.search.query_expansion import Preparation
from knowledge_pipeline.query.search.text_search import Caught
from knowledge_pipeline.query.search.understand import Question


def understood(question: Question, *narrowed: Filters) -> dict[str, Any]:
    """How a question was understood, and what its results had to fulfil."""
    told = asdict(question)
    del told["filters"]
    stated = [{name: value for name, value in asdict(each).items() if value} for each in narrowed]
    return {"question": told, "filters": [each for each in stated if each]}


def searched_beside(made: Preparation, caught: Sequence[Caught]) -> dict[str, Any]:
    """What was searched for beside the question itself, as `generated`; nothing where that is nothing."""
    names = dict.fromkeys((*made.terms, *(name for each in caught for name in each.names)))
    told = {"hypothetical": made.hypothetical, "terms": tuple(names), "parts": made.parts}
    told = {name: value for name, value in told.items() if value}
    return {"generated": told} if told else {}


def without_vector(caught: Sequence[Caught]) -> dict[str, Mapping[str, str]]:
    """Why spaces were searched by words alone, as `vector`; nothing where none was."""
    spaces = {space: reason for each in caught for space, reason in each.retrieved.without_vector.items()}
    return {"vector": spaces} if spaces else {}
