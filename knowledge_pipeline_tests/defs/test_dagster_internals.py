"""What the definitions assume of Dagster's insides: one test for each assumption, to run after an upgrade."""

import re
import time
import warnings
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from dagster._core.definitions.metadata.metadata_set import TableMetadataSet, UriMetadataSet
from dagster._core.definitions.metadata.source_code import CodeReferencesMetadataSet
from dagster._core.events import DagsterEvent, StepMaterializationData
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
)
from dagster._core.storage import tags as run_tags
from dagster._core.storage.event_log import SqliteEventLogStorage
from sqlalchemy import text

import knowledge_pipeline
from knowledge_pipeline.defs import dagster_internals as internals

KEY = dg.AssetKey(["code", "index"])
CHECK = dg.AssetCheckKey(KEY, "sound")


def test_no_other_module_imports_what_is_private_or_spells_dagsters_keys() -> None:
    root = Path(knowledge_pipeline.__file__).parent
    private = re.compile(r"(?:from|import) dagster(?:\.\w+)*\._|[\"']dagster(?:-celery)?/")
    found = {
        str(path.relative_to(root)) for path in root.rglob("*.py") if private.search(path.read_text("utf-8"))
    }
    assert found == {"defs/dagster_internals.py"}


def test_the_tags_of_runs_are_dagsters() -> None:
    assert internals.PARTITION == run_tags.PARTITION_NAME_TAG
    assert internals.RANGE_START == run_tags.ASSET_PARTITION_RANGE_START_TAG
    assert internals.RANGE_END == run_tags.ASSET_PARTITION_RANGE_END_TAG
    assert internals.WILL_RETRY == run_tags.WILL_RETRY_TAG
    assert internals.LAUNCHERS == (
        run_tags.SCHEDULE_NAME_TAG,
        run_tags.SENSOR_NAME_TAG,
        run_tags.BACKFILL_ID_TAG,
    )
    assert internals.COMPUTE_KIND == run_tags.COMPUTE_KIND_TAG


def test_the_ticks_of_a_process_share_an_instance_and_resources(dagster_home: Path) -> None:
    opened: list[dg.DagsterInstance] = []
    built = iter(range(9))

    @dg.sensor(job_name="refresh", required_resource_keys={"number"})
    def look(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        opened.append(context.instance)
        return dg.SkipReason(f"resource {context.resources.number}")

    sensor = internals.share_instance(look)
    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        for _ in range(2):
            resources = {"number": dg.ResourceDefinition(lambda _: next(built))}
            with dg.SensorEvaluationContext(instance.get_ref(), resources=resources) as context:
                assert sensor.evaluate_tick(context).skip_message == "resource 0"
        assert opened[0] is opened[1] is not instance
        assert opened[0].get_runs() == []
        opened[0].dispose()
        with dg.build_sensor_context(instance=instance, resources={"number": 1}) as context:
            assert sensor.evaluate_tick(context).skip_message == "resource 1"
    assert opened[2] is instance


def test_other_locations_of_an_instance_are_those_that_evaluate_the_same_sensor(dagster_home: Path) -> None:
    def add_state(location: str, ticked_at_s: float | None) -> None:
        repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), "__repository__")
        state = InstigatorState(
            RemoteInstigatorOrigin(repository, "sources_in_config"),
            InstigatorType.SENSOR,
            InstigatorStatus.DECLARED_IN_CODE,
            SensorInstigatorData(ticked_at_s),
        )
        instance.add_instigator_state(state)

    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        context = dg.SensorEvaluationContext(
            instance.get_ref(), code_location_origin=RegisteredCodeLocationOrigin("mine")
        )
        for location, ticked_at_s in (
            ("mine", time.time()),
            ("former", time.time() - 3600),
            ("new", None),
        ):
            add_state(location, ticked_at_s)
        with context:
            assert internals.list_siblings(context, "sources_in_config") == []
            add_state("theirs", time.time())
            assert internals.list_siblings(context, "sources_in_config") == ["theirs"]
            assert internals.list_siblings(context, "handbook_sources_in_config") == []


def test_the_queue_of_a_step_is_the_tag_that_its_celery_executor_reads() -> None:
    tags = pytest.importorskip("dagster_celery.tags")
    assert tags.DAGSTER_CELERY_QUEUE_TAG == internals.CELERY_QUEUE


