"""Takes over what an earlier version kept in files of the local folder; each is read once, and removed.

What waited for a log, what servers had promised, and how far webhooks had got go into the state. Heartbeats,
progress, counts and what a server's workers shared were of that version's own processes. What belongs to a
process of that version which still runs stays until it has ended.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock

from knowledge_pipeline.store.locks import is_locked

_PENDING = {f"logs/{log}.pending.jsonl": log for log in ("refreshes", "events", "llm_calls")}
_JOURNALS = {"logs/journal": "queries", "logs/judgements": "feedback", "logs/refusals": "refusals"}
_USELESS = ("cache/counts.json", "cache/unchanged.json")
_FOLDERS = ("refreshes", "events", "watch", "refreshing")
_SHARED = "serve/*/shared.sqlite"
_ENTRY = "into entries values ('', ?, ?, ?, ?)"
_OWN_NAME = re.compile(r"([0-9a-f]{16,}(\.[0-9a-f]+)?\.(json|jsonl|new|lock)|(deliver|running)\.lock)")
_FILES = (*_PENDING, *_JOURNALS, *_USELESS, *_FOLDERS)


def has_former_files(folder: Path) -> bool:
    """Whether there is anything to take over: a few names are looked up."""
    names = (folder / name for name in _FILES)
    return any(path.exists() for path in names) or any(folder.glob(_SHARED))


def take_over_files(connection: sqlite3.Connection, folder: Path) -> None:
    """Take over what no living process holds; what cannot be read or removed is left."""
    (folder / "locks").mkdir(exist_ok=True)
    lock = filelock.FileLock(folder / "locks" / "former-state.lock", timeout=0)
    with suppress(OSError, sqlite3.Error), lock:
        for name, log in _PENDING.items():
            with _reading(connection, folder / name) as rows:
                _add_rows(connection, log, rows)
        for name, log in _JOURNALS.items():
            for path in _list_orphans(folder / name):
                with _reading(connection, path) as rows:
                    _add_rows(connection, log, rows, are_new=False)
            _remove_folder(folder / name)
        for path in _list_orphans(folder / "refreshes"):
            with _reading(connection, path) as rows:
                for row in rows:
                    _add_refresh(connection, row)
        for path in (folder / "events").glob("*.json"):
            if not _OWN_NAME.fullmatch(path.name):
                continue
            with _reading(connection, path) as rows:
                for row in rows:
                    entry = "position", path.stem, str(row["position"]).encode(), math.inf
                    connection.execute(f"insert or ignore {_ENTRY}", entry)
        for name in _USELESS:
            (folder / name).unlink(missing_ok=True)
        for name in _FOLDERS:
            _remove_folder(folder / name)
        for path in folder.glob(f"{_SHARED}*"):
            path.unlink(missing_ok=True)


@contextmanager
def _reading(connection: sqlite3.Connection, path: Path) -> Generator[list[dict[str, Any]]]:
    """The lines of a file, which is removed after one transaction. A line that a kill cut off is left out."""
    rows: list[dict[str, Any]] = []
    with suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                rows.append(json.loads(line))
    connection.execute("begin immediate")
    try:
        yield rows
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise
    path.unlink(missing_ok=True)


def _list_orphans(folder: Path) -> list[Path]:
    """The files of processes that have ended, in their order."""
    paths = sorted(folder.glob("*.jsonl"))
    owners = {path.name.split(".")[0] for path in paths}
    gone = {owner for owner in owners if not is_locked(folder / f"{owner}.lock")}
    return [path for path in paths if path.name.split(".")[0] in gone]


def _remove_folder(folder: Path) -> None:
    """Without what is not ours, and unless a process still holds a lock in it."""
    own = [path for path in folder.glob("*") if _OWN_NAME.fullmatch(path.name)]
    if any(path.suffix == ".lock" and is_locked(path) for path in own):
        return
    for path in own:
        path.unlink(missing_ok=True)
    for path in folder.glob("history/shared.sqlite*"):
        path.unlink(missing_ok=True)
    for path in (folder / "history", folder):
        with suppress(OSError):
            path.rmdir()


def _add_rows(
    connection: sqlite3.Connection, log: str, rows: list[dict[str, Any]], *, are_new: bool = True
) -> None:
    """The table may have rows that are not new: their process may have been killed as it wrote them."""
    for row in rows:
        statement = "insert into waiting (log, row) values (?, ?)"
        if "at" in row:
            last = connection.execute(statement, (log, json.dumps(row))).lastrowid
            if not are_new:
                connection.execute(f"insert or replace {_ENTRY}", ("moving", log, last, math.inf))


def _add_refresh(connection: sqlite3.Connection, row: dict[str, Any]) -> None:
    """A refresh has more than one row where documents were added to it."""
    query = "select value from entries where server = '' and kind = 'refresh' and key = ?"
    former = connection.execute(query, (row["id"],)).fetchone()
    earlier: dict[str, Any] = json.loads(former[0])["refresh"] if former else {}
    refresh = {
        **{"id": row["id"], "reason": row["reason"], "status": "queued", "requested_at": row["at"]},
        **{name: [*earlier.get(name, ()), *row.get(name, ())] for name in ("sources", "documents")},
        "relist": bool(row.get("relist")),
    }
    entry = json.dumps({"owner": "", "refresh": refresh}).encode()
    connection.execute(f"insert or replace {_ENTRY}", ("refresh", row["id"], entry, math.inf))
