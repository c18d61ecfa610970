"""A change makes exactly what it decides stale, and materializing the stale clears it.

On a real event log, by the code that the UI asks, in the three ways in which materializations are
recorded: a run of one partition, of a range, and an op that logs them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.metadata import build_stage_specs
from knowledge_pipeline.defs.provenance import Provenance, track_refresh_inputs, track_release_inputs
from knowledge_pipeline.defs.settings_assets import iter_unreported, source_partitions
from knowledge_pipeline.stages.pipeline import STAGES, select_stages
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.defs.staleness import Shown, definitions_of

pytestmark = pytest.mark.storage

LONG = "\n\n".join(f"Sentence number {n} tells something that no other one tells." for n in range(40))
SETTING_CHANGED = "has a new data version"


@pytest.fixture
def shown(project: Project, tmp_path: Path, dagster_home: Path) -> Iterator[Shown]:
    """Three sources of one type and one of another, on an instance on disk."""
    for id_ in ("a", "b", "c", "d"):
        (tmp_path / id_).mkdir()
        (tmp_path / id_ / "page.md").write_text(f"# {id_}\n\n{LONG}\n")
        (tmp_path / id_ / "code.py").write_text(f"def {id_}():\n    return 1\n")
        project.declare(id_, "code" if id_ == "d" else "markdown", tmp_path / id_)
    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        shown = Shown(project, instance)
        shown.add_partitions()
        yield shown


def assets(source_type: SourceType, stages: list[str]) -> list[dg.AssetKey]:
    """Those of the stages that the type has."""
    return [dg.AssetKey([source_type, stage]) for stage in stages if stage in select_stages(source_type)]


def one_by_one(shown: Shown, definitions: dg.Definitions, stages: list[str], sources: list[str]) -> None:
    types = {source.id: source.type for source in shown.project.settings.sources}
    for source in sources:
        result = definitions.resolve_job_def(f"refresh_{types[source]}").execute_in_process(
            instance=shown.instance,
            partition_key=source,
            asset_selection=assets(types[source], stages),
        )
        assert result.success


def as_a_range(shown: Shown, definitions: dg.Definitions, stages: list[str], sources: list[str]) -> None:
    mine = [id_ for id_ in ("a", "b", "c") if id_ in sources]
    if "d" in sources:
        one_by_one(shown, definitions, stages, ["d"])
    if mine:
        tags = {
            "dagster/asset_partition_range_start": mine[0],
            "dagster/asset_partition_range_end": mine[-1],
        }
        result = definitions.resolve_job_def("refresh_markdown").execute_in_process(
            instance=shown.instance,
            tags=tags,
            asset_selection=assets("markdown", stages),
        )
        assert result.success


def by_an_op(shown: Shown, definitions: dg.Definitions, stages: list[str], sources: list[str]) -> None:
    result = definitions.resolve_job_def("refresh").execute_in_process(
        instance=shown.instance, run_config={"ops": {"refresh_sources": {"config": {"sources": sources}}}}
    )
    assert result.success


def change(shown: Shown, source: str, **settings: Any) -> None:
    """What an edit of the file and the sensor's next tick do."""
    shown.project.sources[source] |= settings
    settings_now = shown.project.settings
    changed = iter_unreported(shown.instance, settings_now, settings_now.sources, include_unseen=False)
    for materialization in changed:
        shown.instance.report_runless_asset_event(materialization)


def partitions(*sources: str) -> set[str]:
    """All stages of some sources, as `Shown.stale` names them."""
    stages = ("snapshot", "chunks", "embeddings", "index")
    return {f"{id_}: {stage}" for id_ in sources for stage in (*stages, *(["graph"] if id_ == "d" else []))}


EACH_WAY = [
    pytest.param(one_by_one, marks=pytest.mark.slow),
    pytest.param(as_a_range, marks=pytest.mark.slow),
    by_an_op,
]


@pytest.mark.parametrize("run", EACH_WAY)
def test_a_changed_setting_marks_its_source_alone_and_materializing_it_clears(shown, run) -> None:
    definitions = definitions_of(shown.project)
    run(shown, definitions, list(STAGES), ["a", "b", "c", "d"])
    assert shown.stale(definitions) == {}
    change(shown, "b", chunking={"max_tokens": 64})
    assert shown.stale(definitions) == {stage: [f"sources {SETTING_CHANGED}"] for stage in partitions("b")}
    run(shown, definitions, list(STAGES), ["b"])
    assert shown.stale(definitions) == {}
    another_code_version(shown, run)


def another_code_version(shown: Shown, run) -> None:
    """It marks its stage of all sources."""
    after = definitions_of(shown.project, {"chunks": "another"})
    assert set(shown.stale(after)) == {f"{source}: chunks" for source in ("a", "b", "c", "d")}
    run(shown, after, list(STAGES), ["b"])
    assert set(shown.stale(after)) == {f"{source}: chunks" for source in ("a", "c", "d")}


