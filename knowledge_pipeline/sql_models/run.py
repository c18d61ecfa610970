"""Running the SQL models: staging ones are views, the others tables, and marts are kept.

A mart is written to `<root>/marts/<name>.parquet`. A test is a query that must give no row.
Nothing is loaded or run that is not needed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.sql_models.files import Model, Plot, list_raw_columns, select_required_models
from knowledge_pipeline.store.duckdb_session import RAW_TABLES, DuckSession, open_duckdb
from knowledge_pipeline.store.lake import Lake

_SAMPLE_ROWS = 10
_PLOT_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class ModelRun:
    """What a model gave; for a test, the rows that should not be."""

    model: Model
    rows: int
    seconds: float
    sample: pa.Table
    path: Path | None  # of a mart's file
    plot_data: Sequence[tuple[Plot, pa.Table]]  # what the mart's plots show


@dataclass(frozen=True, slots=True)
class SqlResult:
    """The first rows of a select, and how many there are in all."""

    rows: pa.Table
    total: int


def refresh(lake: Lake, models: Sequence[Model], names: Collection[str] | None = None) -> Iterator[ModelRun]:
    """Run models and tests, and tell of each when it is done; marts are written.

    Args:
        lake: the store.
        models: all of them, as `model_files.load` gives them.
        chosen: names of those to make; what they read is run, but neither kept nor told of.

    Raises:
        ConfigError: a model cannot be run; those before it are done.
        NotFound: there is no model of a name.
    """
    wanted = {model.name for model in models} if names is None else set(names)
    running = select_required_models(models, wanted)
    with open_duckdb(lake) as duck:
        _load_raw_tables(duck, running)
        for model in running:
            started = time.perf_counter()
            _create_model(duck, model)
            if model.name in wanted:
                yield _to_model_run(duck, model, started)


def query_model(lake: Lake, models: Sequence[Model], name: str, *, limit: int | None) -> SqlResult:
    """The rows of one model as the store is now; nothing is written.

    Raises:
        NotFound: there is no model of that name.
    """
    return _run_select(lake, select_required_models(models, [name]), _select_all(name), limit=limit)


def run_query(lake: Lake, models: Sequence[Model], query: str, *, limit: int | None) -> SqlResult:
    """The rows of somebody's select over models and raw tables; it can reach nothing else.

    Raises:
        QuestionRefused: it is not one select, or reads anything else, or DuckDB cannot run it.
    """
    from knowledge_pipeline.sql_models.parse import list_names, list_tables, parse_select

    sql = query.strip().removesuffix(";")
    try:
        select = parse_select(sql)
    except ValueError as error:
        raise InvalidQuery(f"the query {error}") from None
    reads, known = list_tables(select), {model.name for model in models if model.layer != "tests"}
    for read in reads:
        if read not in known and read not in RAW_TABLES:
            there_are = ", ".join([*RAW_TABLES, *sorted(known)])
            raise InvalidQuery(f"the query reads {read!r}, which does not exist; there are: {there_are}")
    running = select_required_models(models, [read for read in reads if read not in RAW_TABLES])
    return _run_select(lake, running, sql, limit=limit, reads=reads, names=list_names(select))


def _run_select(
    lake: Lake,
    required_models: Sequence[Model],
    select: str,
    *,
    limit: int | None,
    reads: Sequence[str] = (),
    names: frozenset[str] | None = frozenset(),
) -> SqlResult:
    with open_duckdb(lake) as duck:
        _load_raw_tables(duck, required_models, reads, names)
        for model in required_models:
            _create_model(duck, model)
        duck.disable_external_access()
        found = duck.run_user_query(select, limit=limit)
        complete = limit is None or found.num_rows < limit
        return SqlResult(found, found.num_rows if complete else duck.count_rows(select))


def _load_raw_tables(
    duck: DuckSession,
    required_models: Sequence[Model],
    reads: Sequence[str] = (),
    names: frozenset[str] | None = frozenset(),
) -> None:
    """Load the columns of raw tables that some models, and a select that is none, read."""
    readers = [(model.reads, model.names) for model in required_models]
    readers.append((tuple(reads), names))
    for raw in RAW_TABLES:
        mentioned = [named for read, named in readers if raw in read]
        if mentioned:
            duck.load_raw_table(raw, list_raw_columns(raw, mentioned))


def _create_model(duck: DuckSession, model: Model) -> None:
    make = duck.create_table if model.layer in ("intermediate", "marts") else duck.create_view
    make(model.name, model.sql)


def _to_model_run(duck: DuckSession, model: Model, started: float) -> ModelRun:
    path = duck.write_parquet(model.name, duck.lake.folder / "marts") if model.layer == "marts" else None
    count, sample = (
        duck.count_rows(_select_all(model.name)),
        duck.fetch_rows(_select_all(model.name), limit=_SAMPLE_ROWS),
    )
    drawn = [
        (plot, duck.fetch_rows(_plot_query(model, plot), limit=_PLOT_ROWS)) for plot in model.plots if count
    ]
    return ModelRun(model, count, round(time.perf_counter() - started, 4), sample, path, drawn)


def _select_all(name: str) -> str:
    return f'select * from "{name}"'  # noqa: S608 - the name of a file of ours


def _plot_query(model: Model, plot: Plot) -> str:
    by = f'"{plot.by}"' if plot.by else "''"
    order = "x" if plot.kind == "line" else "1"
    return (
        f'select "{plot.x}" as x, "{plot.y}"::double as y, {by}::varchar as series '  # noqa: S608
        f'from "{model.name}" where "{plot.x}" is not null and "{plot.y}" is not null order by {order}'
    )
