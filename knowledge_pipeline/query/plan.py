"""Plans a search: what a question means, what its type looks for and how deep, and which rows it may find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np

from knowledge_pipeline.config.settings import SearchDepth, SearchDepths
from knowledge_pipeline.contract.filters import Filters, SearchMode, SearchType
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.documents import ExampleFile
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.understand import Intent, ParsedQuery, parse_verbatim, understand
from knowledge_pipeline.store.filters import Filter

MIN_CANDIDATES = 100  # of each search of each space, where the settings name no number
_FILE_CHARS = 20_000  # of a file, as words to find others like it


@dataclass(frozen=True, slots=True)
class SearchProfile:
    """What a search type looks for, and how deep."""

    rerank_candidates: int  # hits that are reranked
    default_limit: int  # results of a question without a limit
    filters: Filters = field(default_factory=Filters)
    floor: float = 0.0  # a result below this score is not relevant
    recency_boost: float = 0.0  # of the newest result, to the log-odds of its score
    is_example: bool = False  # the text is searched for as it is: not parsed, expanded or decomposed
    enrich: bool = False  # the best code comes with its neighbours in the code graph
    diverse: bool = False  # of nearly equal results the first is shown, further chunks of a file count less

    def resolve_limit(self, requested: int | None, depth: SearchDepth) -> int:
        """The limit that applies to a request. Raises `InvalidQuery` if it is below 1."""
        if requested is None:
            return depth.default_k or self.default_limit
        if requested < 1:
            raise InvalidQuery(f"found limit {requested}; allowed: 1 or more")
        return requested


PROFILES: Mapping[SearchType, SearchProfile] = {
    "semantic": SearchProfile(20, 5, diverse=True, enrich=True),
    "code": SearchProfile(30, 10, Filters(source_types=("code",)), diverse=True, enrich=True),
    "similar": SearchProfile(20, 5, is_example=True),
    "historical": SearchProfile(
        50, 10, Filters(source_types=("git_history", "github_pr")), floor=0.25, recency_boost=0.5
    ),
}


def get_profile(type_: str) -> SearchProfile:
    """The profile of a search type. Raises `InvalidQuery` if there is no such type."""
    for name, profile in PROFILES.items():
        if name == type_:
            return profile
    raise InvalidQuery(f"found the search type {type_!r}; allowed: {', '.join(PROFILES)}")


_TYPE_BY_INTENT: Mapping[Intent, SearchType] = {
    "find_history": "historical",
    "find_implementation": "code",
    "find_usage": "code",
}


def choose_type(text: str) -> SearchType:
    """The type of search that suits the intent of a question; raises as `understand`."""
    return _TYPE_BY_INTENT.get(understand(text).intent, "semantic")


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """What to search for, and how; whoever asks. Chunks like an example are searched for by `similar`."""

    text: str | None  # None: of an example, the text of the file at its path
    type: SearchType = "semantic"
    filters: Filters = field(default_factory=Filters)  # with an example's path by default its source type
    within: Filters = field(default_factory=Filters)  # these hold as well
    limit: int | None = None  # None: that of the type
    explain: bool = False
    diverse: bool = True  # no nearly equal results, and further chunks of a file count less
    mode: SearchMode = "hybrid"  # by `words` no model is asked; by `vectors` no full text
    path: str | None = None  # of an example within its source; its own chunks are left out
    source: str | None = None  # where several have such a path


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A question that is understood: what to look for, for whom, and what to return."""

    question: SearchQuestion
    query: ParsedQuery
    profile: SearchProfile
    depth: SearchDepth
    limit: int
    access: Access
    restrictions: tuple[Filters, ...]  # all of them hold
    condition: Filter  # on rows: what the caller may see, and the restrictions
    known_vectors: Mapping[str, np.ndarray]  # by space: of an example's file

    @property
    def diverse(self) -> bool:
        """See `SearchProfile`."""
        return self.profile.diverse and self.question.diverse

    @property
    def rerank_limit(self) -> int:
        """How many hits are reranked."""
        return max(self.depth.rerank_k or self.profile.rerank_candidates, 2 * self.limit)

    @property
    def candidate_limit(self) -> int:
        """Candidates of each search of each space: as many as are reranked, at least."""
        return max(self.depth.candidates or MIN_CANDIDATES, self.rerank_limit)


def plan_search(
    question: SearchQuestion, access: Access, depths: SearchDepths, example: ExampleFile | None = None
) -> SearchPlan:
    """Understand a question; `example` is the file at its path.

    Raises `InvalidQuery`: the question, its filters, type, mode or limit make no sense.
    """
    profile = get_profile(question.type)
    if question.mode not in get_args(SearchMode):
        allowed = ", ".join(get_args(SearchMode))
        raise InvalidQuery(f"found the search mode {question.mode!r}; allowed: {allowed}")
    filters, text, vectors = question.filters, question.text, dict[str, np.ndarray]()
    if example:
        filters = replace(filters, source_types=filters.source_types or (example.source_type,))
        if text is None:
            text, vectors = example.text[:_FILE_CHARS], {**example.vectors}
    query = parse_verbatim(text or "") if profile.is_example else understand(text or "")
    restrictions = (filters, question.within, query.filters, profile.filters)
    condition = compile_filter(access, *restrictions)
    if example:
        condition &= example.other_files
    depth: SearchDepth = getattr(depths, question.type)
    limit = profile.resolve_limit(question.limit, depth)
    return SearchPlan(
        question, query, profile, depth, limit, access, restrictions, condition, known_vectors=vectors
    )