@pytest.mark.slow
@pytest.mark.parametrize("run", [one_by_one, as_a_range])
def test_materializing_stage_by_stage_what_is_stale_ends_with_nothing_stale(shown, run) -> None:
    definitions = definitions_of(shown.project)
    by_an_op(shown, definitions, list(STAGES), ["a", "b", "c", "d"])
    change(shown, "a", chunking={"max_tokens": 64})
    change(shown, "b", chunking={"max_tokens": 64})
    seen = []
    while stale := shown.stale(definitions):
        stages = {line.split(": ")[1] for line in stale}
        seen.append(sorted(stages))
        run(shown, definitions, [next(stage for stage in STAGES if stage in stages)], ["a", "b"])
    chain = [stage for stage in STAGES if stage != "graph"]
    assert seen == [sorted(chain[first:]) for first in range(len(chain))]


@pytest.mark.slow
def test_each_setting_marks_its_source(shown: Shown, tmp_path: Path, monkeypatch) -> None:
    definitions = definitions_of(shown.project)
    by_an_op(shown, definitions, list(STAGES), ["a", "b", "c", "d"])
    a_setting_changed_back_is_no_change(shown, definitions)
    change(shown, "a", exclude=["*.txt"])
    change(shown, "b", access={"visibility": "tenant", "tenant": "acme"})
    assert shown.stale(definitions).keys() == partitions("a", "b")
    model = shown.project.embedding.model_copy(update={"model": "another"})
    change(shown, "d", embedding=model)
    assert shown.stale(definitions).keys() == partitions("a", "b", "d")
    by_an_op(shown, definitions, list(STAGES), ["a", "d"])
    assert shown.stale(definitions).keys() == partitions("b")
    one_by_one(shown, definitions, ["index"], ["b"])  # no stage is fresh that did not read them
    assert shown.stale(definitions).keys() == partitions("b") - {"b: index"}
    by_an_op(shown, definitions, list(STAGES), ["b"])
    assert shown.stale(definitions) == {}

    settings_that_a_run_used_first_are_not_reported_as_changed(shown, definitions)
    a_setting_changed_while_a_run_reads_is_a_change(shown, definitions, monkeypatch)
    new_documents_in_a_snapshot_alone_make_the_chunks_stale(shown, definitions, tmp_path)
    what_an_earlier_version_recorded_is_cleared_by_one_refresh(shown, definitions)


def a_setting_changed_back_is_no_change(shown: Shown, definitions: dg.Definitions) -> None:
    change(shown, "a", chunking={"max_tokens": 64})
    assert set(shown.stale(definitions)) == partitions("a")
    change(shown, "a", chunking={})
    assert shown.stale(definitions) == {}


def settings_that_a_run_used_first_are_not_reported_as_changed(
    shown: Shown, definitions: dg.Definitions
) -> None:
    shown.project.sources["a"]["chunking"] = {"max_tokens": 64}
    by_an_op(shown, definitions, list(STAGES), ["a"])  # before the sensor's tick
    change(shown, "a")
    assert shown.stale(definitions) == {}


