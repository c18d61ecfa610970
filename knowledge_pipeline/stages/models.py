"""The SQL models: one `select` a file, ordered by what it reads, which the SQL itself says.

Staging models are views, marts are written to `<root>/marts/`, and a test is a query that
must give no row.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path

import pyarrow as pa

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.store.duck import RAW, Duck, opened
from knowledge_pipeline.store.lake import Lake

FOLDER = Path(__file__).parent.parent.parent / "dbt_like_sql"

_LAYERS = ("staging", "intermediate", "marts", "tests")
_SHOWN_ROWS = 5


@dataclass(frozen=True, slots=True)
class Model:
    """One file of SQL."""

    name: str
    layer: str  # the folder: "staging", "intermediate", "marts" or "tests"
    sql: str
    about: str  # the comment on top, a paragraph a line
    reads: tuple[str, ...]  # models and raw tables, in the order they are named


@dataclass(slots=True)
class Made:
    """What a model gave; for a test, the rows that should not be."""

    model: Model
    rows: int
    seconds: float
    sample: pa.Table
    path: Path | None = field(default=None)  # of a mart's file


def load(folder: Path = FOLDER) -> list[Model]:
    """All models and tests, each after what it reads.

    Raises:
        ConfigError: a file is no single select, or reads what does not exist, or itself.
    """
    models = {
        path.stem: _model(path, layer) for layer in _LAYERS for path in sorted((folder / layer).glob("*.sql"))
    }
    for model in models.values():
        for read in model.reads:
            if read not in models and read not in RAW:
                known = ", ".join([*RAW, *models])
                raise ConfigError(
                    f"{model.name}.sql reads {read!r}, which does not exist; there are: {known}"
                )
    graph = {name: [read for read in model.reads if read in models] for name, model in models.items()}
    try:
        return [models[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise ConfigError(f"SQL models read each other in a circle: {' <- '.join(error.args[1])}") from error


def refresh(lake: Lake, models: list[Model]) -> list[Made]:
    """Run models and tests, in the order given, which is the one of `load`."""
    with opened(lake) as duck:
        for raw in dict.fromkeys(read for model in models for read in model.reads if read in RAW):
            duck.load(raw)
        return [_run(duck, lake, model) for model in models]


def _model(path: Path, layer: str) -> Model:
    import sqlglot
    from sqlglot import exp

    sql = path.read_text(encoding="utf-8").strip().removesuffix(";")
    try:
        select = sqlglot.parse_one(sql, dialect="duckdb")
    except sqlglot.ParseError as error:
        raise ConfigError(f"{layer}/{path.name} is not one select: {str(error).splitlines()[0]}") from None
    if not isinstance(select, exp.Query):
        raise ConfigError(f"{layer}/{path.name} is not one select: models only read")
    own = {cte.alias for cte in select.find_all(exp.CTE)}
    tables = sorted(select.find_all(exp.Table), key=lambda table: table.meta.get("start", 0))
    reads = dict.fromkeys(table.name for table in tables if table.name not in own)
    comment = [line[2:].strip() for line in takewhile(lambda line: line.startswith("--"), sql.splitlines())]
    return Model(path.stem, layer, sql, "\n\n".join(comment), tuple(reads))


def _run(duck: Duck, lake: Lake, model: Model) -> Made:
    started, path = time.perf_counter(), None
    make = duck.create_table if model.layer == "marts" else duck.create_view
    make(model.name, model.sql)
    if model.layer == "marts":
        path = duck.write(model.name, lake.root / "marts")
    select = f'select * from "{model.name}"'  # noqa: S608 - the name of a file of ours
    rows, sample = duck.count(select), duck.rows(select, limit=_SHOWN_ROWS)
    return Made(model, rows, round(time.perf_counter() - started, 4), sample, path)
