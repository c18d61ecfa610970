"""Backfills asked for and stopped by what the UI's buttons call, and partitions as its pages show them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.execution.backfill import (
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionStatus,
    PartitionBackfill,
)
from dagster._core.loader import LoadingContextForTest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, InstigatorType
from dagster._core.storage.partition_status_cache import AssetPartitionStatus
from dagster._core.utils import make_new_backfill_id

from knowledge_pipeline.defs.assets import stage_asset_keys
from knowledge_pipeline.defs.settings_assets import source_partitions
from knowledge_pipeline.stages.pipeline import STAGES
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.defs.daemon import Daemon, running

KEYS = stage_asset_keys("code")


@contextmanager
def daemon_of(place: Workplace, home: Path, yaml: Path) -> Iterator[Daemon]:
    """A daemon that refreshes nothing by itself: someone turned off the sensors that would."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        place.add_partitions(instance)
        for name in ("sources_in_config", "changed_sources"):
            instance.add_instigator_state(_state(name, InstigatorStatus.STOPPED))
    with running(home, place.path, instance_file=yaml, code_stays=True) as daemon:
        yield daemon


def turn_on(instance: dg.DagsterInstance, sensor: str) -> None:
    """Let a sensor tick that `daemon_of` turned off."""
    instance.update_instigator_state(_state(sensor, InstigatorStatus.RUNNING))


def _state(sensor: str, status: InstigatorStatus) -> InstigatorState:
    code = RegisteredCodeLocationOrigin("knowledge_pipeline.definitions")
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(code, "__repository__"), sensor)
    return InstigatorState(origin, InstigatorType.SENSOR, status)


class Partitions:
    """What the pages of the assets show, and the buttons on them."""

    def __init__(self, place: Workplace, instance: dg.DagsterInstance) -> None:
        self.place, self.instance = place, instance
        self._graph = place.definitions().resolve_asset_graph()  # no setting of a source changes it

    def launch(self, assets: Sequence[dg.AssetKey], sources: Sequence[str]) -> str:
        """Ask for a backfill of some partitions, and return its id."""
        backfill = PartitionBackfill.from_asset_partitions(
            backfill_id=make_new_backfill_id(),
            asset_graph=self._graph,
            partition_names=sources,
            asset_selection=assets,
            backfill_timestamp=time.time(),
            tags={},
            dynamic_partitions_store=self.instance,
            all_partitions=False,
            title=None,
            description=None,
            run_config=None,
        )
        self.instance.add_backfill(backfill)
        return backfill.backfill_id

    def cancel(self, backfill: str) -> None:
        """Stop it."""
        found = self.instance.get_backfill(backfill)
        assert found is not None
        self.instance.update_backfill(found.with_status(BulkActionStatus.CANCELING))

    def ended(self, backfill: str) -> BulkActionStatus | None:
        """How it ended, if it did."""
        found = self.instance.get_backfill(backfill)
        assert found is not None
        return found.status if found.status in BULK_ACTION_TERMINAL_STATUSES else None

    def runs(self, backfill: str) -> list[dg.DagsterRun]:
        """Its runs, the newest first."""
        return list(self.instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": backfill})))

    def with_status(self, stage: str, *statuses: AssetPartitionStatus | None) -> set[str]:
        """Sources whose partition of a stage is materialized, failed, ...; None is missing."""
        ids = [source.id for source in self.place.settings.sources]
        found = self.instance.get_status_by_partition(KEYS[stage], ids, source_partitions("code"))
        assert found is not None
        return {id_ for id_ in ids if found.get(id_) in statuses}

    def missing_or_failed(self) -> list[str]:
        """What "missing and failed only" chooses for all stages of the type."""
        wanted = (None, AssetPartitionStatus.FAILED)
        return sorted(set().union(*(self.with_status(stage, *wanted) for stage in STAGES)))

    def stale(self) -> dict[str, set[str]]:
        """Stages that are stale, each with its sources."""
        resolver = CachingStaleStatusResolver(
            self.instance, self._graph, LoadingContextForTest(self.instance)
        )
        found: dict[str, set[str]] = {}
        for source in self.place.settings.sources:
            for stage, key in KEYS.items():
                status = resolver.get_status(key, source.id)
                assert status != StaleStatus.MISSING, (stage, source.id)
                if status == StaleStatus.STALE:
                    found.setdefault(stage, set()).add(source.id)
        return found
