"""The interface of every source: list items cheaply, and read one.

A source knows nothing of the store. Its listing is complete or an exception: a listing that
comes back short must raise, because documents that are not listed are archived.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Attachment, Document, Item

Sleep = Callable[[float], None]

DELETED_REASON = "deleted while it was read"
"""Why a document is skipped that was deleted after it was listed."""


class Source(ABC):
    """One configured origin of documents; a context manager that frees what it opened."""

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

        Raises:
            SourceRefused, SourceUnavailable: as `discover`.
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
        del attachment, max_bytes
        raise DocumentSkipped("a source that cannot download what its documents attach")
