"""Everything that relies on Dagster's insides: private modules, its own tags, how it computes versions.

No other module imports `dagster._*` or spells a key `dagster/...`. Each assumption has a test in
`test_dagster_internals.py`, so that an upgrade of Dagster breaks here, and visibly.
"""

import logging
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

import dagster as dg
from dagster._core.definitions.partitions.context import PartitionLoadingContext
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.events import (
    AssetMaterializationPlannedData,
    DagsterEvent,
    StepMaterializationData,
)
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID
from dagster._core.scheduler.instigation import InstigatorType, SensorInstigatorData
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.partition_status_cache import AssetPartitionStatus
from dagster.components.core.decl import YamlBackedComponentDecl
from dagster_shared.record import copy  # pyright: ignore[reportUnknownVariableType]  # it has no types

AssetJob = UnresolvedAssetJobDefinition
"""What `dg.define_asset_job` returns."""

_Job = TypeVar("_Job", bound=dg.JobDefinition | AssetJob)

PoolSlots = InstanceConcurrencyContext
"""Claims and frees slots of pools for one run; Dagster's executors claim a slot for a whole step by it."""

# Tags of materializations, from which the UI derives staleness.
CODE_VERSION, DATA_VERSION = "dagster/code_version", "dagster/data_version"
_EVENT_POINTER = "dagster/input_event_pointer/"
INITIAL_VERSION = "INITIAL"  # the data version of an asset that was never recorded

# Tags of runs.
PARTITION = "dagster/partition"
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
BACKFILL, WILL_RETRY, PRIORITY = "dagster/backfill", "dagster/will_retry", "dagster/priority"
LAUNCHERS = ("dagster/schedule_name", "dagster/sensor_name", BACKFILL)  # what started a run, if no person did

# Metadata that the UI shows in places of its own.
ROW_COUNT, STORAGE_KIND, URI = "dagster/row_count", "dagster/storage_kind", "dagster/uri"
TABLE_NAME, CODE_REFERENCES = "dagster/table_name", "dagster/code_references"
COLUMN_SCHEMA, COLUMN_LINEAGE = "dagster/column_schema", "dagster/column_lineage"

COMPUTE_KIND, CELERY_QUEUE = "dagster/compute_kind", "dagster-celery/queue"  # tags of ops


def set_executor(job: _Job, executor: dg.ExecutorDefinition) -> _Job:
    """The same job with an executor of its own, whatever that of its code location."""
    if isinstance(job, dg.JobDefinition):
        return job.with_executor_def(executor)  # pyright: ignore[reportReturnType]  # of the same class
    return copy(job, executor_def=executor)


_instances: list[dg.DagsterInstance] = []  # that of the sensors of this process


def share_instance(sensor: dg.SensorDefinition) -> dg.SensorDefinition:
    """Let all ticks in a process use one instance, and a sensor's ticks the same resources: to open one for
    each, as Dagster does, reads ninety migrations, which takes longer than all that a tick does.
    """
    evaluate, resources = sensor.evaluate_tick, list[Any]()

    def evaluate_tick(context: dg.SensorEvaluationContext) -> SensorExecutionData:
        ref = context.instance_ref
        if ref and context._instance is None:  # pyright: ignore[reportPrivateUsage]
            if not any(instance.get_ref() == ref for instance in _instances):
                _instances[:] = [dg.DagsterInstance.from_ref(ref)]
            context._instance = _instances[0]  # pyright: ignore[reportPrivateUsage]
            resources[:] = resources or [context.resources]  # what reads a file does so at each tick
            context._resources = resources[0]  # pyright: ignore[reportPrivateUsage]
        return evaluate(context)

    sensor.evaluate_tick = evaluate_tick
    return sensor


def show_on_assets(sensor: dg.SensorDefinition, selection: dg.AssetSelection) -> dg.SensorDefinition:
    """The same sensor, listed on the pages of some assets; its runs stay those of its job.

    Dagster lists a sensor on what its asset job selects, and reads that selection of a job without a name of
    its own from the sensor. One of several sets of partitions cannot be launched; this one never is.
    """

    job: Any = dg.define_asset_job(sensor.name, selection)  # pyright: ignore[reportUnknownMemberType]
    shown: Any = type("ShownSensor", (type(sensor),), {"has_anonymous_job": True, "job": job})
    sensor.__class__ = shown
    return sensor


