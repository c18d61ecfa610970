"""What processes of one machine share beside the tables: one SQLite file in the store's local folder.

It has the rows that wait for a log's table, the refreshes that servers have promised, how far webhooks have
got, heartbeats and progress, the rates, sessions and answers of a server's workers, and what was compared or
counted last. Nothing in it has to outlive the processes: what is lost with it is counted, or asked, again.

It is not synchronised to disk: a kill loses nothing that was written, a power failure may. A file that is
damaged by it is begun anew.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, overload

import filelock

from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.store.former_state import has_former_files, take_over_files
from knowledge_pipeline.store.lance_storage import read_version_stamp
from knowledge_pipeline.store.locks import is_locked
from knowledge_pipeline.text import is_object

FILE = "state.sqlite"
ANSWERS = "answer"  # the kind of entries that hold content

WINDOW_S = 60.0
BUSY_S = 2.0  # how long a write waits for others, each of which takes less than a millisecond
MAX_WAITING_BYTES = 256 * 1024  # of a log's rows; more are worth a commit
TAKEN_ROWS = 10_000  # of a log, moved into its table at once
_CLEAN_EVERY = 1_000  # writes, between removals of what is over
_STARTING_S = 60.0  # in which an owner may have made its file, and not locked it yet
_RESULT = "result"  # the kind of entries that are what something came to last
_MOVED = "select value from entries where server = '' and kind = 'moving' and key = ?"  # the last row taken

_VERSION = 1
_TABLES = """
create table if not exists requests (server text not null, caller text not null, at real not null);
create index if not exists requests_by_caller on requests (server, caller, at);
create table if not exists entries (
    server text not null, kind text not null, key text not null,
    value blob not null, expires_at real not null,
    primary key (server, kind, key)
) without rowid;
create table if not exists waiting (id integer primary key, log text not null, row text not null);
create index if not exists waiting_by_log on waiting (log, id);
"""
_NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "vboxsf", "ceph", "lustre", "glusterfs"}
)

_DAMAGED = sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB
_READ_ONLY = sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY

_log = logging.getLogger(__name__)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TakenRows:
    """Rows that waited for a log, oldest first."""

    rows: Sequence[Row] = ()
    repeated: int = 0  # first ones, which a killed process was moving: the table may have them
    last: int = 0  # the number of the last one


class SharedState:
    """The state of one store. For threads; a file that is replaced or removed meanwhile is opened again.

    Nothing is opened before it is needed, and reading makes no file. With a write-ahead log, readers never
    wait, and a process that is killed in the middle of a write leaves it whole. Every method but `close`
    raises `StoreUnavailable` if the file cannot be used.
    """

    def __init__(self, folder: Path | None, *, server: str = "") -> None:
        """Prepare; None: in memory, of one process. The rates and entries of a `server` are its own."""
        self._folder, self._server = folder, server
        self._path = folder / FILE if folder else None
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # that is open: device and inode
        self._writes = 0

    def __enter__(self) -> SharedState:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def count_request(self, caller: str, *, per_minute: int) -> float | None:
        """Count a request, unless as many are within the last minute; then the seconds until one is not.

        Times are those since the machine was started, which its clock does not change; later ones are of
        an earlier start.
        """
        by_caller = self._server, caller
        with self._writing() as connection:
            now = time.monotonic()
            connection.execute(
                "delete from requests where server = ? and caller = ? and not (at > ? and at <= ?)",
                (*by_caller, now - WINDOW_S, now),
            )
            count, oldest = connection.execute(
                "select count(*), min(at) from requests where server = ? and caller = ?", by_caller
            ).fetchone()
            if count >= per_minute:
                return max(0.0, float(oldest) + WINDOW_S - now)
            connection.execute("insert into requests values (?, ?, ?)", (*by_caller, now))
            return None

    def put(
        self, kind: str, key: str, value: bytes, *, ttl_s: float = math.inf, max_entries: int | None = None
    ) -> bool:
        """Keep a value for so long; whether there was none.

        Of more than `max_entries` of its kind, those that are over soonest are forgotten for it.
        """
        now, entry = time.time(), (self._server, kind, key)
        with self._writing() as connection:
            existing = connection.execute(
                "select 1 from entries where server = ? and kind = ? and key = ? and expires_at > ?",
                (*entry, now),
            ).fetchone()
            statement = "insert or replace into entries values (?, ?, ?, ?, ?)"
            connection.execute(statement, (*entry, value, now + ttl_s))
            if max_entries is not None:
                connection.execute(
                    "delete from entries where server = ? and kind = ? and key in (select key from entries "
                    "where server = ? and kind = ? and key != ? order by expires_at desc limit -1 offset ?)",
                    (*entry[:2], *entry, max_entries - 1),
                )
            return existing is None

    def replace(self, kind: str, key: str, old: bytes, new: bytes) -> bool:
        """Replace a value unless it is another one by now; whether it was replaced."""
        statement = "update entries set value = ? where server = ? and kind = ? and key = ? and value = ?"
        with self._writing() as connection:
            return connection.execute(statement, (new, self._server, kind, key, old)).rowcount > 0

    def get(self, kind: str, key: str) -> bytes | None:
        """The value of a key, if it is still kept."""
        query = "select value from entries where server = ? and kind = ? and key = ? and expires_at > ?"
        rows = self._select(query, self._server, kind, key, time.time())
        return rows[0][0] if rows else None

    def list_items(self, kind: str) -> list[tuple[str, bytes]]:
        """The keys of a kind that are still kept, each with its value."""
        query = "select key, value from entries where server = ? and kind = ? and expires_at > ?"
        return self._select(query, self._server, kind, time.time())

    def list_values(self, kind: str) -> list[bytes]:
        """All values of a kind that are still kept."""
        return [value for _, value in self.list_items(kind)]

    def remove(self, kind: str, *keys: str) -> bool:
        """Forget values; whether there was one."""
        statement = "delete from entries where server = ? and kind = ? and key = ?"
        with self._writing() as connection:
            return sum(connection.execute(statement, (self._server, kind, key)).rowcount for key in keys) > 0

    def keep_newest(self, kind: str, *, beginning: str, max_bytes: int) -> None:
        """Forget values whose key does not begin so, and those that are over soonest beyond a size."""
        of_kind = "from entries where server = ? and kind = ?"
        with self._writing() as connection:
            others = f"delete {of_kind} and substr(key, 1, ?) != ?"
            connection.execute(others, (self._server, kind, len(beginning), beginning))
            oldest = f"select key, length(value) {of_kind} order by expires_at"
            sizes: list[tuple[str, int]] = connection.execute(oldest, (self._server, kind)).fetchall()
            size = sum(length for _, length in sizes)
            if size <= max_bytes:
                return
            for key, length in sizes:
                connection.execute(f"delete {of_kind} and key = ?", (self._server, kind, key))
                size -= length
                if size <= max_bytes // 2:
                    break

    def erase(self, kind: str) -> None:
        """Erase all values of a kind, of every server, from the log of writes too."""
        if self._path and not self._path.exists():
            return
        with self._writing() as connection:
            connection.execute("delete from entries where kind = ?", (kind,))
        self._checkpoint("truncate")

    def begin_server(self) -> None:
        """Forget what a server under this name has left; a file that is damaged is begun anew."""
        self.renew_if_damaged()
        with self._writing() as connection:
            for table in ("requests", "entries"):
                connection.execute(f"delete from {table} where server = ?", (self._server,))  # noqa: S608

    def renew_if_damaged(self) -> None:
        """Read all, and begin a file that is damaged anew."""
        with suppress(StoreUnavailable), self._translated_errors():
            if self._open(create=True).execute("pragma quick_check").fetchone()[0] != "ok":
                self._discard()

    def add_rows(self, log: str, rows: Sequence[Row], *, max_bytes: int | None = None) -> bool:
        """Leave rows of JSON values, and the time `at`, for the next writer of a log.

        False, and none is left, where more than `max_bytes` wait.
        """
        dated = [{**row, "at": row["at"].isoformat()} for row in rows]
        encoded = [(log, json.dumps(row, separators=(",", ":"))) for row in dated]
        with self._writing() as connection:
            if max_bytes is not None:
                query = "select coalesce(sum(length(row)), 0) from waiting where log = ?"
                if connection.execute(query, (log,)).fetchone()[0] > max_bytes:
                    return False
            connection.executemany("insert into waiting (log, row) values (?, ?)", encoded)
        return True

    def has_rows(self, log: str, *, stage: str = "") -> bool:
        """Whether any wait, or any of a stage."""
        pattern = f'%"stage": {json.dumps(stage)}%' if stage else "%"
        return bool(self._select("select 1 from waiting where log = ? and row like ? limit 1", log, pattern))

    def take_rows(self, log: str) -> TakenRows:
        """The oldest rows that wait; the caller holds the log's lock until `remove_taken`."""
        if not self.has_rows(log):
            return TakenRows()
        with self._writing() as connection:
            query = "select id, row from waiting where log = ? order by id limit ?"
            waiting: list[tuple[int, str]] = connection.execute(query, (log, TAKEN_ROWS)).fetchall()
            moved = (connection.execute(_MOVED, (log,)).fetchone() or (0,))[0]
            last = waiting[-1][0]
            marker = "insert or replace into entries values ('', 'moving', ?, ?, ?)"
            connection.execute(marker, (log, max(moved, last), math.inf))
        rows = [json.loads(row) for _, row in waiting]
        rows = [{**row, "at": datetime.fromisoformat(row["at"])} for row in rows]
        return TakenRows(rows, sum(id_ <= moved for id_, _ in waiting), last)

    def remove_taken(self, log: str, taken: TakenRows) -> None:
        """Forget rows that were taken: they are in the table."""
        marker = "delete from entries where server = '' and kind = 'moving' and key = ? and value <= ?"
        with self._writing() as connection:
            connection.execute("delete from waiting where log = ? and id <= ?", (log, taken.last))
            connection.execute(marker, (log, taken.last))
        self._checkpoint("passive")  # here, so that who adds a row need not

    def close(self) -> None:
        """Close the file; it is opened again if it is used again."""
        with self._lock:
            self._disconnect()

    def _select(self, query: str, *parameters: object) -> list[Any]:
        """The rows of a query; none where there is no file."""
        with self._translated_errors():
            connection = self._open(create=False)
            return connection.execute(query, parameters).fetchall() if connection else []

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """One transaction, which waits for those of other processes."""
        with self._translated_errors():
            connection = self._open(create=True)
            connection.execute("begin immediate")
            try:
                yield connection
                self._writes += 1
                if self._writes % _CLEAN_EVERY == 0:
                    now = time.monotonic()
                    outdated = "delete from requests where not at between ? and ?"
                    connection.execute(outdated, (now - WINDOW_S, now))
                    connection.execute("delete from entries where expires_at <= ?", (time.time(),))
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        with self._lock:
            try:
                yield
            except (OSError, sqlite3.Error) as error:
                if _has_code(error, *_DAMAGED):
                    self._discard()
                raise StoreUnavailable(f"the state that processes share cannot be used: {error}") from error

    def _checkpoint(self, mode: str) -> None:
        with self._translated_errors():
            self._open(create=True).execute(f"pragma wal_checkpoint({mode})")

    @overload
    def _open(self, *, create: Literal[True]) -> sqlite3.Connection: ...
    @overload
    def _open(self, *, create: bool) -> sqlite3.Connection | None: ...
    def _open(self, *, create: bool) -> sqlite3.Connection | None:
        if self._folder is None or self._path is None:
            self._connection = self._connection or _connect(None)
            return self._connection
        file = _identify(self._path)
        if self._connection is not None:
            if file == self._file:
                return self._connection
            self._disconnect()
        has_former = has_former_files(self._folder)
        if file is None and not create and not has_former:
            return None
        try:
            self._connection = _connect(self._path)
        except sqlite3.Error as error:
            if _has_code(error, *_DAMAGED):
                self._discard()
                self._connection = _connect(self._path)
            elif create or not _has_code(error, *_READ_ONLY):
                raise
            else:  # what is in the file is read once; what is in the log of writes alone is not
                uri = f"{self._path.absolute().as_uri()}?immutable=1"
                self._connection = sqlite3.connect(
                    uri, uri=True, isolation_level=None, check_same_thread=False
                )
                self._file = None
                return self._connection
        self._file = _identify(self._path)
        if has_former:
            take_over_files(self._connection, self._folder)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _discard(self) -> None:
        self._disconnect()
        if self._path is None:
            return
        _log.warning("%s is damaged, and begun anew: rows that waited for the logs are lost", self._path)
        for suffix in ("-wal", "-shm", ""):
            self._path.with_name(FILE + suffix).unlink(missing_ok=True)


