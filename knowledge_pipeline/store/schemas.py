"""Arrow schemas of every table, in one place; every write is cast to one of them.

A change of any schema raises `VERSION`: a store written by another version is refused.
"""

from __future__ import annotations

import pyarrow as pa

VERSION = "4"

_TIMESTAMP = pa.timestamp("us", "UTC")


def _build_schema(*fields: pa.Field) -> pa.Schema:
    return pa.schema(list(fields), metadata={"knowledge_schema": VERSION})


def _required_field(name: str, type_: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, type_ or pa.string(), nullable=False)


def _key_field(name: str) -> pa.Field:
    """The table's primary key, declared with the schema so that no crash can part the two.

    With a declared key concurrent upserts of one key conflict instead of doubling the row
    (lancedb#3377); it is what `set_unenforced_primary_key` writes.
    """
    return pa.field(name, pa.string(), False, metadata={"lance-schema:unenforced-primary-key:position": "1"})


def _optional_field(name: str, type_: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, type_ or pa.string())


_DOCUMENT_COLUMNS = (
    _required_field("path"),
    _optional_field("title"),
    _optional_field("language"),
    _optional_field("url"),
    _optional_field("author"),
    _optional_field("last_modified", _TIMESTAMP),
)

SNAPSHOT = _build_schema(
    _key_field("uri"),
    _required_field("revision"),
    _required_field("content_hash"),  # of the whole document: text and all that is known about it
    *_DOCUMENT_COLUMNS,
    _required_field("metadata"),  # JSON object
    _required_field("text", pa.large_string()),  # empty where skipped
    _optional_field("skipped"),  # why the document could not be taken
    _optional_field("archived_at", _TIMESTAMP),  # since when the source no longer has it
)
"""One row per document of the source, as it was read."""

_CHUNK_COLUMNS = (
    _required_field("uri"),
    *_DOCUMENT_COLUMNS,
    _required_field("anchor"),
    _required_field("start_char", pa.int64()),
    _required_field("end_char", pa.int64()),
    _required_field("start_line", pa.int32()),
    _required_field("end_line", pa.int32()),
    _required_field("tokens", pa.int32()),
    _required_field("header"),
    _required_field("text", pa.large_string()),
    _required_field("content_hash"),  # of the text alone
    _required_field("text_key"),  # of header and text: the key of its vector
    _optional_field("symbol"),
    _optional_field("symbol_kind"),
    _optional_field("section"),
    _optional_field("page", pa.int32()),
    _required_field("metadata"),  # JSON object
    _required_field("archived", pa.bool_()),
)

CHUNKS = _build_schema(
    _key_field("id"),
    *_CHUNK_COLUMNS,
    _required_field("fingerprint"),  # of the document, the chunker and the sanitizer
    _required_field("row_hash"),  # of the chunk columns
    _optional_field("skipped"),  # why the document gave no chunk: such a row is a note, not a chunk
)
"""One row per chunk of the source's documents."""


def build_embeddings_schema(dimensions: int) -> pa.Schema:
    """One row per embedded text; the space is the table's place."""
    return _build_schema(
        _key_field("text_key"), _required_field("vector", pa.list_(pa.float32(), dimensions))
    )


_STRING_LIST = pa.list_(pa.field("item", pa.string()))

SOURCE_COLUMNS = (
    _required_field("source"),
    _required_field("source_type"),
    _optional_field("repo"),
    _optional_field("branch"),
    _required_field("tags", _STRING_LIST),
    _required_field("visibility"),
    _optional_field("tenant"),
    _required_field("principals", _STRING_LIST),
)
"""Columns of the index that a source's configuration decides, the same for all its rows."""


def build_index_schema(dimensions: int) -> pa.Schema:
    """One row per retrievable chunk of every source in the space."""
    return _build_schema(
        _key_field("id"),
        *SOURCE_COLUMNS,
        *_CHUNK_COLUMNS,
        _optional_field("extension"),
        _required_field("labels", _STRING_LIST),
        _optional_field("project"),
        _optional_field("status"),
        _optional_field("wiki_space"),
        _required_field("names", _STRING_LIST),  # that the document answers to; of its first chunk alone
        _required_field(
            "mentions", _STRING_LIST
        ),  # names of other documents, in this chunk or told of the document
        _required_field("words", pa.large_string()),  # what full text searches: `stages.index` says how
        _required_field("vector", pa.list_(pa.float32(), dimensions)),
        _required_field("fingerprint"),  # of everything above
        _required_field("indexed_at", _TIMESTAMP),
        _required_field("updated_at", _TIMESTAMP),
        _required_field("shown"),  # what answers show of it: `index_shown`
    )


FACTS = _build_schema(
    _key_field("path"),
    _required_field("uri"),
    _required_field("language"),
    _required_field("facts", pa.large_string()),  # JSON object: `graph.facts.Facts`
    _required_field("interface"),  # digest of what other files can see of this one
    _required_field("defines", _STRING_LIST),  # last segments of the names that it defines
    _required_field("fingerprint"),  # of the text, the sanitizer and the extractor
)
"""One row per source file of a code source: what it says by itself."""

_FILE_COLUMNS = (_required_field("uri"), _required_field("path"), _required_field("language"))

