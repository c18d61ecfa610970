"""`--set KEY=VALUE`: query settings for one run, checked like those of `knowledge.yaml`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.session import WrongUsage

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings


def apply_overrides(settings: Settings, overrides: Sequence[str]) -> Settings:
    """The settings with overrides such as `query.vector_weight=0.7`; a value is read as YAML.

    Raises:
        WrongUsage: an override is not `query.KEY=VALUE`.
        ConfigError: a key is unknown or its value is not allowed; one line for every problem.
    """
    from pydantic import ValidationError

    from knowledge_pipeline.config.problems import to_problem
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.config.yaml_lines import ParsedConfig
    from knowledge_pipeline.errors import ConfigError

    if not overrides:
        return settings
    values = {**dict(settings), "query": settings.query.model_dump(exclude_unset=True)}
    for override in overrides:
        _set_override(values, override)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        problems = (to_problem(each, ParsedConfig(values)) for each in error.errors(include_url=False))
        raise ConfigError("\n".join(f"--set {problem}" for problem in problems)) from None


def _set_override(values: dict[str, Any], override: str) -> None:
    from knowledge_pipeline.config.yaml_lines import parse_config
    from knowledge_pipeline.errors import ConfigError

    name, equals, text = override.partition("=")
    *holders, key = name.strip().split(".")
    if not equals or not key or holders[:1] != ["query"]:
        raise WrongUsage(f"found --set {override}; allowed: a setting under query: query.vector_weight=0.7")
    for holder in holders:
        inner = values.get(holder)
        values[holder] = inner if isinstance(inner, dict) else {}
        values = values[holder]
    parsed = parse_config(text, name=f"--set {name}")
    if parsed.problems:
        raise ConfigError(f"--set {name}: {parsed.problems[0]}")
    values[key] = parsed.value
