"""Runs the SQL models: staging models become views, the others tables, and marts are kept.

A mart is written to `<root>/marts/<name>.parquet`. A test is a query that must return no row. Only what is
needed is loaded and run.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from knowledge_pipeline.errors import ConfigError, InvalidQuery
from knowledge_pipeline.sql_models.files import select_required_models
from knowledge_pipeline.sql_models.model import Model, Plot
from knowledge_pipeline.store.duckdb_session import RAW_TABLES, DuckSession, open_duckdb
from knowledge_pipeline.store.lake import Lake

_SAMPLE_ROWS = 10
_PLOT_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class ModelRun:
    """The rows of a model; for a test, those that should not exist."""

    model: Model
    rows: int
    seconds: float
    sample: pa.Table
    path: Path | None  # of a mart's file
    plot_data: Sequence[tuple[Plot, pa.Table]]

    @property
    def has_failed(self) -> bool:
        """Whether it is a test that must not fail, and did."""
        return self.model.layer == "tests" and self.model.severity == "error" and self.rows > 0

    def describe_failure(self) -> str:
        """One sentence about a test that failed."""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"the test {self.model.name} found {rows} that should not exist"


@dataclass(frozen=True, slots=True)
class SqlResult:
    """The first rows of a select, and the number of all."""

    rows: pa.Table
    total: int


def refresh(
    lake: Lake,
    models: Sequence[Model],
    names: Collection[str] | None = None,
    *,
    sources: pa.Table | None = None,
) -> Iterator[ModelRun]:
    """Run models and tests, yield each when it is done, and write marts.

    `models` are all of them. What the models of `names` read is run, but neither kept nor yielded. `sources`
    are those that are configured, from `build_configured_sources`; without, `raw_sources` is empty.

    Raises:
        ConfigError: some models cannot run, each of which it names; those that do not read them are done.
        NotFound: there is no model of a name.
    """
    wanted = {model.name for model in models} if names is None else set(names)
    running = select_required_models(models, wanted)
    problems: dict[str, str] = {}
    with open_duckdb(lake, sources=sources) as duck:
        _load_raw_tables(duck, running)
        for model in running:
            if missing := [read for read in model.reads if read in problems]:
                problems[model.name] = f"{model.file} was not run, as it reads {missing[0]}"
                continue
            try:
                done = _run_model(duck, model, lake if model.name in wanted else None)
            except ConfigError as error:
                problems[model.name] = str(error)
            else:
                if done:
                    yield done
    if problems:
        raise ConfigError("; ".join(problems.values()))


def _run_model(duck: DuckSession, model: Model, lake: Lake | None) -> ModelRun | None:
    """Run a model that others may read; None without a lake, where they alone want it."""
    started = time.perf_counter()
    _create_model(duck, model)
    if lake is None:
        return None
    with duck.naming_errors(model.name):
        path = duck.write_parquet(model.name, lake.folder / "marts") if model.layer == "marts" else None
        select = _select_all(model.name)
        count, sample = duck.count_rows(select), duck.fetch_rows(select, limit=_SAMPLE_ROWS)
        plots = model.plots if count else ()
        drawn = [(plot, duck.fetch_rows(_plot_query(model, plot), limit=_PLOT_ROWS)) for plot in plots]
    return ModelRun(model, count, round(time.perf_counter() - started, 4), sample, path, drawn)


def query_model(
    lake: Lake, models: Sequence[Model], name: str, *, limit: int | None, sources: pa.Table | None = None
) -> SqlResult:
    """The rows of one model for the store as it is now; nothing is written. `sources` as in `refresh`.

    Raises:
        NotFound: there is no model of that name.
    """
    required = select_required_models(models, [name])
    return _run_select(lake, required, _select_all(name), limit=limit, sources=sources)


def run_query(
    lake: Lake, models: Sequence[Model], query: str, *, limit: int | None, sources: pa.Table | None = None
) -> SqlResult:
    """The rows of a user's select over models and raw tables; it can reach nothing else.

    Raises:
        InvalidQuery: it is not one select, or reads anything else, or DuckDB cannot run it.
    """
    from knowledge_pipeline.sql_models.parse import list_names, list_tables, parse_select

    sql = query.strip().removesuffix(";")
    try:
        select = parse_select(sql)
    except ValueError as error:
        raise InvalidQuery(f"the query {error}") from None
    reads, names = list_tables(select), {model.name for model in models if model.layer != "tests"}
    for read in reads:
        if read not in names and read not in RAW_TABLES:
            existing = ", ".join([*RAW_TABLES, *sorted(names)])
            raise InvalidQuery(f"the query reads {read!r}, which does not exist; there are: {existing}")
    running = select_required_models(models, [read for read in reads if read not in RAW_TABLES])
    names_read = list_names(select)
    return _run_select(lake, running, sql, limit=limit, reads=reads, names=names_read, sources=sources)


def _run_select(
    lake: Lake,
    required_models: Sequence[Model],
    select: str,
    *,
    limit: int | None,
    reads: Sequence[str] = (),
    names: frozenset[str] | None = frozenset(),
    sources: pa.Table | None = None,
) -> SqlResult:
    with open_duckdb(lake, sources=sources) as duck:
        _load_raw_tables(duck, required_models, reads, names)
        for model in required_models:
            _create_model(duck, model)
        duck.disable_external_access()
        rows = duck.run_user_query(select, limit=limit)
        is_complete = limit is None or rows.num_rows < limit
        return SqlResult(rows, rows.num_rows if is_complete else duck.count_rows(select))


def _load_raw_tables(
    duck: DuckSession,
    required_models: Sequence[Model],
    reads: Sequence[str] = (),
    names: frozenset[str] | None = frozenset(),
) -> None:
    readers = [*((model.reads, model.names) for model in required_models), (tuple(reads), names)]
    for raw, schema in RAW_TABLES.items():
        known_names = [names for tables, names in readers if raw in tables]
        if None in known_names:  # a star stands for columns
            duck.load_raw_table(raw, schema.names)
        elif known_names:
            mentioned = set[str]().union(*(names for names in known_names if names))
            duck.load_raw_table(raw, [column for column in schema.names if column in mentioned])


def _create_model(duck: DuckSession, model: Model) -> None:
    create = duck.create_table if model.layer in ("intermediate", "marts") else duck.create_view
    create(model.name, model.sql)


def _select_all(name: str) -> str:
    return f'select * from "{name}"'  # noqa: S608 - the name of a file of ours


def _plot_query(model: Model, plot: Plot) -> str:
    by = f'"{plot.by}"' if plot.by else "''"
    order = "x" if plot.kind == "line" else "1"
    return (
        f'select "{plot.x}" as x, "{plot.y}"::double as y, {by}::varchar as series '  # noqa: S608
        f'from "{model.name}" where "{plot.x}" is not null and "{plot.y}" is not null order by {order}'
    )
