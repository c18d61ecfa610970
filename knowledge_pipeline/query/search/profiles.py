"""The types of search: what each looks for, how deep, and what of it counts as relevant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.types import MAX_RESULTS, SearchType
from knowledge_pipeline.errors import InvalidQuery


@dataclass(frozen=True, slots=True)
class SearchProfile:
    """What a search type looks for, and how deep."""

    rerank_candidates: int  # that are reranked
    default_limit: int  # unless `limit` says otherwise
    filters: Filters = field(default_factory=Filters)
    floor: float = 0.0  # a result below this score is not relevant
    recency_boost: float = 0.0  # what the newest result is given, beside a score of at most 1
    is_example: bool = False  # the text is an example: nothing is read into it or made of it
    enrich: bool = False  # the best code is told with what it calls, what calls it, ...
    boost_linked: bool = False  # code gains by what it has to do with, where the settings say so
    drop_near_duplicates: bool = (
        False  # of nearly equal results only the first is shown, not just of equal ones
    )

    def resolve_limit(self, requested: int | None) -> int:
        """How many results there can be; raises `QuestionRefused` if that many are never given."""
        if requested is None:
            return self.default_limit
        if not 1 <= requested <= MAX_RESULTS:
            raise InvalidQuery(f"found limit {requested}; allowed: 1 to {MAX_RESULTS}")
        return requested


PROFILES: Mapping[SearchType, SearchProfile] = {
    "semantic": SearchProfile(20, 5, drop_near_duplicates=True, enrich=True),
    "code": SearchProfile(
        30, 10, Filters(source_types=("code",)), drop_near_duplicates=True, enrich=True, boost_linked=True
    ),
    "similar": SearchProfile(20, 5, is_example=True),
    "historical": SearchProfile(
        50, 10, Filters(source_types=("git_history", "github_pr")), floor=0.25, recency_boost=0.05
    ),
}


def get_profile(type_: str) -> SearchProfile:
    """The profile of a search type; raises `QuestionRefused` if there is no such type."""
    for name, profile in PROFILES.items():
        if name == type_:
            return profile
    raise InvalidQuery(f"found the search type {type_!r}; allowed: {', '.join(PROFILES)}")