SYMBOLS = _build_schema(
    _key_field("id"),
    *SOURCE_COLUMNS,
    *_FILE_COLUMNS,
    _required_field("node"),  # what edges name it by: twins of one name in a file share it
    _optional_field("url"),
    _required_field("kind"),  # "file", "class", ..., or "alias": another full name of its node
    _required_field("name"),  # qualified within its file: "Store.get"; empty for the file
    _required_field("simple"),  # last segment of the name
    _required_field("full_name"),  # as other repositories name it: "requests.sessions.Session.get"
    _required_field("start_line", pa.int32()),
    _required_field("end_line", pa.int32()),
    _required_field("signature"),
    _required_field("exported", pa.bool_()),
    _required_field("shown"),  # what answers show of it: `graph_shown`
    _optional_field("made_of"),  # of a file: digest of its facts, the configuration and the resolver
    _optional_field("trace", pa.large_string()),  # of a file: JSON object of what was asked about other files
    _required_field("fingerprint"),  # of all rows of the file, edges too
    _required_field("indexed_at", _TIMESTAMP),
)
"""One row per definition and file of every code source: the nodes of the code graph."""

EDGES = _build_schema(
    _key_field("id"),
    *SOURCE_COLUMNS,
    *_FILE_COLUMNS,
    _required_field("kind"),  # "calls", "references", "extends", "implements", "imports", "contains"
    _required_field("source_id"),  # node of the definition that it goes out from
    _required_field("source_name"),  # qualified within its file
    _optional_field("target_id"),  # node; null: outside of the source, or not found
    _required_field(
        "target_name"
    ),  # qualified within its file; of what is outside the full name, or as written
    _optional_field("target_path"),
    _required_field("line", pa.int32()),
    _required_field("confidence", pa.float32()),  # 0 to 1: how sure it is that this target is meant
    _required_field("indexed_at", _TIMESTAMP),
)
"""One row per use of one definition by another: the edges of the code graph."""

GRAPH = {"symbols": SYMBOLS, "edges": EDGES}
"""The tables of the code graph that all sources share, and that a release names."""

RELEASES = _build_schema(
    _required_field("release", pa.int64()),
    _required_field("created_at", _TIMESTAMP),
    _required_field(
        "tables"
    ),  # JSON object: space, or "graph/symbols", "graph/edges" -> version of the table
    _required_field("rows", pa.int64()),
    _optional_field("restores", pa.int64()),  # the release that a rollback went back to
)
"""One row per release; the newest is live."""

TOKENS = _build_schema(
    _key_field("id"),
    _required_field("digest"),  # SHA-256 of the whole token, hexadecimal
    _required_field("name"),
    _optional_field("tenant"),
    _required_field("principals", _STRING_LIST),
    _required_field("everything", pa.bool_()),
    _required_field("scopes", _STRING_LIST),
    _optional_field("requests_per_minute", pa.int32()),
    _required_field("created_at", _TIMESTAMP),
    _optional_field("expires_at", _TIMESTAMP),
    _optional_field("revoked_at", _TIMESTAMP),
)
"""One row per token that was ever made."""

REFRESHES = _build_schema(
    _required_field("at", _TIMESTAMP),  # when the stage was done
    _required_field("source"),
    _required_field("source_type"),
    _required_field("stage"),
    _required_field("seen", pa.int64()),
    _required_field("added", pa.int64()),
    _required_field("changed", pa.int64()),
    _required_field("removed", pa.int64()),
    _required_field("skipped", pa.int64()),
    _required_field("rows", pa.int64()),  # of the source in the stage's table, after
    _required_field("tokens", pa.int64()),
    _required_field("cost", pa.float64()),
    _required_field("seconds", pa.float64()),
    _optional_field("run"),  # the Dagster run, if there was one
)
"""A log, one row per stage of a source's refresh, whether it changed anything or not."""

LLM_CALLS = _build_schema(
    _required_field("at", _TIMESTAMP),
    _required_field("kind"),  # "embedding", "completion"
    _required_field("provider"),
    _required_field("model"),
    _optional_field("source"),  # whose texts were embedded
    _optional_field("session"),  # of a user or agent
    _optional_field("project"),
    _required_field("calls", pa.int64()),  # summed up in this row; texts, for a local model
    _required_field("tokens", pa.int64()),
    _required_field("cost", pa.float64()),
    _required_field("seconds", pa.float64()),
)
"""A log, one row per use of a model: an embeddings stage that embedded something, a completion."""

QUERIES = _build_schema(
    _required_field("query_id"),
    _required_field("at", _TIMESTAMP),
    _required_field("type"),  # "semantic", "code", "similar", "historical", "get", ...
    _required_field("text"),  # sanitized
    _required_field("door"),  # by which it came: "python", "cli", "http", "mcp", "page"
    _optional_field("token"),  # id of the token that it came with
    _optional_field("tenant"),
    _required_field("principals", _STRING_LIST),
    _required_field("release", pa.int64()),
    _required_field("results", pa.int64()),
    _required_field("took_ms", pa.float64()),
    _required_field("cached", pa.bool_()),
    _required_field("degraded", _STRING_LIST),
)
"""A log, one row per answered question."""

FEEDBACK = _build_schema(
    _required_field("at", _TIMESTAMP),
    _required_field("query_id"),
    _required_field("result_id"),  # the chunk
    _required_field("judgement"),  # "clicked", "useful", "useless"
    _optional_field("tenant"),
)
"""A log, one row per judgement of a result by its reader."""

EVALUATIONS = _build_schema(
    _required_field("at", _TIMESTAMP),
    _required_field("tables"),  # JSON object: space -> version of the index that was asked
    _required_field("golden"),  # hash of the questions, because scores of different ones do not compare
    _required_field("type"),  # search type, or "all"
    _required_field("metric"),  # "nDCG@10", "R@10", "RR@10", "Success@1", "Success@5", "p50_ms", "questions"
    _required_field("value", pa.float64()),
)
"""A log, one row per metric of an evaluation."""

LOGS = {
    "refreshes": REFRESHES,
    "llm_calls": LLM_CALLS,
    "queries": QUERIES,
    "feedback": FEEDBACK,
    "evaluations": EVALUATIONS,
}
"""Tables that are only ever appended to; nothing decides by them what to refresh."""
