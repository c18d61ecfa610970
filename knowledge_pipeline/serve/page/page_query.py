"""The query of a page, as its address has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast, get_args
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.types import SearchMode, SearchType, SourceType
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.search.plan import get_profile
from knowledge_pipeline.times import parse_query_time

DEFAULT_LIMIT = 20
LIMIT_STEP = 30  # more results for each click on "More results"

TABS: Mapping[SearchType, str] = {
    "semantic": "Everything",
    "code": "Code",
    "historical": "History",
    "similar": "Like this text",
}
MODES: Mapping[SearchMode, str] = {
    "hybrid": "Words and meaning",
    "words": "Words alone",
    "vectors": "Meaning alone",
}
_LIST_FILTERS = ("source_type", "source", "language", "path")
FILTER_NAMES = (*_LIST_FILTERS, "since")


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A query with its filters; `url` is the page that answers it.

    Raises:
        InvalidQuery: the type, the limit or the date is invalid.
    """

    q: str = ""
    type: SearchType = "semantic"
    source_type: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    since: str = ""
    limit: int = DEFAULT_LIMIT
    mode: SearchMode = "hybrid"

    def __post_init__(self) -> None:
        get_profile(self.type)
        if self.mode not in MODES:
            raise InvalidQuery(f"found the mode {self.mode!r}; allowed: {', '.join(get_args(SearchMode))}")
        if self.limit < 1:
            raise InvalidQuery(f"found limit {self.limit}; allowed: 1 or more")

    @classmethod
    def from_params(cls, params: QueryParams) -> PageQuery:
        """The query of an address; empty parameters do not count."""
        limit = params.get("limit", str(DEFAULT_LIMIT))
        if not (limit.isascii() and limit.isdecimal()):
            raise InvalidQuery("the limit is not a number")
        lists: dict[str, Any] = {
            name: tuple(dict.fromkeys(text for value in params.getlist(name) if (text := value.strip())))
            for name in _LIST_FILTERS
        }
        type_: Any = params.get("type") or "semantic"
        mode: Any = params.get("mode") or "hybrid"
        q, since = params.get("q", "").strip(), params.get("since", "").strip()
        return cls(q=q, type=type_, since=since, limit=int(limit[:9]), mode=mode, **lists)

    @property
    def is_filtered(self) -> bool:
        """Whether there is any filter."""
        return any(getattr(self, name) for name in FILTER_NAMES)

    def to_filters(self) -> Filters:
        """The filters of the search. Raises `InvalidQuery` for an invalid date."""
        return Filters(
            source_types=cast("tuple[SourceType, ...]", self.source_type),  # an unknown one matches nothing
            sources=self.source,
            languages=self.language,
            paths=self.path,
            since=parse_query_time("since", self.since) if self.since else None,
        )

    def url(self, **changed: Any) -> str:
        """The address of this query, with some parameters changed."""
        return f"/?{urlencode(list(replace(self, **changed).to_params()))}"

    def to_params(self) -> list[tuple[str, str]]:
        """Parameters that differ from the defaults."""
        defaults, found = PageQuery(), list[tuple[str, str]]()
        for each in fields(self):
            value: str | int | tuple[str, ...] = getattr(self, each.name)
            if value != getattr(defaults, each.name):
                found += [(each.name, str(one)) for one in (value if isinstance(value, tuple) else (value,))]
        return found

    def toggle_url(self, name: str, value: str) -> str:
        """The address with a value of a filter added, or removed if it is there."""
        values: tuple[str, ...] = getattr(self, name)
        changed = tuple(each for each in values if each != value) if value in values else (*values, value)
        return self.url(**{name: changed, "limit": DEFAULT_LIMIT})
