"""A connection of any type, as `knowledge.yaml` gives it to a source."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from knowledge_pipeline.config.connections import (
    ArchiveFileConnection,
    AzureConnection,
    ConfluenceConnection,
    CustomConnection,
    DuckdbConnection,
    GcsConnection,
    GitConnection,
    GithubConnection,
    GitlabConnection,
    JiraConnection,
    LocalConnection,
    PostgresConnection,
    S3Connection,
    SlackConnection,
    SlackExportConnection,
    TableFilesConnection,
)

Connection = Annotated[
    LocalConnection
    | GitConnection
    | GithubConnection
    | GitlabConnection
    | JiraConnection
    | ConfluenceConnection
    | SlackConnection
    | SlackExportConnection
    | S3Connection
    | GcsConnection
    | AzureConnection
    | ArchiveFileConnection
    | TableFilesConnection
    | DuckdbConnection
    | PostgresConnection
    | CustomConnection,
    Field(discriminator="type"),
]
