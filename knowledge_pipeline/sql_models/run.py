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

from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.sql_models.files import Model, Plot, needed, raw_columns
from knowledge_pipeline.store.duckdb_session import RAW, Duck, opened
from knowledge_pipeline.store.lake import Lake

_SHOWN_ROWS = 10
_DRAWN_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Made:
    """What a model gave; for a test, the rows that should not be."""

    model: Model
    rows: int
    seconds: float
    sample: pa.Table
    path: Path | None  # of a mart's file
    drawn: Sequence[tuple[Plot, pa.Table]]  # what the mart's plots show


@dataclass(frozen=True, slots=True)
class Answer:
    """The first rows of a select, and how many there are in all."""

    rows: pa.Table
    total: int


def refresh(lake: Lake, models: Sequence[Model], chosen: Collection[str] | None = None) -> Iterator[Made]:
    """Run models and tests, and tell of each when it is done; marts are written.

    Args:
        lake: the store.
        models: all of them, as `model_files.load` gives them.
        chosen: names of those to make; what they read is run, but neither kept nor told of.

    Raises:
        ConfigError: a model cannot be run; those before it are done.
        NotFound: there is no model of a name.
    """
    wanted = {model.name for model in models} if chosen is None else set(chosen)
    running = needed(models, wanted)
    with opened(lake) as duck:
        _load(duck, running)
        for model in running:
            started = time.perf_counter()
            _run(duck, model)
            if model.name in wanted:
                yield _made(duck, model, started)


def rows(lake: Lake, models: Sequence[Model], name: str, *, limit: int | None) -> Answer:
    """The rows of one model as the store is now; nothing is written.

    Raises:
        NotFound: there is no model of that name.
    """
    return _answer(lake, needed(models, [name]), _all_of(name), limit=limit)


def ask(lake: Lake, models: Sequence[Model], query: str, *, limit: int | None) -> Answer:
    """The rows of somebody's select over models and raw tables; it can reach nothing else.

    Raises:
        QuestionRefused: it is not one select, or reads anything else, or DuckDB cannot run it.
    """
    from knowledge_pipeline.sql_models.parse import names_in, parsed, tables_in

    sql = query.strip().removesuffix(";")
    try:
        select = parsed(sql)
    except ValueError as error:
        raise QuestionRefused(f"the query {error}") from None
    reads, known = tables_in(select), {model.name for model in models if model.layer != "tests"}
    for read in reads:
        if read not in known and read not in RAW:
            there_are = ", ".join([*RAW, *sorted(known)])
            raise QuestionRefused(f"the query reads {read!r}, which does not exist; there are: {there_are}")
    running = needed(models, [read for read in reads if read not in RAW])
    return _answer(lake, running, sql, limit=limit, reads=reads, names=names_in(select))


def _answer(
    lake: Lake,
    running: Sequence[Model],
    select: str,
    *,
    limit: int | None,
    reads: Sequence[str] = (),
    names: frozenset[str] | None = frozenset(),
) -> Answer:
    with opened(lake) as duck:
        _load(duck, running, reads, names)
        for model in running:
            _run(duck, model)
        duck.close_doors()
        found = duck.answer(select, limit=limit)
        complete = limit is None or found.num_rows < limit
        return Answer(found, found.num_rows if complete else duck.count(select))


def _load(
    duck: Duck,
    running: Sequence[Model],
    reads: Sequence[str] = (),
    names: frozenset[str] | None = frozenset(),
) -> None:
    """Load the columns of raw tables that some models, and a select that is none, read."""
    readers = [(model.reads, model.names) for model in running]
    readers.append((tuple(reads), names))
    for raw in RAW:
        mentioned = [named for read, named in readers if raw in read]
        if mentioned:
            duck.load(raw, raw_columns(raw, mentioned))


def _run(duck: Duck, model: Model) -> None:
    make = duck.create_table if model.layer in ("intermediate", "marts") else duck.create_view
    make(model.name, model.sql)


def _made(duck: Duck, model: Model, started: float) -> Made:
    path = duck.write(model.name, duck.lake.folder / "marts") if model.layer == "marts" else None
    count, sample = duck.count(_all_of(model.name)), duck.rows(_all_of(model.name), limit=_SHOWN_ROWS)
    drawn = [(plot, duck.rows(_drawn(model, plot), limit=_DRAWN_ROWS)) for plot in model.plots if count]
    return Made(model, count, round(time.perf_counter() - started, 4), sample, path, drawn)


def _all_of(name: str) -> str:
    return f'select * from "{name}"'  # noqa: S608 - the name of a file of ours


def _drawn(model: Model, plot: Plot) -> str:
    by = f'"{plot.by}"' if plot.by else "''"
    order = "x" if plot.kind == "line" else "1"
    return (
        f'select "{plot.x}" as x, "{plot.y}"::double as y, {by}::varchar as series '  # noqa: S608
        f'from "{model.name}" where "{plot.x}" is not null and "{plot.y}" is not null order by {order}'
    )
