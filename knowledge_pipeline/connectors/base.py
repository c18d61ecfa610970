"""The interfaces of sources: list items cheaply, and read one.

A source knows nothing of the store. Its listing is complete or an exception: a listing that
comes back short must raise, because documents that are not listed are archived.
"""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote_to_bytes

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import VARIANT_MARK, Attachment, Document, Item, hash_strings, strip_variant

_pause = ContextVar[Callable[[float], None]]("pause", default=time.sleep)


def pause(wait_s: float) -> None:
    """Wait, between two attempts, as the context says: see `pausing_by`."""
    _pause.get()(wait_s)


@contextmanager
def pausing_by(wait: Callable[[float], None]) -> Generator[None]:
    """Let each wait inside be a call of this with its seconds; it may raise, so that nobody waits."""
    token = _pause.set(wait)
    try:
        yield
    finally:
        _pause.reset(token)


DELETED_REASON = "deleted while it was read"
"""Why a document is skipped that was deleted after it was listed."""


def format_too_large(size_bytes: int, limit_bytes: int) -> str:
    """Why a document is skipped that is over a limit."""
    return f"larger than {limit_bytes} bytes ({size_bytes})"


class Source(ABC):
    """One configured origin of documents; a context manager that frees what it opened."""

    @property
    def revision(self) -> str | None:
        """The commit that the last listing of a repository was of; None: it was of none."""
        return None

    @abstractmethod
    def discover(self) -> Iterator[Item]:
        """List every document with its revision, reading no content.

        Raises:
            SourceRefused: the source does not exist or refuses us; a retry cannot help.
            SourceUnavailable: it did not answer; a retry may help.
        """

    @abstractmethod
    def fetch(self, item: Item) -> Document:
        """Read one listed item.

        Raises:
            DocumentSkipped: this document cannot be taken; the reason is recorded.
            SourceRefused, SourceUnavailable: as `discover`.
        """

    @abstractmethod
    def close(self) -> None:
        """Free what was opened; a later call opens it again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class BatchSource(Source):
    """A source that reads many documents at once."""

    @abstractmethod
    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read listed items in as few calls as the service allows, each once, in any order.

        An item that was deleted since it was listed is skipped. What was yielded before an exception
        is kept.

        Raises:
            SourceRefused, SourceUnavailable: as `discover`.
        """

    def fetch(self, item: Item) -> Document:
        """Read one; `fetch_many` reads many in fewer calls."""
        [(_, read)] = self.fetch_many([item])
        if isinstance(read, DocumentSkipped):
            raise read
        return read


class ApiSource(BatchSource):
    """A source behind an API, where a full listing costs many calls.

    Nothing is sent before the first call of a method. Between two full listings, only updates are
    listed. A document's `last_modified` is the service's own time of its last update: the newest one
    stored is where the next listing begins, so that no cursor is kept besides the documents.
    """

    full_listing_interval: timedelta
    """How often everything is listed, to detect deletions."""

    def discover_named(self, uris: Sequence[str]) -> Iterator[Item]:
        """List those of some documents that are there, seen by us, and pass the filters.

        What is not listed is archived, as by a full listing; documents that belong to a named one may be
        listed with it. A service that can be asked for documents by name overrides this.

        Raises `SourceRefused`, `SourceUnavailable`: as `discover`.
        """
        wanted = set(uris)
        yield from (item for item in self.discover() if item.uri in wanted)

    @abstractmethod
    def discover_updated(self, since: datetime) -> Iterator[Item]:
        """List what was updated since a moment of the service's clock, and some time before it.

        Each source chooses that margin by what its service reports late. Deletions are not listed.

        Raises:
            SourceRefused, SourceUnavailable: as `discover`.
        """

    def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """The bytes of a file that a document has; by default, the source cannot give any.

        Raises:
            DocumentSkipped: it cannot be taken: gone, larger than `max_bytes`, not for us.
            SourceRefused, SourceUnavailable: as `discover`.
        """
        raise DocumentSkipped("a source that cannot download what its documents attach")


Node = dict[str, Any]


class ListedSource(BatchSource):
    """A source whose listings bring the text; nothing is sent before the first call of a method.

    It suits what a service has few of and gives no time of change for. A refresh lists all, so that what is
    gone is archived at once; where something changed, the list is read again, up to the last change.
    """

    @abstractmethod
    def iter_entries(self) -> Iterator[tuple[Item, Node]]:
        """Every wanted document, with what it is made of; complete, or an exception."""

    @abstractmethod
    def build_document(self, item: Item, node: Node) -> Document:
        """The document of an entry."""

    def discover(self) -> Iterator[Item]:
        """Everything, in the service's order."""
        for item, _ in self.iter_entries():
            yield item

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read the list until the last of the items; what it has no more is skipped."""
        missing = {item.uri: item for item in items}
        for entry, node in self.iter_entries() if missing else ():
            if item := missing.pop(entry.uri, None):
                skipped = DocumentSkipped(entry.skip) if entry.skip else None
                yield item, skipped or self.build_document(item, node)
            if not missing:
                return
        for item in missing.values():
            yield item, DocumentSkipped(DELETED_REASON)


def build_revision(version: str, node: Node) -> str:
    """Changes with what a document is made of, and with `version`, of how it is made."""
    return f"{version}:{hash_strings(json.dumps(node, sort_keys=True))[:32]}"


_TO_ESCAPE = re.compile("[%\udc80-\udcff]")


def decode_path(raw: bytes) -> str:
    """A path of the system or of git as text, in which bytes that are not UTF-8 are lone surrogates.

    Whatever the locale, paths are such text inside of this folder; they leave it as uris or as shown text.
    """
    return raw.decode("utf-8", "surrogateescape")


def encode_path(path: str) -> bytes:
    """The bytes that the system and git know the path by."""
    return path.encode("utf-8", "surrogateescape")


def path_to_uri(path: str) -> str:
    """A unique uri: the path itself, `%` and bytes that are not UTF-8 written as `%XX`."""
    return _TO_ESCAPE.sub(lambda match: f"%{encode_path(match[0])[0]:02X}", path)


def build_variant_uri(path: str, blob: str) -> str:
    """The uri of a file that only further branches of a repository have with this content."""
    return f"{path_to_uri(path)}{VARIANT_MARK}{blob}"


def uri_to_path(uri: str) -> str:
    """The path that `path_to_uri` or `build_variant_uri` was given."""
    return decode_path(unquote_to_bytes(strip_variant(uri)))


def format_path(path: str) -> str:
    """The path as a person may read it: bytes that are not UTF-8 become U+FFFD."""
    return encode_path(path).decode("utf-8", "replace")
