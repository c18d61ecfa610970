"""What all connections have: where a source is read from, and by which host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from knowledge_pipeline.config.model import SettingsModel

HttpUrl = Annotated[str, Field(pattern=r"^https?://[^\s/@]+(/\S*)?$")]
"""A URL without a user or password."""


class BaseConnection(SettingsModel, ABC):
    """Where a source is read from."""

    @property
    @abstractmethod
    def location(self) -> str:
        """Where it is, for people; without any secret."""

    @property
    def host(self) -> str | None:
        """The host to connect to; None for this machine."""
        return None


class ServiceConnection(BaseConnection):
    """A service over HTTP."""

    url: HttpUrl

    @property
    def location(self) -> str:
        """Its URL."""
        return self.url

    @property
    def host(self) -> str | None:
        """Of its URL."""
        return urlsplit(self.url).hostname
