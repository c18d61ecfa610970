"""The types of search: what each looks for, how deep, and what of it counts as relevant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query.filters import Filters

SearchType = Literal["semantic", "code", "similar", "historical"]

MAX_RESULTS = 100


@dataclass(frozen=True, slots=True)
class Profile:
    """What a search type looks for, and how deep."""

    candidates: int  # that are reranked
    results: int  # unless `limit` says otherwise
    filters: Filters = field(default_factory=Filters)
    floor: float = 0.0  # a result below this score is not relevant
    recency: float = 0.0  # what the newest result is given, beside a score of at most 1
    as_is: bool = False  # the text is an example: nothing is read into it or made of it
    enriched: bool = False  # the best code is told with what it calls, what calls it, ...
    expanded: bool = False  # code gains by what it has to do with, where the settings say so
    near_once: bool = False  # of nearly equal results only the first is shown, not just of equal ones

    def limit(self, asked: int | None) -> int:
        """How many results there can be; raises `QuestionRefused` if that many are never given."""
        if asked is None:
            return self.results
        if not 1 <= asked <= MAX_RESULTS:
            raise QuestionRefused(f"found limit {asked}; allowed: 1 to {MAX_RESULTS}")
        return asked


PROFILES: Mapping[SearchType, Profile] = {
    "semantic": Profile(20, 5, near_once=True, enriched=True),
    "code": Profile(30, 10, Filters(source_types=("code",)), near_once=True, enriched=True, expanded=True),
    "similar": Profile(20, 5, as_is=True),
    "historical": Profile(
        50, 10, Filters(source_types=("git_history", "github_pr")), floor=0.25, recency=0.05
    ),
}


def profile_of(type_: str) -> Profile:
    """The profile of a search type; raises `QuestionRefused` if there is no such type."""
    for name, profile in PROFILES.items():
        if name == type_:
            return profile
    raise QuestionRefused(f"found the search type {type_!r}; allowed: {', '.join(PROFILES)}")
