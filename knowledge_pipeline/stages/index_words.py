"""The words by which full text finds a chunk: how they are built, and built again after a change of form.

Each chunk of a small document carries the words of the whole document, so that full text finds the document
even if a query's words are spread over its chunks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from knowledge_pipeline.config.embedding import find_content
from knowledge_pipeline.identifiers import expand_indexed_text
from knowledge_pipeline.records import build_embedded_text
from knowledge_pipeline.store.changes.row_replacement import StaleRows
from knowledge_pipeline.store.filters import contains, eq, has_non_ascii, one_of
from knowledge_pipeline.store.schemas import WORDS_KEY, WORDS_VERSION
from knowledge_pipeline.store.tables import Table, split_batches

SMALL_DOCUMENT_CHUNKS = range(2, 5)  # of a small document
DOCUMENT_ORDER = itemgetter("start_char", "end_char", "id")

_DOCUMENTS_AT_ONCE = 200
_READ_COLUMNS = ["id", "uri", "archived", "header", "text", "start_char", "end_char", "words"]
_MAY_CHANGE = (
    has_non_ascii("text") | has_non_ascii("header") | contains("text", "-\n") | contains("text", "-\r\n")
)
"""Rows whose words may be others than in the first form; all other words are the same in both."""


class WordBuilder:
    """Builds the words of chunks of one source."""

    def __init__(self, source_type: str) -> None:
        self._is_prose = find_content(source_type) == "prose"

    def expand(self, text: str) -> str:
        """The words of a text."""
        return expand_indexed_text(text, is_prose=self._is_prose)

    def build(self, chunk: Mapping[str, Any]) -> str:
        """A chunk's own words."""
        return self.expand(build_embedded_text(chunk["header"], chunk["text"]))

    def build_shared(self, chunk: Mapping[str, Any], document: Mapping[str, str]) -> str:
        """A chunk's own words, then those of its small document; the own ones so count twice.

        Args:
            chunk: one of the document.
            document: the words of each of its texts by the chunk's id, in their order.
        """
        own = build_embedded_text(self.expand(chunk["header"]), document[chunk["id"]])
        return "\n\n".join((own, *document.values()))


def has_former_words(table: Table) -> bool:
    """Whether words of the table may have a form that questions no longer have."""
    if not table.exists:
        return False
    metadata: Mapping[bytes, bytes] = table.open_version().schema.metadata or {}
    return metadata.get(WORDS_KEY.encode()) != WORDS_VERSION.encode()


def rewrite_former_words(table: Table) -> int:
    """Give all rows words of the present form; how many had others.

    Rows with the same words stay as they are, and so do all fingerprints and vectors. Needs the index lock. A
    kill is harmless: the next call goes on.
    """
    affected = _group_documents(table.read_rows(["source", "source_type", "uri"], _MAY_CHANGE).to_pylist())
    ids = [id_ for changed in _iter_changed_words(table, affected) for id_ in changed]
    stale = [StaleRows(table.key, batch) for batch in split_batches(ids)]
    table.replace_rows(stale, _iter_changed_rows(table, affected))
    table.note_in_schema(**{WORDS_KEY: WORDS_VERSION})
    return len(ids)


def _group_documents(rows: Iterable[Mapping[str, str]]) -> dict[tuple[str, str], set[str]]:
    documents: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        documents[row["source"], row["source_type"]].add(row["uri"])
    return documents


def _iter_changed_words(
    table: Table, documents: Mapping[tuple[str, str], Iterable[str]]
) -> Iterator[dict[str, str]]:
    """The words of rows of some documents that have others, by id: some documents at a time."""
    for (source, source_type), uris in documents.items():
        builder = WordBuilder(source_type)
        for batch in split_batches(sorted(uris), _DOCUMENTS_AT_ONCE):
            rows = table.read_rows(_READ_COLUMNS, eq("source", source) & one_of("uri", batch))
            yield _find_changed_words(rows.to_pylist(), builder)


def _find_changed_words(rows: Sequence[Mapping[str, Any]], builder: WordBuilder) -> dict[str, str]:
    """The words of rows that have others, by id; the rows are those of whole documents."""
    shared: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in sorted(rows, key=DOCUMENT_ORDER):
        if not row["archived"]:
            shared[row["uri"]][row["id"]] = builder.expand(row["text"])
    changed: dict[str, str] = {}
    for row in rows:
        document = shared[row["uri"]]
        is_shared = not row["archived"] and len(document) in SMALL_DOCUMENT_CHUNKS
        words = builder.build_shared(row, document) if is_shared else builder.build(row)
        if words != row["words"]:
            changed[row["id"]] = words
    return changed


def _iter_changed_rows(
    table: Table, documents: Mapping[tuple[str, str], Iterable[str]]
) -> Iterator[pa.RecordBatch]:
    """The rows with their new words; they are not held at once."""
    schema: Any = table.schema  # whose stubs give fields no type
    place = schema.get_field_index("words")
    for words in _iter_changed_words(table, documents):
        for rows in table.iter_rows_by_values("id", sorted(words), schema.names):
            ids: list[Any] = rows["id"].to_pylist()
            column = pa.array([words[id_] for id_ in ids], pa.large_string())
            rows = rows.set_column(place, schema.field(place), column)
            yield from rows.combine_chunks().to_batches()
