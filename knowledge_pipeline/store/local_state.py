"""What processes of one machine share in the store's local folder: a server's state, heartbeats, counts.

Nothing in it has to outlive the processes: whatever is lost is counted, or asked, again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal

import filelock

from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.errors import StoreUnavailable
from knowledge_pipeline.store.lance_storage import read_version_stamp
from knowledge_pipeline.store.locks import is_locked
from knowledge_pipeline.text import is_object

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
    """What the processes of one server agree on: requests of the last minute, answers, sessions. For threads.

    One SQLite file with a write-ahead log, so that readers never wait and a process that is killed in the
    middle of a write leaves it whole. It is not synchronised to disk, and a server that starts empties it.
    """

    def __init__(self, folder: Path | None) -> None:
        """Open or create it; None: in memory, of one process. Raises `StoreUnavailable`."""
        self._lock = threading.Lock()
        self._writes = 0
        try:
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
            self._connection = _connect(folder / "shared.sqlite" if folder else None)
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
            row = connection.execute(
                "select value from entries where kind = ? and key = ? and expires_at > ?",
                (kind, key, time.time()),
            ).fetchone()
        return row[0] if row else None

    def list_values(self, kind: str) -> list[bytes]:
        """All values of a kind that are still kept."""
        with self._reading() as connection:
            query = "select value from entries where kind = ? and expires_at > ?"
            return [value for (value,) in connection.execute(query, (kind, time.time()))]

    def remove(self, kind: str, key: str) -> bool:
        """Forget a value; whether there was one."""
        with self._writing() as connection:
            statement = "delete from entries where kind = ? and key = ?"
            return connection.execute(statement, (kind, key)).rowcount > 0

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
        existing = connection.execute(
            "select 1 from entries where kind = ? and key = ? and expires_at > ?", (kind, key, now)
        ).fetchone()
        connection.execute(
            "insert or replace into entries values (?, ?, ?, ?)", (kind, key, value, now + ttl_s)
        )
        return existing is None

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


def _connect(path: Path | None) -> sqlite3.Connection:
    """Open or create the file, with its tables. Raises `OSError` or `sqlite3.Error`, and closes it then."""
    connection = sqlite3.connect(
        path or ":memory:", timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        if path:
            path.chmod(0o600)
        for setting in ("journal_mode=wal", "synchronous=off", "secure_delete=on"):
            connection.execute(f"pragma {setting}")
        connection.executescript(_TABLES)
    except BaseException:
        connection.close()
        raise
    return connection


RENEWED_S = 5.0  # at most between two writes, while nothing changes
MAX_SILENT_S = 60.0  # of a watcher that waits for changes: it looks several times a second
MAX_SILENT_REFRESH_S = 1_800.0  # of one that refreshes: without any progress
MIN_POLL_GRACE_S = 300.0  # for remote repositories that are slow to answer


@dataclass(slots=True)
class WatchHeartbeat:
    """One watcher; times are Unix times in seconds."""

    pid: int
    started_at: float
    looked_at: float  # when it last came round, or a refresh made progress
    state: Literal["starting", "waiting", "refreshing"] = "starting"
    waits_for: str = ""  # in words: "changes of 2 folders and 1 repository"
    sources: int = 0
    refreshing: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()  # sources whose last refresh failed, or is not done
    last_error: str | None = None  # one sentence, with the source that it is of
    last_error_at: float | None = None
    poll_s: float | None = None  # how often it checks remote repositories; None: it watches none
    polled_at: float | None = None


@dataclass(frozen=True, slots=True)
class WatcherReport:
    """A watcher, and what is wrong with it; None: it is well."""

    heartbeat: WatchHeartbeat
    problem: str | None


class HeartbeatFile:
    """The file of one watcher. Threads may share it; no failure of the disk ends a watch.

    Another process can tell by it whether the watcher is well: the watcher renews the file, and holds a lock
    as long as it lives, which the system frees if it is killed. It removes both when it ends; what a killed
    one left, the next removes.
    """

    def __init__(self, folder: Path, heartbeat: WatchHeartbeat) -> None:
        """Write it, and remove what killed watchers have left; `folder` is the store's local one."""
        self.heartbeat = heartbeat
        self._written_s = float("-inf")
        name = uuid.uuid4().hex
        self._path = folder / "watch" / f"{name}.json"
        self._lock = filelock.FileLock(self._path.with_suffix(".lock"), timeout=0, thread_local=False)
        with suppress(OSError, filelock.Timeout):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for path in self._path.parent.glob("*.json"):
                if not is_locked(path.with_suffix(".lock")):
                    _remove(path)
            self._lock.acquire()
        self.write()

    def renew(self) -> None:
        """The watcher is alive; it is written when that is due."""
        self.heartbeat.looked_at = time.time()
        if time.monotonic() >= self._written_s + RENEWED_S:
            self.write()

    def write(self) -> None:
        """Replace the file in one step, at once."""
        self._written_s = time.monotonic()
        new = self._path.with_suffix(".new")
        with suppress(OSError):
            new.write_text(json.dumps(asdict(self.heartbeat)))
            new.replace(self._path)

    def remove(self) -> None:
        """The watch ends as it was told to."""
        with suppress(OSError):
            self._lock.release()
        _remove(self._path)


def list_watchers(folder: Path) -> list[WatcherReport]:
    """The watchers of a store, by its local folder, oldest first; those that were killed are there too."""
    heartbeats = sorted(_iter_heartbeats(folder / "watch"), key=lambda item: item[1].started_at)
    now = time.time()
    return [WatcherReport(heartbeat, _find_problem(path, heartbeat, now)) for path, heartbeat in heartbeats]


def _iter_heartbeats(folder: Path) -> Iterator[tuple[Path, WatchHeartbeat]]:
    for path in folder.glob("*.json"):
        with suppress(OSError, ValueError, TypeError, KeyError):  # removed just now, or of another version
            values: dict[str, Any] = json.loads(path.read_bytes())
            values |= {name: tuple(values[name]) for name in ("refreshing", "behind")}  # JSON has lists
            yield path, WatchHeartbeat(**values)


def _find_problem(path: Path, heartbeat: WatchHeartbeat, now: float) -> str | None:
    if not is_locked(path.with_suffix(".lock")):
        return "it was killed: start `knowledge watch` again"
    silent_s = now - heartbeat.looked_at
    is_waiting = heartbeat.state == "waiting"
    if silent_s > (MAX_SILENT_S if is_waiting else MAX_SILENT_REFRESH_S):
        doing = "looked for changes" if is_waiting else "made progress"
        return f"it hangs, and has not {doing} for {silent_s:.0f} s: end it, and start it again"
    if heartbeat.poll_s is not None and heartbeat.polled_at is not None:
        since_s = now - heartbeat.polled_at
        if since_s > max(MIN_POLL_GRACE_S, 10 * heartbeat.poll_s):
            return f"it has not checked remote repositories for {since_s:.0f} s: end it, and start it again"
    return None


def _remove(path: Path) -> None:
    for suffix in (".json", ".new", ".lock"):
        path.with_suffix(suffix).unlink(missing_ok=True)


def create_heartbeat() -> WatchHeartbeat:
    """That of this process, which starts to watch now."""
    return WatchHeartbeat(os.getpid(), time.time(), time.time())


_COUNTED = (
    "snapshot/*/*.lance",
    "chunks/*/*.lance",
    "index/*.lance",
    "releases.lance",
)  # of lake.py's layout


class CountsCache:
    """The last counts of a store, in its folder `cache`, while no table changes; none of a store elsewhere.

    Counting opens every table, and opening one imports Lance, half a second in all; comparing stamps opens
    none.

    Made before counting: what changes meanwhile makes the counts outdated, as it should.

    Args:
        store: where the tables are.
        key: what the counts depend on besides the tables; another one recalls nothing. JSON values.
    """

    def __init__(self, store: Path | ObjectStore, **key: Any) -> None:
        self._root = store if isinstance(store, Path) else None
        self._stamp: Any = None
        if self._root:
            paths = sorted(path for pattern in _COUNTED for path in self._root.glob(pattern))
            tables = {str(path.relative_to(self._root)): read_version_stamp(path) for path in paths}
            self._stamp = json.loads(json.dumps({"tables": tables, **key}))

    def recall(self) -> dict[str, Any] | None:
        """What was counted last, if nothing has changed since."""
        if self._root is None:
            return None
        with suppress(OSError, ValueError):
            kept: Any = json.loads(self._file.read_bytes())
            if is_object(kept) and kept.get("stamp") == self._stamp and is_object(kept.get("counts")):
                return kept["counts"]
        return None

    def keep(self, counts: dict[str, Any]) -> None:
        """Keep what was counted, where the folder can be written."""
        if self._root is None:
            return
        with suppress(OSError):
            self._file.parent.mkdir(exist_ok=True)  # not the store: a question does not make one
            with NamedTemporaryFile("w", dir=self._file.parent, delete=False) as written:
                json.dump({"stamp": self._stamp, "counts": counts}, written)
            Path(written.name).replace(self._file)

    @property
    def _file(self) -> Path:
        assert self._root is not None
        return self._root / "cache" / "counts.json"
