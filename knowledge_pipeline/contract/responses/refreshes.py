"""Refreshes that a server was asked for, by an operator or a webhook."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from knowledge_pipeline.contract.responses.base import HIDDEN, JsonResponse
from knowledge_pipeline.contract.types import RefreshState


@dataclass(slots=True)
class Refresh(JsonResponse):
    """One refresh of sources, or the purge of one."""

    id: str
    sources: tuple[str, ...]
    reason: str = field(
        metadata={"description": "What requested it.", "examples": ["sync", "github", "jira", "purge"]}
    )
    status: RefreshState
    requested_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = field(default=None, metadata={"description": "Why it failed, in a sentence."})
    release: int | None = field(default=None, metadata={"description": "The release that it published."})
    documents: tuple[str, ...] = field(default=(), metadata=HIDDEN)  # "SOURCE/URI"; none: whole sources
    relist: bool = field(default=False, metadata=HIDDEN)  # services are listed in full
    tries: int = field(default=0, metadata=HIDDEN)  # that failed before this one


@dataclass(frozen=True, slots=True)
class RefreshListResponse(JsonResponse):
    """The refreshes that servers of this store were asked for, newest first; the last two hundred."""

    refreshes: tuple[Refresh, ...]


@dataclass(frozen=True, slots=True)
class WebhookResponse(JsonResponse):
    """What a webhook started."""

    refreshes: tuple[Refresh, ...]
    ignored_reason: str | None = field(metadata={"description": "Why nothing was started."})
