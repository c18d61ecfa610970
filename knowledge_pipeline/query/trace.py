"""Leads from a result to what made it: document as read, chunk, refresh, Dagster run, release."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from knowledge_pipeline.config.dagster_url import build_run_url
from knowledge_pipeline.contract.responses.search import SearchResponse
from knowledge_pipeline.contract.responses.trace import TracedRefresh, TraceResponse
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.release import list_releases

_LOGGED = ("at", "stage", "run", "code", "settings", "added", "changed", "removed", "seconds")


def trace_result(lake: Lake, response: SearchResponse) -> TraceResponse:
    """What made the first result of a response, as far as the store still knows it.

    A refresh is the first one of its source whose index was done after the row was written; a release is the
    first one after that. Logs and old releases are removed in time, and then say nothing.
    """
    result = response.results[0]
    metadata, source, uri = result.metadata, result.citation.source, result.span.uri
    source_type, written = metadata["source_type"], datetime.fromisoformat(metadata["updated_at"])
    snapshot = _read_row(lake.snapshot(source_type, source), "uri", uri, ("revision", "content_hash"))
    chunk = _read_row(lake.chunks(source_type, source), "id", result.id, ("fingerprint", "text_key"))
    later = sorted(
        (each for each in list_releases(lake) if each.created_at >= written),
        key=lambda release: release.release,
    )
    return TraceResponse(
        query_id=response.query_id,
        took_ms=response.took_ms,
        release=response.release,
        degraded=response.degraded,
        id=result.id,
        citation=result.citation,
        revision=snapshot.get("revision"),
        document_hash=snapshot.get("content_hash"),
        chunk_fingerprint=chunk.get("fingerprint"),
        text_key=chunk.get("text_key"),
        indexed_at=datetime.fromisoformat(metadata["indexed_at"]),
        updated_at=written,
        first_release=later[0].release if later else None,
        first_released_at=later[0].created_at if later else None,
        stages=_find_refresh(lake, source, written),
    )


def _read_row(table: Any, key: str, value: str, columns: tuple[str, ...]) -> dict[str, Any]:
    """One row of a stage's table; empty where it is gone."""
    if not table.exists:
        return {}
    rows = table.read_rows(list(columns), eq(key, value)).to_pylist()
    return rows[0] if rows else {}


def _find_refresh(lake: Lake, source: str, written: datetime) -> tuple[TracedRefresh, ...]:
    """The stages of the refresh that wrote a row, in their order; the log has them stage by stage."""
    log = open_log(lake, "refreshes")
    if not log.exists:
        return ()
    # The stages before the index were done earlier; those of one refresh follow each other in the log.
    rows = sorted(log.read_rows(list(_LOGGED), eq("source", source)).to_pylist(), key=lambda row: row["at"])
    done = next((n for n, row in enumerate(rows) if row["stage"] == "index" and row["at"] >= written), None)
    if done is None:
        return ()
    first = done
    while first > 0 and rows[first]["stage"] != "snapshot" and rows[first - 1]["stage"] != "index":
        first -= 1
    return tuple(_to_traced(row) for row in rows[first : done + 1])


def _to_traced(row: dict[str, Any]) -> TracedRefresh:
    run = row["run"]
    return TracedRefresh(
        stage=row["stage"],
        done_at=row["at"],
        seconds=row["seconds"],
        changes=row["added"] + row["changed"] + row["removed"],
        code=row["code"],
        settings=json.loads(row["settings"]) if row["settings"] else {},
        run=run,
        run_url=build_run_url(run) if run else None,
    )
