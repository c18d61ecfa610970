"""What all responses have, and how they become JSON.

In the metadata of a field, `description` and `examples` are what pydantic reads of a dataclass, `exclude`
keeps the field out of JSON, and `omit_none` leaves it out if it is None or an empty text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, cast

from knowledge_pipeline.contract.filters import about, described

HIDDEN: Mapping[str, Any] = {"exclude": True}
"""Metadata of a field that no JSON has."""


class JsonResponse:
    """Base of responses."""

    __slots__ = ()

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        return to_json(self)


_ABSENT: Any = {"omit_none": True}
_OF_WHOLE = "only for callers who may see the whole source."


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFreshness:
    """How current a source is, by what refreshes of it read, and looks at its origin saw."""

    source: str
    revision: str | None = described("The indexed commit; null: it has none, or it is not known.", None)
    as_of: datetime | None = described(
        "When what is indexed was last known to be what its origin had; null: not known.", None
    )
    looked_at: datetime | None = described("When its origin was last looked at since it was read.", None)
    origin_revision: str | None = described("The commit that its origin had then.", None, **_ABSENT)
    commits_behind: int | None = described("Commits that are not indexed; null: some, not known how many.", 0)
    behind_since: datetime | None = described("When the first of them was seen.", None, **_ABSENT)
    minutes_behind: int | None = described("The same, in minutes before this answer.", None, **_ABSENT)
    permissions_at: datetime | None = described(
        "When its own permissions, which decide who sees what, were last read in full.", None, **_ABSENT
    )
    embedded_share: float | None = described(
        f"Share of its chunks with a vector; {_OF_WHOLE}", None, ge=0, le=1
    )
    failing_since: datetime | None = described("Since when every refresh of it failed.", None, **_ABSENT)
    problem: str | None = described(f"Why the last one failed; {_OF_WHOLE}", None, **_ABSENT)
    skipped: Mapping[str, int] | None = described(
        f"Documents that give no chunk, by the reason; {_OF_WHOLE}", None, **_ABSENT
    )
    too_old: bool = described("Whether it is not known to be as new as `max_age` asks.", False)


@dataclass(frozen=True, slots=True)
class QueryResponse(JsonResponse):
    """What every response of the knowledge base has."""

    query_id: str = field(metadata=about("Names the response in `feedback` and in the log."))
    took_ms: float
    release: int = field(metadata=about("The release that was searched."))
    degraded: tuple[str, ...] = field(
        metadata=about("Steps that had to be skipped: `vector`, `embedding`, `rerank`, `graph`, …")
    )
    freshness: tuple[SourceFreshness, ...] = field(
        default=(),
        kw_only=True,
        metadata=about("How current its sources are; if nothing was found, those that may be why."),
    )
    notes: tuple[str, ...] = field(
        default=(),
        kw_only=True,
        metadata=about(
            "Sentences: how the query was read, what was left out, what would find more, and which sources "
            "are behind, failing or too old."
        ),
    )

    def list_shared(self) -> dict[str, Any]:
        """These fields, for another response to the same query."""
        return {item.name: getattr(self, item.name) for item in fields(QueryResponse)}


@dataclass(frozen=True, slots=True)
class Step:
    """When a step of a query ran, in milliseconds since the query began."""

    name: str
    start_ms: float
    end_ms: float
    steps: tuple[Step, ...] = ()  # of a query that ran as this step, in milliseconds since that began


def to_json(value: Any) -> Any:
    """A value as JSON has it: objects for dataclasses, lists for tuples, text for times."""
    kind = cast("type[Any]", type(value))
    if kind in _PLAIN:
        return value
    if (json_fields := _list_json_fields(kind)) is not None:
        return {
            name: inner if type(inner := getattr(value, name)) in _PLAIN else to_json(inner)
            for name, omits_none in json_fields
            if not omits_none or getattr(value, name) not in _NOTHING
        }
    if isinstance(value, Mapping):
        return {key: to_json(inner) for key, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [to_json(inner) for inner in cast("Sequence[Any]", value)]
    return value.isoformat() if isinstance(value, datetime) else value


_NOTHING = (None, "")
_PLAIN = frozenset({str, int, float, bool, type(None)})


@cache
def _list_json_fields(kind: type[Any]) -> tuple[tuple[str, bool], ...] | None:
    """The fields of a dataclass that JSON has, and whether one is left out where it is None or empty text.

    None for other types.
    """
    if not is_dataclass(kind):
        return None
    return tuple(
        (item.name, "omit_none" in item.metadata) for item in fields(kind) if "exclude" not in item.metadata
    )
