"""The files of `dbt_like_sql/`: one select each, with what it is in the comment on top.

    -- What a row tells, in a sentence or more.
    -- answers: The question that a reader has?
    -- grain: one row per source
    -- plot: line x=day y=cost by=model

What a model reads, and what its columns are made of, is read from its SQL. That takes a
second, so it is done once for the same files and then read from the user's cache folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from knowledge_pipeline.errors import ConfigError, NotFound
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.duckdb_session import RAW_TABLES

FOLDER = Path(__file__).parent.parent.parent / "dbt_like_sql"
"""Beside the package: in the repository, and where a wheel is installed."""

LAYERS = ("staging", "intermediate", "marts", "tests")


@dataclass(frozen=True, slots=True)
class Plot:
    """How a mart is drawn."""

    kind: str  # "line" or "bar"
    x: str  # column of what is along the axis: days, names, sizes
    y: str  # column of numbers
    by: str | None  # column whose every value is a line, or a colour, of its own


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a model."""

    type: str  # as DuckDB calls it: "VARCHAR", "TIMESTAMP WITH TIME ZONE"
    comment: str  # the one at the end of its line; "" where there is none
    origins: tuple[tuple[str, str], ...]  # columns of models or raw tables that its value is made of


@dataclass(frozen=True, slots=True)
class Model:
    """One file of SQL."""

    name: str
    layer: str  # the folder: "staging", "intermediate", "marts" or "tests"
    sql: str
    about: str  # the comment on top, without what follows
    answers: str  # the question that it answers; "" where it says none
    grain: str  # "one row per source"; "" for a test
    severity: str  # of a test: "error" or "warn"
    plots: tuple[Plot, ...]
    reads: tuple[str, ...]  # models and raw tables, in the order they are named
    names: frozenset[str] | None  # every name in the SQL; None where a star stands for columns
    columns: Mapping[str, Column]

    @property
    def file(self) -> str:
        """Its path in the folder of models."""
        return f"{self.layer}/{self.name}.sql"


def load_models(folder: Path = FOLDER) -> list[Model]:
    """All models and tests, each after what it reads.

    Raises:
        ConfigError: there are none; a file is no single select, has a directive that makes no
            sense, reads what does not exist, or itself, or is not understood by DuckDB.
    """
    files = {
        f"{layer}/{path.name}": path.read_text(encoding="utf-8")
        for layer in LAYERS
        for path in sorted((folder / layer).glob("*.sql"))
    }
    if not files:
        raise ConfigError(
            f"there are no SQL models in {folder}: install the package with its dbt_like_sql folder, "
            "or run from a checkout of the repository"
        )
    path = _cache_folder() / f"{hash_strings(_code_version(), *files, *files.values())}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        return [_model_from_json(told) for told in json.loads(path.read_text(encoding="utf-8"))]
    from knowledge_pipeline.sql_models.parse import parse_models

    models = parse_models(files)
    with suppress(OSError):
        _write_cache(models, path)
    return models


def select_required_models(models: Iterable[Model], names: Iterable[str]) -> list[Model]:
    """The models of these names and all that they read, in the order given.

    Raises:
        NotFound: there is no model of a name.
    """
    by_name = {model.name: model for model in models}
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in by_name:
            raise NotFound(f"there is no SQL model {name!r}: `knowledge sql` lists them")
        if name not in found:
            found.add(name)
            waiting.extend(read for read in by_name[name].reads if read not in RAW_TABLES)
    return [model for model in by_name.values() if model.name in found]


def list_raw_columns(raw_table: str, names: Iterable[frozenset[str] | None]) -> list[str]:
    """Columns of a raw table that selects with these names read: seldom one that they do not."""
    mentioned = list(names)
    return [
        column
        for column in RAW_TABLES[raw_table].names
        if any(each is None or column in each for each in mentioned)
    ]


def _cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("knowledge-pipeline", appauthor=False) / "sql-models"


@cache
def _code_version() -> str:
    """Changes whenever the same file might be read otherwise."""
    from importlib.metadata import version

    modules = ("files.py", "parse.py", "column_lineage.py")
    code = [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in modules]
    tables = [f"{name} {schema.to_string()}" for name, schema in RAW_TABLES.items()]
    return hash_strings(*code, *tables, version("sqlglot"), version("duckdb"))


def _write_cache(models: list[Model], path: Path) -> None:
    """Keep what was read of the newest files alone, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for former in sorted(path.parent.glob("*.json"), key=lambda found: found.stat().st_mtime)[:-4]:
        former.unlink(missing_ok=True)
    unfinished = path.with_suffix(f".{hash_strings(path.name, str(id(models)))}")
    told = [{**asdict(model), "names": model.names and sorted(model.names)} for model in models]
    unfinished.write_text(json.dumps(told), encoding="utf-8")
    unfinished.replace(path)


def _model_from_json(cached: dict[str, Any]) -> Model:
    columns = {
        name: Column(column["type"], column["comment"], tuple((t, c) for t, c in column["origins"]))
        for name, column in cached.pop("columns").items()
    }
    names, plots, reads = (cached.pop(name) for name in ("names", "plots", "reads"))
    return Model(
        **cached,
        columns=columns,
        names=None if names is None else frozenset(names),
        plots=tuple(Plot(**plot) for plot in plots),
        reads=tuple(reads),
    )
