"""What an answer says of how it came to be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.query.search.query_expansion import QueryExpansion
from knowledge_pipeline.query.search.text_search import RetrievalResult
from knowledge_pipeline.query.search.understand import ParsedQuery


def explain_query(query: ParsedQuery, *restrictions: Filters) -> dict[str, Any]:
    """How a question was understood, and what its results had to fulfil."""
    told = asdict(query)
    del told["filters"]
    stated = [{name: value for name, value in asdict(each).items() if value} for each in restrictions]
    return {"question": told, "filters": [each for each in stated if each]}


def explain_expansion(expansion: QueryExpansion, results: Sequence[RetrievalResult]) -> dict[str, Any]:
    """What was searched for beside the question itself, as `generated`; nothing where that is nothing."""
    names = dict.fromkeys((*expansion.terms, *(name for each in results for name in each.expansion_names)))
    told = {"hypothetical": expansion.hypothetical_passage, "terms": tuple(names), "parts": expansion.parts}
    told = {name: value for name, value in told.items() if value}
    return {"generated": told} if told else {}


def explain_missing_vectors(results: Sequence[RetrievalResult]) -> dict[str, Mapping[str, str]]:
    """Why spaces were searched by words alone, as `vector`; nothing where none was."""
    spaces = {space: reason for each in results for space, reason in each.retrieved.vector_problems.items()}
    return {"vector": spaces} if spaces else {}
