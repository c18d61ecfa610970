"""What the live release holds: its rows, and its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from knowledge_pipeline.contract.responses.base import JsonResponse
from knowledge_pipeline.contract.types import EventState


@dataclass(frozen=True, slots=True)
class StatusResponse(JsonResponse):
    """Rows of the live release that the caller may see, without archived ones."""

    release: int
    released_at: datetime
    rows: int
    by_source: Mapping[str, int]  # for an operator also sources without rows
    by_type: Mapping[str, int]
    by_space: Mapping[str, int]
    unembedded_rows: Mapping[str, int] = field(
        metadata={"description": "By source, rows that have no vector yet: words alone find them."}
    )
    unindexed_rows: Mapping[str, int] = field(
        metadata={"description": "By space, rows that are found by scanning; for operators."}
    )
    restores: int | None = field(
        default=None, metadata={"description": "The release whose content a rollback made live again."}
    )
    pinned_since: datetime | None = field(
        default=None,
        metadata={"description": "Since when refreshes publish nothing, because a rollback is pinned."},
    )
    pin: str | None = field(default=None, metadata={"description": "The same, in a sentence."})


@dataclass(frozen=True, slots=True)
class LastEvent:
    """The last event about a source that a service sent to a server of this machine."""

    service: str = field(metadata={"examples": ["github", "jira"]})
    kind: str = field(
        metadata={
            "description": "As the service calls it; empty where it does not say.",
            "examples": ["push", "jira:issue_updated"],
        }
    )
    at: datetime = field(metadata={"description": "When it came."})
    state: EventState = field(metadata={"description": "done: what it is about has been read since."})
    error: str | None = field(metadata={"description": "Why that failed last, in a sentence."})


@dataclass(frozen=True, slots=True)
class SourceState:
    """Whether a source is as it should be, and what its refreshes left out and cost."""

    state: Literal["fresh", "stale"]
    reason: str = field(metadata={"description": "Why it is stale; empty where it is not."})
    age_hours: float | None = field(
        metadata={"description": "Since its index was last brought up to date; null: it never was."}
    )
    trigger: str | None = field(metadata={"description": "When it is refreshed; null: it is not configured."})
    skipped: int = field(metadata={"description": "Documents that give no chunk."})
    skipped_reasons: str | None = field(
        metadata={"description": "Why, the most frequent reason first, each with its number of documents."}
    )
    cost: float | None = field(
        metadata={"description": "Of its vectors, as far as the log goes back; null without a tenant."}
    )
    last_run: str | None = field(metadata={"description": "The Dagster run that refreshed it last."})
    last_run_url: str | None = field(
        metadata={"description": "Its page, where the server knows the address of Dagster."}
    )
    last_event: LastEvent | None = field(
        default=None, metadata={"description": "null: none came within 30 days, to this machine."}
    )


@dataclass(frozen=True, slots=True)
class Collection:
    """One source, as far as the caller may see it."""

    id: str
    type: str
    chunks: int
    refreshed_at: datetime | None = field(metadata={"description": "When it was last read; null: not known."})
    embedded: int = field(metadata={"description": "Chunks that have a vector; words alone find the others."})
    state: SourceState | None = field(
        default=None,
        metadata={"description": "Whether it is stale, and why; null: not all of it is visible."},
    )


@dataclass(frozen=True, slots=True)
class CollectionsResponse(JsonResponse):
    """The sources that can be searched."""

    release: int
    released_at: datetime
    collections: tuple[Collection, ...]
    pin: str | None = field(
        default=None, metadata={"description": "That a rollback is pinned, so that what is new is not live."}
    )
