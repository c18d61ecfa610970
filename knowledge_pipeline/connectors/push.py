"""Documents that were pushed to a source: what waits for a refresh, which is all that a listing has.

What a refresh has taken is in the snapshot alone, which keeps it until it is replaced or deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from knowledge_pipeline.connectors.base import DELETED_REASON, Source
from knowledge_pipeline.connectors.table import ColumnPlan, build_row_document
from knowledge_pipeline.connectors.titles import extract_title
from knowledge_pipeline.contract.requests import MAX_PUSHED_BYTES
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.pushed import PushInbox, WaitingDocument
from knowledge_pipeline.records import Document, Item

_FORMAT_VERSION = 1  # of the documents that `fetch` makes


class PushedDocuments(Source):
    """What waits of one source; `confirm` forgets what `discover` listed."""

    def __init__(self, inbox: PushInbox, source: str, max_bytes: int | None = None) -> None:
        self._inbox, self._source = inbox, source
        self._max_bytes = max_bytes or MAX_PUSHED_BYTES
        self._waiting: Sequence[WaitingDocument] = ()

    def discover(self) -> Iterator[Item]:
        """Every document that was pushed and not deleted since the last refresh."""
        self._waiting = self._inbox.list_waiting(self._source)
        mark = f":{_FORMAT_VERSION}.{self._max_bytes}"
        yield from (Item(it.uri, it.revision + mark) for it in self._waiting if not it.is_deleted)

    @property
    def deleted(self) -> list[str]:
        """The uris that were deleted, when it was listed."""
        return [document.uri for document in self._waiting if document.is_deleted]

    def fetch(self, item: Item) -> Document:
        """A document as it waits, which may be a later one than was listed."""
        content = self._inbox.read(self._source, item.uri)
        if not content:
            raise DocumentSkipped(DELETED_REASON)
        fields: dict[str, Any] = json.loads(content)
        tags: dict[str, Any] = fields.pop("metadata", {})
        id_, text = fields["id"], fields["text"]
        fields.setdefault("language", detect_language(id_) or "markdown")
        fields.setdefault("title", extract_title(id_, text, fields["language"]))
        singles = {name: name for name in fields if name not in ("id", "text")}
        plan = ColumnPlan("id", ("text",), singles, tuple(tags))
        row = tuple((fields | tags)[name] for name in plan.names)
        return build_row_document(item.uri, row, plan, self._max_bytes)

    def confirm(self) -> None:
        """Forget what was listed: the snapshot has it. What came since waits on."""
        if self._waiting:
            self._inbox.forget(self._source, until=self._waiting[-1].number)

    def close(self) -> None:
        """Nothing stays open."""
