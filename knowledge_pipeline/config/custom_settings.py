"""Settings of sources of other packages, checked by the model that their class names."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from knowledge_pipeline.config.connections import CustomConnection
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.plugins import Plugin, load_plugin


def describe_settings(connection: CustomConnection) -> dict[str, Any]:
    """The settings as JSON values, secrets as stars; only their keys where the source cannot be loaded."""
    try:
        plugin = load_plugin("source", connection.use, key="connection.use")
        return validate_settings(plugin, connection.settings).model_dump(mode="json")
    except ConfigError:
        return {"keys": sorted(connection.settings)}


def validate_settings(plugin: Plugin, given: dict[str, Any]) -> BaseModel:
    """The settings of a source as its class checks them.

    Raises:
        ConfigError: the class has no `settings_model`, or it refuses them; no value is shown.
    """
    model = getattr(plugin.value, "settings_model", None)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigError(
            f"{plugin.name!r} of {plugin.package} has no settings_model, a class of pydantic: "
            "correct its package"
        )
    try:
        return model.model_validate(given)
    except ValidationError as error:  # values may be secrets: they are not shown
        problems = "; ".join(
            f"connection.settings.{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False, include_context=False)
        )
        raise ConfigError(
            f"the source {plugin.name!r} of {plugin.package} refuses its settings: {problems}"
        ) from None