def test_the_metadata_keys_are_those_that_dagster_gives_a_place() -> None:
    lineage = dg.TableColumnLineage({})
    tables = TableMetadataSet(
        column_schema=dg.TableSchema([]),
        column_lineage=lineage,
        row_count=1,
        table_name="a.b",
        storage_kind="c",
    )
    assert set(dict(tables)) == {
        internals.COLUMN_SCHEMA,
        internals.COLUMN_LINEAGE,
        internals.ROW_COUNT,
        internals.TABLE_NAME,
        internals.STORAGE_KIND,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        references = CodeReferencesMetadataSet(
            code_references=dg.CodeReferencesMetadataValue(code_references=[])
        )
    assert set(dict(references)) == {internals.CODE_REFERENCES}
    assert set(dict(UriMetadataSet(uri="here"))) == {internals.URI}


def test_the_tags_of_a_version_are_dagsters() -> None:
    upstream = dg.AssetKey(["code", "chunks"])
    assert internals.build_version_tags("1", "2", {upstream: ("3", "4")}) == {
        CODE_VERSION_TAG: "1",
        get_input_data_version_tag(upstream): "3",
        get_input_event_pointer_tag(upstream): "4",
        DATA_VERSION_TAG: "2",
        DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
    }
    assert DEFAULT_DATA_VERSION.value == internals.INITIAL_VERSION


@pytest.mark.storage
def test_an_event_pointer_is_an_id_of_the_event_log(instance: dg.DagsterInstance) -> None:
    assert internals.read_log_end(instance) == "NULL"
    instance.report_runless_asset_event(dg.AssetMaterialization(KEY))
    event = instance.get_latest_materialization_event(KEY)
    record = instance.fetch_materializations(KEY, limit=1).records[0]
    assert event is not None
    assert internals.read_log_end(instance) == str(record.storage_id)


@pytest.mark.storage
def test_the_newest_version_is_read_with_and_without_partitions(instance: dg.DagsterInstance) -> None:
    assert internals.read_unpartitioned_version(instance, KEY) == internals.INITIAL_VERSION
    for version in ("1", "2"):
        tags = {internals.DATA_VERSION: version}
        instance.report_runless_asset_event(dg.AssetMaterialization(KEY, tags=tags))
    assert internals.read_unpartitioned_version(instance, KEY) == "2"
    other = dg.AssetKey(["code", "chunks"])
    for partition, version in (("a", "1"), ("b", "1"), ("a", "2")):
        tags = {internals.DATA_VERSION: version}
        instance.report_runless_asset_event(dg.AssetMaterialization(other, partition=partition, tags=tags))
    event = dg.DagsterEventType.ASSET_MATERIALIZATION
    assert internals.read_partition_versions(instance, other, event) == {"a": "2", "b": "1"}
    assert internals.read_partition_versions(instance, other, event, ["b"]) == {"b": "1"}


@dg.op
def read_process(context: dg.OpExecutionContext) -> bool:
    return internals.is_in_run_process(context)


@dg.job(executor_def=dg.in_process_executor)
def in_the_process_of_the_run() -> None:
    read_process()


@dg.job(executor_def=dg.multiprocess_executor)
def in_processes_of_their_own() -> None:
    read_process()


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    "job, expected", [(in_the_process_of_the_run, True), (in_processes_of_their_own, False)]
)
def test_the_executors_that_share_the_process_of_a_run_are_known(
    tmp_path: Path, job: dg.JobDefinition, expected: bool
) -> None:
    with (
        dg.DagsterInstance.local_temp(str(tmp_path)) as instance,
        dg.execute_job(dg.reconstructable(job), instance=instance) as result,
    ):
        assert result.output_for_node("read_process") is expected


@pytest.mark.storage
def test_a_run_within_a_program_is_in_its_process(instance: dg.DagsterInstance) -> None:
    result = in_processes_of_their_own.execute_in_process(instance=instance)
    assert result.output_for_node("read_process") is True


