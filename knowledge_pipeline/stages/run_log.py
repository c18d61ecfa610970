"""What refreshes did and what models cost, written down for people; nothing is decided by it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.base import Usage
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import append_rows

_LOGGED_COUNTS = ("seen", "added", "changed", "removed", "rows", "tokens", "cost", "seconds")


def log_refreshes(
    lake: Lake, settings: Settings, stats: Iterable[Stats], *, run_id: str | None = None
) -> None:
    """One row in `refreshes` for each stage of each source, in one commit.

    Args:
        lake: the store.
        settings: they name each source's type.
        stats: of the stages that were done.
        run: the Dagster run that did them.
    """
    types = {source.id: source.type for source in settings.sources}
    append_rows(
        lake,
        "refreshes",
        [
            {
                "at": one.at,
                "source": one.source,
                "source_type": types[one.source],
                "stage": one.stage,
                **{name: getattr(one, name) for name in _LOGGED_COUNTS},
                "skipped": one.skipped.total(),
                "run": run_id,
            }
            for one in stats
        ],
    )


def log_embedding_calls(ctx: RefreshContext, usage: Usage, *, seconds: float) -> None:
    """One row in `llm_calls` for what an embeddings stage asked of its model."""
    by = ctx.settings.resolve_embedding(ctx.source)
    append_rows(
        ctx.lake,
        "llm_calls",
        [
            {
                "at": datetime.now(UTC),
                "kind": "embedding",
                "provider": by.provider,
                "model": by.model,
                "source": ctx.source.id,
                "calls": usage.texts,
                "tokens": usage.tokens,
                "cost": usage.cost,
                "seconds": seconds,
            }
        ],
    )
