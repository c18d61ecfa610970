"""Documents that were pushed, until a refresh has taken them into the snapshot of their source.

They wait in one SQLite file in the store's local folder. Unlike the state that processes share, it is
synchronised to disk: what was accepted has no other origin, and survives a kill and a power failure. The
snapshot is the origin of what a refresh has taken.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.base import to_json
from knowledge_pipeline.contract.requests import MAX_PUSHED_BYTES, PushRequest
from knowledge_pipeline.errors import InvalidQuery, NotFound, StoreUnavailable, TooManyRequests
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.filters import eq, is_null
from knowledge_pipeline.store.lake import Lake

FILE = "pushed.sqlite"
MAX_WAITING = 10_000  # documents of one source
_BUSY_S = 10.0
_TABLE = """
create table if not exists documents (
    number integer primary key autoincrement,
    source text not null, uri text not null, revision text not null, content text not null,
    unique (source, uri)
)
"""


@dataclass(frozen=True, slots=True)
class WaitingDocument:
    """A document that was pushed or deleted since the last refresh."""

    number: int  # in the order in which they came; another one once it is replaced
    uri: str
    revision: str  # changes with the content; empty: it is deleted

    @property
    def is_deleted(self) -> bool:
        """Whether its sender deleted it."""
        return not self.revision


class PushInbox:
    """What waits in one store. Processes and threads may share it; reading makes no file.

    Every method raises `StoreUnavailable` if the file cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        """Prepare; `folder` is the store's local one."""
        self._path = folder / FILE

    def put(self, source: str, uri: str, content: str) -> None:
        """Keep a document in place of what waits under its uri; without content, that it is deleted.

        Raises `TooManyRequests`: too many of the source wait.
        """
        revision = hash_strings(content) if content else ""
        with self._open(create=True) as connection:
            connection.execute("begin immediate")
            insert = "insert or replace into documents (source, uri, revision, content) values (?, ?, ?, ?)"
            connection.execute(insert, (source, uri, revision, content))
            query = "select count(*) from documents where source = ?"
            if connection.execute(query, (source,)).fetchone()[0] > MAX_WAITING:  # closing rolls it back
                raise TooManyRequests(
                    f"{MAX_WAITING:,} documents of source {source!r} wait for a refresh: try again later",
                    60.0,
                )
            connection.execute("commit")

    def list_waiting(self, source: str) -> list[WaitingDocument]:
        """What waits of a source, in the order in which it came."""
        with self._open() as connection:
            query = "select number, uri, revision from documents where source = ? order by number"
            return [WaitingDocument(*row) for row in connection.execute(query, (source,))]

    def read(self, source: str, uri: str) -> str | None:
        """The content of a document as it was put; empty if it is deleted; None: it does not wait."""
        with self._open() as connection:
            query = "select content from documents where source = ? and uri = ?"
            row = connection.execute(query, (source, uri)).fetchone()
            return row and str(row[0])

    def forget(self, source: str, *, until: int) -> None:
        """Forget what came up to a number: the snapshot has it."""
        with self._open() as connection:
            connection.execute("delete from documents where source = ? and number <= ?", (source, until))

    def erase(self, source: str, uri: str | None = None) -> None:
        """Forget what waits of a source, or one document of it."""
        with self._open() as connection:
            statement = "delete from documents where source = ? and uri = coalesce(?, uri)"
            connection.execute(statement, (source, uri))

    @contextmanager
    def _open(self, *, create: bool = False) -> Generator[sqlite3.Connection]:
        try:
            exists = self._path.exists()
            if create and not exists:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            name = str(self._path) if create or exists else ":memory:"
            with closing(sqlite3.connect(name, timeout=_BUSY_S, isolation_level=None)) as connection:
                for setting in ("synchronous=extra", "secure_delete=on"):
                    connection.execute(f"pragma {setting}")
                connection.execute(_TABLE)
                yield connection
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(
                f"pushed documents cannot be kept or read ({error}): see {FILE}"
            ) from error


def push_document(lake: Lake, source: SourceConfig, request: PushRequest) -> None:
    """Keep a document for the next refresh of its source.

    Raises:
        InvalidQuery: the source is not of type `push`, or the text is longer than it takes.
        TooManyRequests, StoreUnavailable: as `PushInbox.put`.
    """
    _require_push(source)
    limit_bytes, size_bytes = source.max_bytes or MAX_PUSHED_BYTES, len(request.text.encode())
    if size_bytes > limit_bytes:
        raise InvalidQuery(
            f"the text has {size_bytes:,} bytes, and source {source.id!r} takes {limit_bytes:,}: "
            "send less, or raise its max_bytes"
        )
    values = {name: value for name, value in asdict(request).items() if value and name != "source"}
    PushInbox(lake.folder).put(source.id, request.id, json.dumps(to_json(values), sort_keys=True))


def delete_document(lake: Lake, source: SourceConfig, uri: str) -> None:
    """Let the next refresh of its source archive a document.

    Raises:
        InvalidQuery: the source is not of type `push`.
        NotFound: it has no such document.
        StoreUnavailable: as `PushInbox.put`.
    """
    _require_push(source)
    inbox = PushInbox(lake.folder)
    waiting, snapshot = inbox.read(source.id, uri), lake.snapshot(source.type, source.id)
    # A refresh empties the inbox after it has written the snapshot.
    is_known = snapshot.count_rows(eq("uri", uri) & is_null("archived_at")) if waiting is None else waiting
    if not is_known:
        raise NotFound(f"source {source.id!r} has no document {uri!r}")
    inbox.put(source.id, uri, "")


def _require_push(source: SourceConfig) -> None:
    if source.type != "push":
        raise InvalidQuery(
            f"source {source.id!r} is of type {source.type!r}: documents are pushed to one of type 'push'"
        )