def list_siblings(context: dg.SensorEvaluationContext, sensor: str) -> list[str]:
    """The other code locations of the instance that have a sensor of this name, and evaluate it."""
    storage = context.instance.schedule_storage  # None in memory
    locations = {
        state.origin.repository_origin.code_location_origin.location_name
        for state in (storage.all_instigator_state(instigator_type=InstigatorType.SENSOR) if storage else ())
        if state.instigator_name == sensor
        and isinstance(state.instigator_data, SensorInstigatorData)
        and (state.instigator_data.last_tick_timestamp or 0.0) > time.time() - 600
    }
    return sorted(locations - {getattr(context.code_location_origin, "location_name", "")})


def add_on_launch(
    partitions: dg.DynamicPartitionsDefinition, keys: Collection[str]
) -> dg.DynamicPartitionsDefinition:
    """The same partitions; one of `keys` is added to the instance when a run that names it is validated.

    No subclass: partitions of two assets map to each other only if their types are the same.
    """
    validate = partitions.validate_partition_key

    def add_and_validate(partition_key: str, context: PartitionLoadingContext) -> None:
        store = context.dynamic_partitions_store
        if partition_key in keys and isinstance(store, dg.DagsterInstance):
            store.add_dynamic_partitions(str(partitions.name), [partition_key])
        validate(partition_key, context)

    vars(partitions)["validate_partition_key"] = add_and_validate
    return partitions


def find_yaml_line(context: dg.ComponentLoadContext, key_path: Sequence[str | int]) -> tuple[str, int] | None:
    """File and line of a key of a component's YAML, or of its nearest parent; None if it has no YAML."""
    decl = context.component_decl  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    tree = decl.source_tree if isinstance(decl, YamlBackedComponentDecl) else None
    if tree is None:
        return None
    position, _ = tree.source_position_tree.lookup_closest_and_path(list(key_path), None)
    return position.filename, position.start.line


