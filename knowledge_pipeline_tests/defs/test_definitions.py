"""What Dagster loads from a project, and what it says when it cannot."""

import runpy
import subprocess
import sys

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap

from knowledge_pipeline_tests.defs.conftest import Workplace

MODULE = "knowledge_pipeline.definitions"


@pytest.fixture
def load(workplace: Workplace, monkeypatch: pytest.MonkeyPatch):
    """Loads the code location as Dagster does, anew at each call."""
    monkeypatch.setenv("KNOWLEDGE_CONFIG", str(workplace.path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)  # of a run that another test launched here
    return lambda: runpy.run_module(MODULE)["defs"]


def test_every_type_has_its_chain_and_jobs_are_few(workplace: Workplace, load) -> None:
    workplace.declare("one", "code", a_py="x = 1\n")
    workplace.declare("two", "markdown", a_md="# A\n")
    workplace.declare("three", "code", a_py="x = 1\n")
    definitions = load()
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    edges = {
        node.key.to_user_string(): sorted(parent.to_user_string() for parent in node.parent_keys)
        for node in graph.asset_nodes
        if node.key.path[0] not in ("staging", "intermediate", "marts")
    }
    assert edges == {
        **chain("code"),
        **chain("markdown"),
        "sources": [],
        "code/graph": ["code/snapshot", "sources"],
        "release": ["code/graph", "code/index", "markdown/index"],
    }
    assert sorted(job.name for job in definitions.resolve_all_job_defs()) == [
        "__ASSET_JOB",
        "checks",
        "maintenance",
        "migration",
        "purge",
        "refresh",
        "release",
        "rollback",
        "sql_models",
    ]


def chain(type_: str) -> dict[str, list[str]]:
    """Each asset of a type, and what it is made from."""
    made_from: dict[str, list[str]] = {
        "snapshot": [],
        "chunks": ["snapshot"],
        "embeddings": ["chunks"],
        "index": ["chunks", "embeddings"],
    }
    return {
        f"{type_}/{stage}": [*(f"{type_}/{name}" for name in names), "sources"]
        for stage, names in made_from.items()
    }


def test_what_runs_by_itself_is_switched_on(workplace: Workplace, load) -> None:
    workplace.declare("one", "code", a_py="x = 1\n")
    definitions = load()
    repository = definitions.get_repository_def()
    sensors = {sensor.name: sensor.default_status.value for sensor in repository.sensor_defs}
    schedules = {schedule.name: schedule.default_status.value for schedule in repository.schedule_defs}
    assert sensors == dict.fromkeys(
        [
            "sources_in_config",
            "removed_sources",
            "changed_sources",
            "new_input",
            "lost_runs",
            "new_release",
            "failed_runs",
        ],
        "RUNNING",
    )
    assert schedules == dict.fromkeys(
        [
            "hourly",
            "daily",
            "weekly",
            "weekly_reindex",
            "monthly_reindex",
            "maintenance",
            "checks",
            "sql_models",
        ],
        "RUNNING",
    )


@pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition.environment_vars`")  # Dagster's own
def test_the_page_of_a_stage_lists_the_sensors_that_refresh_it(workplace: Workplace, load) -> None:
    workplace.declare("one", "code", a_py="x = 1\n")
    workplace.declare("two", "markdown", a_md="# A\n")
    repository = load().get_repository_def()
    graph = repository.asset_graph
    targets = {
        sensor.name: (set(sensor.target_dict), {key.to_user_string() for key in selection.resolve(graph)})
        for sensor in RepositorySnap.from_def(repository).sensors
        if (selection := sensor.asset_selection)
    }
    shown = {*chain("code"), *chain("markdown"), "code/graph", "release"}
    assert targets == dict.fromkeys(["sources_in_config", "changed_sources"], ({"refresh"}, shown))


def test_what_is_optional_is_there_where_it_is_asked_for(workplace: Workplace, load) -> None:
    workplace.declare("one", "code", a_py="x = 1\n")
    entry = "{id: mine, connection: {type: checkouts, path: .}, sources: [{type: markdown}]}"
    questions = workplace.root / "questions.jsonl"
    questions.write_text("")
    optional = (
        f"tuning: {{trigger: weekly}}\norganisations: [{entry}]\nevaluation: {{questions: [questions.jsonl]}}"
    )
    workplace.path.write_text(f"{workplace.path.read_text()}\n{optional}\n")
    repository = load().get_repository_def()
    times = {each.name: (each.cron_schedule, each.job_name) for each in repository.schedule_defs}
    assert times["tuning"] == ("0 5 * * 0", "tuning")
    assert times["organisations"] == ("50 * * * *", "organisations")
    assert repository.get_sensor_def("unlisted_organisations").job_name == "organisations"
    assert repository.has_job("tuning")
    edges = {node.key.to_user_string(): node.parent_keys for node in repository.asset_graph.asset_nodes}
    assert edges["evaluation"] == {dg.AssetKey([type_, "index"]) for type_ in ("code", "markdown")}
    assert dg.AssetKey("evaluation") in edges["release"]
    assert edges["tuning"] == {dg.AssetKey("release")}


def test_every_asset_says_what_it_is(workplace: Workplace, load) -> None:
    workplace.declare("one", "code", a_py="x = 1\n")
    for spec in load().resolve_all_asset_specs():
        assert "one row per" in (spec.description or "").lower(), spec.key
        assert spec.group_name
        assert spec.kinds
        assert spec.code_version


def test_a_project_without_sources_loads(workplace: Workplace, load) -> None:
    definitions = load()
    dg.Definitions.validate_loadable(definitions)
    assert dg.AssetKey("release") in definitions.resolve_all_asset_keys()


def test_a_wrong_file_is_one_sentence_that_names_the_line(workplace: Workplace, load) -> None:
    workplace.declare("one", "cod", a_py="x = 1\n")
    with pytest.raises(dg.DagsterInvalidDefinitionError) as raised:
        load()
    line = next(
        number for number, text in enumerate(workplace.path.read_text().splitlines(), 1) if "cod," in text
    )
    assert str(raised.value).startswith(f"knowledge.yaml:{line}: sources[0].type: found 'cod'")
    assert raised.value.__suppress_context__


def test_a_missing_file_says_how_to_make_one(workplace: Workplace, load, monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("KNOWLEDGE_CONFIG")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"run `knowledge init`"):
        load()


def test_an_unknown_executor_is_refused(workplace: Workplace, load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWLEDGE_EXECUTOR", "threads")
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="KNOWLEDGE_EXECUTOR must be"):
        load()


def test_celery_without_a_broker_is_refused(
    workplace: Workplace, load, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dagster_celery")
    monkeypatch.setenv("KNOWLEDGE_EXECUTOR", "celery")
    monkeypatch.delenv("KNOWLEDGE_CELERY_BROKER", raising=False)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="KNOWLEDGE_CELERY_BROKER is not set"):
        load()


def test_the_address_of_the_broker_is_no_part_of_the_definitions(
    workplace: Workplace, load, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dagster_celery")
    workplace.declare("one", "code", a_py="x = 1\n")
    password = "-".join(["not", "for", "others"])
    monkeypatch.setenv("KNOWLEDGE_EXECUTOR", "celery")
    monkeypatch.setenv("KNOWLEDGE_CELERY_BROKER", f"pyamqp://user:{password}@nowhere//")
    job = load().resolve_job_def("refresh")
    assert job.executor_def.name == "celery"
    assert password not in dg.serialize_value(job.get_job_snapshot())


@pytest.mark.parametrize("number", ["0", "-1", "ten", "1.5"])
def test_sources_per_run_are_a_whole_number(
    workplace: Workplace, load, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    workplace.declare("one", "code", a_py="x = 1\n")
    monkeypatch.setenv("KNOWLEDGE_SOURCES_PER_RUN", number)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="KNOWLEDGE_SOURCES_PER_RUN must be"):
        load()


def test_loading_imports_nothing_heavy(workplace: Workplace, load) -> None:
    workplace.declare("one", "code", a_py="x = 1\n")
    heavy = "torch", "sentence_transformers", "transformers", "lancedb", "lance", "duckdb"
    program = f"import sys, {MODULE}; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
