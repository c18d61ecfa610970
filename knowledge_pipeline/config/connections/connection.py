"""A connection of any type, as `knowledge.yaml` gives it to a source."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from knowledge_pipeline.config.connections.archive_file import ArchiveFileConnection
from knowledge_pipeline.config.connections.buckets import AzureConnection, GcsConnection, S3Connection
from knowledge_pipeline.config.connections.custom import CustomConnection
from knowledge_pipeline.config.connections.local import LocalConnection
from knowledge_pipeline.config.connections.repositories import (
    GitConnection,
    GithubConnection,
    GitlabConnection,
)
from knowledge_pipeline.config.connections.services import (
    ConfluenceConnection,
    JiraConnection,
    SlackConnection,
    SlackExportConnection,
)
from knowledge_pipeline.config.connections.tables import (
    DuckdbConnection,
    PostgresConnection,
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
"""A connection of any type, as a source has it."""
