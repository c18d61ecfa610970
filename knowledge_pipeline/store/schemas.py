"""Arrow schemas of every table, in one place; every write is cast to one of them.

A change of any schema raises `VERSION`: a store written by another version is refused.
"""

from __future__ import annotations

import pyarrow as pa

VERSION = "4"

_STAMP = pa.timestamp("us", "UTC")


def _schema(*fields: pa.Field) -> pa.Schema:
    return pa.schema(list(fields), metadata={"knowledge_schema": VERSION})


def _required(name: str, type_: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, type_ or pa.string(), nullable=False)


def _key(name: str) -> pa.Field:
    """The table's primary key, declared with the schema so that no crash can part the two.

    With a declared key concurrent upserts of one key conflict instead of doubling the row
    (lancedb#3377); it is what `set_unenforced_primary_key` writes.
    """
    return pa.field(name, pa.string(), False, metadata={"lance-schema:unenforced-primary-key:position": "1"})


def _optional(name: str, type_: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, type_ or pa.string())


_DOCUMENT = (
    _required("path"),
    _optional("title"),
    _optional("language"),
    _optional("url"),
    _optional("author"),
    _optional("last_modified", _STAMP),
)

SNAPSHOT = _schema(
    _key("uri"),
    _required("revision"),
    _required("content_hash"),  # of the whole document: text and all that is known about it
    *_DOCUMENT,
    _required("metadata"),  # JSON object
    _required("text", pa.large_string()),  # empty where skipped
    _optional("skipped"),  # why the document could not be taken
    _optional("archived_at", _STAMP),  # since when the source no longer has it
)
"""One row per document of the source, as it was read."""

_CHUNK = (
    _required("uri"),
    *_DOCUMENT,
    _required("anchor"),
    _required("start_char", pa.int64()),
    _required("end_char", pa.int64()),
    _required("start_line", pa.int32()),
    _required("end_line", pa.int32()),
    _required("tokens", pa.int32()),
    _required("header"),
    _required("text", pa.large_string()),
    _required("content_hash"),  # of the text alone
    _required("text_key"),  # of header and text: the key of its vector
    _optional("symbol"),
    _optional("symbol_kind"),
    _optional("section"),
    _optional("page", pa.int32()),
    _required("metadata"),  # JSON object
    _required("archived", pa.bool_()),
)

CHUNKS = _schema(
    _key("id"),
    *_CHUNK,
    _required("fingerprint"),  # of the document, the chunker and the sanitizer
    _required("row_hash"),  # of the chunk columns
    _optional("skipped"),  # why the document gave no chunk: such a row is a note, not a chunk
)
"""One row per chunk of the source's documents."""


def embeddings(dimensions: int) -> pa.Schema:
    """One row per embedded text; the space is the table's place."""
    return _schema(_key("text_key"), _required("vector", pa.list_(pa.float32(), dimensions)))


_WORDS = pa.list_(pa.field("item", pa.string()))

CONTEXT = (
    _required("source"),
    _required("source_type"),
    _optional("repo"),
    _optional("branch"),
    _required("tags", _WORDS),
    _required("visibility"),
    _optional("tenant"),
    _required("principals", _WORDS),
)
"""Columns of the index that a source's configuration decides, the same for all its rows."""


def index(dimensions: int) -> pa.Schema:
    """One row per retrievable chunk of every source in the space."""
    return _schema(
        _key("id"),
        *CONTEXT,
        *_CHUNK,
        _optional("extension"),
        _required("labels", _WORDS),
        _optional("project"),
        _optional("status"),
        _optional("wiki_space"),
        _required("names", _WORDS),  # that the document answers to; of its first chunk alone
        _required("mentions", _WORDS),  # names of other documents, in this chunk or told of the document
        _required("words", pa.large_string()),  # what full text searches: `stages.index` says how
        _required("vector", pa.list_(pa.float32(), dimensions)),
        _required("fingerprint"),  # of everything above
        _required("indexed_at", _STAMP),
        _required("updated_at", _STAMP),
        _required("shown"),  # what answers show of it: `index_shown`
    )


FACTS = _schema(
    _key("path"),
    _required("uri"),
    _required("language"),
    _required("facts", pa.large_string()),  # JSON object: `graph.facts.Facts`
    _required("interface"),  # digest of what other files can see of this one
    _required("defines", _WORDS),  # last segments of the names that it defines
    _required("fingerprint"),  # of the text, the sanitizer and the extractor
)
"""One row per source file of a code source: what it says by itself."""

_IN_FILE = (_required("uri"), _required("path"), _required("language"))

