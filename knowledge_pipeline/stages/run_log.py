"""Logs what refreshes did and what models cost, for people and for the informational checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.pending_rows import add_pending_rows

if TYPE_CHECKING:
    from knowledge_pipeline.embedding.base import Usage

_LOGGED_COUNTS = ("seen", "added", "changed", "removed", "rows", "tokens", "cost", "seconds")


def log_refreshes(
    lake: Lake, settings: Settings, stats: Iterable[Stats], *, run_id: str | None = None
) -> None:
    """Add a row to `refreshes` for each finished stage, in one commit; `run_id` is the Dagster run."""
    from knowledge_pipeline.store.logs import append_rows

    append_rows(lake, "refreshes", _build_rows(settings, stats, run_id))


def log_idle_refreshes(lake: Lake, settings: Settings, stats: Sequence[Stats]) -> None:
    """The same without opening a table: who reads the log, or adds to it, finds the rows."""
    if not add_pending_rows(lake, "refreshes", _build_rows(settings, stats)):
        log_refreshes(lake, settings, stats)


def _build_rows(
    settings: Settings, stats: Iterable[Stats], run_id: str | None = None
) -> list[dict[str, Any]]:
    types = {source.id: source.type for source in settings.sources}
    return [
        {
            "at": each.at,
            "source": each.source,
            "source_type": types[each.source],
            "stage": each.stage,
            **{name: getattr(each, name) for name in _LOGGED_COUNTS},
            "skipped": each.skipped.total(),
            "run": run_id,
        }
        for each in stats
    ]


def log_embedding_calls(ctx: RefreshContext, usage: Usage, *, seconds: float) -> None:
    """Add a row to `llm_calls` for the texts that an embeddings stage embedded."""
    from knowledge_pipeline.store.logs import append_rows

    embedding = ctx.settings.resolve_embedding(ctx.source)
    model = {"kind": "embedding", "provider": embedding.provider, "model": embedding.model}
    counts = {"calls": usage.texts, "tokens": usage.tokens, "cost": usage.cost, "seconds": seconds}
    row = {"at": datetime.now(UTC), **model, "source": ctx.source.id, **counts}
    append_rows(ctx.lake, "llm_calls", [row])
