"""Loads the files of `dbt_like_sql/`, one select each, as models: parsed with sqlglot, with column lineage.

The comment at the top of a file says what a row means, then has directives, such as
`-- grain: one row per source` (docs/sql.md). What a model reads, and where its columns come from, is parsed
from its SQL. That takes a second, so the result for the same files is kept in the user's cache folder.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage  # pyright: ignore[reportUnknownVariableType]  # a bare dict in its signature

from knowledge_pipeline.errors import ConfigError, NotFound
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.sql_models.model import Column, Model, Plot
from knowledge_pipeline.store.duckdb_session import RAW_TABLES, open_duckdb
from knowledge_pipeline.store.lake import Lake

ColumnOrigin = tuple[str, str]
"""A model or raw table, and a column of it."""


def trace_column_origins(selects: Mapping[str, exp.Query]) -> dict[str, dict[str, list[ColumnOrigin]]]:
    """For each model, its columns with their origins.

    A column that counts rows, or is a constant, has none. Origins are what a value is computed from, not what
    selects, joins or orders rows. Each select follows what it reads; names in it become qualified.
    """
    schema = {name: dict.fromkeys(columns.names, "unknown") for name, columns in RAW_TABLES.items()}
    origins: dict[str, dict[str, list[ColumnOrigin]]] = {}
    for name, select in selects.items():
        reads = {table.name for table in select.find_all(exp.Table)}
        read_columns = {table: columns for table, columns in schema.items() if table in reads}
        nodes = lineage(None, select, read_columns, dialect="duckdb", copy=False, trim_selects=False)
        origins[name] = {
            column: sorted(
                {
                    (leaf.expression.name, leaf.name.rpartition(".")[2])
                    for leaf in node.walk()
                    if not leaf.downstream and isinstance(leaf.expression, exp.Table)
                }
            )
            for column, node in nodes.items()
        }
        schema[name] = dict.fromkeys(nodes, "unknown")
    return origins


_WRITE_EXPRESSIONS = (exp.Into, exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create)

_DIRECTIVE = re.compile(r"(answers|grain|plot|severity):\s*(.+)")
_PLOT = re.compile(r"(?P<kind>line|bar) x=(?P<x>\w+) y=(?P<y>\w+)(?: by=(?P<by>\w+))?")


def parse_models(files: Mapping[str, str]) -> list[Model]:
    """The models of some files, by path, each after what it reads. Raises `ConfigError` as `load_models`."""
    models: dict[str, Model] = {}
    selects: dict[str, exp.Query] = {}
    for file, text in files.items():
        name = Path(file).stem
        if name in models or name in RAW_TABLES:
            raise ConfigError(f"{file} has a name that is taken: rename the file")
        sql = text.strip().removesuffix(";")
        try:
            selects[name] = parse_select(sql)
        except ValueError as error:
            raise ConfigError(f"{file} {error}") from None
        models[name] = _build_model(file, sql, selects[name])
    for model in models.values():
        for read in model.reads:
            if read not in models and read not in RAW_TABLES:
                names = ", ".join([*RAW_TABLES, *models])
                raise ConfigError(f"{model.file} reads {read!r}, which does not exist; there are: {names}")
    graph = {name: [read for read in model.reads if read in models] for name, model in models.items()}
    try:
        ordered = [models[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise ConfigError(f"SQL models read each other in a circle: {' <- '.join(error.args[1])}") from error
    types = _load_column_types(ordered)
    comments = {  # at the end of each column's line; tracing moves them
        name: {
            column.alias_or_name: " ".join(comment.strip() for comment in column.comments or [])
            for column in select.selects
        }
        for name, select in selects.items()
    }
    origins = trace_column_origins({model.name: selects[model.name] for model in ordered})
    return [
        _add_columns(model, types[model.name], comments[model.name], origins[model.name]) for model in ordered
    ]


def parse_select(sql: str) -> exp.Query:
    """Parse a text that must be one select.

    Raises:
        ValueError: it is not, or does more than select.
    """
    try:
        select = sqlglot.parse_one(sql, dialect="duckdb")
    except SqlglotError as error:
        raise ValueError(f"is not one select: {str(error).splitlines()[0].rstrip('.')}") from None
    if not isinstance(select, exp.Query) or any(select.find_all(*_WRITE_EXPRESSIONS)):
        raise ValueError("is not one select: it may only read")
    return select


def list_tables(select: exp.Query) -> tuple[str, ...]:
    """The models and raw tables that a select reads, in the order of their names."""
    own = {cte.alias for cte in select.find_all(exp.CTE)}
    tables = [table for table in select.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    tables.sort(key=lambda table: table.this.meta.get("start", 0))
    return tuple(dict.fromkeys(table.name for table in tables if table.name not in own))


def list_names(select: exp.Query) -> frozenset[str] | None:
    """Every name in a select, including columns; None where a star stands for columns."""
    if any(not isinstance(star.parent, exp.Count) for star in select.find_all(exp.Star)):
        return None
    return frozenset(identifier.name for identifier in select.find_all(exp.Identifier))


def _build_model(file: str, sql: str, select: exp.Query) -> Model:
    top = [line[2:].strip() for line in takewhile(lambda line: line.startswith("--"), sql.splitlines())]
    directives: dict[str, list[str]] = {}
    for line in top:
        if directive := _DIRECTIVE.fullmatch(line):
            directives.setdefault(directive[1], []).append(directive[2])
    severity = directives.get("severity", ["error"])[-1]
    if severity not in ("error", "warn"):
        raise ConfigError(f"{file}: severity is {severity!r}: write error or warn")
    plots: list[Plot] = []
    for text in directives.get("plot", []):
        match = _PLOT.fullmatch(text)
        if match is None:
            raise ConfigError(f"{file}: cannot read the plot {text!r}: write `line x=day y=cost by=model`")
        plots.append(Plot(match["kind"], match["x"], match["y"], match["by"]))
    layer, _, name = file.removesuffix(".sql").rpartition("/")
    return Model(
        name=name,
        layer=layer,
        sql=sql,
        about=" ".join(line for line in top if line and not _DIRECTIVE.fullmatch(line)),
        answers=" ".join(directives.get("answers", [])),
        grain=" ".join(directives.get("grain", [])),
        severity=severity,
        plots=tuple(plots),
        reads=list_tables(select),
        names=list_names(select),
        columns={},
    )


def _load_column_types(models: Sequence[Model]) -> dict[str, dict[str, str]]:
    """The types that DuckDB gives each model over empty tables. Raises `ConfigError` if it cannot run one."""
    with tempfile.TemporaryDirectory() as empty, open_duckdb(Lake(Path(empty))) as duck:
        for raw, schema in RAW_TABLES.items():
            duck.load_raw_table(raw, schema.names)
        for model in models:
            duck.create_view(model.name, model.sql)
        return {model.name: duck.column_types(model.name) for model in models}


def _add_columns(
    model: Model,
    types: Mapping[str, str],
    comments: Mapping[str, str],
    column_origins: Mapping[str, Sequence[ColumnOrigin]],
) -> Model:
    columns = {
        name: Column(type_, comments.get(name, ""), tuple(column_origins.get(name, ())))
        for name, type_ in types.items()
    }
    for plot in model.plots:
        for name in (plot.x, plot.y, plot.by):
            if name is not None and name not in columns:
                raise ConfigError(f"{model.file}: the plot names {name!r}, which is not a column")
    return replace(model, columns=columns)


FOLDER = Path(__file__).parent.parent.parent / "dbt_like_sql"
"""Next to the package: in the repository, and where a wheel is installed."""

LAYERS = ("staging", "intermediate", "marts", "tests")


def load_models(folder: Path = FOLDER, *, own_folders: Iterable[Path] = ()) -> list[Model]:
    """All models and tests, with those of a project's own folders, each after what it reads.

    Raises:
        ConfigError: there are none; a file is not one select, has an invalid directive, reads something
            that does not exist, or itself, or DuckDB cannot run it; or one of a project's own folders
            has no model, or one of a name that is taken.
    """
    files = _read_files(folder)
    for own in own_folders:
        _add_own_files(files, own)
    if not files:
        raise ConfigError(
            f"there are no SQL models in {folder}: install the package with its dbt_like_sql folder, "
            "or run from a checkout of the repository"
        )
    from platformdirs import user_cache_path

    folder = user_cache_path("knowledge-pipeline", appauthor=False) / "sql-models"
    path = folder / f"{hash_strings(_code_version(), *files, *files.values())}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        return [_model_from_json(cached) for cached in json.loads(path.read_text(encoding="utf-8"))]
    models = parse_models(files)
    with suppress(OSError):  # written atomically; all but the four newest ones are deleted
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime)[:-4]:
            old.unlink(missing_ok=True)
        unfinished = path.with_suffix(f".{hash_strings(path.name, str(id(models)))}")
        cached = [{**asdict(model), "names": model.names and sorted(model.names)} for model in models]
        unfinished.write_text(json.dumps(cached), encoding="utf-8")
        unfinished.replace(path)
    return models


def _read_files(folder: Path) -> dict[str, str]:
    return {
        f"{layer}/{path.name}": path.read_text(encoding="utf-8")
        for layer in LAYERS
        for path in sorted((folder / layer).glob("*.sql"))
    }


def _add_own_files(files: dict[str, str], folder: Path) -> None:
    own_files = _read_files(folder)
    if not own_files:
        raise ConfigError(
            f"there are no SQL models in {folder}: put them into its folders {', '.join(LAYERS)}, "
            "or correct sql_models.folders"
        )
    if duplicates := sorted(files.keys() & own_files.keys()):
        raise ConfigError(f"{folder / duplicates[0]} has a name that is taken: rename the file")
    files |= own_files


def select_required_models(models: Iterable[Model], names: Iterable[str]) -> list[Model]:
    """The models of these names and all that they read, in the order given.

    Raises:
        NotFound: there is no model of a name.
    """
    by_name = {model.name: model for model in models}
    required, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in by_name:
            raise NotFound(f"there is no SQL model {name!r}: `knowledge sql` lists them")
        if name not in required:
            required.add(name)
            waiting.extend(read for read in by_name[name].reads if read not in RAW_TABLES)
    return [model for model in by_name.values() if model.name in required]


@cache
def _code_version() -> str:
    """Changes whenever the result for the same files might."""
    from importlib.metadata import version

    code = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.py"))]
    tables = [f"{name} {schema.to_string()}" for name, schema in RAW_TABLES.items()]
    return hash_strings(*code, *tables, version("sqlglot"), version("duckdb"))


def _model_from_json(cached: dict[str, Any]) -> Model:
    columns = {
        name: Column(column["type"], column["comment"], tuple((t, c) for t, c in column["origins"]))
        for name, column in cached["columns"].items()
    }
    parsed: dict[str, Any] = {
        "columns": columns,
        "names": None if cached["names"] is None else frozenset(cached["names"]),
        "plots": tuple(Plot(**plot) for plot in cached["plots"]),
        "reads": tuple(cached["reads"]),
    }
    return Model(**cached | parsed)
