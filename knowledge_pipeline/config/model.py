"""The base of all settings."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from knowledge_pipeline.text import is_object

PluginName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.-]*(:[A-Za-z_]\w*)?$")]
"""The name of an entry point, or `package.module:function`."""


class SettingsModel(BaseModel):
    """Base of all settings: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_values(cls, values: Any) -> Any:
        """Treat a known key without a value (`exclude:` with all its lines commented out) as not set."""
        if not is_object(values):
            return values
        return {k: v for k, v in values.items() if v is not None or k not in cls.model_fields}

    @classmethod
    def defaults(cls) -> Self:
        """What validation makes of no key at all, without it: that builds a validator for each class.

        For classes whose validators only check.
        """
        return cls.model_construct()