@pytest.mark.storage
def test_a_logged_check_is_what_the_last_check_reads(instance: dg.DagsterInstance) -> None:
    assert internals.read_last_check(instance, CHECK) is None
    result = dg.AssetCheckResult(
        asset_key=KEY,
        check_name=CHECK.name,
        passed=False,
        severity=dg.AssetCheckSeverity.WARN,
        description="two rows are wrong",
        metadata={"rows": 2},
    )

    @dg.op
    def step(context: dg.OpExecutionContext) -> None:
        internals.log_check_result(context, result)

    @dg.job
    def one() -> None:
        step()

    assert one.execute_in_process(instance=instance).success
    last = internals.read_last_check(instance, CHECK)
    assert last is not None
    assert last.metadata.keys() == {"looked at", "rows"}
    assert last._replace(metadata=result.metadata) == result


def test_a_job_of_assets_is_what_its_name_says() -> None:
    assert isinstance(dg.define_asset_job("all"), internals.AssetJob)


@pytest.mark.storage
def test_a_pool_has_slots_to_claim_and_free(instance: dg.DagsterInstance) -> None:
    run = instance.create_run_for_job(_job())
    with internals.PoolSlots(instance, run) as slots:
        assert slots.claim("a pool without a limit", "step")
        slots.free_step("step")


def _job() -> dg.JobDefinition:
    @dg.job
    def one() -> None:
        pass

    return one


def test_events_stored_together_leave_the_rows_that_each_by_itself_leaves(tmp_path: Path) -> None:
    found = []
    for name in ("each", "together"):
        (tmp_path / name).mkdir()
        with dg.instance_for_test(temp_dir=str(tmp_path / name)) as instance:
            run_id = "00000000-0000-0000-0000-000000000001"
            entries = [
                _materialized(run_id, partition, {internals.DATA_VERSION: partition, "other": "x"})
                for partition in ("a", "b", "c", "a")
            ]
            for group in [entries] if name == "together" else [[entry] for entry in entries]:
                internals.store_asset_events(instance, group)
            observed = [
                dg.AssetMaterialization(KEY, partition="a", tags={internals.DATA_VERSION: str(number)})
                for number in range(2)
            ]
            for group in [observed] if name == "together" else [[each] for each in observed]:
                internals.report_materializations(instance, group)
            found.append(_rows_without_times(instance, run_id))
    assert found[0] == found[1]
    assert [len(rows) for rows in found[0]] == [4, 6, 6, 1]


def _materialized(run_id: str, partition: str, tags: dict[str, str]) -> dg.EventLogEntry:
    made = dg.AssetMaterialization(KEY, partition=partition, tags=tags)
    event = DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_MATERIALIZATION.value,
        event_specific_data=StepMaterializationData(made),
        job_name="refresh",
    )
    return dg.EventLogEntry(None, 10, "", run_id, 1.0, None, "refresh", event)


def _rows_without_times(instance: dg.DagsterInstance, run_id: str) -> list[list[tuple]]:
    """The events of a run and of all runs, the tags by which they are found, and the newest of each asset."""
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLogStorage)
    columns = "run_id, dagster_event_type, asset_key, partition, json_extract(event, '$.dagster_event')"
    events = f"select id, {columns} from event_logs order by id"
    tags = "select event_id, asset_key, key, value from asset_event_tags order by event_id"
    with log.run_connection(run_id) as connection:
        found = [list(map(tuple, connection.execute(text(events))))]
    with log.index_connection() as connection:
        for query in (events, tags, "select asset_key, last_run_id from asset_keys"):
            found.append(list(map(tuple, connection.execute(text(query)))))
    return found


def test_a_run_that_names_a_configured_source_adds_its_partition() -> None:
    partitions = internals.add_on_launch(dg.DynamicPartitionsDefinition(name="code_sources"), {"shop"})

    @dg.asset(partitions_def=partitions)
    def stage() -> None: ...

    @dg.asset(partitions_def=dg.DynamicPartitionsDefinition(name="code_sources"), deps=[stage])
    def of_others() -> None: ...

    with dg.DagsterInstance.ephemeral() as instance:
        assert dg.materialize([stage], partition_key="shop", instance=instance).success
        assert instance.get_dynamic_partitions("code_sources") == ["shop"]
        assert dg.materialize([stage, of_others], partition_key="shop", instance=instance).success
        with pytest.raises(dg.DagsterUnknownPartitionError):
            dg.materialize([stage], partition_key="other", instance=instance)
        assert instance.get_dynamic_partitions("code_sources") == ["shop"]