def is_in_run_process(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> bool:
    """Whether a step runs in the process of its run, so that the one ends with the other."""
    return context.job_def.executor_def.name in ("in_process", "execute_in_process_executor")


def build_version_tags(
    code_version: str, data_version: str, inputs: Mapping[dg.AssetKey, tuple[str, str]]
) -> dict[str, str]:
    """The tags that Dagster gives a yielded materialization.

    `inputs` are the data version of each upstream asset, and the id of the newest event that was seen of it.
    """
    tags = {CODE_VERSION: code_version}
    for key, (version, pointer) in inputs.items():
        tags[f"dagster/input_data_version/{key.to_user_string()}"] = version
        tags[f"{_EVENT_POINTER}{key.to_user_string()}"] = pointer
    return tags | {DATA_VERSION: data_version, "dagster/data_version_is_user_provided": "true"}


def have_same_versions(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether the tags of two materializations name the same data, code and inputs."""
    names = one.keys() | other.keys()
    return all(one.get(name) == other.get(name) for name in names if not name.startswith(_EVENT_POINTER))


def combine_versions(versions: Iterable[str]) -> str:
    """The data version that Dagster gives several partitions together; also one partition alone."""
    return sha256("".join(versions).encode()).hexdigest()


def read_log_end(instance: dg.DagsterInstance) -> str:
    """The id of the newest event; where there is none, as Dagster writes it."""
    return str(instance.event_log_storage.get_maximum_record_id() or "NULL")


def read_partition_versions(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    event: dg.DagsterEventType,
    partitions: Sequence[str] | None = None,
) -> dict[str, str]:
    """The newest data version of every partition that has one; one query."""
    chosen = partitions if partitions is not None and len(partitions) <= 500 else None
    newest = instance.event_log_storage.get_latest_tags_by_partition(key, event, [DATA_VERSION], chosen)
    return {partition: tags[DATA_VERSION] for partition, tags in newest.items()}


def read_latest_tags(
    instance: dg.DagsterInstance, key: dg.AssetKey, partitions: Sequence[str]
) -> dict[str, Mapping[str, str]]:
    """All tags of the newest materialization of each partition that has one; two queries."""
    event, log = dg.DagsterEventType.ASSET_MATERIALIZATION, instance.event_log_storage
    ids = log.get_latest_storage_id_by_partition(key, event, set(partitions))
    if not ids:
        return {}
    newest = dg.EventRecordsFilter(event, asset_key=key, storage_ids=list(ids.values()))
    entries = [record.asset_materialization for record in log.get_event_records(newest)]
    return {entry.partition: entry.tags or {} for entry in entries if entry and entry.partition}


def read_unpartitioned_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> str:
    """The newest data version of an asset without partitions."""
    record = instance.get_latest_data_version_record(key)
    materialized = record.asset_materialization if record else None
    return (materialized.tags or {}).get(DATA_VERSION, INITIAL_VERSION) if materialized else INITIAL_VERSION


def read_last_check(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> dg.AssetCheckResult | None:
    """The result of the last execution of a check that completed, with the time of it as `looked at`."""
    completed = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
    records = instance.event_log_storage.get_asset_check_execution_history(key, 1, status=completed)
    last = records[0].evaluation if records else None
    if last is None:
        return None
    metadata: dict[str, Any] = {"looked at": dg.MetadataValue.timestamp(records[0].create_timestamp)}
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=last.passed,
        severity=last.severity,
        description=last.description,
        metadata={**metadata, **last.metadata},
    )


def log_check_result(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, result: dg.AssetCheckResult
) -> None:
    """Log the result of a blocking check as an event, which any op can do; a failed one fails nothing."""
    evaluation = build_evaluation(result, blocking=True)
    context.log_event(evaluation)  # pyright: ignore[reportArgumentType]  # accepted, but not declared


def build_evaluation(result: dg.AssetCheckResult, *, blocking: bool = False) -> dg.AssetCheckEvaluation:
    """The event of a result that no step yields."""
    assert result.asset_key and result.check_name
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        blocking=blocking,
        metadata=result.metadata,
    )


def build_materialization_entry(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    materialization: dg.AssetMaterialization,
    at_s: float,
) -> dg.EventLogEntry:
    """The event that `context.log_event` would store for a materialization, made at a time."""
    step = context.get_step_execution_context()
    event = DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_MATERIALIZATION.value,
        job_name=step.job_name,
        step_handle=step.step.handle,
        node_handle=step.step.node_handle,
        step_kind_value=step.step.kind.value,
        logging_tags=step.event_tags,
        event_specific_data=StepMaterializationData(materialization),
        message=f"Materialized value {materialization.label}.",
        pid=os.getpid(),
    )
    return _build_entry(event, context.run.run_id, at_s)


def build_planned_entry(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, key: dg.AssetKey, partition: str | None
) -> dg.EventLogEntry:
    """The event by which Dagster knows that a run is to make a partition; it stores one for asset jobs alone.

    Until the run materializes it, the partition is in progress, and failed once the run has failed.
    """
    step = context.get_step_execution_context()
    planned = AssetMaterializationPlannedData(key, partition)
    event = DagsterEvent.build_asset_materialization_planned_event(step.job_name, step.step.key, planned)
    return _build_entry(event, context.run.run_id, time.time())


def read_failed_partitions(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    partitions: Sequence[str],
    definition: dg.PartitionsDefinition[str],
) -> set[str]:
    """Those of some partitions that a failed run was to make, and no run has made since."""
    statuses = instance.get_status_by_partition(key, partitions, definition) or {}
    return {partition for partition, status in statuses.items() if status == AssetPartitionStatus.FAILED}


def report_materializations(
    instance: dg.DagsterInstance, materializations: Iterable[dg.AssetMaterialization]
) -> None:
    """Store materializations of one asset outside any run, in one transaction."""
    kind, entries = dg.DagsterEventType.ASSET_MATERIALIZATION.value, list[dg.EventLogEntry]()
    for materialization in materializations:
        data = StepMaterializationData(materialization)
        event = DagsterEvent(kind, job_name=RUNLESS_JOB_NAME, event_specific_data=data)
        entries.append(_build_entry(event, RUNLESS_RUN_ID, time.time()))
    store_asset_events(instance, entries)


def store_asset_events(instance: dg.DagsterInstance, entries: Sequence[dg.EventLogEntry]) -> None:
    """Store events of one kind, one asset and one run together.

    Dagster has that for PostgreSQL alone. On SQLite it opens two files and commits twice for each event,
    which took half of the time of a small source; here it does so for all of them once.
    """
    log = instance.event_log_storage
    if not isinstance(log, SqliteEventLogStorage) or len(entries) < 2:
        log.store_event_batch(entries)
        return
    inserts = [log.prepare_insert_event(entry) for entry in entries]
    with log.run_connection(entries[0].run_id) as connection:
        for insert in inserts:
            connection.execute(insert)
    with log.index_transaction() as connection:
        results = [connection.execute(insert) for insert in inserts]
        ids = [int(result.lastrowid) for result in results]
        log._store_asset_event_tags(connection, entries, ids)  # pyright: ignore[reportPrivateUsage]
        log._store_asset_event(connection, entries[-1], ids[-1])  # pyright: ignore[reportPrivateUsage]


def _build_entry(event: DagsterEvent, run_id: str, at_s: float) -> dg.EventLogEntry:
    return dg.EventLogEntry(
        error_info=None,
        level=logging.DEBUG,
        user_message="",
        run_id=run_id,
        timestamp=at_s,
        step_key=event.step_key,
        job_name=event.job_name,
        dagster_event=event,
    )
