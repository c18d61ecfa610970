"""Mines pairs from what is indexed: definitions, history, tickets, and what people judged."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.file_roles import classify_file
from knowledge_pipeline.languages import DATA_LANGUAGES, PARSED_LANGUAGES
from knowledge_pipeline.records import Mention, hash_strings
from knowledge_pipeline.stages.tuning.docstrings import iter_docstring_pairs
from knowledge_pipeline.stages.tuning.history import (
    TYPES,
    File,
    TracedDocument,
    date_files,
    iter_history_pairs,
)
from knowledge_pipeline.stages.tuning.judgements import iter_judgement_pairs
from knowledge_pipeline.stages.tuning.pairs import Pair, drop_ambiguous, select_newest
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake

MAX_PAIRS = 300  # of a kind, the newest: each is asked once, in some 20 to 90 ms
_FILES_PER_READ = 64
_LIVE = is_null("skipped") & eq("archived", False)


def mine_pairs(lake: Lake, settings: Settings, *, limit: int = MAX_PAIRS) -> list[Pair]:
    """At most `limit` pairs of each kind, in an order that follows from what is stored alone."""
    files = _load_file_names(lake, settings)
    documents = [each for source in settings.sources for each in _load_traced_documents(lake, source)]
    dates = date_files(documents, files)
    history = select_newest(drop_ambiguous(iter_history_pairs(documents, files)), limit=limit)
    code = [source for source in settings.sources if source.type == "code"]
    docstrings = drop_ambiguous(_iter_docstring_pairs(lake, code, dates, limit=2 * limit))
    return select_newest([*docstrings, *history, *_load_judgement_pairs(lake, settings)], limit=limit)


def _load_file_names(lake: Lake, settings: Settings) -> Mapping[str, Sequence[File]]:
    """Where each file of a programming language is indexed, by its names."""
    files: defaultdict[str, set[File]] = defaultdict(set)
    for source in settings.sources:
        if source.type == "code":
            programs = _LIVE & one_of("language", sorted(PARSED_LANGUAGES - DATA_LANGUAGES))
            rows = lake.chunks(source.type, source.id).read_rows(["path", "metadata"], programs).to_pylist()
            for row in rows:
                for name in json.loads(row["metadata"]).get("names", ()):
                    files[name].add((source.id, row["path"]))
    return {name: sorted(found) for name, found in files.items()}


def _load_traced_documents(lake: Lake, source: SourceConfig) -> Iterator[TracedDocument]:
    if source.type not in TYPES:
        return
    columns = ["uri", "title", "last_modified", "metadata"]
    by_uri: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in lake.chunks(source.type, source.id).read_rows(columns, _LIVE).to_pylist():
        by_uri[row["uri"]].append(row | {"metadata": json.loads(row["metadata"])})
    for uri, rows in sorted(by_uri.items()):
        first = next((row for row in rows if row["metadata"].get("leads")), rows[0])
        mentions = (Mention(**each) for row in rows for each in row["metadata"].get("mentions", ()))
        yield TracedDocument(
            type=source.type,
            source=source.id,
            uri=uri,
            title=first["title"] or "",
            made_at=first["last_modified"],
            names=tuple(first["metadata"].get("names", ())),
            mentions=tuple(dict.fromkeys(mentions)),
            is_merge=len(first["metadata"].get("parents", ())) > 1,
        )


def _iter_docstring_pairs(
    lake: Lake, sources: Sequence[SourceConfig], dates: Mapping[File, datetime], *, limit: int
) -> Iterator[Pair]:
    """About `limit` pairs, from files of all sources in an order that says nothing."""
    found = 0
    for source, paths in _iter_file_portions(lake, sources):
        for path, text, language, stored in _read_files(lake, source, paths):
            made_at = dates.get((source.id, path))
            pairs = iter_docstring_pairs(
                text, source=source.id, path=path, language=language, made_at=made_at
            )
            kept = [pair for pair in pairs if pair.taken_out in stored]  # as indexed, secrets left out
            found += len(kept)
            yield from kept
        if found >= limit:
            return


def _iter_file_portions(
    lake: Lake, sources: Iterable[SourceConfig]
) -> Iterator[tuple[SourceConfig, list[str]]]:
    """Uris of files of code that are no tests, some at a time."""
    by_id = {source.id: source for source in sources}
    files = sorted(
        (hash_strings(source.id, row["uri"]), source.id, row["uri"])
        for source in by_id.values()
        for row in lake.snapshot(source.type, source.id)
        .read_rows(["uri", "path"], is_null("skipped") & is_null("archived_at"))
        .to_pylist()
        if classify_file(row["path"]) == "source"
    )
    for start in range(0, len(files), _FILES_PER_READ):
        portion: defaultdict[str, list[str]] = defaultdict(list)
        for _, source, uri in files[start : start + _FILES_PER_READ]:
            portion[source].append(uri)
        yield from ((by_id[source], uris) for source, uris in portion.items())


def _read_files(
    lake: Lake, source: SourceConfig, uris: list[str]
) -> Iterator[tuple[str, str, str | None, str]]:
    """Path, text, language, and all texts of the file's chunks, by path."""
    chosen = one_of("uri", uris)
    stored: defaultdict[str, list[str]] = defaultdict(list)
    chunks = lake.chunks(source.type, source.id).read_rows(["id", "uri", "text"], chosen & _LIVE)
    for row in sorted(chunks.to_pylist(), key=lambda row: row["id"]):
        stored[row["uri"]].append(row["text"])
    columns = ["uri", "path", "text", "language"]
    rows = lake.snapshot(source.type, source.id).read_rows(columns, chosen).to_pylist()
    for row in sorted(rows, key=lambda row: row["path"]):
        yield row["path"], row["text"], row["language"], "\0".join(stored[row["uri"]])


def _load_judgement_pairs(lake: Lake, settings: Settings) -> list[Pair]:
    feedback = lake.log_table("feedback").read_rows(["query_id", "result_id", "judgement", "at"]).to_pylist()
    if not feedback:
        return []
    queries = lake.log_table("queries").read_rows(["query_id", "text", "type"])
    judged = sorted({row["result_id"] for row in feedback})
    documents: dict[str, str] = {}
    for source in settings.sources:
        table = lake.chunks(source.type, source.id)
        for rows in table.iter_rows_by_values("id", judged, ["id", "uri"]):
            documents |= {row["id"]: f"{source.id}:{row['uri']}" for row in rows.to_pylist()}
    return list(iter_judgement_pairs(queries.to_pylist(), feedback, documents))
