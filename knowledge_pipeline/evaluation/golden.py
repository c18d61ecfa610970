"""Golden questions: what people ask, and the places that answer it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from knowledge_pipeline.contract.types import SearchType


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
    answers: tuple[GoldenAnswer, ...]  # at least one
    type: SearchType = "semantic"
    filters: Mapping[str, Any] = field(default_factory=dict[str, Any])  # as in `contract.filters.Filters`
    file: str = ""  # that it comes from


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """All questions of some files."""

    questions: tuple[GoldenQuestion, ...]

    @property
    def digest(self) -> str:
        """32 hex digits; equal if questions, answers, types and filters are, in any order."""
        lines: list[str] = []
        for question in self.questions:
            answers = sorted((place.path, place.symbol or "", place.relevance) for place in question.answers)
            values = [question.text, question.type, dict(question.filters), answers]
            lines.append(json.dumps(values, sort_keys=True, default=str))
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32]
