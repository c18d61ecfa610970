"""Arrow schemas of every table, in one place; every write is cast to one of them.

A change of any schema raises `VERSION`, with a step in `store.migrate.STEPS` for what rows then need: a
store of an earlier version is refused until `knowledge migrate` has run. Three changes need neither, because
`Table` makes them when it opens, without rewriting a row: columns of `FORMER_COLUMN_NAMES` are renamed, a
column may become nullable, and a nullable one may be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

VERSION = "5"
WORDS_KEY, WORDS_VERSION = "knowledge_words", "3"
"""Of the form of `words` in an index table, which its schema notes. A table of another form stays readable:
the next refresh gives the rows that differ new words (`stages.index`)."""

_TIMESTAMP = pa.timestamp("us", "UTC")


def _build_schema(*fields: pa.Field[Any], **notes: str) -> pa.Schema:
    return pa.schema(list(fields), metadata={"knowledge_schema": VERSION, **notes})


def _require(*names: str, type_: pa.DataType | None = None) -> list[pa.Field[Any]]:
    """Columns of one type that are never null; by default strings."""
    return [pa.field(name, type_ or pa.string(), nullable=False) for name in names]


def _allow_null(*names: str, type_: pa.DataType | None = None) -> list[pa.Field[Any]]:
    """Columns of one type that may be null; by default strings."""
    return [pa.field(name, type_ or pa.string()) for name in names]


def _build_key(name: str) -> pa.Field[Any]:
    """The table's primary key, declared with the schema so that no crash can separate the two.

    With a declared key concurrent upserts of one key conflict instead of doubling the row
    (lancedb#3377); it is what `set_unenforced_primary_key` writes.
    """
    return pa.field(name, pa.string(), False, metadata={"lance-schema:unenforced-primary-key:position": "1"})


_DOCUMENT_COLUMNS = (
    *_require("path"),
    *_allow_null("title", "language", "url", "author"),
    *_allow_null("last_modified", type_=_TIMESTAMP),
)

SNAPSHOT = _build_schema(
    _build_key("uri"),
    *_require("revision"),
    *_require("content_hash"),  # of the whole document: text and metadata
    *_DOCUMENT_COLUMNS,
    *_require("metadata"),  # JSON object
    *_require("text", type_=pa.large_string()),  # empty where skipped
    *_allow_null("skipped"),  # why the document was left out
    *_allow_null("archived_at", type_=_TIMESTAMP),  # since when the source no longer has it
    *_allow_null("audience"),  # of `AUDIENCES`, who may read it; null: nobody, or the configuration decides
)
"""One row per document of the source, as it was read."""

_CHUNK_COLUMNS = (
    *_require("uri"),
    *_DOCUMENT_COLUMNS,
    *_require("anchor"),
    *_require("start_char", "end_char", type_=pa.int64()),
    *_require("start_line", "end_line", "tokens", type_=pa.int32()),
    *_require("header"),
    *_require("text", type_=pa.large_string()),
    *_require("content_hash"),  # of the text alone
    *_require("text_key"),  # of header and text: the key of its vector
    *_allow_null("symbol", "symbol_kind", "section"),
    *_allow_null("page", type_=pa.int32()),
    *_require("metadata"),  # JSON object
    *_require("archived", type_=pa.bool_()),
)

CHUNKS = _build_schema(
    _build_key("id"),
    *_CHUNK_COLUMNS,
    *_require("fingerprint"),  # of the document, the chunker and the sanitizer
    *_require("row_hash"),  # of the chunk columns
    *_allow_null("skipped"),  # why the document has no chunk: such a row is a note
)
"""One row per chunk of the source's documents."""


@lru_cache(maxsize=64)
def build_embeddings_schema(dimensions: int) -> pa.Schema:
    """One row per embedded text; the space is the table's place."""
    vector_type = pa.list_(pa.float32(), dimensions)
    return _build_schema(_build_key("text_key"), *_require("vector", type_=vector_type))


_STRING_LIST = pa.list_(pa.field("item", pa.string()))

AUDIENCES = _build_schema(
    _build_key("audience"),
    *_require("requires", type_=pa.list_(pa.field("item", _STRING_LIST))),  # one principal of each list
    *_require("fingerprint"),  # of `requires`
)
"""One row per group of readers that a source's own permissions make; only the newest version counts."""

SOURCE_COLUMNS = (
    *_require("source", "source_type"),
    *_allow_null("repo", "branch"),  # the branch is null, and a file's `url`: see `store.search.Locations`
    *_require("tags", type_=_STRING_LIST),
    *_require("visibility"),
    *_allow_null("tenant"),
    *_require("principals", type_=_STRING_LIST),
)
"""Columns of the index that a source's configuration decides, the same for all its rows."""


HELD_LISTS = {
    "kinds": "symbol_kind",
    "symbols": "symbol",
    "classes": "class_name",
    "exports": None,
    "sections": "section",
}
"""Lists in the index of all definitions and headings in a chunk, and what says the same of the first alone.

The metadata of a chunk have such a list where it says more than that."""


def list_held(row: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, list[str]]:
    """The columns `HELD_LISTS` of a row of the index, whose `metadata` are given as parsed."""
    columns = dict[str, list[str]]()
    for name, of_first in HELD_LISTS.items():
        further: Any = metadata.get(name)  # a plugin may give anything
        values: list[Any] = [row.get(of_first) or metadata.get(of_first)] if of_first else []
        values += further if isinstance(further, list) else []
        columns[name] = list(dict.fromkeys(value for value in values if value and isinstance(value, str)))
    return columns


@lru_cache(maxsize=64)
def build_index_schema(dimensions: int) -> pa.Schema:
    """One row per retrievable chunk of every source in the space."""
    return _build_schema(
        _build_key("id"),
        *SOURCE_COLUMNS,
        *_CHUNK_COLUMNS,
        *_allow_null("extension"),
        *_require("labels", type_=_STRING_LIST),
        *_allow_null("project", "status", "wiki_space"),
        *_require(*HELD_LISTS, type_=_STRING_LIST),
        *_require("names", type_=_STRING_LIST),  # of the document itself; in its first chunk alone
        *_require("mentions", type_=_STRING_LIST),  # names of other documents
        *_require("words", type_=pa.large_string()),  # what full-text search reads; built by `stages.index`
        *_allow_null("vector", type_=pa.list_(pa.float32(), dimensions)),  # null: not embedded yet
        *_require("fingerprint"),  # of everything above
        *_require("indexed_at", "updated_at", type_=_TIMESTAMP),
        *_require("shown"),  # what results show of it: `store.search.build_payload`
        *_allow_null("unembedded", type_=pa.bool_()),  # true: no vector yet; counted without reading vectors
        **{WORDS_KEY: WORDS_VERSION},
    )


FACTS = _build_schema(
    _build_key("path"),
    *_require("uri", "language"),
    *_require("facts", type_=pa.large_string()),  # JSON object: the facts of `code_graph`
    *_require("interface"),  # digest of what other files can see of this one
    *_require("defines", type_=_STRING_LIST),  # last segments of the names that it defines
    *_require("fingerprint"),  # of the text, the sanitizer and the extractor
)
"""One row per file of a code source: what it says by itself."""

_FILE_COLUMNS = _require("uri", "path", "language")

SYMBOLS = _build_schema(
    _build_key("id"),
    *SOURCE_COLUMNS,
    *_FILE_COLUMNS,
    *_require("node"),  # what edges name it by: twins of one name in a file share it
    *_allow_null("url"),
    *_require("kind"),  # "file", "class", ..., or "alias": another full name of its node
    *_require("name"),  # qualified within its file: "Store.get"; empty for the file
    *_require("simple"),  # last segment of the name
    *_require("full_name"),  # as other repositories name it: "requests.sessions.Session.get"
    *_require("start_line", "end_line", type_=pa.int32()),
    *_require("signature"),
    *_require("exported", type_=pa.bool_()),
    *_require("shown"),  # what results show of it: `store.graph.build_payload`
    *_allow_null("made_of"),  # of a file: digest of its facts, the configuration and the resolver
    *_allow_null("trace", type_=pa.large_string()),  # of a file: JSON object, what it asked of others
    *_require("fingerprint"),  # of all symbols of the file; of a file's own row, then of its edges too
    *_require("indexed_at", type_=_TIMESTAMP),
)
"""One row per definition and file of every code source: the nodes of the code graph."""

EDGES = _build_schema(
    _build_key("id"),
    *SOURCE_COLUMNS,
    *_FILE_COLUMNS,
    *_require("kind"),  # "calls", "references", "extends", "implements", "imports", "contains"
    *_require("source_id"),  # node of the definition that it goes out from
    *_require("source_name"),  # qualified within its file
    *_allow_null("target_id"),  # node; null: outside of the source, or not found
    *_require("target_name"),  # qualified within its file; of what is outside the full name, or as written
    *_allow_null("target_path"),
    *_require("line", type_=pa.int32()),
    *_require("confidence", type_=pa.float32()),  # 0 to 1: how sure it is that this target is meant
    *_require("indexed_at", type_=_TIMESTAMP),
)
"""One row per use of one definition by another: the edges of the code graph."""

GRAPH = {"symbols": SYMBOLS, "edges": EDGES}
"""The tables of the code graph that all sources share, and that a release names."""

RELEASES = _build_schema(
    *_require("release", type_=pa.int64()),
    *_require("created_at", type_=_TIMESTAMP),
    *_require("tables"),  # JSON object, see `store.release`: name of a table -> its version
    *_require("rows", type_=pa.int64()),
    *_allow_null("restores", type_=pa.int64()),  # the release that a rollback went back to
    *_allow_null("pinned_since", type_=_TIMESTAMP),  # while it is live, refreshes publish nothing
    *_allow_null("ranker"),  # JSON object: the weights that rank its results; null: those of the package
)
"""One row per release; the newest is live."""

TOKENS = _build_schema(
    _build_key("id"),
    *_require("digest"),  # SHA-256 of the whole token, hexadecimal
    *_require("name"),
    *_allow_null("tenant"),
    *_require("principals", type_=_STRING_LIST),
    *_require("everything", type_=pa.bool_()),
    *_require("scopes", type_=_STRING_LIST),
    *_allow_null("requests_per_minute", type_=pa.int32()),
    *_require("created_at", type_=_TIMESTAMP),
    *_allow_null("expires_at", "revoked_at", type_=_TIMESTAMP),
)
"""One row per token that was ever created."""

RECEIPTS = _build_schema(
    _build_key("receipt"),
    *_require("at", type_=_TIMESTAMP),
    *_require("source"),
    *_require("content", type_=pa.large_string()),  # JSON object: see `receipts.Receipt`
)
"""One row per purge: what it erased from where, by hashes."""

REFRESHES = _build_schema(
    *_require("at", type_=_TIMESTAMP),  # when the stage was done
    *_require("source", "source_type", "stage"),
    *_require("seen", "added", "changed", "removed", "skipped", type_=pa.int64()),
    *_require("rows", type_=pa.int64()),  # of the source in the stage's table, after
    *_require("tokens", type_=pa.int64()),
    *_require("cost", "seconds", type_=pa.float64()),
    *_allow_null("run"),  # the Dagster run, if there was one
    # of what changed anything alone: versions of the package and the stage, JSON of digests of the settings
    *_allow_null("code", "settings"),
    *_allow_null("problem"),  # of a refresh that failed, whose stage is `FAILED_STAGE`
)
"""A log, one row per stage of a source's refresh, whether it changed anything or not, and per failure."""

LLM_CALLS = _build_schema(
    *_require("at", type_=_TIMESTAMP),
    *_require("kind"),  # "embedding", "completion"
    *_require("provider", "model"),
    *_allow_null("source"),  # whose texts were embedded
    *_allow_null("session"),  # of a user or agent
    *_allow_null("project"),
    *_require("calls", type_=pa.int64()),  # summed up in this row; texts, for a local model
    *_require("tokens", type_=pa.int64()),
    *_require("cost", "seconds", type_=pa.float64()),
    *_allow_null("on_behalf_of"),  # whom the caller works for, as the caller says
    *_allow_null("tenant"),
    *_allow_null("interface"),  # that an agent reported its own call by; null: our own call
    *_allow_null("token"),  # id of the token that the report, or the question that needed the call, came with
    *_allow_null("input_tokens", "output_tokens", type_=pa.int64()),  # of `tokens`, where both are known
    *_allow_null("error"),  # what kind of error a reported call ended in; null: it was answered
    *_allow_null("prompt", "response"),  # of a reported call, sanitized, where `costs.keep_texts` is on
)
"""A log, one row per use of a model: an embeddings stage, a question's vector by an endpoint with a price,
a completion, a call that an agent reports."""

QUERIES = _build_schema(
    *_require("query_id"),
    *_require("at", type_=_TIMESTAMP),
    *_require("type"),  # "semantic", "code", "similar", "historical", "get", ...
    *_require("text"),  # sanitized
    *_require("interface"),  # that it came by: "python", "cli", "http", "mcp", "page"
    *_allow_null("token"),  # id of the token that it came with
    *_allow_null("tenant"),
    *_require("principals", type_=_STRING_LIST),
    *_require("release", "results", type_=pa.int64()),
    *_require("took_ms", type_=pa.float64()),
    *_require("cached", type_=pa.bool_()),
    *_require("degraded", type_=_STRING_LIST),
    *_allow_null("scores", type_=pa.list_(pa.field("item", pa.float32()))),  # of its results, best first
    *_allow_null("session", "project", "on_behalf_of"),  # as the caller says
    # of the same results, by meaning (cosine) and by words (BM25); null: that search did not find the result
    *_allow_null("vector_scores", "text_scores", type_=pa.list_(pa.field("item", pa.float32()))),
)
"""A log, one row per answered question."""

REFUSALS = _build_schema(
    *_require("query_id"),  # of the first request
    *_require("at", type_=_TIMESTAMP),  # when the first was refused
    *_require("outcome"),  # "unauthenticated", "forbidden", "not_found", "rate_limited", "unidentified"
    *_require("reason"),  # what the caller was told, sanitized
    *_require("interface"),  # that it came by: "http", "mcp", "page"
    *_allow_null("token"),  # id of the token that it came with, if that is valid
    *_allow_null("tenant"),
    *_require("principals", type_=_STRING_LIST),
    *_allow_null("address"),  # of the peer, where there is no valid token
    *_require("requests", type_=pa.int64()),  # of one caller, refused for one reason, summed up in this row
)
"""A log, one row per request that a server refused, or some within seconds that were the same."""

FEEDBACK = _build_schema(
    *_require("at", type_=_TIMESTAMP),
    *_require("query_id"),
    *_require("result_id"),  # the chunk
    *_require("judgement"),  # "clicked", "useful", "useless"
    *_allow_null("tenant"),
)
"""A log, one row per judgement of a result by its reader."""

EVALUATIONS = _build_schema(
    *_require("at", type_=_TIMESTAMP),
    *_require("tables"),  # JSON object: space -> version of the index that was asked
    *_require("golden"),  # hash of the questions, because scores of different ones do not compare
    *_require("type"),  # search type, or "all"
    *_require("metric"),  # "nDCG@10", "R@10", "RR@10", "Success@1", "Success@5", "p50_ms", "questions"
    *_require("value", type_=pa.float64()),
)
"""A log, one row per metric of an evaluation."""

EVENTS = _build_schema(
    *_require("position", type_=pa.int64()),  # grows with every row; see `store.logs.number_new_events`
    *_require("id"),  # of what happened: equal where it was recorded twice
    *_require("at", type_=_TIMESTAMP),  # when it happened
    *_require("type"),  # "index.refreshed", "release.published", "source.failed"
    *_allow_null("source"),  # null: it concerns the whole store
    *_allow_null("release", type_=pa.int64()),
    *_require("content"),  # JSON object: what subscribers are told
)
"""A log, one row per event that subscribers are told of."""

LOGS = {
    "refreshes": REFRESHES,
    "llm_calls": LLM_CALLS,
    "queries": QUERIES,
    "refusals": REFUSALS,
    "feedback": FEEDBACK,
    "evaluations": EVALUATIONS,
    "events": EVENTS,
}
"""Tables that are only appended to; no refresh depends on them."""

FORMER_COLUMN_NAMES = {"queries": {"door": "interface"}}
"""Table -> columns that an earlier version named otherwise; such a table is renamed when it is opened."""
