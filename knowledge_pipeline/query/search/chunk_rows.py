"""From a row of the index to a passage: the columns that are read, and what each becomes."""

from __future__ import annotations

from typing import Any

from knowledge_pipeline.query.search.hits import Passage
from knowledge_pipeline.relations.mentions import Mention
from knowledge_pipeline.store import index_payload
from knowledge_pipeline.store.readers import Row

_TIMES = ("indexed_at", "updated_at")
COLUMNS = ("text", "shown", *_TIMES)
"""What is read of every row."""

_FIELDS = ("id", "source", "uri", "path", "content_hash", "header", "title", "url")
_PLACE = ("start_char", "start_line", "end_line")
_NO_METADATA = {"id", "content_hash", "header", "url", *_PLACE, "archived", "metadata"}
_METADATA = tuple(name for name in index_payload.COLUMNS if name not in _NO_METADATA)


def passage_of(row: Row) -> Passage:
    """A row with `COLUMNS` as a passage."""
    shown = index_payload.read(row["shown"])
    fields: dict[str, Any] = {name: shown[name] for name in (*_FIELDS, *_PLACE)}
    metadata = _metadata(shown) | {name: row[name].isoformat() for name in _TIMES}
    symbols = dict.fromkeys([shown["symbol"], *metadata.get("symbols", ())])
    names, mentions = metadata.pop("names", ()), metadata.pop("mentions", ())
    metadata.pop("leads", None)
    return Passage(
        **fields,
        text=row["text"],
        symbols=tuple(filter(None, symbols)),
        names=tuple(names),
        mentions=tuple(Mention(**each) for each in mentions),
        metadata=metadata,
    )


def _metadata(shown: Row) -> dict[str, Any]:
    """The extractors' findings, and the typed columns that hold anything, which win."""
    columns = {name: shown[name] for name in _METADATA if shown[name] not in (None, "", [])}
    archived = {"archived": True} if shown["archived"] else {}
    return {**shown["metadata"], **columns, **archived}
