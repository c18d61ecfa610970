"""From a row of the index to a passage: the columns that are read, and what each becomes."""

from __future__ import annotations

import json
from typing import Any

from knowledge_pipeline.query.hits import Passage
from knowledge_pipeline.relations.mentions import Mention
from knowledge_pipeline.store.readers import Row

_SHOWN = (  # as metadata, where they hold anything
    "source",
    "source_type",
    "repo",
    "branch",
    "path",
    "uri",
    "title",
    "language",
    "author",
    "last_modified",
    "anchor",
    "symbol",
    "symbol_kind",
    "section",
    "page",
    "tags",
    "labels",
    "project",
    "status",
    "wiki_space",
    "tokens",
    "indexed_at",
    "updated_at",
)
_FIELDS = ("id", "source", "uri", "path", "text", "content_hash", "header", "title", "url")
_PLACE = ("start_char", "start_line", "end_line")

COLUMNS = tuple(dict.fromkeys((*_FIELDS, *_PLACE, *_SHOWN, "archived", "metadata")))
"""What is read of every row. Who may see a row is not among it: it is nobody's business who else may."""


def passage_of(row: Row) -> Passage:
    """A row with `COLUMNS` as a passage."""
    fields: dict[str, Any] = {name: row[name] for name in (*_FIELDS, *_PLACE)}
    metadata = _metadata(row)
    symbols = dict.fromkeys([row["symbol"], *metadata.get("symbols", ())])
    names, mentions = metadata.pop("names", ()), metadata.pop("mentions", ())
    metadata.pop("leads", None)
    return Passage(
        **fields,
        symbols=tuple(filter(None, symbols)),
        names=tuple(names),
        mentions=tuple(Mention(**each) for each in mentions),
        metadata=metadata,
    )


def _metadata(row: Row) -> dict[str, Any]:
    """The extractors' findings, and the typed columns, which win."""
    columns = {name: _plain(row[name]) for name in _SHOWN if row[name] not in (None, "", [])}
    archived = {"archived": True} if row["archived"] else {}
    return {**json.loads(row["metadata"] or "{}"), **columns, **archived}


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
