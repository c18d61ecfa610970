"""What a check found, and what a check is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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
    message: str  # what was found; where it failed, also where
    sample_rows: pa.Table = field(
        default_factory=lambda: pa.table({})
    )  # at most `SAMPLE_ROWS` that are wrong
    figures: Mapping[str, MetricValue] = field(default_factory=dict[str, MetricValue])
    may_recover: bool = False  # failed only because a refresh is under way: look again when it is done


@dataclass(frozen=True, slots=True)
class Check:
    """A rule about what the stages made of one source type."""

    name: str
    stage: str  # whose table it is about
    description: str  # what holds where it passes
    blocking: bool  # whether its failure forbids a release
    run: Callable[[Lake, Settings, SourceType], CheckResult]
    threshold: str | None = None  # the key of `checks` in the settings that it is measured against
    inspect_query: str | None = None  # what shows all the rows: a model of dbt_like_sql, or a query over them
    source_types: tuple[SourceType, ...] = ()  # of the sources that have such a stage; none: of all types

    @property
    def inspect_command(self) -> str | None:
        """What a person types to see the rows."""
        if self.inspect_query is None:
            return None
        return (
            f'knowledge sql --query "{self.inspect_query}"'
            if " " in self.inspect_query
            else f"knowledge sql {self.inspect_query}"
        )


def build_sample(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The first rows as a table; all have the same keys."""
    shown = [dict(row) for _, row in zip(range(SAMPLE_ROWS), rows, strict=False)]
    return pa.Table.from_pylist(shown) if shown else pa.table({})


def compute_share(part: float, whole: float) -> float:
    """A share to four digits; of nothing it is 0."""
    return round(part / whole, 4) if whole else 0.0
