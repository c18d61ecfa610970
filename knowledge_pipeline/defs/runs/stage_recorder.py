"""Records the stages of a run of many sources, those of a few seconds together.

Each transaction of the event log costs more than a small source's stage. What is kept back is written between
the two steps of a run, at its end and when it fails; a killed run loses the last records, and none of its
work: whoever refreshes next finds what is not recorded, and records it.
"""

import time
from collections.abc import Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.defs.dagster_internals import build_materialization_entry, store_asset_events
from knowledge_pipeline.defs.failures import Context
from knowledge_pipeline.defs.metadata.provenance import Provenance
from knowledge_pipeline.defs.runs.refresh_steps import StageResult, describe_source
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline.stages.pipeline import STAGES, SourceRefresh
from knowledge_pipeline.stages.run_log import log_refreshes

_MIN_INTERVAL_S, _MAX_INTERVAL_S = 1.0, 10.0
_WORK_PER_FLUSH = 20  # so that a machine that is busy, or a database that is slow, takes 5 % for it

_SHARED_TABLES = frozenset({"graph", "index"})
"""Stages whose table has the rows of all sources: its version also counts what others commit."""

_Kept = tuple[StageResult, dict[str, Any], float]  # with its metadata, and when it was done


class StageRecorder:
    """Records the stages of some sources, for one thread.

    Args:
        context: of the step that refreshes them.
        provenance: of their assets, from before anything was read.
        ids: the sources.
        skip_recorded: record no unchanged stage whose newest materialization says the same already: the
            snapshot alone, which says when the source was read, and of each other asset at least one.
    """

    def __init__(
        self,
        context: Context,
        provenance: Provenance,
        ids: Sequence[str],
        *,
        skip_recorded: bool,
    ) -> None:
        self._context, self._provenance, self._ids = context, provenance, ids
        self._skip_recorded = skip_recorded
        self._due_at_s = time.time() + _MIN_INTERVAL_S
        self._kept: dict[dg.AssetKey, list[_Kept]] = {}
        self._skipped: dict[dg.AssetKey, StageResult] = {}  # the last of each asset that has no record yet
        self._recorded: set[dg.AssetKey] = set()
        self._sources: list[SourceRefresh] = []

    def record_stage(self, result: StageResult) -> None:
        """Keep a stage for the next flush, or see that there is nothing to record."""
        if self._is_recorded(result):
            self._skipped[result.key] = result
        else:
            self._keep(result)
        self._provenance.note_version(result.key, result.stats.source, result.version)
        if time.time() >= self._due_at_s:
            self.flush()

    def record_source(self, run: SourceRefresh) -> None:
        """Keep a source's line for the run's log, and its rows of the log of refreshes."""
        self._sources.append(run)

    def flush(self) -> None:
        """Write what is kept."""
        began_s = time.time()
        for key in sorted(self._kept, key=lambda key: list(STAGES).index(key.path[-1])):
            entries = [self._build_entry(*kept) for kept in self._kept[key]]
            store_asset_events(self._context.instance, entries)
            self._recorded.add(key)
        self._kept.clear()
        self._log_sources()
        self._due_at_s = time.time() + choose_interval_s(time.time() - began_s)

    def finish(self) -> None:
        """Record one partition of each asset that was refreshed without a record: it is not stale."""
        for key, result in self._skipped.items():
            if key not in self._recorded:
                self._keep(result)
        self.flush()

    def _is_recorded(self, result: StageResult) -> bool:
        stats = result.stats
        if not self._skip_recorded or stats.stage == "snapshot" or stats.has_changes:
            return False
        version = None if stats.stage in _SHARED_TABLES else result.version
        return self._provenance.is_recorded(result.key, stats.source, version, self._ids)

    def _keep(self, result: StageResult) -> None:
        kept = (result, result.read_metadata(), time.time())
        self._kept.setdefault(result.key, []).append(kept)

    def _build_entry(self, result: StageResult, metadata: dict[str, Any], at_s: float) -> dg.EventLogEntry:
        source = result.stats.source
        tags = self._provenance.build_tags(result.key, source, result.version)
        made = dg.AssetMaterialization(result.key, None, metadata, source, tags)
        return build_materialization_entry(self._context, made, at_s)

    def _log_sources(self) -> None:
        if not self._sources:
            return
        sources, self._sources = self._sources, []
        changed = [run for run in sources if not run.stats or any(stats.has_changes for stats in run.stats)]
        lines = [describe_source(run) for run in changed]
        if unchanged := [run.ctx.source.id for run in sources if run not in changed]:
            lines.append(f"unchanged: {', '.join(unchanged)}")
        self._context.log.info("\n".join(lines))
        stats: list[Stats] = [each for run in sources for each in run.stats]
        ctx = sources[0].ctx
        log_refreshes(ctx.lake, ctx.settings, stats, run_id=self._context.run.run_id)


def choose_interval_s(flush_s: float) -> float:
    """How long to keep stages after a flush that took some seconds."""
    return min(_MAX_INTERVAL_S, max(_MIN_INTERVAL_S, _WORK_PER_FLUSH * flush_s))
