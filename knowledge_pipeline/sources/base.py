"""What every source offers: a cheap listing, and reading one item.

A source knows nothing of the store. Its listing is either whole or an exception:
an answer that came back short must raise, because what is not listed is archived.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from knowledge_pipeline.records import Document, Item


class Source(AbstractContextManager["Source"], Protocol):
    """One configured origin of documents; a context manager that frees what it opened."""

    def discover(self) -> Iterator[Item]:
        """List every document with its revision, reading no content.

        Raises:
            SourceRefused: the source does not exist or refuses us; a retry cannot help.
            SourceUnavailable: it did not answer; a retry may help.
        """
        ...

    def fetch(self, item: Item) -> Document:
        """Read one listed item.

        Raises:
            DocumentSkipped: this document cannot be taken; the reason is recorded.
            SourceRefused, SourceUnavailable: as `discover`.
        """
        ...
