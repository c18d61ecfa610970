"""Arrow schemas of every table, in one place; every write is cast to one of them.

A change of any schema raises `VERSION`, and a store written by another version is refused; columns of
`FORMER_COLUMN_NAMES` are only renamed.
"""

from __future__ import annotations

import pyarrow as pa

VERSION = "4"

_TIMESTAMP = pa.timestamp("us", "UTC")


def _build_schema(*fields: pa.Field) -> pa.Schema:
    return pa.schema(list(fields), metadata={"knowledge_schema": VERSION})


def _required(*names: str, type_: pa.DataType | None = None) -> list[pa.Field]:
    """Columns of one type that are never null; by default strings."""
    return [pa.field(name, type_ or pa.string(), nullable=False) for name in names]


def _optional(*names: str, type_: pa.DataType | None = None) -> list[pa.Field]:
    """Columns of one type that may be null; by default strings."""
    return [pa.field(name, type_ or pa.string()) for name in names]


def _key_field(name: str) -> pa.Field:
    """The table's primary key, declared with the schema so that no crash can separate the two.

    With a declared key concurrent upserts of one key conflict instead of doubling the row
    (lancedb#3377); it is what `set_unenforced_primary_key` writes.
    """
    return pa.field(name, pa.string(), False, metadata={"lance-schema:unenforced-primary-key:position": "1"})


_DOCUMENT_COLUMNS = (
    *_required("path"),
    *_optional("title", "language", "url", "author"),
    *_optional("last_modified", type_=_TIMESTAMP),
)

SNAPSHOT = _build_schema(
    _key_field("uri"),
    *_required("revision"),
    *_required("content_hash"),  # of the whole document: text and metadata
    *_DOCUMENT_COLUMNS,
    *_required("metadata"),  # JSON object
    *_required("text", type_=pa.large_string()),  # empty where skipped
    *_optional("skipped"),  # why the document was left out
    *_optional("archived_at", type_=_TIMESTAMP),  # since when the source no longer has it
)
"""One row per document of the source, as it was read."""

_CHUNK_COLUMNS = (
    *_required("uri"),
    *_DOCUMENT_COLUMNS,
    *_required("anchor"),
    *_required("start_char", "end_char", type_=pa.int64()),
    *_required("start_line", "end_line", "tokens", type_=pa.int32()),
    *_required("header"),
    *_required("text", type_=pa.large_string()),
    *_required("content_hash"),  # of the text alone
    *_required("text_key"),  # of header and text: the key of its vector
    *_optional("symbol", "symbol_kind", "section"),
    *_optional("page", type_=pa.int32()),
    *_required("metadata"),  # JSON object
    *_required("archived", type_=pa.bool_()),
)

CHUNKS = _build_schema(
    _key_field("id"),
    *_CHUNK_COLUMNS,
    *_required("fingerprint"),  # of the document, the chunker and the sanitizer
    *_required("row_hash"),  # of the chunk columns
    *_optional("skipped"),  # why the document has no chunk: such a row is a note
)
"""One row per chunk of the source's documents."""


def build_embeddings_schema(dimensions: int) -> pa.Schema:
    """One row per embedded text; the space is the table's place."""
    vector_type = pa.list_(pa.float32(), dimensions)
    return _build_schema(_key_field("text_key"), *_required("vector", type_=vector_type))


_STRING_LIST = pa.list_(pa.field("item", pa.string()))

SOURCE_COLUMNS = (
    *_required("source", "source_type"),
    *_optional("repo", "branch"),
    *_required("tags", type_=_STRING_LIST),
    *_required("visibility"),
    *_optional("tenant"),
    *_required("principals", type_=_STRING_LIST),
)
"""Columns of the index that a source's configuration decides, the same for all its rows."""


def build_index_schema(dimensions: int) -> pa.Schema:
    """One row per retrievable chunk of every source in the space."""
    return _build_schema(
        _key_field("id"),
        *SOURCE_COLUMNS,
        *_CHUNK_COLUMNS,
        *_optional("extension"),
        *_required("labels", type_=_STRING_LIST),
        *_optional("project", "status", "wiki_space"),
        *_required("names", type_=_STRING_LIST),  # of the document itself; in its first chunk alone
        *_required("mentions", type_=_STRING_LIST),  # names of other documents
        *_required("words", type_=pa.large_string()),  # what full-text search reads; built by `stages.index`
        *_required("vector", type_=pa.list_(pa.float32(), dimensions)),
        *_required("fingerprint"),  # of everything above
        *_required("indexed_at", "updated_at", type_=_TIMESTAMP),
        *_required("shown"),  # what results show of it: `store.index_payload`
    )


FACTS = _build_schema(
    _key_field("path"),
    *_required("uri", "language"),
    *_required("facts", type_=pa.large_string()),  # JSON object: the facts of `code_graph`
    *_required("interface"),  # digest of what other files can see of this one
    *_required("defines", type_=_STRING_LIST),  # last segments of the names that it defines
    *_required("fingerprint"),  # of the text, the sanitizer and the extractor
)
"""One row per file of a code source: what it says by itself."""

_FILE_COLUMNS = _required("uri", "path", "language")

