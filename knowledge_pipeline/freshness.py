"""What is known of how current sources are: a small object for each, and one of what looks at origins saw.

<root>/freshness/<source>.json   written by whoever refreshes the source
<root>/freshness/.looks.json     written by whoever looks: a sensor, `knowledge watch`

They lie beside the tables, so that servers on other machines read them, and are no tables, as a look changes
them every minute. All of it may be lost: the next refresh, and the next look, write it again. Nothing here
fails a refresh or an answer.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import StorePath
from knowledge_pipeline.store.object_store import ObjectPath, call_store, open_client
from knowledge_pipeline.text import is_object

FOLDER = "freshness"
WRITTEN_S = 60.0  # at most between two writes of looks that saw nothing new
CHANGED = "files "  # begins, in the place of a commit, a digest of files that no refresh has read
_LOOKS = ".looks"  # no source has such an id
_MAX_KEPT = 20  # versions of a source, and commits that looks saw
_POLL_INTERVAL_S = 15.0  # of an object store, where reading begins with a listing
_SETTLED_NS = 100_000_000  # what was written since may be written again at the same time

_log = logging.getLogger(__name__)


class IndexedRevision(NamedTuple):
    """What a refresh of a source read, and the first version of the index that has it; by Unix times."""

    space: str
    version: int
    revision: str | None  # the commit; None: its source has none
    read_at: float  # when it began to be listed
    listed_at: float  # when all of it was read
    skipped: Mapping[str, int] = {}  # documents that give no chunk, by the reason
    embedded_share: float = 1.0


class SeenCommit(NamedTuple):
    """A commit that looks saw at an origin; None: files, as they were indexed."""

    commit: str | None
    first_at: float
    last_at: float


class LiveState(NamedTuple):
    """What a release has of a source, and how far that is behind its origin, as far as is known."""

    indexed: IndexedRevision
    as_of: float  # when it was last known to be what the origin had
    newest: SeenCommit | None = None  # by a look since it was read
    behind_since: float | None = None  # when another commit was first seen; None: it is not behind
    commits_behind: int | None = 0  # None: not known how many


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What was written of one source."""

    indexed: tuple[IndexedRevision, ...] = ()  # by their versions
    failed_since: float | None = None  # since when each refresh failed; None: the last one did not
    problem: str = ""  # why the last one failed
    seen: tuple[SeenCommit, ...] = ()  # at its origin, the newest last
    counted: tuple[str | None, str, int] | None = None  # from an indexed to a seen commit, so many commits

    def add_indexed(self, indexed: IndexedRevision, *, has_changes: bool) -> SourceRecord:
        """After a refresh that succeeded; one that changed nothing is of the version of before."""
        last = self.indexed[-1] if self.indexed else None
        if last and not has_changes and last.space == indexed.space:
            indexed = indexed._replace(version=last.version)
        former = [it for it in self.indexed if it.space == indexed.space and it.version < indexed.version]
        return replace(self, indexed=(*former, indexed)[-_MAX_KEPT:], failed_since=None, problem="")

    def add_look(self, commit: str | None, now: float) -> SourceRecord:
        """After another look at the origin."""
        *former, last = self.seen or (SeenCommit(commit, now, now),)
        if last.commit != commit:
            former, last = [*former, last], SeenCommit(commit, now, now)
        return replace(self, seen=(*former, last._replace(last_at=now))[-_MAX_KEPT:])

    def find_live(self, tables: Mapping[str, int]) -> LiveState | None:
        """What a release has, by its versions of the index tables; None: not known."""
        released = (it for it in reversed(self.indexed) if it.version <= tables.get(it.space, -1))
        if (live := next(released, None)) is None:
            return None
        newest = self.seen[-1] if self.seen else None
        is_unread = newest is not None and newest.commit is None and self.failed_since is not None
        if newest is None or newest.last_at <= live.listed_at or is_unread:
            return LiveState(live, live.read_at)
        same = [it for it in self.seen if it.commit in (None, live.revision)]
        others = [it for it in self.seen if it not in same and it.first_at > live.listed_at]
        if newest in same and (newest.commit or not others):
            return LiveState(live, newest.last_at, newest)
        since = others[0].first_at if others else newest.last_at
        is_counted = self.counted and self.counted[:2] == (live.revision, newest.commit)
        count = self.counted[2] if self.counted and is_counted else None
        as_of = max([live.read_at, *(it.last_at for it in same if it.commit or it.last_at < since)])
        if (newest.commit or "").startswith(CHANGED):
            newest = newest._replace(commit=None)
        return LiveState(live, as_of, newest, since, count)


def update_record(lake: Lake, source: str, change: Callable[[SourceRecord], SourceRecord]) -> None:
    """Change what is written of a source; who refreshes it holds its lock."""
    path = _path_of(lake, source)
    with _tolerate(path):
        values = asdict(change(_parse(_read(path))))
        _write(path, {name: value for name, value in values.items() if name not in ("seen", "counted")})


