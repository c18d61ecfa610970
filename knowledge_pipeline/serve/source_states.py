"""Whether sources are stale: the SQL model `stale_sources`, kept while nothing is written; last events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from cachetools import TTLCache

from knowledge_pipeline.config import file
from knowledge_pipeline.config.dagster_url import build_run_url
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources.access import AccessSettings
from knowledge_pipeline.contract.responses.inventory import LastEvent, SourceState
from knowledge_pipeline.errors import ConfigError, KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.declared_sources import sees_whole_source
from knowledge_pipeline.serve.last_events import list_last_events
from knowledge_pipeline.sql_models.configured_sources import build_configured_sources, load_source_states
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log

_log = logging.getLogger(__name__)

_KEPT_S = 60.0  # ages are in tenths of hours

_States = tuple[Mapping[str, SourceState], Mapping[str, AccessSettings]]
"""By source: its state, and who may see it, of those that are configured."""

_kept = TTLCache[Hashable, _States, float](maxsize=8, ttl=_KEPT_S)


async def load_states(settings: Settings, config: Path | None, access: Access) -> Mapping[str, SourceState]:
    """The states of sources that the caller may see whole; empty, and the log says why, on an error.

    What something costs is for callers of a tenant. How the code has changed is not known to a server.
    """
    if settings.federation.stores:
        return {}  # each store has its own log
    try:
        states, declared = await asyncio.to_thread(_load_states_with_events, settings, config)
    except (KnowledgeError, OSError) as error:
        _log.warning("whether sources are stale is not known: %s", error)
        return {}
    if access.everything:
        return states
    seen = [id_ for id_ in states if id_ in declared and sees_whole_source(declared[id_], access)]
    return {id_: states[id_] if access.tenant else replace(states[id_], cost=None) for id_ in seen}


def _load_states_with_events(settings: Settings, config: Path | None) -> _States:
    states, declared = _load_states(settings, config)
    events: dict[str, LastEvent] = {}
    for event in list_last_events(Lake(settings.store).folder / "refreshes"):
        source, at = event.pop("source"), datetime.fromisoformat(event.pop("at"))
        events[source] = LastEvent(at=at, **event)
    return {id_: replace(state, last_event=events.get(id_)) for id_, state in states.items()}, declared


def _load_states(settings: Settings, config: Path | None) -> _States:
    lake = Lake(settings.store)
    stamps = [open_log(lake, name).version_stamp for name in ("refreshes", "llm_calls")]
    written = config.stat().st_mtime_ns if config and config.exists() else None
    key = str(lake.root), written, *stamps, *sorted(lake.all_version_stamps().items())
    if (known := _kept.get(key)) is not None:
        return known
    if config:
        with suppress(ConfigError):  # while the file is wrong, what it said when the server started counts
            settings = file.load_settings(config, allow_unset=True)
    rows = load_source_states(lake, build_configured_sources(settings, config))
    states = {source: _to_state(row) for source, row in rows.items()}
    _kept[key] = states, {source.id: source.access for source in settings.sources}
    return _kept[key]


def _to_state(row: Mapping[str, Any]) -> SourceState:
    names = ("state", "reason", "age_hours", "trigger", "skipped", "skipped_reasons", "cost", "last_run")
    run = row["last_run"]
    return SourceState(
        **{name: row[name] for name in names}, last_run_url=build_run_url(run) if run else None
    )
