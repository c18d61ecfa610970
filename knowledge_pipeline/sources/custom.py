"""Sources of other packages: a class, found by `connection.use`, with settings of its own."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel

from knowledge_pipeline.config.connections.custom import CustomConnection
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.plugins import load_plugin, validate_settings
from knowledge_pipeline.sources.base import Source
from knowledge_pipeline.sources.guarded import guard_source

_DEFAULT_MAX_BYTES = 5_000_000


class CustomSource(Protocol):
    """What a class must be that `connection.use` names: a maker of a `Source` from its settings.

    A `Source`, `BatchSource` or `ApiSource` whose `__init__` takes one argument fits.
    """

    settings_model: type[BaseModel]
    """The keys of `connection.settings`; a model that forbids extra keys refuses mistyped ones."""

    def __call__(self, settings: Any, /) -> Source:
        """Build the source; nothing is read or sent before `discover`."""
        ...


def open_custom_source(connection: CustomConnection, max_bytes: int | None = None) -> Source:
    """The source that a connection names; documents with more than `max_bytes` of text are skipped.

    Raises:
        ConfigError: it is not installed, is no source, or refuses its settings.
    """
    plugin = load_plugin("source", connection.use, key="connection.use")
    settings = validate_settings(plugin, connection.settings)
    try:
        source = plugin.value(settings)
    except ConfigError:
        raise
    except Exception as error:  # whatever a foreign class does
        raise ConfigError(
            f"the source {plugin.name!r} of {plugin.package} cannot be opened "
            f"({type(error).__name__}: {error}): correct connection.settings, or its package"
        ) from error
    if not isinstance(source, Source):
        raise ConfigError(
            f"{plugin.name!r} of {plugin.package} is no knowledge_pipeline.extending.Source: "
            "correct connection.use"
        )
    return guard_source(source, f"{plugin.name!r} of {plugin.package}", max_bytes or _DEFAULT_MAX_BYTES)
