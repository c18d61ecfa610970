"""`--set KEY=VALUE`: query settings that count for one run, checked as those of `knowledge.yaml` are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.session import WrongUsage

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings


def overridden(settings: Settings, given: Sequence[str]) -> Settings:
    """The settings under `query.vector_weight=0.7` and the like; a value is read as YAML.

    Raises:
        WrongUsage: one is no `query.KEY=VALUE`.
        ConfigError: a key is unknown or its value not allowed; one line for every problem.
    """
    from pydantic import ValidationError

    from knowledge_pipeline.config.problems import problem_of
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.config.yaml_lines import Parsed
    from knowledge_pipeline.errors import ConfigError

    if not given:
        return settings
    values = {**dict(settings), "query": settings.query.model_dump(exclude_unset=True)}
    for each in given:
        _put(values, each)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        refused = error.errors(include_url=False, include_input=False)
        raise ConfigError("\n".join(f"--set {problem_of(one, Parsed(values))}" for one in refused)) from None


def _put(values: dict[str, Any], given: str) -> None:
    from knowledge_pipeline.config.yaml_lines import parse
    from knowledge_pipeline.errors import ConfigError

    name, equals, text = given.partition("=")
    *holders, key = name.strip().split(".")
    if not equals or not key or holders[:1] != ["query"]:
        raise WrongUsage(f"found --set {given}; allowed: a setting under query: query.vector_weight=0.7")
    for holder in holders:
        inner = values.get(holder)
        values[holder] = inner if isinstance(inner, dict) else {}
        values = values[holder]
    parsed = parse(text, name=f"--set {name}")
    if parsed.problems:
        raise ConfigError(f"--set {name}: {parsed.problems[0]}")
    values[key] = parsed.value
