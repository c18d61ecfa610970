"""Several knowledge bases in one code location, beside the assets of others."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from knowledge_pipeline import build_defs
from knowledge_pipeline.defs.names import PLAIN, build_names
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.stages.pipeline import STAGES
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.defs.conftest import EMBEDDING, Workplace
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

WIKI = dg.AssetKey(["exports", "wiki"])


@dg.asset(key=WIKI)
def export_wiki() -> None:
    """An asset of somebody else."""


@dg.asset(key=["exports", "parts"], partitions_def=dg.StaticPartitionsDefinition(["a", "b"]))
def export_parts() -> None:
    """One with partitions of its own."""


@pytest.mark.parametrize("prefix", ["9", "a b", "a//b", "ä", ["a", ""], "a-b"])
def test_a_prefix_that_dagster_does_not_take_is_refused(prefix: str | list[str]) -> None:
    with pytest.raises(ConfigError, match="cannot be a prefix"):
        build_names(prefix, None, None)


def test_names_say_what_is_of_a_knowledge_base() -> None:
    one, other = build_names("team/one", None, None), build_names(["team"], "", "")
    assert one.key("code", "chunks") == dg.AssetKey(["team", "one", "code", "chunks"])
    assert [one.definition("refresh"), one.group("code"), one.partitions("code")] == [
        "team_one_refresh",
        "team/one/code",
        "team_one_code_sources",
    ]
    assert [other.definition("refresh"), other.group("code"), other.partitions("code")] == [
        "team_refresh",
        "code",
        "code_sources",
    ]
    assert [one.pool("index"), one.pool("embedder")] == ["team_one_index", "embedder"]
    for names in (PLAIN, one, other):
        for path in (("code", "chunks"), ("sources",), ("release",)):
            assert [each.has_key(names.key(*path)) for each in (PLAIN, one, other)] == [
                each is names for each in (PLAIN, one, other)
            ]
    others = WIKI, dg.AssetKey(["marts", "orders"]), dg.AssetKey(["code", "orders"])
    assert not any(each.has_key(key) for each in (PLAIN, one, other) for key in others)


@dataclass
class Location:
    """Two knowledge bases, one of them with a source that is read from others' assets."""

    one: Workplace
    two: Workplace
    defs: dg.Definitions
    instance: dg.DagsterInstance

    def tick(self, sensor: str, resource: str, cursor: str | None = None):
        """Evaluate a sensor, and add the partitions that it asks for."""
        with dg.build_sensor_context(
            instance=self.instance, cursor=cursor, resources={resource: self.defs.resources[resource]}
        ) as context:
            result = self.defs.resolve_sensor_def(sensor).evaluate_tick(context)
        for change in result.dynamic_partitions_requests or ():
            self.instance.add_dynamic_partitions(change.partitions_def_name, change.partition_keys)
        return result

    def find_stale_stages(self, name: str) -> list[str]:
        """What the UI marks of the source of a knowledge base, by the stages before the release."""
        graph = self.defs.resolve_asset_graph()
        resolver = CachingStaleStatusResolver(self.instance, graph, LoadingContextForTest(self.instance))
        keys = {stage: dg.AssetKey([name, "code", stage]) for stage in STAGES}
        return [stage for stage, key in keys.items() if resolver.get_status(key, "same") != StaleStatus.FRESH]

    def run(self, request: dg.RunRequest, job: str) -> dg.ExecuteInProcessResult:
        """Carry out what a sensor requests."""
        assert request.job_name == job
        definition = self.defs.resolve_job_def(job)
        return definition.execute_in_process(
            request.run_config, instance=self.instance, tags=dict(request.tags)
        )


@pytest.fixture
def location(
    tmp_path: Path,
    embedding_server: OpenAIServer,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Location]:
    monkeypatch.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
    monkeypatch.setenv("KNOWLEDGE_STORE", str(tmp_path / "shared"))
    embedding = EMBEDDING.format(url=embedding_server.url, dimensions=embedding_server.dimensions)
    bases = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        bases.append(Workplace(tmp_path / name, embedding))
        bases[-1].declare("same", "code", a_py=f"def in_{name}():\n    return '{name}'\n")
    text = bases[1].path.read_text()
    bases[1].path.write_text(
        text.replace("{id: same,", "{id: same, upstream: [exports/wiki, exports/parts],")
    )
    defs = dg.Definitions.merge(
        build_defs(bases[0].path, key_prefix="one"),
        build_defs(bases[1].settings.model_copy(update={"store": tmp_path / "store_two"}), key_prefix="two"),
        dg.Definitions(assets=[export_wiki, export_parts], executor=dg.multiprocess_executor),
    )
    yield Location(*bases, defs, instance)


