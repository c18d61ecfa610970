"""Whether a server and the watchers of its store work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from knowledge_pipeline.contract.responses.base import JsonResponse
from knowledge_pipeline.contract.types import HealthState


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """One component of the service."""

    status: HealthState = field(
        metadata={"description": "disabled: not configured; unknown: the check did not finish."}
    )
    detail: str | None = field(default=None, metadata={"description": "What a problem means for answers."})


@dataclass(frozen=True, slots=True)
class HealthResponse(JsonResponse):
    """The health of the service."""

    status: Literal["ok", "degraded", "unhealthy"] = field(
        metadata={"description": "degraded: answers lack something; unhealthy: there are none."}
    )
    components: Mapping[str, ComponentHealth]


@dataclass(frozen=True, slots=True)
class WatcherHealth:
    """One `knowledge watch`, without names of sources."""

    status: Literal["ok", "unhealthy"]
    state: str = field(metadata={"examples": ["waiting", "refreshing", "starting"]})
    started_at: datetime
    looked_at: datetime = field(metadata={"description": "When it last looked for changes, or progressed."})
    sources: int
    behind: int = field(metadata={"description": "Sources whose last refresh failed or is not done."})
    last_error_at: datetime | None
    detail: str | None = field(metadata={"description": "What is wrong, and what to do."})


@dataclass(frozen=True, slots=True)
class WatcherHealthResponse(JsonResponse):
    """The health of the watchers of the store on the server's machine."""

    status: Literal["ok", "unhealthy", "absent"] = field(
        metadata={"description": "unhealthy: one hangs, or was killed; absent: none runs."}
    )
    detail: str
    watchers: tuple[WatcherHealth, ...]
