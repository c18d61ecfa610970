"""The section `federation`: the stores that are asked together, as if they were one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from knowledge_pipeline.config.model import SettingsModel

StoreName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class FederatedStore(SettingsModel):
    """One of the stores, by the project that it belongs to."""

    name: StoreName  # in reports: "store:NAME"
    path: Path  # the project's knowledge.yaml, or its folder


class FederationSettings(SettingsModel):
    """Which stores, and how long each may take."""

    stores: tuple[FederatedStore, ...] = Field(default=(), max_length=100)
    timeout_s: float = Field(default=10.0, gt=0)  # of each step, for each store; then answers do without it

    @model_validator(mode="after")
    def _require_unique_names(self) -> FederationSettings:
        names = [each.name for each in self.stores]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two stores have the name {twice!r}: names must be unique")
        return self
