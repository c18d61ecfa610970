"""Loads the files of `dbt_like_sql/`, one select each, as models: what they read, and their column lineage.

The comment at the top of a file says what a row means, then has directives, such as
`-- grain: one row per source` (docs/sql.md). Parsing takes a second and imports sqlglot and DuckDB, so the
result for the same files is kept in the user's cache folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from knowledge_pipeline.errors import ConfigError, NotFound
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.sql_models.model import Column, Model, Plot
from knowledge_pipeline.store.duckdb_session import RAW_TABLES

FOLDER = Path(__file__).parent.parent.parent / "dbt_like_sql"
"""Next to the package: in the repository, and where a wheel is installed."""

LAYERS = ("staging", "intermediate", "marts", "tests")


def load_models(folder: Path = FOLDER, *, own_folders: Iterable[Path] = ()) -> list[Model]:
    """All models and tests, with those of a project's own folders, each after what it reads.

    Raises `ConfigError`: there are none; a file is not one select, has an invalid directive, reads something
    that does not exist, or itself, or DuckDB cannot run it; or one of a project's own folders has no model,
    or one of a name that is taken.
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
    from knowledge_pipeline.sql_models.parse import parse_models

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
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for layer in LAYERS
        for path in sorted((folder / layer).rglob("*.sql"))
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

    Raises `NotFound`: there is no model of a name.
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