def read_texts(lake: Lake) -> list[str]:
    ((space, dimensions),) = lake.list_spaces().items()
    return lake.index(space, dimensions).read_rows(["text"])["text"].to_pylist()


@pytest.mark.slow
@pytest.mark.storage
def test_two_knowledge_bases_are_refreshed_into_their_own_stores(location: Location, tmp_path: Path) -> None:
    defs, instance = location.defs, location.instance
    dg.Definitions.validate_loadable(defs)
    repository = defs.get_repository_def()
    own_jobs = {job.name for job in defs.resolve_all_job_defs() if not job.name.startswith("__")}
    for each in (*repository.sensor_defs, *repository.schedule_defs):
        prefix = each.name.partition("_")[0]
        jobs = (
            [each.job_name] if isinstance(each, dg.ScheduleDefinition) else [t.job_name for t in each.targets]
        )
        assert all(job in own_jobs and job.startswith(f"{prefix}_") for job in jobs), each.name
    ones, twos = build_names("one", None, None), build_names("two", None, None)
    for key in (names.key("code", stage) for names in (ones, twos) for stage in STAGES):
        assert key in defs.resolve_all_asset_keys()
        assert [ones.has_key(key), twos.has_key(key)] == [key.path[0] == "one", key.path[0] == "two"]
    assert defs.resolve_asset_graph().get(twos.key("code", "snapshot")).parent_keys >= {WIKI}

    stores = {"one": Lake(tmp_path / "one" / "store"), "two": Lake(tmp_path / "store_two")}
    for name, lake in stores.items():
        tick = location.tick(f"{name}_sources_in_config", f"{name}_project")
        assert [each.partitions_def_name for each in tick.dynamic_partitions_requests] == [
            f"{name}_code_sources",
            f"{name}_sources@",  # of this code location, which has no name here
        ]
        result = location.run(tick.run_requests[0], f"{name}_refresh")
        made = {event.asset_key.path[0] for event in result.get_asset_materialization_events()}
        assert result.success
        assert made == {name}
        assert [name in text for text in read_texts(lake)] == [True]
        assert find_live_release(lake)
    assert not (tmp_path / "shared").exists()
    for name in stores:  # by what *Materialize* launches for a partition, and what follows the release
        keys = [dg.AssetKey([name, "code", stage]) for stage in STAGES]
        materialize = defs.resolve_implicit_global_asset_job_def()
        assert materialize.execute_in_process(
            instance=instance, partition_key="same", asset_selection=[*keys, dg.AssetKey([name, "release"])]
        ).success
        models = defs.resolve_job_def(f"{name}_sql_models")
        assert models.executor_def.name == "in_process"
        assert models.execute_in_process(instance=instance).success
        assert defs.resolve_job_def(f"{name}_maintenance").execute_in_process(instance=instance).success

    runs = instance.get_runs()
    counts = [sum(names.has_run(run) for run in runs) for names in (ones, twos, PLAIN)]
    assert counts == [4, 4, 0]
    assert len(runs) == 8


@pytest.mark.slow
@pytest.mark.storage
def test_an_asset_of_others_refreshes_the_sources_that_are_read_from_it(location: Location) -> None:
    defs, instance = location.defs, location.instance
    first = location.tick("two_sources_in_config", "two_project").run_requests[0]
    assert location.run(first, "two_refresh").success
    tick = location.tick("two_upstream_assets", "two_project")
    assert (tick.run_requests, tick.cursor) == ([], "{}")
    snapshot = build_names("two", None, None).key("code", "snapshot")
    for number, (asset, partition) in enumerate(((export_wiki, None), (export_parts, "b"))):
        assert dg.materialize([asset], instance=instance, partition_key=partition).success
        assert location.find_stale_stages("two") == ["snapshot"]
        tick = location.tick("two_upstream_assets", "two_project", tick.cursor)
        (request,) = tick.run_requests
        assert request.tags["knowledge/trigger"] == "upstream"
        assert location.run(request, "two_refresh").success
        tags = instance.get_latest_materialization_event(snapshot).asset_materialization.tags
        assert tags["dagster/input_data_version/exports/wiki"] != "INITIAL"
        assert (tags["dagster/input_data_version/exports/parts"] != "INITIAL") == bool(number)
        assert location.find_stale_stages("two") == []
        again = location.tick("two_upstream_assets", "two_project", tick.cursor)
        assert (again.run_requests, again.cursor) == ([], tick.cursor)
    assert "one_upstream_assets" not in {each.name for each in defs.get_repository_def().sensor_defs}
