"""Archives whose files are read as if they were unpacked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from knowledge_pipeline.config.connections.base import BaseConnection
from knowledge_pipeline.config.connections.buckets import AzureConnection, GcsConnection, S3Connection

ARCHIVE_NAME = re.compile(r"\.(?:zip|tar|tar\.gz|tgz)$", re.IGNORECASE)
"""How the names of archives end."""


class ArchiveFileConnection(BaseConnection):
    """An archive of files, ZIP or TAR: a file of this machine, or an object of a bucket."""

    type: Literal["archive_file"]
    path: Path | None = None
    object: Annotated[S3Connection | GcsConnection | AzureConnection, Field(discriminator="type")] | None = (
        None
    )
    """Its bucket; the prefix is the whole key."""

    @model_validator(mode="after")
    def _check_one_place(self) -> ArchiveFileConnection:
        if (self.path is None) == (self.object is None):
            raise ValueError("give path, for a file of this machine, or object, for one of a bucket")
        if self.object and (not self.object.prefix or self.object.prefix.endswith("/")):
            raise ValueError("object.prefix must be the whole key of the archive")
        return self

    @property
    def location(self) -> str:
        """The file as written, or the object as a URL."""
        return self.object.location if self.object else str(self.path)

    @property
    def host(self) -> str | None:
        """Of the bucket's endpoint; None for this machine."""
        return self.object.host if self.object else None