def find_damaged_state(folder: Path) -> str:
    """What is wrong with the state of a store; empty where nothing is, or there is none."""
    path = folder / FILE
    if not path.is_file():
        return ""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            verdict = str(connection.execute("pragma quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        if not _has_code(error, *_DAMAGED):
            raise StoreUnavailable(f"the state that processes share cannot be read: {error}") from error
        verdict = str(error)
    reason = verdict.splitlines()[0]
    return "" if verdict == "ok" else f"it is damaged ({reason}): rows that wait for the logs are lost"


def discard_damaged_state(folder: Path) -> None:
    """Begin the state of a store anew, if it is damaged."""
    with SharedState(folder) as state:
        state.renew_if_damaged()


def _has_code(error: Exception, *codes: int) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in codes


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _connect(path: Path | None) -> sqlite3.Connection:
    """Open or create the file, with its tables. Raises `OSError` or `sqlite3.Error`, and closes it then."""
    if path and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(
        path or ":memory:", timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("pragma synchronous=off")
        connection.execute("pragma secure_delete=on")
        if connection.execute("pragma user_version").fetchone()[0] != _VERSION:
            _create_tables(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(connection: sqlite3.Connection, path: Path | None) -> None:
    """With a write-ahead log, except on a network's file system: its index cannot be mapped there."""
    if path is None:
        connection.executescript(_TABLES)
        return
    with filelock.FileLock(_locks_folder(path.parent) / "state.lock", timeout=BUSY_S):
        mode = "delete" if _is_on_network(path) else "wal"
        connection.execute(f"pragma journal_mode={mode}")
        connection.executescript(f"begin; {_TABLES} pragma user_version={_VERSION}; commit")


def _is_on_network(path: Path) -> bool:
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:  # another system
        return False
    parents = {str(parent) for parent in path.resolve().parents}
    _, kind = max(((mount[1], mount[2]) for mount in mounts if mount[1] in parents), default=("", ""))
    return kind in _NETWORK_FILE_SYSTEMS or kind.startswith("fuse.")


def leave_rows(folder: Path, log: str, rows: Sequence[Row]) -> bool:
    """Leave rows for who reads the log next, or writes it; False where the state takes none, or has many."""
    with suppress(StoreUnavailable), SharedState(folder) as state:
        return state.add_rows(log, rows, max_bytes=MAX_WAITING_BYTES)
    return False


def has_waiting_rows(folder: Path, log: str, *, stage: str = "") -> bool:
    """Whether rows wait for a log, or some of a stage, as far as the state can be read."""
    with suppress(StoreUnavailable), SharedState(folder) as state:
        return state.has_rows(log, stage=stage)
    return False


class Owner:
    """A name in the state that others can tell to be alive: until `release`, or the end of the process.

    The system frees its lock however the process ends.
    """

    def __init__(self, folder: Path) -> None:
        """Take a name, and remove the locks of those that are gone. Raises `OSError`."""
        locks = _locks_folder(folder)
        for path in locks.glob("owner-*.lock"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - _STARTING_S and not is_locked(path):
                    path.unlink()
        self.name = uuid.uuid4().hex
        self._path = _owner_path(folder, self.name)
        # Who asks whether it is alive holds the lock for an instant.
        self._lock = filelock.FileLock(self._path, timeout=1.0, thread_local=False)
        self._lock.acquire()

    def release(self) -> None:
        """Be gone."""
        with suppress(OSError):
            self._lock.release()
            self._path.unlink(missing_ok=True)


def is_alive(folder: Path, owner: str) -> bool:
    """Whether a process still runs that has taken this name."""
    return is_locked(_owner_path(folder, owner))


def _owner_path(folder: Path, owner: str) -> Path:
    return folder / "locks" / f"owner-{owner}.lock"


def _locks_folder(folder: Path) -> Path:
    locks = folder / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    return locks


def recall_result(folder: Path, name: str, mark: Mapping[str, Any]) -> Any:
    """What was kept under a name with an equal mark; else None. A mark has JSON values."""
    with suppress(StoreUnavailable, ValueError), SharedState(folder) as state:
        kept: Any = json.loads(state.get(_RESULT, name) or b"null")
        if is_object(kept) and kept.get("mark") == json.loads(json.dumps(mark)):
            return kept.get("result")
    return None


def keep_result(folder: Path, name: str, mark: Mapping[str, Any], result: Any) -> None:
    """Keep a result of JSON values, where there is a store that can be written: a question makes none."""
    if folder.exists():
        with suppress(StoreUnavailable), SharedState(folder) as state:
            state.put(_RESULT, name, json.dumps({"mark": mark, "result": result}).encode())


# Of lake.py's layout.
_COUNTED = (
    "snapshot/*/*.lance",
    "chunks/*/*.lance",
    "index/*.lance",
    "releases.lance",
    "logs/refreshes.lance",
)


class CountsCache:
    """The last counts of a store, while no table changes; none of a store elsewhere.

    Counting opens every table, and opening one imports Lance, half a second in all; comparing stamps opens
    none.

    Made before counting: what changes meanwhile makes the counts outdated, as it should.

    Args:
        store: where the tables are.
        key: what the counts depend on besides the tables; another one recalls nothing. JSON values.
    """

    def __init__(self, store: Path | ObjectStore, **key: Any) -> None:
        self._root = store if isinstance(store, Path) else None
        self._mark: dict[str, Any] = key
        if self._root:
            paths = sorted(path for pattern in _COUNTED for path in self._root.glob(pattern))
            names = {path: str(path.relative_to(self._root)) for path in paths}
            self._mark["tables"] = {name: read_version_stamp(path) for path, name in names.items()}

    def recall(self) -> dict[str, Any] | None:
        """What was counted last, if nothing has changed since."""
        counts = recall_result(self._root, "counts", self._mark) if self._root else None
        return counts if is_object(counts) else None

    def keep(self, counts: dict[str, Any]) -> None:
        """Keep what was counted, where the folder can be written."""
        if self._root:
            keep_result(self._root, "counts", self._mark, counts)
