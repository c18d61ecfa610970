"""What refreshes did and what models cost, written down for people; nothing is decided by it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.base import Usage
from knowledge_pipeline.stages.context import Pass, Stats
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import append

_COUNTS = ("seen", "added", "changed", "removed", "rows", "tokens", "cost", "seconds")


def note_refreshes(lake: Lake, settings: Settings, stats: Iterable[Stats], *, run: str | None = None) -> None:
    """One row in `refreshes` for each stage of each source, in one commit.

    Args:
        lake: the store.
        settings: they name each source's type.
        stats: of the stages that were done.
        run: the Dagster run that did them.
    """
    types = {source.id: source.type for source in settings.sources}
    append(
        lake,
        "refreshes",
        [
            {
                "at": one.at,
                "source": one.source,
                "source_type": types[one.source],
                "stage": one.stage,
                **{name: getattr(one, name) for name in _COUNTS},
                "skipped": one.skipped.total(),
                "run": run,
            }
            for one in stats
        ],
    )


def note_embedding(this: Pass, usage: Usage, *, seconds: float) -> None:
    """One row in `llm_calls` for what an embeddings stage asked of its model."""
    by = this.settings.embedding_of(this.source)
    append(
        this.lake,
        "llm_calls",
        [
            {
                "at": datetime.now(UTC),
                "kind": "embedding",
                "provider": by.provider,
                "model": by.model,
                "source": this.source.id,
                "calls": usage.texts,
                "tokens": usage.tokens,
                "cost": usage.cost,
                "seconds": seconds,
            }
        ],
    )
