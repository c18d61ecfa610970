"""Entries of knowledge.yaml for tables: files of rows, and queries to databases."""

from __future__ import annotations

import re
from pathlib import Path

from knowledge_pipeline.cli.session import WrongUsage
from knowledge_pipeline.cli.sources.service_entries import SourceEntry

_DATABASE_SUFFIXES = (".duckdb", ".ddb", ".db")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


def build_table_entry(path: Path | None, url: str | None, *, relative_to: Path) -> tuple[SourceEntry, str]:
    """The entry of a file, a pattern or a database, without its query; and the first part of its id.

    Raises:
        WrongUsage: neither or both are given, or an address is written out.
    """
    if (path is None) == (url is None):
        raise WrongUsage("a table needs --path FILE, or --url '${NAME}' with the variable of its address")
    if path is not None:
        kind = "duckdb" if path.suffix.lower() in _DATABASE_SUFFIXES else "table_files"
        named = path.stem if "*" not in path.stem else path.parent.name
        return _build_entry({"type": kind, "path": _relative_path(path, relative_to)}, named)
    variable = _VARIABLE.fullmatch(url or "")
    if variable is None:
        raise WrongUsage(
            "the address of a database holds a password: put it into a variable, and write --url '${NAME}'"
        )
    return _build_entry({"type": "postgres", "dsn": url}, variable[1])


def _build_entry(connection: SourceEntry, name: str) -> tuple[SourceEntry, str]:
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")
    return {"type": "table", "connection": connection}, slug or "table"


def _relative_path(path: Path, config: Path) -> str:
    """The path, or pattern, relative to the file's folder if it is inside, or else absolute."""
    path, parent = path.expanduser().absolute(), config.absolute().parent
    return path.relative_to(parent).as_posix() if path.is_relative_to(parent) else path.as_posix()
