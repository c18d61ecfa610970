"""Code of other packages: sources, chunkers, extractors and sanitizers that a project brings itself.

A name of the configuration is that of an entry point, or `package.module:attribute`. Nothing is looked up
or imported before a configured source needs it.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from knowledge_pipeline.errors import ConfigError

PluginKind = Literal["source", "chunker", "extractor", "file_extractor", "sanitizer"]

GROUPS: dict[PluginKind, str] = {
    "source": "knowledge_pipeline.sources",
    "chunker": "knowledge_pipeline.chunkers",
    "extractor": "knowledge_pipeline.extractors",
    "file_extractor": "knowledge_pipeline.file_extractors",
    "sanitizer": "knowledge_pipeline.sanitizers",
}
"""The groups of entry points, as packages declare them."""

_SHOWN = {"extractor": "metadata extractor", "file_extractor": "file extractor"}


@dataclass(frozen=True, slots=True)
class Plugin:
    """What a name of the configuration stands for."""

    name: str
    value: Any  # callable
    package: str  # "acme-feeds 1.2", or the module where no package declares it

    @property
    def fingerprint(self) -> str:
        """Changes with the file of its module and the version of its package."""
        path = inspect.getsourcefile(inspect.unwrap(self.value))
        content = Path(path).read_bytes() if path and Path(path).is_file() else b""
        version = f" {self.package}" if ":" not in self.name else ""
        return f"{self.name}{version}#{hashlib.sha256(content).hexdigest()[:16]}"


def load_plugin(kind: PluginKind, name: str, *, key: str) -> Plugin:
    """The class or function that a name of the configuration stands for.

    Args:
        key: where the name stands, for the message: "metadata.custom".

    Raises:
        ConfigError: no such thing is installed, or its module cannot be imported.
    """
    shown = _SHOWN.get(kind, kind)
    if ":" not in name:
        return _load_entry_point(kind, name, key)
    module_name, _, attribute = name.partition(":")
    try:
        value = getattr(importlib.import_module(module_name), attribute, None)
    except Exception as error:  # whatever a foreign module does while it is imported
        raise ConfigError(
            f"the {shown} {name!r} cannot be imported ({type(error).__name__}: {_first_line(error)}): "
            f"correct {key}, or install its package"
        ) from error
    if not callable(value):
        thing = "class" if kind == "source" else "function"
        raise ConfigError(f"the module {module_name!r} has no {thing} {attribute!r}: correct {key}")
    return Plugin(name, value, module_name)


@lru_cache(maxsize=64)
def _load_entry_point(kind: PluginKind, name: str, key: str) -> Plugin:
    shown = _SHOWN.get(kind, kind)
    entry_points = metadata.entry_points(group=GROUPS[kind], name=name)
    if not entry_points:
        others = sorted(metadata.entry_points(group=GROUPS[kind]).names)
        raise ConfigError(
            f"no installed package has a {shown} {name!r} (found: {', '.join(others) or 'none'}): "
            f"correct {key}, install its package, or write package.module:name"
        )
    packages = sorted({f"{point.dist.name} {point.dist.version}" for point in entry_points if point.dist})
    if len(packages) > 1:
        raise ConfigError(f"the packages {' and '.join(packages)} each have a {shown} {name!r}: remove one")
    (package,) = packages or [""]
    try:
        value = next(iter(entry_points)).load()
    except Exception as error:  # whatever a foreign module does while it is imported
        raise ConfigError(
            f"the {shown} {name!r} of the package {package} cannot be imported "
            f"({type(error).__name__}: {_first_line(error)}): correct or reinstall the package"
        ) from error
    if not callable(value):
        raise ConfigError(
            f"the {shown} {name!r} of the package {package} is no function: correct the package"
        )
    return Plugin(name, value, package)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def describe_settings(use: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a source as JSON values, secrets as stars; only their keys where it cannot be loaded."""
    try:
        plugin = load_plugin("source", use, key="connection.use")
        return validate_settings(plugin, settings).model_dump(mode="json")
    except (ConfigError, PydanticSerializationError):  # the latter of a secret whose variable is not set
        return {"keys": sorted(settings)}


def validate_settings(plugin: Plugin, settings: dict[str, Any]) -> BaseModel:
    """The settings of a source as its class checks them.

    Raises `ConfigError`: the class has no `settings_model`, or it refuses them; no value is shown.
    """
    model = getattr(plugin.value, "settings_model", None)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigError(
            f"{plugin.name!r} of {plugin.package} has no settings_model, a class of pydantic: "
            "correct its package"
        )
    try:
        return model.model_validate(settings)
    except ValidationError as error:  # values may be secrets: they are not shown
        problems = "; ".join(
            f"connection.settings.{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False, include_context=False)
        )
        raise ConfigError(
            f"the source {plugin.name!r} of {plugin.package} refuses its settings: {problems}"
        ) from None
