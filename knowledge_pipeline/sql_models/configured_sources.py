"""The sources as they are configured now, for the models that tell which of them are stale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from knowledge_pipeline.config.settings import Settings, compute_settings_digests
from knowledge_pipeline.config.sources import MAX_AGE_BY_TRIGGER, resolve_trigger
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.store.duckdb_session import CONFIGURED_SOURCES
from knowledge_pipeline.store.lake import Lake


def build_configured_sources(
    settings: Settings,
    config_path: Path | None,
    code_versions: Callable[[SourceType], Mapping[str, str]] = lambda source_type: {},
) -> pa.Table:
    """One row per source, as `CONFIGURED_SOURCES` says.

    Args:
        settings: their digests are compared with those of the last refreshes; secrets do not count.
        config_path: the knowledge.yaml, whose time of writing says when they changed; None: unknown.
        code_versions: of the stages of a type, from `stages.code_versions`; what is not given is not
            compared.
    """
    configured_at = None
    with suppress(OSError):
        configured_at = datetime.fromtimestamp(config_path.stat().st_mtime, UTC) if config_path else None
    versions, rows = cache(code_versions), list[dict[str, Any]]()
    for source in settings.sources:
        trigger, digests = resolve_trigger(source), compute_settings_digests(settings, source)
        max_age = MAX_AGE_BY_TRIGGER.get(trigger)
        rows.append({
            "configured_at": configured_at, "source": source.id, "source_type": source.type,
            "trigger": trigger, "max_age_hours": max_age.total_seconds() / 3600 if max_age else None,
            **{f"{stage}_code": version for stage, version in versions(source.type).items()},
            **{f"{kind}_settings": digest for kind, digest in digests.items()},
        })  # fmt: skip
    return pa.Table.from_pylist(rows, schema=CONFIGURED_SOURCES)


def load_source_states(lake: Lake, sources: pa.Table) -> dict[str, dict[str, Any]]:
    """The rows of the model `stale_sources` by source, those that are stale first.

    Raises:
        ConfigError: the models are not there, or one cannot run.
    """
    from knowledge_pipeline.sql_models import run
    from knowledge_pipeline.sql_models.files import load_models

    result = run.query_model(lake, load_models(), "stale_sources", limit=None, sources=sources)
    return {row["source"]: row for row in result.rows.to_pylist()}
