"""Parses SQL files into models with sqlglot: what each reads, and where its columns come from."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage  # pyright: ignore[reportUnknownVariableType]  # a bare dict in its signature

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.sql_models.model import Column, Model, Plot
from knowledge_pipeline.store.duckdb_session import RAW_TABLES, open_duckdb
from knowledge_pipeline.store.lake import Lake

ColumnOrigin = tuple[str, str]  # a model or raw table, and a column of it


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

_TEMPLATE = re.compile(r"\{[{%][^{}]{0,200}[%}]\}")  # of dbt
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
    if template := _TEMPLATE.search(sql):
        raise ValueError(
            f"has a template, {template[0][:80]}: write the name of the model or its value there"
        )
    try:
        select = sqlglot.parse_one(sql, dialect="duckdb")
    except SqlglotError as error:
        raise ValueError(f"is not one select: {str(error).splitlines()[0].rstrip('.')}") from None
    if isinstance(select, exp.Pivot):
        raise ValueError("is a statement: write select * from (select ...) pivot (... for ... in (...))")
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
    return Model(
        name=Path(file).stem,
        file=file,
        layer=file.partition("/")[0],
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