SYMBOLS = _build_schema(
    _key_field("id"),
    *SOURCE_COLUMNS,
    *_FILE_COLUMNS,
    *_required("node"),  # what edges name it by: twins of one name in a file share it
    *_optional("url"),
    *_required("kind"),  # "file", "class", ..., or "alias": another full name of its node
    *_required("name"),  # qualified within its file: "Store.get"; empty for the file
    *_required("simple"),  # last segment of the name
    *_required("full_name"),  # as other repositories name it: "requests.sessions.Session.get"
    *_required("start_line", "end_line", type_=pa.int32()),
    *_required("signature"),
    *_required("exported", type_=pa.bool_()),
    *_required("shown"),  # what results show of it: `store.code_graph.symbol_payload`
    *_optional("made_of"),  # of a file: digest of its facts, the configuration and the resolver
    *_optional("trace", type_=pa.large_string()),  # of a file: JSON object, what it asked of others
    *_required("fingerprint"),  # of all rows of the file, edges too
    *_required("indexed_at", type_=_TIMESTAMP),
)
"""One row per definition and file of every code source: the nodes of the code graph."""

EDGES = _build_schema(
    _key_field("id"),
    *SOURCE_COLUMNS,
    *_FILE_COLUMNS,
    *_required("kind"),  # "calls", "references", "extends", "implements", "imports", "contains"
    *_required("source_id"),  # node of the definition that it goes out from
    *_required("source_name"),  # qualified within its file
    *_optional("target_id"),  # node; null: outside of the source, or not found
    *_required("target_name"),  # qualified within its file; of what is outside the full name, or as written
    *_optional("target_path"),
    *_required("line", type_=pa.int32()),
    *_required("confidence", type_=pa.float32()),  # 0 to 1: how sure it is that this target is meant
    *_required("indexed_at", type_=_TIMESTAMP),
)
"""One row per use of one definition by another: the edges of the code graph."""

GRAPH = {"symbols": SYMBOLS, "edges": EDGES}
"""The tables of the code graph that all sources share, and that a release names."""

RELEASES = _build_schema(
    *_required("release", type_=pa.int64()),
    *_required("created_at", type_=_TIMESTAMP),
    *_required("tables"),  # JSON object: space, or "graph/symbols", "graph/edges" -> version of the table
    *_required("rows", type_=pa.int64()),
    *_optional("restores", type_=pa.int64()),  # the release that a rollback went back to
)
"""One row per release; the newest is live."""

TOKENS = _build_schema(
    _key_field("id"),
    *_required("digest"),  # SHA-256 of the whole token, hexadecimal
    *_required("name"),
    *_optional("tenant"),
    *_required("principals", type_=_STRING_LIST),
    *_required("everything", type_=pa.bool_()),
    *_required("scopes", type_=_STRING_LIST),
    *_optional("requests_per_minute", type_=pa.int32()),
    *_required("created_at", type_=_TIMESTAMP),
    *_optional("expires_at", "revoked_at", type_=_TIMESTAMP),
)
"""One row per token that was ever created."""

REFRESHES = _build_schema(
    *_required("at", type_=_TIMESTAMP),  # when the stage was done
    *_required("source", "source_type", "stage"),
    *_required("seen", "added", "changed", "removed", "skipped", type_=pa.int64()),
    *_required("rows", type_=pa.int64()),  # of the source in the stage's table, after
    *_required("tokens", type_=pa.int64()),
    *_required("cost", "seconds", type_=pa.float64()),
    *_optional("run"),  # the Dagster run, if there was one
)
"""A log, one row per stage of a source's refresh, whether it changed anything or not."""

LLM_CALLS = _build_schema(
    *_required("at", type_=_TIMESTAMP),
    *_required("kind"),  # "embedding", "completion"
    *_required("provider", "model"),
    *_optional("source"),  # whose texts were embedded
    *_optional("session"),  # of a user or agent
    *_optional("project"),
    *_required("calls", type_=pa.int64()),  # summed up in this row; texts, for a local model
    *_required("tokens", type_=pa.int64()),
    *_required("cost", "seconds", type_=pa.float64()),
)
"""A log, one row per use of a model: an embeddings stage that embedded something, a completion."""

QUERIES = _build_schema(
    *_required("query_id"),
    *_required("at", type_=_TIMESTAMP),
    *_required("type"),  # "semantic", "code", "similar", "historical", "get", ...
    *_required("text"),  # sanitized
    *_required("interface"),  # that it came by: "python", "cli", "http", "mcp", "page"
    *_optional("token"),  # id of the token that it came with
    *_optional("tenant"),
    *_required("principals", type_=_STRING_LIST),
    *_required("release", "results", type_=pa.int64()),
    *_required("took_ms", type_=pa.float64()),
    *_required("cached", type_=pa.bool_()),
    *_required("degraded", type_=_STRING_LIST),
)
"""A log, one row per answered question."""

FEEDBACK = _build_schema(
    *_required("at", type_=_TIMESTAMP),
    *_required("query_id"),
    *_required("result_id"),  # the chunk
    *_required("judgement"),  # "clicked", "useful", "useless"
    *_optional("tenant"),
)
"""A log, one row per judgement of a result by its reader."""

EVALUATIONS = _build_schema(
    *_required("at", type_=_TIMESTAMP),
    *_required("tables"),  # JSON object: space -> version of the index that was asked
    *_required("golden"),  # hash of the questions, because scores of different ones do not compare
    *_required("type"),  # search type, or "all"
    *_required("metric"),  # "nDCG@10", "R@10", "RR@10", "Success@1", "Success@5", "p50_ms", "questions"
    *_required("value", type_=pa.float64()),
)
"""A log, one row per metric of an evaluation."""

LOGS = {
    "refreshes": REFRESHES,
    "llm_calls": LLM_CALLS,
    "queries": QUERIES,
    "feedback": FEEDBACK,
    "evaluations": EVALUATIONS,
}
"""Tables that are only appended to; no refresh depends on them."""

FORMER_COLUMN_NAMES = {"queries": {"door": "interface"}}
"""Table -> columns that an earlier version named otherwise; such a table is renamed when it is opened."""
