"""From a row of the index to a passage: the columns that are read, and what each becomes."""

from __future__ import annotations

from typing import Any

from knowledge_pipeline.query.search.hits import IndexedChunk
from knowledge_pipeline.records import Mention
from knowledge_pipeline.store import index_payload
from knowledge_pipeline.store.readers import Row

_TIME_COLUMNS = ("indexed_at", "updated_at")
CHUNK_COLUMNS = ("text", "shown", *_TIME_COLUMNS)
"""What is read of every row."""

_FIELDS = ("id", "source", "uri", "path", "content_hash", "header", "title", "url")
_SPAN_COLUMNS = ("start_char", "start_line", "end_line")
_NOT_METADATA = {"id", "content_hash", "header", "url", *_SPAN_COLUMNS, "archived", "metadata"}
_METADATA = tuple(name for name in index_payload.PAYLOAD_COLUMNS if name not in _NOT_METADATA)


def to_chunk(row: Row) -> IndexedChunk:
    """A row with `COLUMNS` as a passage."""
    shown = index_payload.parse_payload(row["shown"])
    fields: dict[str, Any] = {name: shown[name] for name in (*_FIELDS, *_SPAN_COLUMNS)}
    metadata = _build_metadata(shown) | {name: row[name].isoformat() for name in _TIME_COLUMNS}
    symbols = dict.fromkeys([shown["symbol"], *metadata.get("symbols", ())])
    names, mentions = metadata.pop("names", ()), metadata.pop("mentions", ())
    metadata.pop("leads", None)
    return IndexedChunk(
        **fields,
        text=row["text"],
        symbols=tuple(filter(None, symbols)),
        names=tuple(names),
        mentions=tuple(Mention(**each) for each in mentions),
        metadata=metadata,
    )


def _build_metadata(columns_shown: Row) -> dict[str, Any]:
    """The extractors' findings, and the typed columns that hold anything, which win."""
    columns = {name: columns_shown[name] for name in _METADATA if columns_shown[name] not in (None, "", [])}
    archived = {"archived": True} if columns_shown["archived"] else {}
    return {**columns_shown["metadata"], **columns, **archived}