SYMBOLS = _schema(
    _key("id"),
    *CONTEXT,
    *_IN_FILE,
    _required("node"),  # what edges name it by: twins of one name in a file share it
    _optional("url"),
    _required("kind"),  # "file", "class", ..., or "alias": another full name of its node
    _required("name"),  # qualified within its file: "Store.get"; empty for the file
    _required("simple"),  # last segment of the name
    _required("full_name"),  # as other repositories name it: "requests.sessions.Session.get"
    _required("start_line", pa.int32()),
    _required("end_line", pa.int32()),
    _required("signature"),
    _required("exported", pa.bool_()),
    _required("shown"),  # what answers show of it: `graph_shown`
    _optional("made_of"),  # of a file: digest of its facts, the configuration and the resolver
    _optional("trace", pa.large_string()),  # of a file: JSON object of what was asked about other files
    _required("fingerprint"),  # of all rows of the file, edges too
    _required("indexed_at", _STAMP),
)
"""One row per definition and file of every code source: the nodes of the code graph."""

EDGES = _schema(
    _key("id"),
    *CONTEXT,
    *_IN_FILE,
    _required("kind"),  # "calls", "references", "extends", "implements", "imports", "contains"
    _required("source_id"),  # node of the definition that it goes out from
    _required("source_name"),  # qualified within its file
    _optional("target_id"),  # node; null: outside of the source, or not found
    _required("target_name"),  # qualified within its file; of what is outside the full name, or as written
    _optional("target_path"),
    _required("line", pa.int32()),
    _required("confidence", pa.float32()),  # 0 to 1: how sure it is that this target is meant
    _required("indexed_at", _STAMP),
)
"""One row per use of one definition by another: the edges of the code graph."""

GRAPH = {"symbols": SYMBOLS, "edges": EDGES}
"""The tables of the code graph that all sources share, and that a release names."""

RELEASES = _schema(
    _required("release", pa.int64()),
    _required("created_at", _STAMP),
    _required("tables"),  # JSON object: space, or "graph/symbols", "graph/edges" -> version of the table
    _required("rows", pa.int64()),
    _optional("restores", pa.int64()),  # the release that a rollback went back to
)
"""One row per release; the newest is live."""

TOKENS = _schema(
    _key("id"),
    _required("digest"),  # SHA-256 of the whole token, hexadecimal
    _required("name"),
    _optional("tenant"),
    _required("principals", _WORDS),
    _required("everything", pa.bool_()),
    _required("scopes", _WORDS),
    _optional("requests_per_minute", pa.int32()),
    _required("created_at", _STAMP),
    _optional("expires_at", _STAMP),
    _optional("revoked_at", _STAMP),
)
"""One row per token that was ever made."""

REFRESHES = _schema(
    _required("at", _STAMP),  # when the stage was done
    _required("source"),
    _required("source_type"),
    _required("stage"),
    _required("seen", pa.int64()),
    _required("added", pa.int64()),
    _required("changed", pa.int64()),
    _required("removed", pa.int64()),
    _required("skipped", pa.int64()),
    _required("rows", pa.int64()),  # of the source in the stage's table, after
    _required("tokens", pa.int64()),
    _required("cost", pa.float64()),
    _required("seconds", pa.float64()),
    _optional("run"),  # the Dagster run, if there was one
)
"""A log, one row per stage of a source's refresh, whether it changed anything or not."""

LLM_CALLS = _schema(
    _required("at", _STAMP),
    _required("kind"),  # "embedding", "completion"
    _required("provider"),
    _required("model"),
    _optional("source"),  # whose texts were embedded
    _optional("session"),  # of a user or agent
    _optional("project"),
    _required("calls", pa.int64()),  # summed up in this row; texts, for a local model
    _required("tokens", pa.int64()),
    _required("cost", pa.float64()),
    _required("seconds", pa.float64()),
)
"""A log, one row per use of a model: an embeddings stage that embedded something, a completion."""

QUERIES = _schema(
    _required("query_id"),
    _required("at", _STAMP),
    _required("type"),  # "semantic", "code", "similar", "historical", "get", ...
    _required("text"),  # sanitized
    _required("door"),  # by which it came: "python", "cli", "http", "mcp", "page"
    _optional("token"),  # id of the token that it came with
    _optional("tenant"),
    _required("principals", _WORDS),
    _required("release", pa.int64()),
    _required("results", pa.int64()),
    _required("took_ms", pa.float64()),
    _required("cached", pa.bool_()),
    _required("degraded", _WORDS),
)
"""A log, one row per answered question."""

FEEDBACK = _schema(
    _required("at", _STAMP),
    _required("query_id"),
    _required("result_id"),  # the chunk
    _required("judgement"),  # "clicked", "useful", "useless"
    _optional("tenant"),
)
"""A log, one row per judgement of a result by its reader."""

EVALUATIONS = _schema(
    _required("at", _STAMP),
    _required("tables"),  # JSON object: space -> version of the index that was asked
    _required("golden"),  # hash of the questions, because scores of different ones do not compare
    _required("type"),  # search type, or "all"
    _required("metric"),  # "nDCG@10", "R@10", "RR@10", "Success@1", "Success@5", "p50_ms", "questions"
    _required("value", pa.float64()),
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
