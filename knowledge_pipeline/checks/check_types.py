"""What a check found, and what a check is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from knowledge_pipeline.config.settings import Settings, SourceType
from knowledge_pipeline.store.lake import Lake

SAMPLE_ROWS = 20

Figure = float | int | str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found for one source type."""

    passed: bool
    sentence: str  # what was found; where it failed, also where
    rows: pa.Table = field(default_factory=lambda: pa.table({}))  # at most `SAMPLE_ROWS` that are wrong
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    unsettled: bool = False  # failed only because a refresh is under way: look again when it is done


@dataclass(frozen=True, slots=True)
class Check:
    """A rule about what the stages made of one source type."""

    name: str
    stage: str  # whose table it is about
    about: str  # what holds where it passes
    blocking: bool  # whether its failure forbids a release
    find: Callable[[Lake, Settings, SourceType], Finding]
    threshold: str | None = None  # the key of `checks` in the settings that it is measured against
    look: str | None = None  # what shows all the rows: a model of dbt_like_sql, or a query over them
    types: tuple[SourceType, ...] = ()  # of the sources that have such a stage; none: of all types

    @property
    def command(self) -> str | None:
        """What a person types to see the rows."""
        if self.look is None:
            return None
        return f'knowledge sql --query "{self.look}"' if " " in self.look else f"knowledge sql {self.look}"


def sample(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The first rows as a table; all have the same keys."""
    shown = [dict(row) for _, row in zip(range(SAMPLE_ROWS), rows, strict=False)]
    return pa.Table.from_pylist(shown) if shown else pa.table({})


def share(part: float, whole: float) -> float:
    """A share to four digits; of nothing it is 0."""
    return round(part / whole, 4) if whole else 0.0
