"""A SQL model: one file of `dbt_like_sql/`, with what its SQL and its comments say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plot:
    """How a mart is drawn."""

    kind: str  # "line" or "bar"
    x: str  # column along the axis: days, names, sizes
    y: str  # column of numbers
    by: str | None  # column with a line, or a colour, for each value


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a model."""

    type: str  # as DuckDB calls it: "VARCHAR", "TIMESTAMP WITH TIME ZONE"
    comment: str  # at the end of its line; "" where there is none
    origins: tuple[tuple[str, str], ...]  # columns of models or raw tables that its value comes from


@dataclass(frozen=True, slots=True)
class Model:
    """One SQL file."""

    name: str
    file: str  # its path in the folder of models
    layer: str  # the first folder of it: "staging", "intermediate", "marts" or "tests"
    sql: str
    about: str  # the comment at the top, without the directives
    answers: str  # the question that it answers; "" where it names none
    grain: str  # "one row per source"; "" for a test
    severity: str  # of a test: "error" or "warn"
    plots: tuple[Plot, ...]
    reads: tuple[str, ...]  # models and raw tables, in the order of their names in the SQL
    names: frozenset[str] | None  # every name in the SQL; None where a star stands for columns
    columns: Mapping[str, Column]
