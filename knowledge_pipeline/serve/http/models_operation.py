"""What is said of sources and of their refreshes. Nothing here knows of HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field

from knowledge_pipeline.config.settings import SourceId
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.serve.http.models import RequestModel, ResponseModel
from knowledge_pipeline.serve.refresh_queue import RefreshState

ConnectionType = Literal[
    "local", "git", "github", "gitlab", "jira", "confluence", "slack", "slack_export", "s3", "gcs"
]


class RefreshRequest(RequestModel):
    """What is to be refreshed."""

    sources: list[SourceId] = Field(default=[], max_length=200, description="By id; none: every one.")


class RefreshResponse(ResponseModel):
    """One refresh."""

    id: str
    sources: list[str]
    reason: str = Field(description="Who or what asked for it.", examples=["sync", "github"])
    status: RefreshState
    requested_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    problem: str | None = Field(description="Why it failed.")
    release: int | None = Field(description="That is live since then.")


class RefreshListResponse(ResponseModel):
    """Refreshes of this server: the newest first, those that have ended for the last hundred."""

    refreshes: list[RefreshResponse]


class ConnectionEntry(RequestModel):
    """Where documents are read from; beside the type as docs/configuration.md says."""

    model_config = ConfigDict(extra="allow")

    type: ConnectionType


class SourceEntry(RequestModel):
    """An entry of `sources` in knowledge.yaml, as it is written there: `${NAME}` for a secret."""

    model_config = ConfigDict(extra="allow")

    id: SourceId
    type: SourceType
    connection: ConnectionEntry = Field(
        examples=[{"type": "git", "url": "https://github.com/pallets/flask", "token": "${GITHUB_TOKEN}"}]
    )


class SourceResponse(ResponseModel):
    """A source, without its secrets."""

    id: str
    type: str
    place: str = Field(description="The folder or address that it reads.")
    branch: str | None
    refreshed: str = Field(description="When it is refreshed by itself.", examples=["on_commit"])
    visibility: str
    tenant: str | None
    principals: list[str]


class SourceListResponse(ResponseModel):
    """The sources of knowledge.yaml that the caller may manage."""

    sources: list[SourceResponse]


class SourceRemovedResponse(ResponseModel):
    """A source that is no longer declared."""

    removed: str
    erasing: RefreshResponse | None = Field(description="null: its content stays until `knowledge purge`.")


class WebhookResponse(ResponseModel):
    """What a webhook started."""

    started: list[RefreshResponse]
    ignored: str | None = Field(description="Why nothing was started.")
