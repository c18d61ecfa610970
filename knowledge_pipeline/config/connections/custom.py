"""What another package reads."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from knowledge_pipeline.config.connections.base import BaseConnection
from knowledge_pipeline.config.model import PluginName


class CustomConnection(BaseConnection):
    """A source that another package brings, and the settings that it takes; see docs/extending.md."""

    type: Literal["custom"]
    use: PluginName
    settings: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)  # may hold secrets

    @property
    def location(self) -> str:
        """The name of the source."""
        return self.use
