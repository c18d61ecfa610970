"""Logs what refreshes did and what models cost, for people and for the informational checks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.config.settings import Settings, compute_settings_digests
from knowledge_pipeline.records import FAILED_STAGE, VERIFIED_STAGE
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.local_state import leave_rows

if TYPE_CHECKING:
    from knowledge_pipeline.embedding.base import Usage

_MAX_PENDING_ROWS = 128  # of one refresh, left waiting; more are worth a commit
_LOGGED_COUNTS = ("seen", "added", "changed", "removed", "rows", "tokens", "cost", "seconds")


def log_refreshes(
    lake: Lake, settings: Settings, stats: Iterable[Stats], *, run_id: str | None = None
) -> None:
    """Add a row to `refreshes` for each finished stage; `run_id` is the Dagster run."""
    _add_rows(lake, "refreshes", _build_rows(settings, stats, run_id))


def log_outcome(ctx: RefreshContext, stats: Stats, problem: str | None) -> None:
    """Add a row to `refreshes` that says why one failed, or how a source and its index compare."""
    rows = [{**row, "problem": problem} for row in _build_rows(ctx.settings, [stats])]
    _add_rows(ctx.lake, "refreshes", rows)


def log_failure(ctx: RefreshContext, problem: str) -> None:
    """Add a row to `refreshes` that says why one failed."""
    log_outcome(ctx, Stats(FAILED_STAGE, ctx.source.id), problem)


def _add_rows(lake: Lake, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Few rows wait for who reads the log, where the store is a folder: a commit costs more."""
    if not (lake.is_local and len(rows) <= _MAX_PENDING_ROWS and leave_rows(lake.folder, name, rows)):
        from knowledge_pipeline.store.logs import append_rows

        append_rows(lake, name, rows)


def log_idle_refreshes(lake: Lake, settings: Settings, stats: Sequence[Stats]) -> None:
    """The same without opening a table: who reads the log, or adds to it, finds the rows."""
    if not leave_rows(lake.folder, "refreshes", _build_rows(settings, stats)):
        log_refreshes(lake, settings, stats)


def _build_rows(
    settings: Settings, stats: Iterable[Stats], run_id: str | None = None
) -> list[dict[str, Any]]:
    sources = {source.id: source for source in settings.sources}
    versions: dict[str, tuple[Mapping[str, str], str]] = {}  # by source, each looked at once

    def describe(stat: Stats) -> dict[str, str | None]:
        """With what code and settings a stage changed something; what changed nothing loads neither."""
        if not stat.has_changes or stat.stage == VERIFIED_STAGE:
            return {"code": None, "settings": None}
        if stat.source not in versions:
            from knowledge_pipeline.stages.code_versions import compute_code_versions

            source = sources[stat.source]
            digests = json.dumps(compute_settings_digests(settings, source), sort_keys=True)
            versions[stat.source] = compute_code_versions(source.type), digests
        by_stage, digests = versions[stat.source]
        return {"code": f"{_read_version()} {by_stage[stat.stage]}", "settings": digests}

    return [
        {
            "at": stat.at,
            "source": stat.source,
            "source_type": sources[stat.source].type,
            "stage": stat.stage,
            **{name: getattr(stat, name) for name in _LOGGED_COUNTS},
            "skipped": stat.skipped.total(),
            "run": run_id,
            **describe(stat),
        }
        for stat in stats
    ]


@cache
def _read_version() -> str:
    return version("knowledge-pipeline")  # reads a file


def log_embedding_calls(ctx: RefreshContext, usage: Usage, *, seconds: float) -> None:
    """Add a row to `llm_calls` for the texts that an embeddings stage embedded."""
    embedding = ctx.settings.resolve_embedding(ctx.source)
    model = {"kind": "embedding", "provider": embedding.provider, "model": embedding.model}
    counts = {"calls": usage.texts, "tokens": usage.tokens, "cost": usage.cost, "seconds": seconds}
    row = {"at": datetime.now(UTC), **model, "source": ctx.source.id, **counts}
    _add_rows(ctx.lake, "llm_calls", [row])
