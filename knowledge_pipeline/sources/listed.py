"""Sources whose every listing brings the text: what they list is complete, and compared as it is.

They suit what a service has few of and gives no time of change for. A refresh lists all, so that what is
gone is archived at once; only where something changed, the list is read again, up to the last that changed.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document, Item, hash_strings
from knowledge_pipeline.sources.base import DELETED_REASON, BatchSource

Node = dict[str, Any]


class ListedSource(BatchSource):
    """A source that reads documents by listing them; nothing is sent before the first call of a method."""

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
