"""What a source behind the API of a service is made of: the service's client, and the reading through it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