def write_looks(
    lake: Lake,
    commits: Mapping[str, str | None],
    count: Callable[[str, str | None, str], int | None] = lambda source, indexed, commit: None,
) -> None:
    """Add what a look saw of some sources: where something is new, or what is written is a minute old.

    Where two write at once, one look is lost. `count`: the commits from the indexed to a new one. Files stay
    changed until a refresh has begun to read them later.
    """
    path, now, is_due = _path_of(lake, _LOOKS), time.time(), False
    with _tolerate(path):
        looks = {source: _parse(values) for source, values in _read(path).items()}
        for source, commit in commits.items():
            before = looks.get(source, SourceRecord())
            if commit is None and before.seen and (before.seen[-1].commit or "").startswith(CHANGED):
                indexed = _parse(_read(_path_of(lake, source))).indexed
                is_read = indexed and indexed[-1].read_at > before.seen[-1].first_at
                commit = None if is_read else before.seen[-1].commit
            is_new = not before.seen or before.seen[-1].commit != commit
            is_due = is_due or is_new or now >= before.seen[-1].last_at + WRITTEN_S
            looks[source] = before.add_look(commit, now)
            if is_new and commit and not commit.startswith(CHANGED):
                indexed = _parse(_read(_path_of(lake, source))).indexed
                revision = indexed[-1].revision if indexed else None
                if (missing := count(source, revision, commit)) is not None:
                    looks[source] = replace(looks[source], counted=(revision, commit, missing))
        if is_due:
            _write(path, {source: {"seen": it.seen, "counted": it.counted} for source, it in looks.items()})


class FreshnessReader:
    """Reads what is written of all sources of a store, again only where it has changed. Threads may share it.

    In a folder, whether it has is one look at the folder; on an object store a listing, four times a minute.
    """

    def __init__(self, lake: Lake) -> None:
        self._folder = lake.root / FOLDER
        self._lock = threading.Lock()
        self._files: dict[str, tuple[object, Mapping[str, Any]]] = {}  # by name: its stamp, and its content
        self._stamp: int | None = None  # of the folder as it was read; None: it may have changed since
        self.records: Mapping[str, SourceRecord] = {}

    @property
    def is_current(self) -> bool:
        """Whether nothing has changed since it was read, as far as that is looked at now."""
        return self._stamp is not None and self._stamp == self._read_stamp()

    def read(self) -> None:
        """Read what has changed; where that cannot be read, all stays as it was."""
        with self._lock, _tolerate(self._folder):
            if self.is_current:
                return
            stamp, files = self._read_stamp(), dict[str, tuple[object, Mapping[str, Any]]]()
            for path in self._folder.glob("*.json"):
                status: Any = path.stat()
                file_stamp = status.st_mtime, status.st_size, getattr(status, "st_ino", None) or status.tag
                former = self._files.get(path.stem)
                is_same = former is not None and former[0] == file_stamp
                files[path.stem] = former if former and is_same else (file_stamp, _read(path))
            self._files, self._stamp = files, stamp
            contents = {name: content for name, (_, content) in files.items()}
            looks = {name: _parse(it) for name, it in contents.pop(_LOOKS, {}).items()}
            unseen = SourceRecord()
            self.records = {
                name: replace(_parse(it), seen=(look := looks.get(name, unseen)).seen, counted=look.counted)
                for name, it in contents.items()
            }

    def _read_stamp(self) -> int | None:
        if not isinstance(self._folder, Path):
            return int(time.monotonic() / _POLL_INTERVAL_S)
        try:
            written_ns = self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return 0
        return written_ns if written_ns < time.time_ns() - _SETTLED_NS else None


def _path_of(lake: Lake, name: str) -> StorePath:
    return lake.root / FOLDER / f"{name}.json"


@contextmanager
def _tolerate(path: StorePath) -> Generator[None]:
    try:
        yield
    except (OSError, KnowledgeError) as error:
        _log.warning("how current sources are cannot be read or written in %s: %s", path, error)


def _parse(values: Mapping[str, Any]) -> SourceRecord:
    with suppress(TypeError, AttributeError):  # of another version
        lists: dict[str, Any] = {
            "indexed": tuple(IndexedRevision(*it) for it in values.get("indexed", ())),
            "seen": tuple(SeenCommit(*it) for it in values.get("seen", ())),
            "counted": tuple(values.get("counted") or ()) or None,
        }
        return SourceRecord(**{**values, **lists})
    return SourceRecord()


def _read(path: StorePath) -> Mapping[str, Any]:
    """The object of a file; empty where there is none, or it is damaged."""
    with suppress(FileNotFoundError, ValueError):
        if isinstance(path, ObjectPath):
            response: Any = call_store(path.store, lambda: open_client(path.store).get(path.key))
            values = json.loads(bytes(response.bytes()))
        else:
            values = json.loads(path.read_bytes())
        return values if is_object(values) else {}
    return {}


def _write(path: StorePath, values: Mapping[str, Any]) -> None:
    """Replace a file in one step; a power failure may lose it."""
    content = json.dumps(values, separators=(",", ":")).encode()
    if isinstance(path, ObjectPath):
        call_store(path.store, lambda: open_client(path.store).put(path.key, content, use_multipart=False))
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.parent.with_name(f".{FOLDER}-{uuid.uuid4().hex}")  # beside what is listed
    unfinished.write_bytes(content)
    unfinished.replace(path)
