"""What a source behind the API of a service is made of: the service's client, and the reading through it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from knowledge_pipeline.connectors.base import ApiSource
from knowledge_pipeline.connectors.download import Downloader
from knowledge_pipeline.errors import SourceUnavailable
from knowledge_pipeline.records import Attachment


class ServiceClient:
    """The API of one service; nothing is sent before the first request."""

    def __init__(self, service: str, downloader: Downloader) -> None:
        self.service = service  # as a person knows it: "Jira at example.atlassian.net"
        self._downloader = downloader

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        self._downloader.close()

    def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """The bytes of a document's file; raises as `Downloader.read`."""
        return self._downloader.read(attachment.address, attachment.name, max_bytes)

    def unavailable(self, problem: str) -> SourceUnavailable:
        """What may pass."""
        return SourceUnavailable(f"{self.service} {problem}: try again later")

    def listing_incomplete(self, problem: str) -> SourceUnavailable:
        """A listing that cannot be trusted to be whole."""
        return self.unavailable(f"{problem}: nothing is deleted")


MAX_STALE_PAGES = 100
"""Pages in a row without anything new: some come where a service hides entries, no end where it is broken."""


class PageGuard:
    """Refuses a listing that does not end, whatever its pages say of a next one.

    A cursor that comes again never ends. Nor do new ones, or offsets, whose pages are empty or repeat others.
    """

    def __init__(self, error: Callable[[], Exception]) -> None:
        self.error = error
        self._cursors: set[Hashable] = {""}  # one that is missing leads nowhere
        self._pages = {hash(())}
        self._stale_count = 0

    def advance(self, records: Iterable[Hashable], cursor: Hashable = None) -> None:
        """After a page of records, before the one at `cursor` (None: at an offset). Raises the error."""
        page = hash(tuple(records))
        self._stale_count = self._stale_count + 1 if page in self._pages else 0
        if cursor in self._cursors or self._stale_count >= MAX_STALE_PAGES:
            raise self.error()
        self._pages.add(page)
        if cursor is not None:
            self._cursors.add(cursor)


ClientT = TypeVar("ClientT", bound=ServiceClient)


class ServiceSource(ApiSource, Generic[ClientT]):
    """A source that reads through a client, files included."""

    def __init__(self, client: ClientT) -> None:
        self._client = client

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """The bytes of a document's file; raises as `Downloader.read`."""
        return self._client.download(attachment, max_bytes)


ValueT = TypeVar("ValueT")


def split_batches(values: Iterable[ValueT], size: int) -> Iterator[list[ValueT]]:
    """The values in lists of `size`, the last one shorter."""
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch
