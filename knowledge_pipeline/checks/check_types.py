"""A check, and the result of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.store.lake import Lake

SAMPLE_ROWS = 20

MetricValue = float | int | str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found for one source type."""

    passed: bool
    message: str  # what was found, and for a failure where
    sample_rows: pa.Table = field(
        default_factory=lambda: pa.Table.from_pydict({})
    )  # at most `SAMPLE_ROWS`, all wrong
    figures: Mapping[str, MetricValue] = field(default_factory=dict[str, MetricValue])
    may_recover: bool = False  # failed only because a refresh is running: check again when it is done


@dataclass(frozen=True, slots=True)
class Check:
    """A rule about what the stages made of one source type."""

    name: str
    stage: str  # whose table it checks
    description: str  # what holds where it passes
    run: Callable[[Lake, Settings, SourceType], CheckResult]
    blocking: bool = False  # whether its failure forbids a release
    threshold: str | None = None  # its key in `checks` of the settings
    inspect_query: str | None = None  # shows all the rows: a model of dbt_like_sql, or a query
    source_types: tuple[SourceType, ...] = ()  # that have such a stage; none: all

    @property
    def inspect_command(self) -> str | None:
        """The command that shows the rows."""
        if self.inspect_query is None:
            return None
        query = f'--query "{self.inspect_query}"' if " " in self.inspect_query else self.inspect_query
        return f"knowledge sql {query}"


def build_sample(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The first rows as a table; all have the same keys."""
    first = [dict(row) for row in islice(rows, SAMPLE_ROWS)]
    return pa.Table.from_pylist(first) if first else pa.Table.from_pydict({})


def compute_share(part: float, whole: float) -> float:
    """A share, rounded to four digits; 0 of nothing."""
    return round(part / whole, 4) if whole else 0.0
