"""What the processes of one server agree on: requests of the last minute, answers, sessions.

One SQLite file in the store's local folder, with a write-ahead log, so that readers never wait and a process
that is killed in the middle of a write leaves it whole. Nothing in it has to outlive the server: it is not
synchronised to disk, and a server that starts empties it.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from knowledge_pipeline.errors import StoreUnavailable

SERVERS_FOLDER = "serve"  # in a store's local folder; it has a folder for each server
ANSWERS = "answer"  # the kind of entries that hold content

WINDOW_S = 60.0
BUSY_S = 2.0  # how long a write waits for others, each of which takes less than a millisecond
_CLEAN_EVERY = 1_000  # writes, between removals of what is over

_TABLES = """
create table if not exists requests (caller text not null, at real not null);
create index if not exists requests_by_caller on requests (caller, at);
create table if not exists entries (
    kind text not null, key text not null, value blob not null, expires_at real not null,
    primary key (kind, key)
) without rowid;
"""


class SharedState:
    """The state of one server, for one of its processes. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Open or create it. Raises `StoreUnavailable` if the folder takes no file."""
        self._path = folder / "shared.sqlite"
        self._lock = threading.Lock()
        self._writes = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = _connect(self._path)
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"the state that workers share cannot be opened: {error}") from error

    def count_request(self, caller: str, *, per_minute: int) -> float | None:
        """Count a request, unless as many are within the last minute; then the seconds until one is not."""
        with self._writing() as connection:
            now = time.time()
            connection.execute("delete from requests where caller = ? and at <= ?", (caller, now - WINDOW_S))
            count, oldest = connection.execute(
                "select count(*), min(at) from requests where caller = ?", (caller,)
            ).fetchone()
            if count >= per_minute:
                return max(0.0, float(oldest) + WINDOW_S - now)
            connection.execute("insert into requests values (?, ?)", (caller, now))
            return None

    def put(self, kind: str, key: str, value: bytes, *, ttl_s: float) -> bool:
        """Keep a value for so long; whether there was none."""
        with self._writing() as connection:
            return self._put(connection, kind, key, value, ttl_s)

    def get(self, kind: str, key: str) -> bytes | None:
        """The value of a key, if it is still kept."""
        with self._reading() as connection:
            found = connection.execute(
                "select value from entries where kind = ? and key = ? and expires_at > ?",
                (kind, key, time.time()),
            ).fetchone()
        return found[0] if found else None

    def list_values(self, kind: str) -> list[bytes]:
        """All values of a kind that are still kept."""
        with self._reading() as connection:
            query = "select value from entries where kind = ? and expires_at > ?"
            return [value for (value,) in connection.execute(query, (kind, time.time()))]

    def remove(self, kind: str, key: str) -> bool:
        """Forget a value; whether there was one."""
        with self._writing() as connection:
            known = "delete from entries where kind = ? and key = ?"
            return connection.execute(known, (kind, key)).rowcount > 0

    def keep_newest(self, kind: str, *, beginning: str, max_bytes: int) -> None:
        """Forget values whose key does not begin so, and those that are over soonest beyond a size."""
        with self._writing() as connection:
            connection.execute(
                "delete from entries where kind = ? and substr(key, 1, ?) != ?",
                (kind, len(beginning), beginning),
            )
            size = connection.execute(
                "select coalesce(sum(length(value)), 0) from entries where kind = ?", (kind,)
            ).fetchone()[0]
            if size <= max_bytes:
                return
            oldest = "select key, length(value) from entries where kind = ? order by expires_at"
            for key, length in connection.execute(oldest, (kind,)).fetchall():
                connection.execute("delete from entries where kind = ? and key = ?", (kind, key))
                size -= length
                if size <= max_bytes // 2:
                    break

    def erase(self, kind: str) -> None:
        """Erase all values of a kind, from the log of writes too."""
        with self._writing() as connection:
            connection.execute("delete from entries where kind = ?", (kind,))
        with self._reading() as connection:
            connection.execute("pragma wal_checkpoint(truncate)")

    def close(self) -> None:
        """Use it no more."""
        with self._lock:
            self._connection.close()

    def _put(self, connection: sqlite3.Connection, kind: str, key: str, value: bytes, ttl_s: float) -> bool:
        now = time.time()
        known = connection.execute(
            "select 1 from entries where kind = ? and key = ? and expires_at > ?", (kind, key, now)
        ).fetchone()
        connection.execute(
            "insert or replace into entries values (?, ?, ?, ?)", (kind, key, value, now + ttl_s)
        )
        return known is None

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection]:
        """Raises `StoreUnavailable`."""
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise StoreUnavailable(f"the state that workers share cannot be read: {error}") from error

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """One transaction, which waits for those of other processes. Raises `StoreUnavailable`."""
        with self._reading() as connection:
            connection.execute("begin immediate")
            try:
                yield connection
                self._writes += 1
                if self._writes % _CLEAN_EVERY == 0:
                    connection.execute("delete from requests where at <= ?", (time.time() - WINDOW_S,))
                    connection.execute("delete from entries where expires_at <= ?", (time.time(),))
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")


def erase_entries(servers: Path, kind: str) -> None:
    """Erase the entries of a kind from the state of every server of a store, also of those that are gone."""
    for path in servers.glob("*/shared.sqlite"):
        with closing(SharedState(path.parent)) as state:
            state.erase(kind)


def _connect(path: Path) -> sqlite3.Connection:
    """Open or create the file, with its tables. Raises `OSError` or `sqlite3.Error`, and closes it then."""
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        path.chmod(0o600)
        for setting in ("journal_mode=wal", "synchronous=off", "secure_delete=on"):
            connection.execute(f"pragma {setting}")
        connection.executescript(_TABLES)
    except BaseException:
        connection.close()
        raise
    return connection
