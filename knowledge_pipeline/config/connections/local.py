"""A folder of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from knowledge_pipeline.config.connections.base import BaseConnection


class LocalConnection(BaseConnection):
    """A folder on this machine, read as it is; `.gitignore` files are honoured."""

    type: Literal["local"]
    path: Path

    @property
    def location(self) -> str:
        """The folder, as written."""
        return str(self.path)
