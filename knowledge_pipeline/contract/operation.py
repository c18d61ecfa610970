"""Responses about the operation: what is indexed, its health and use, refreshes, and declared sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from knowledge_pipeline.contract.base import HIDDEN, JsonResponse
from knowledge_pipeline.contract.filters import EventState, HealthState, RefreshState, about, described


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
        metadata=about("By source, rows that have no vector yet: words alone find them.")
    )
    unindexed_rows: Mapping[str, int] = field(
        metadata=about("By space, rows that are found by scanning; for operators.")
    )
    restores: int | None = described("The release whose content a rollback made live again.", None)
    pinned_since: datetime | None = described(
        "Since when refreshes publish nothing, because a rollback is pinned.", None
    )
    pin: str | None = described("The same, in a sentence.", None)


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """A source of the live release, as far as the caller may see it: what filters can name."""

    id: str
    type: str
    chunks: int
    repos: tuple[str, ...]  # those with the most chunks first, as well as languages
    languages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexedSourcesResponse(JsonResponse):
    """What there is to search."""

    release: int
    degraded: tuple[str, ...]  # stores of a federation, and indexes, that could not be read
    sources: tuple[IndexedSource, ...]  # by id


@dataclass(frozen=True, slots=True)
class LastEvent:
    """The last event about a source that a service sent to a server of this machine."""

    service: str = field(metadata={"examples": ["github", "jira"]})
    kind: str = field(
        metadata=about(
            "As the service calls it; empty where it does not say.", examples=["push", "jira:issue_updated"]
        )
    )
    at: datetime = field(metadata=about("When it came."))
    state: EventState = field(metadata=about("done: what it is about has been read since."))
    error: str | None = field(metadata=about("Why that failed last, in a sentence."))
    about: tuple[str, ...] = field(default=(), metadata=HIDDEN)  # the sources that the sentence is about
    others_read: str | None = field(default=None, metadata=HIDDEN)  # who may not see all of these


@dataclass(frozen=True, slots=True)
class SourceState:
    """Whether a source is as it should be, and what its refreshes left out and cost."""

    state: Literal["fresh", "stale"]
    reason: str = field(metadata=about("Why it is stale; empty where it is not."))
    age_hours: float | None = field(
        metadata=about("Since its index was last brought up to date; null: it never was.")
    )
    trigger: str | None = field(metadata=about("When it is refreshed; null: it is not configured."))
    skipped: int = field(metadata=about("Documents that give no chunk."))
    skipped_reasons: str | None = field(
        metadata=about("Why, the most frequent reason first, each with its number of documents.")
    )
    cost: float | None = field(
        metadata=about("Of its vectors, as far as the log goes back; null without a tenant.")
    )
    last_run: str | None = field(metadata=about("The Dagster run that refreshed it last."))
    last_run_url: str | None = field(
        metadata=about("Its page, where the server knows the address of Dagster.")
    )
    last_event: LastEvent | None = described("null: none came within 30 days, to this machine.", None)


@dataclass(frozen=True, slots=True)
class Collection:
    """One source, as far as the caller may see it."""

    id: str
    type: str
    chunks: int
    refreshed_at: datetime | None = field(metadata=about("When it was last read; null: not known."))
    embedded: int = field(metadata=about("Chunks that have a vector; words alone find the others."))
    state: SourceState | None = described(
        "Whether it is stale, and why; null: not all of it is visible.", None
    )


@dataclass(frozen=True, slots=True)
class CollectionsResponse(JsonResponse):
    """The sources that can be searched."""

    release: int
    released_at: datetime
    collections: tuple[Collection, ...]
    pin: str | None = described("That a rollback is pinned, so that what is new is not live.", None)


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """One component of the service."""

    status: HealthState = field(
        metadata=about("disabled: not configured; unknown: the check did not finish.")
    )
    detail: str | None = described("What a problem means for answers.", None)


@dataclass(frozen=True, slots=True)
class HealthResponse(JsonResponse):
    """The health of the service."""

    status: Literal["ok", "degraded", "unhealthy"] = field(
        metadata=about("degraded: answers lack something; unhealthy: there are none.")
    )
    components: Mapping[str, ComponentHealth]


@dataclass(frozen=True, slots=True)
class WatcherHealth:
    """One `knowledge watch`, without names of sources."""

    status: Literal["ok", "unhealthy"]
    state: str = field(metadata={"examples": ["waiting", "refreshing", "starting"]})
    started_at: datetime
    looked_at: datetime = field(metadata=about("When it last looked for changes, or progressed."))
    sources: int | None = field(metadata=about("null: this needs a token with the scope `metrics`."))
    behind: int | None = field(metadata=about("Sources whose last refresh failed or is not done."))
    last_error_at: datetime | None
    detail: str | None = field(metadata=about("What is wrong, and what to do."))


@dataclass(frozen=True, slots=True)
class WatcherHealthResponse(JsonResponse):
    """The health of the watchers of the store on the server's machine."""

    status: Literal["ok", "unhealthy", "absent"] = field(
        metadata=about("unhealthy: one hangs, or was killed; absent: none runs.")
    )
    detail: str
    watchers: tuple[WatcherHealth, ...]


