"""Golden questions: what people ask, and the places that answer it.

Read from YAML files and from folders in the layout of the BEIR benchmark; docs/evaluation.md
describes both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knowledge_pipeline.contract.types import SearchType
from knowledge_pipeline.errors import ConfigError


@dataclass(frozen=True, slots=True)
class GoldenAnswer:
    """A file that answers a question, or one definition in it."""

    path: str  # within its source, or "source:uri"
    symbol: str | None = None  # "Store.get"
    relevance: int = 1  # more is better


@dataclass(frozen=True, slots=True)
class GoldenQuestion:
    """One question, how it is asked, and the places that answer it."""

    text: str
    answers: tuple[GoldenAnswer, ...]  # never empty
    type: SearchType = "semantic"
    filters: Mapping[str, Any] = field(default_factory=dict)  # fields of `query.filters.Filters`
    file: str = ""  # that it is from


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """All questions of some files."""

    questions: tuple[GoldenQuestion, ...]

    @property
    def digest(self) -> str:
        """Equal where questions, answers, types and filters are, whatever their order: 32 hex digits."""
        stated = sorted(map(_to_canonical_json, self.questions))
        return hashlib.sha256("\n".join(stated).encode()).hexdigest()[:32]


def load_golden_set(places: Sequence[Path]) -> GoldenSet:
    """Read YAML files and BEIR folders.

    Raises:
        ConfigError: one is missing or wrong; the message names the file and the entry.
    """
    from knowledge_pipeline.evaluation.beir import read_beir
    from knowledge_pipeline.evaluation.golden_yaml import read_question_file

    questions: list[GoldenQuestion] = []
    for place in places:
        if place.is_dir():
            questions += read_beir(place)
        elif place.is_file():
            questions += read_question_file(place)
        else:
            raise ConfigError(
                f"there are no golden questions at {place}: correct evaluation.questions, or write the file"
            )
    return GoldenSet(tuple(questions))


def _to_canonical_json(question: GoldenQuestion) -> str:
    answers = sorted((place.path, place.symbol or "", place.relevance) for place in question.answers)
    stated = [question.text, question.type, dict(question.filters), answers]
    return json.dumps(stated, sort_keys=True, default=str)
