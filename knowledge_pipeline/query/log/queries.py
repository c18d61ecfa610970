"""The query log: one row for each answered query, written in the background."""

from __future__ import annotations

from datetime import UTC, datetime

from knowledge_pipeline.contract.responses.documents import RelationsResponse
from knowledge_pipeline.contract.responses.graph import GraphResponse
from knowledge_pipeline.contract.responses.search import SearchResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import replace_invalid_characters
from knowledge_pipeline.query.log.row_writer import FLUSH_INTERVAL_S, LogRow, RowWriter
from knowledge_pipeline.store.journal import Journal
from knowledge_pipeline.store.lake import Lake

MAX_LOGGED_CHARS = 2_000  # of a query
_READ_CHARS = 12_000  # of a query, in which secrets are looked for: all of a task takes 50 ms
_MAX_SECRET_CHARS = 8_000
_LOOKED_UP = frozenset({"get", "trace"})  # by an id: such results have no score


class QueryLog(RowWriter):
    """The table `queries` of one store, for one process. Threads may share it."""

    def __init__(
        self,
        lake: Lake,
        *,
        flush_interval_s: float = FLUSH_INTERVAL_S,
        durable: bool = False,
        required: bool = False,
    ) -> None:
        """Prepare; a durable log has a row on disk before `record` returns, which takes a little longer.

        A log that is required is durable, and `record` fails where the disk takes no row.
        """
        super().__init__(
            lake,
            "queries",
            subject="queries",
            advice=", or set logs.queries to false",
            finalize_row=lambda row: {**row, "text": redact(row["text"])},
            imports=("knowledge_pipeline.sanitizing.sanitize",),
            flush_interval_s=flush_interval_s,
            journal=Journal(lake.folder / "logs" / "journal") if durable or required else None,
            required=required,
        )

    def record(
        self, kind: str, text: str, access: Access, answer: SearchResponse | GraphResponse | RelationsResponse
    ) -> None:
        """Record one answered query; takes microseconds.

        Raises:
            StoreUnavailable: the log is required, and cannot take it.
        """
        labels = access.account
        row: LogRow = {
            "query_id": answer.query_id,
            "at": datetime.now(UTC),
            "type": kind,
            "text": text,
            "interface": access.caller.interface,
            "token": access.caller.token,
            "tenant": access.tenant,
            "principals": sorted(access.principals),
            "release": answer.release,
            "results": len(answer.results if isinstance(answer, SearchResponse) else answer.matches),
            "took_ms": answer.took_ms,
            "cached": isinstance(answer, SearchResponse) and answer.cached,
            "degraded": list(answer.degraded),
            "scores": _list_scores(kind, answer),
            "session": labels.session,
            "project": labels.project,
            "on_behalf_of": labels.on_behalf_of,
        }
        self.add(row)


def _list_scores(kind: str, answer: SearchResponse | GraphResponse | RelationsResponse) -> list[float] | None:
    """The scores of what was searched for; None of what was looked up."""
    if not isinstance(answer, SearchResponse) or kind in _LOOKED_UP:
        return None
    return [round(each.score, 4) for each in answer.results]


def redact(text: str, max_chars: int = MAX_LOGGED_CHARS) -> str:
    """The beginning of a text without secrets; they are redacted before the cut, so that none is split."""
    from knowledge_pipeline.config.sources.source import SanitizeSettings
    from knowledge_pipeline.sanitizing.sanitize import sanitize

    redacted = sanitize(replace_invalid_characters(text[:_READ_CHARS]), SanitizeSettings()).text
    if len(text) <= _READ_CHARS:
        return redacted[:max_chars]
    safe_chars = max(0, len(redacted) - _MAX_SECRET_CHARS)  # the end may have the beginning of a secret
    return redacted[: min(max_chars, safe_chars)]