@dataclass(frozen=True, slots=True)
class QueryStats:
    """The queries of a period."""

    count: int
    zero_result_count: int
    degraded: int
    cached: int
    by_type: Mapping[str, int]
    by_interface: Mapping[str, int]
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class StatsResponse(JsonResponse):
    """How much is indexed, and how it is used."""

    release: int
    chunks: int
    by_type: Mapping[str, int]
    hours: int
    queries: QueryStats | None = field(
        metadata=about("Of the caller's tenant, or all for an operator; null: none, or not logged.")
    )


@dataclass(frozen=True, slots=True)
class ModelCallResponse(JsonResponse):
    """What was recorded of a reported model call."""

    cost: float
    budget: str | None = field(
        metadata=about("The caller's budget that is nearly or wholly spent, in a sentence.")
    )


@dataclass(frozen=True, slots=True)
class StageProgress(JsonResponse):
    """How far the stage is that a source is in."""

    source: str
    stage: str = field(metadata=about("Empty until one has reported.", examples=["chunks", "embeddings"]))
    done: int
    of: int | None = field(metadata=about("`null` where it is not known."))
    rate: float = field(metadata=about("A second; 0 at first."))
    seconds_left: float | None = field(metadata=about("Until the stage is done; `null` where not known."))


@dataclass(slots=True)
class Refresh(JsonResponse):
    """One refresh of sources, or the purge of one."""

    id: str
    sources: tuple[str, ...]
    reason: str = field(
        metadata=about("What requested it.", examples=["sync", "github", "jira", "push", "purge"])
    )
    status: RefreshState
    requested_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = described("Why it failed, in a sentence.", None)
    release: int | None = described("The release that it published.", None)
    progress: tuple[StageProgress, ...] = described("Of its sources that are being read now.", ())
    documents: tuple[str, ...] = field(default=(), metadata=HIDDEN)  # "SOURCE/URI"; none: whole sources
    relist: bool = field(default=False, metadata=HIDDEN)  # services are listed in full
    tries: int = field(default=0, metadata=HIDDEN)  # that failed before this one
    about: tuple[str, ...] = field(default=(), metadata=HIDDEN)  # as of `LastEvent`
    others_read: str | None = field(default=None, metadata=HIDDEN)


@dataclass(frozen=True, slots=True)
class PushResponse(JsonResponse):
    """A document that was pushed or deleted; it is kept, and seen after the next refresh."""

    source: str
    id: str
    refresh_id: str = field(metadata=about("The refresh that takes it in: see `sync/status/{id}`."))


@dataclass(frozen=True, slots=True)
class RefreshListResponse(JsonResponse):
    """The refreshes that servers of this store were asked for, newest first; the last two hundred."""

    refreshes: tuple[Refresh, ...]


@dataclass(frozen=True, slots=True)
class WebhookResponse(JsonResponse):
    """What a webhook started."""

    refreshes: tuple[Refresh, ...]
    ignored_reason: str | None = field(metadata=about("Why nothing was started."))


@dataclass(frozen=True, slots=True)
class SourceResponse(JsonResponse):
    """A source, without its secrets."""

    id: str
    type: str
    location: str = field(metadata=about("The folder or address that it reads."))
    branch: str | None
    refresh_trigger: str = field(
        metadata=about("When it is refreshed automatically.", examples=["on_commit"])
    )
    visibility: str
    tenant: str | None
    principals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceListResponse(JsonResponse):
    """The sources of knowledge.yaml that the caller may manage."""

    sources: tuple[SourceResponse, ...]


@dataclass(frozen=True, slots=True)
class SourceRemovedResponse(JsonResponse):
    """A source that is no longer declared."""

    source_id: str
    purge: Refresh | None = field(
        metadata=about("null: its content stays, withheld, until `knowledge purge` deletes it.")
    )