def a_setting_changed_while_a_run_reads_is_a_change(
    shown: Shown, definitions: dg.Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = Provenance.build_tags

    def edited_meanwhile(self, key, partition, version):
        if (key.path[-1], partition) == ("snapshot", "a"):
            change(shown, "a", chunking={"max_tokens": 65})
        return tags(self, key, partition, version)

    with monkeypatch.context() as patched:
        patched.setattr(Provenance, "build_tags", edited_meanwhile)
        by_an_op(shown, definitions, list(STAGES), ["a"])
    assert set(shown.stale(definitions)) == partitions("a")
    by_an_op(shown, definitions, list(STAGES), ["a"])
    assert shown.stale(definitions) == {}


def new_documents_in_a_snapshot_alone_make_the_chunks_stale(
    shown: Shown, definitions: dg.Definitions, tmp_path: Path
) -> None:
    (tmp_path / "a" / "more.md").write_text("# More\n\nWords.\n")
    one_by_one(shown, definitions, ["snapshot"], ["a", "b"])
    assert set(shown.stale(definitions)) == {"a: chunks"}
    by_an_op(shown, definitions, list(STAGES), ["a"])


def what_an_earlier_version_recorded_is_cleared_by_one_refresh(
    shown: Shown, definitions: dg.Definitions
) -> None:
    """It had four assets of settings for each type."""
    tags = {"dagster/code_version": "1", "dagster/data_version": "1"}
    tags["dagster/input_data_version/markdown/model"] = tags["dagster/input_event_pointer/markdown/model"] = (
        "1"
    )
    key = dg.AssetKey(["markdown", "embeddings"])
    shown.instance.report_runless_asset_event(dg.AssetMaterialization(key, partition="a", tags=tags))
    causes = shown.stale(definitions)["a: embeddings"]
    assert "markdown/embeddings removed dependency on markdown/model" in causes
    by_an_op(shown, definitions, list(STAGES), ["a"])
    assert shown.stale(definitions) == {}


@pytest.mark.slow
def test_the_tags_are_those_that_dagster_writes(shown: Shown) -> None:
    """But for the versions of settings, which Dagster does not look up, and the pointers' numbers."""
    by_an_op(shown, definitions_of(shown.project), list(STAGES), ["a", "b", "c"])
    specs = build_stage_specs("markdown", shown.project.settings)
    looked_up = {"dagster/input_data_version/sources"}

    @dg.multi_asset(name="plain", specs=specs, partitions_def=source_partitions("markdown"), can_subset=True)
    def plain(context: dg.AssetExecutionContext):
        project = shown.project.settings
        provenance = track_refresh_inputs(shown.instance, project, project.select_sources(["b"]))
        for spec in specs:
            expected[spec.key] = provenance.build_tags(spec.key, "b", "7")
            yield dg.MaterializeResult(spec.key, data_version=dg.DataVersion("7"))

    expected: dict[dg.AssetKey, dict[str, str]] = {}
    written = dg.materialize([plain], partition_key="b", instance=shown.instance)
    found = {
        event.asset_key: dict(event.materialization.tags or {})
        for event in written.get_asset_materialization_events()
    }
    assert len(found) == len(select_stages("markdown"))
    for key, tags in expected.items():
        assert found[key].keys() == tags.keys()
        pointers = {name for name in tags if "/input_event_pointer/" in name}
        same = tags.keys() - looked_up - pointers
        assert {name: tags[name] for name in same} == {name: found[key][name] for name in same}
        for name in pointers:
            dep = dg.AssetKey.from_user_string(name.split("/", 2)[2])
            assert events_between(shown, dep, int(found[key][name]), int(tags[name])) == 0


def events_between(shown: Shown, key: dg.AssetKey, first: int, last: int) -> int:
    """Events of an asset after one pointer, up to another, which must not be before it."""
    assert first <= last
    some = dg.AssetRecordsFilter(key, after_storage_id=first, before_storage_id=last + 1)
    fetched = (shown.instance.fetch_materializations, shown.instance.fetch_observations)
    return sum(len(fetch(some, limit=9).records) for fetch in fetched)


@pytest.mark.slow
def test_what_is_made_of_all_indexes_is_stale_once_one_changed_after_it(shown: Shown, tmp_path: Path) -> None:
    definitions = definitions_of(shown.project)
    by_an_op(shown, definitions, list(STAGES), ["a", "b", "c", "d"])
    release, judged = dg.AssetKey("release"), dg.AssetKey("evaluation")
    indexes = [dg.AssetKey([type_, "index"]) for type_ in ("markdown", "code")]
    graph = dg.AssetKey(["code", "graph"])
    with_release = dg.Definitions.merge(
        definitions,
        dg.Definitions(
            [
                dg.asset(key=judged, deps=indexes, code_version="1")(lambda: None),
                dg.asset(key=release, deps=[judged, *indexes, graph], code_version="1")(lambda: None),
            ]
        ),
    )
    publish(shown, release, {judged: "1"}, {})
    assert shown.causes(with_release, release) == []
    publish(shown, release, {judged: "1"}, {judged: "score 1"})
    publish(shown, release, {judged: "1"}, {})
    assert shown.causes(with_release, release) == shown.causes(with_release, judged) == []
    (tmp_path / "d" / "more.py").write_text("def more():\n    return 2\n")
    by_an_op(shown, definitions, list(STAGES), ["d"])
    both = [f"code/graph {SETTING_CHANGED}", f"code/index {SETTING_CHANGED}"]
    assert shown.causes(with_release, release) == both
    assert shown.causes(with_release, judged) == [f"code/index {SETTING_CHANGED}"]
    publish(shown, release, {judged: "1"}, {judged: "score 2"})
    assert shown.causes(with_release, release) == shown.causes(with_release, judged) == []


def publish(
    shown: Shown, release: dg.AssetKey, between: dict[dg.AssetKey, str], made: dict[dg.AssetKey, str]
) -> None:
    """Log a release, and before it what was made of the indexes for it, as an op does."""
    provenance = track_release_inputs(shown.instance, shown.project.settings, release, "1", between)
    for key, version in {**made, release: "1"}.items():
        tags = provenance.build_tags(key, None, version)
        shown.instance.report_runless_asset_event(dg.AssetMaterialization(key, tags=tags))
