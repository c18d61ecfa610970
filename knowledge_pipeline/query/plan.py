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
    """What to search for, and how; whoever asks."""

    text: str
    type: SearchType = "semantic"
    filters: Filters = field(default_factory=Filters)
    within: Filters = field(default_factory=Filters)  # these hold as well
    limit: int | None = None  # None: that of the type
    explain: bool = False
    diverse: bool = True  # no nearly equal results, and further chunks of a file count less
    mode: SearchMode = "hybrid"  # by `words` no model is asked; by `vectors` no full text


@dataclass(frozen=True, slots=True)
class SimilarQuestion:
    """An example to find others like: a text, or the file at a path; with both, the text is from there."""

    text: str | None = None
    path: str | None = None  # within its source; its own chunks are left out
    source: str | None = None  # where several have such a path
    filters: Filters = field(default_factory=Filters)  # by default the file's source type
    limit: int | None = None
    explain: bool = False
    mode: SearchMode = "hybrid"


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A question that is understood: what to look for, for whom, and what to return."""

    question: SearchQuestion | SimilarQuestion
    query: ParsedQuery
    type: SearchType
    limit: int
    access: Access
    restrictions: tuple[Filters, ...]  # all of them hold
    condition: Filter  # on rows: what the caller may see, and the restrictions
    depth: SearchDepth
    diverse: bool = False  # see `SearchProfile`
    known_vectors: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])  # by space

    @property
    def profile(self) -> SearchProfile:
        """The profile of its type."""
        return PROFILES[self.type]

    @property
    def rerank_limit(self) -> int:
        """How many hits are reranked."""
        return max(self.depth.rerank_k or self.profile.rerank_candidates, 2 * self.limit)


def plan_search(question: SearchQuestion, access: Access, depths: SearchDepths) -> SearchPlan:
    """Understand a question.

    Raises:
        InvalidQuery: the question, its filters, type, mode or limit make no sense.
    """
    profile = get_profile(question.type)
    _require_mode(question.mode)
    query = parse_verbatim(question.text) if profile.is_example else understand(question.text)
    restrictions = (question.filters, question.within, query.filters, profile.filters)
    condition = compile_filter(access, *restrictions)
    depth: SearchDepth = getattr(depths, question.type)
    return SearchPlan(
        question,
        query,
        question.type,
        profile.resolve_limit(question.limit, depth),
        access,
        restrictions,
        condition,
        depth,
        profile.diverse and question.diverse,
    )


def plan_similar(
    question: SimilarQuestion, file: ExampleFile | None, access: Access, depths: SearchDepths
) -> SearchPlan:
    """Plan a search for what is like a text, or like the file of the question.

    With a file, results are of other files, and by default of its source type.

    Raises:
        InvalidQuery: the text is empty, or the mode or the limit makes no sense.
    """
    _require_mode(question.mode)
    filters, text, vectors = question.filters, question.text, dict[str, np.ndarray]()
    if file:
        filters = replace(filters, source_types=filters.source_types or (file.source_type,))
    condition = compile_filter(access, filters)
    if file:
        condition &= file.other_files
        if text is None:
            text, vectors = file.text[:_FILE_CHARS], {**file.vectors}
    query = parse_verbatim(text or "")
    limit = PROFILES["similar"].resolve_limit(question.limit, depths.similar)
    return SearchPlan(
        question,
        query,
        "similar",
        limit,
        access,
        (filters,),
        condition,
        depths.similar,
        known_vectors=vectors,
    )


def _require_mode(mode: str) -> None:
    """Raise `InvalidQuery` for a mode that there is not."""
    if mode not in get_args(SearchMode):
        raise InvalidQuery(f"found the search mode {mode!r}; allowed: {', '.join(get_args(SearchMode))}")
