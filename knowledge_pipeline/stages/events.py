"""Records what subscribers are told of a source's refresh."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from knowledge_pipeline.errors import Busy, KnowledgeError
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.stages.freshness import record_failed
from knowledge_pipeline.stages.run_log import log_failure
from knowledge_pipeline.store.logs import record_event

_MAX_ERROR_CHARS = 500
_COUNTS = ("added", "changed", "removed")


def record_refreshed(ctx: RefreshContext, stages: Sequence[Stats]) -> None:
    """Record that the index of a source has changed; nothing where it has not."""
    by_stage = {stage.stage: stage for stage in stages}
    index, snapshot = by_stage.get("index"), by_stage.get("snapshot")
    if index is None or not index.has_changes:
        return
    content = {
        "source": ctx.source.id,
        "source_type": ctx.source.type,
        "documents": {name: getattr(snapshot, name) if snapshot else 0 for name in _COUNTS},
        "chunks": {**{name: getattr(index, name) for name in _COUNTS}, "total": index.rows},
        "seconds": round(sum(stage.seconds for stage in stages), 3),
    }
    record_event(ctx.lake, "index.refreshed", content, at=index.at, source=ctx.source.id)


@contextmanager
def record_failure(ctx: RefreshContext) -> Generator[None]:
    """Record and log that the refresh inside failed, unless another process refreshes the source."""
    try:
        yield
    except Busy:
        raise
    except KnowledgeError as error:
        from knowledge_pipeline.sanitizing.sanitize import redact_sentence

        problem = redact_sentence(str(error), max_chars=_MAX_ERROR_CHARS)
        content = {
            "source": ctx.source.id,
            "source_type": ctx.source.type,
            "error": problem,
            "kind": type(error).__name__,
        }
        log_failure(ctx, problem)
        record_failed(ctx, problem)
        record_event(ctx.lake, "source.failed", content, at=datetime.now(UTC), source=ctx.source.id)
        raise
