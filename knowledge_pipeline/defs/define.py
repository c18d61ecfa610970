"""Jobs, ops and sensors, each declared once and built with the names of one knowledge base.

An op and a sensor have the name of their function, and the first paragraph of its docstring as description.
"""

# The decorators of Dagster have a bare PathLike, and `copy` and aliases no types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import getdoc
from typing import Any

import dagster as dg

from knowledge_pipeline.defs.dagster_internals import AssetJob
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.errors import ConfigError

_Outcome = dg.SensorResult | dg.RunRequest | dg.SkipReason
_Tick = Callable[[dg.SensorEvaluationContext, ProjectResource], _Outcome]


def sensor(
    *, consequence: str, interval_s: int = 30, job: str | None = None
) -> Callable[[_Tick], Callable[..., dg.SensorDefinition]]:
    """Make a tick a function that builds its sensor with some `Names`; it runs unless someone stops it.

    `consequence` says what a wrong `knowledge.yaml` leaves undone; `job` is the one that it requests.
    """

    def decorate(tick: _Tick) -> Callable[..., dg.SensorDefinition]:
        def build(names: Names = PLAIN) -> dg.SensorDefinition:
            @wraps(tick)
            def run(context: dg.SensorEvaluationContext, project: ProjectResource) -> _Outcome:
                try:
                    return tick(context, project)
                except ConfigError as error:
                    return dg.SkipReason(f"{consequence}: {error}")

            return dg.sensor(
                name=names.definition(tick.__name__),
                job_name=names.definition(job) if job else None,
                minimum_interval_seconds=interval_s,
                default_status=dg.DefaultSensorStatus.RUNNING,
                description=_describe(tick),
            )(names.bind(run))

        return build

    return decorate


def op(
    tags: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], Callable[[Names], dg.OpDefinition]]:
    """Make a step a function that builds its op with some `Names`."""

    def decorate(step: Callable[..., None]) -> Callable[[Names], dg.OpDefinition]:
        def build(names: Names) -> dg.OpDefinition:
            name = names.definition(step.__name__.removeprefix("_"))
            return dg.op(name=name, description=_describe(step), tags=tags)(names.bind(step))

        return build

    return decorate


def _describe(function: Callable[..., None] | _Tick) -> str:
    return " ".join((getdoc(function) or "").partition("\n\n")[0].split())


def build_op_job(
    names: Names, name: str, step: dg.OpDefinition, *, description: str, **options: Any
) -> dg.JobDefinition:
    """The job of one op, which a run's configuration names without the prefix."""
    plain_name = step.name.removeprefix(names.definition(""))

    @dg.job(name=names.definition(name), description=description, **options)
    def run() -> None:
        step.alias(plain_name)()

    return run


def build_asset_job(
    names: Names, name: str, description: str, selection: dg.AssetSelection, **options: Any
) -> AssetJob:
    """The job that materializes some assets, or runs some checks."""
    return dg.define_asset_job(names.definition(name), selection, description=description, **options)
