"""How the definitions of one knowledge base are named, so that several share a code location.

Names of jobs, ops, schedules, sensors and resources are unique in a code location, asset keys and sets of
partitions in an instance. A prefix keeps them apart: without one, everything has its plain name.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from inspect import isgeneratorfunction, signature
from typing import Any, ParamSpec, TypeVar, get_args

import dagster as dg

from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.stages.pipeline import STAGES

_P = ParamSpec("_P")
_R = TypeVar("_R")

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_RESOURCE = "project"
_TYPES = frozenset(get_args(SourceType))
_SINGLE_ASSETS = frozenset({"sources", "evaluation", "release", "tuning", "publication"})
_JOBS = (
    *("refresh", "purge", "maintenance", "migration", "checks", "organisations"),
    *("release", "rollback", "tuning", "publication", "sql_models", "permissions"),
)
_OWN_POOLS = frozenset({"index", "release", "publication"})
"""Pools that guard the store. Others guard what all knowledge bases share: a host, this machine's cores."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one knowledge base; ConfigError where a prefix has what Dagster takes in no name."""

    prefix: tuple[str, ...] = ()
    group_prefix: str = ""
    partitions_prefix: str = ""
    _jobs: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        groups = self.group_prefix.split("/")
        for word in (*self.prefix, *filter(None, (*groups, self.partitions_prefix))):
            if not _WORD.fullmatch(word):
                raise ConfigError(
                    f"{word!r} cannot be a prefix: a letter first, then letters, digits and _; "
                    "a key_prefix of several words is a list, or text with / between them"
                )
        object.__setattr__(self, "_jobs", frozenset(map(self.definition, _JOBS)))

    def key(self, *path: str) -> dg.AssetKey:
        """The asset that is `path` without a prefix: `code/chunks`, `release`."""
        return dg.AssetKey([*self.prefix, *path])

    def definition(self, name: str) -> str:
        """The name of a job, op, schedule or sensor."""
        return "_".join((*self.prefix, name))

    def group(self, name: str) -> str:
        """The name of a group of assets, within that of the knowledge base if it has a prefix."""
        return "/".join(filter(None, (self.group_prefix, name)))

    def partitions(self, source_type: str) -> str:
        """The name of the set of a type's partitions."""
        return "_".join(filter(None, (self.partitions_prefix, f"{source_type}_sources")))

    def pool(self, name: str) -> str:
        """The name of a pool: its own for what guards the store, else the one that all share."""
        return self.definition(name) if name in _OWN_POOLS else name

    @property
    def resource(self) -> str:
        """The key of the resource that has the settings."""
        return self.definition(_RESOURCE)

    def has_key(self, key: dg.AssetKey) -> bool:
        """Whether it is an asset of this knowledge base, SQL models aside: `marts/orders` is anybody's."""
        count = len(self.prefix)
        mine, path = tuple(key.path[:count]), key.path[count:]
        if mine != self.prefix or len(path) not in (1, 2):
            return False
        return path[0] in _SINGLE_ASSETS if len(path) == 1 else path[0] in _TYPES and path[1] in STAGES

    def has_run(self, run: dg.DagsterRun) -> bool:
        """Whether a run is of one of its jobs, or of assets or checks that are its own."""
        keys = {*(run.asset_selection or ()), *(check.asset_key for check in run.asset_check_selection or ())}
        return run.job_name in self._jobs or any(map(self.has_key, keys))

    def bind(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """The same for Dagster, which takes a parameter's name, `project`, as the key of its resource."""
        return function if self.resource == _RESOURCE else _rename_parameter(function, self.resource)


PLAIN = Names()
"""Those of the only knowledge base of a code location."""


def build_names(
    key_prefix: str | Sequence[str] | None, group_prefix: str | None, partitions: str | None
) -> Names:
    """Names by what a user gives: `group_prefix` and `partitions` are the key prefix's unless given."""
    words = key_prefix.split("/") if isinstance(key_prefix, str) else key_prefix or ()
    prefix = tuple(words) if key_prefix else ()
    group = "/".join(prefix) if group_prefix is None else group_prefix
    sets = "_".join(prefix) if partitions is None else partitions
    return Names(prefix, group, sets)


def _rename_parameter(function: Callable[_P, _R], resource: str) -> Callable[_P, _R]:
    def restore(kwargs: dict[str, Any]) -> dict[str, Any]:
        return {_RESOURCE if name == resource else name: value for name, value in kwargs.items()}

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **restore(kwargs))  # pyright: ignore[reportCallIssue]

    def iterate(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield from call(*args, **kwargs)

    def rename(name: str) -> str:
        return resource if name == _RESOURCE else name

    bound: Any = wraps(function)(iterate if isgeneratorfunction(function) else call)  # Dagster asks for that
    written = signature(function)
    parameters = [parameter.replace(name=rename(name)) for name, parameter in written.parameters.items()]
    bound.__signature__ = written.replace(parameters=parameters)
    bound.__annotations__ = {rename(name): kind for name, kind in function.__annotations__.items()}
    return bound
