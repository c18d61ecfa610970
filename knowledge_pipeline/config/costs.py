"""The section `costs`: budgets of language models, prices of models that agents report, texts to keep."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from knowledge_pipeline.config.model import SettingsModel


class BudgetSettings(SettingsModel):
    """What models may cost in a day or a month of UTC, in the currency of the prices."""

    per: Literal["total", "tenant", "project", "session"] = "total"  # projects and sessions by tenant
    name: str | None = Field(default=None, min_length=1)  # of the only one that is meant; None: each
    window: Literal["day", "month"] = "month"
    warn_at: float | None = Field(default=None, ge=0)  # said once a window
    stop_at: float | None = Field(default=None, ge=0)  # from then on, the language model is not called
    reported: bool = True  # whether calls that agents report count as well

    @model_validator(mode="after")
    def _require_limits(self) -> BudgetSettings:
        if self.warn_at is None and self.stop_at is None:
            raise ValueError("a budget needs warn_at, stop_at, or both")
        if self.warn_at is not None and self.stop_at is not None and self.warn_at > self.stop_at:
            raise ValueError(f"warn_at ({self.warn_at:g}) must be at most stop_at ({self.stop_at:g})")
        if self.name is not None and self.per == "total":
            raise ValueError("a total has no name: remove name, or set per")
        return self


class ModelPrice(SettingsModel):
    """What a model costs that agents report calls of without their cost."""

    model: str = Field(min_length=1)
    price_per_million_input_tokens: float = Field(default=0.0, ge=0)
    price_per_million_output_tokens: float = Field(default=0.0, ge=0)


class CostSettings(SettingsModel):
    """What models may cost, and how what agents report is recorded."""

    budgets: tuple[BudgetSettings, ...] = ()
    prices: tuple[ModelPrice, ...] = ()
    keep_texts: bool = False  # whether reported prompts and responses are kept, without their secrets
