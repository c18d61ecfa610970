"""The SQL models as assets: lineage, metadata, plots, checks, and models run alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.defs import sql_models
from knowledge_pipeline.defs.sql_models import build_model_assets, build_models_job, new_input
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.logs import append_rows
from knowledge_pipeline_tests.defs.conftest import Workplace, errors


@pytest.fixture
def indexed(workplace: Workplace, instance: dg.DagsterInstance) -> Workplace:
    """Two sources, three chunks, a document that cannot be read."""
    folder = workplace.declare("one", a_py="def add():\n    return 1\n", b_py="def sub():\n    return 2\n")
    (folder / "bad.py").write_bytes(b"\x00\x01" * 100)
    workplace.declare("docs", "markdown", a_md="# Title\n\nText.\n")
    assert workplace.run(instance, "refresh").success
    return workplace


def rows(workplace: Workplace, mart: str) -> list[dict]:
    return pq.read_table(workplace.lake.root / "marts" / f"{mart}.parquet").to_pylist()


def run(
    workplace: Workplace, instance: dg.DagsterInstance, *keys: str, own: Path | None = None
) -> dg.ExecuteInProcessResult:
    """The job `sql_models`, or only the assets of some keys; with models of a folder."""
    types = ("code", "markdown")
    definitions = dg.Definitions(
        assets=[
            build_model_assets(
                types, Settings.model_validate({"sql_models": {"folders": [own] if own else []}})
            )
        ],
        jobs=[build_models_job()],
        resources={"project": workplace.resource},
        executor=dg.in_process_executor,
    )
    selection = [dg.AssetKey(key.split("/")) for key in keys] or None
    return definitions.resolve_job_def("sql_models").execute_in_process(
        instance=instance, asset_selection=selection, raise_on_error=False
    )


def materialized(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetMaterialization]:
    events = result.get_asset_materialization_events()
    found = [event.materialization for event in events]
    return {one.asset_key.to_user_string(): one for one in found}


def test_the_marts_say_what_the_tables_hold(indexed: Workplace, instance: dg.DagsterInstance) -> None:
    result = run(indexed, instance)
    assert {row["source"]: row["chunks"] for row in rows(indexed, "chunks_by_source")} == {
        "one": 2,
        "docs": 1,
    }
    (skipped,) = rows(indexed, "skipped_documents")
    assert (skipped["source"], skipped["uri"], skipped["stage"]) == ("one", "bad.py", "snapshot")
    assert all(check.passed for check in result.get_asset_check_evaluations())


@pytest.mark.slow
def test_a_materialization_shows_rows_a_preview_and_a_plot(
    indexed: Workplace, instance: dg.DagsterInstance
) -> None:
    shown = materialized(run(indexed, instance))["marts/chunks_by_type"].metadata
    assert shown["dagster/row_count"].value == 2
    preview = shown["preview"]
    assert isinstance(preview, dg.TableMetadataValue)
    assert [record.data["source_type"] for record in preview.records] == ["code", "markdown"]
    assert str(shown["plot of chunks"].value).startswith("![Chunks by source type](data:image/png;base64,")
    assert str(shown["path"].value).endswith("marts/chunks_by_type.parquet")


@pytest.mark.slow
def test_a_sql_test_with_a_row_is_a_failed_check_with_the_row(
    indexed: Workplace, instance: dg.DagsterInstance
) -> None:
    for space, dimensions in indexed.lake.list_spaces().items():
        indexed.lake.index(space, dimensions).delete_where(eq("source", "docs"))
    judgement = {"at": datetime.now(UTC), "query_id": "q", "result_id": "r", "judgement": "useful"}
    append_rows(indexed.lake, "feedback", [judgement])
    result = run(indexed, instance)
    assert errors(result) == ["the test index_covers_every_chunk found 1 row that should not exist"]
    checks = {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}
    assert checks["chunk_ids_are_unique"].passed
    failed = {name: check.severity.value for name, check in checks.items() if not check.passed}
    assert failed == {"index_covers_every_chunk": "ERROR", "feedback_is_of_a_question": "WARN"}
    metadata = checks["index_covers_every_chunk"].metadata
    assert metadata["rows_that_should_not_be"].value == 1
    sample = metadata["sample"]
    assert isinstance(sample, dg.TableMetadataValue)
    assert sample.records[0].data == {"source": "docs", "chunks": 1, "indexed_rows": 0}


def test_models_of_the_project_that_cannot_run_stop_nothing_else(
    indexed: Workplace, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    for file, sql in {
        "marts/broken.sql": "select cast(source as int) as number from stg_documents",
        "marts/above.sql": "select number from broken",
        "marts/by/team/counted.sql": "select count(*) as documents from stg_documents",
        "tests/of_raw_rows.sql": "select uri from raw_documents where uri = ''",
    }.items():
        (tmp_path / "own" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / file).write_text(sql)
    result = run(indexed, instance, own=tmp_path / "own")
    (error,) = errors(result)
    assert error.startswith("broken.sql cannot be run: Conversion Error")
    assert error.endswith("; marts/above.sql was not run, as it reads broken")
    assert rows(indexed, "counted") == [{"documents": 4}]
    assert {"marts/freshness", "marts/counted"} <= set(materialized(result))
    checks = {one.check_name: one.passed for one in result.get_asset_check_evaluations()}
    assert checks["of_raw_rows"] and checks["chunk_ids_are_unique"]


@pytest.mark.slow
def test_a_model_alone_is_run_with_what_it_reads(indexed: Workplace, instance: dg.DagsterInstance) -> None:
    result = run(indexed, instance, "marts/skipped_by_reason")
    assert set(materialized(result)) == {"marts/skipped_by_reason"}
    assert [path.stem for path in (indexed.lake.root / "marts").iterdir()] == ["skipped_by_reason"]


def test_lineage_is_what_the_sql_reads(workplace: Workplace) -> None:
    parents = _parents(
        build_model_assets(
            ["code", "markdown"], Settings.model_validate({"evaluation": {"questions": ["q.jsonl"]}})
        )
    )
    assert parents["staging/stg_chunks"] == {"code/chunks", "markdown/chunks"}
    assert parents["staging/stg_refreshes"] == {"code/index", "markdown/index"}
    assert parents["staging/stg_model_calls"] == {"code/embeddings", "markdown/embeddings"}
    assert parents["staging/stg_evaluations"] == {"evaluation"}
    assert parents["staging/stg_queries"] == parents["staging/stg_feedback"] == set()
    assert parents["staging/stg_releases"] == {"release"}
    assert parents["marts/index_coverage"] == {"staging/stg_chunks", "staging/stg_index"}
    assert parents["marts/skipped_documents"] == {"staging/stg_documents", "code/chunks", "markdown/chunks"}
    assert _parents(build_model_assets(["code"], Settings()))["staging/stg_evaluations"] == set()


def _parents(models: dg.AssetsDefinition) -> dict[str, set[str]]:
    return {
        key.to_user_string(): {parent.to_user_string() for parent in models.asset_deps[key]}
        for key in models.keys
    }


def test_columns_have_comments_and_their_lineage() -> None:
    specs = {
        spec.key.to_user_string(): spec
        for spec in build_model_assets(
            ["code", "markdown"], Settings.model_validate({"owners": ["team:search"]})
        ).specs
    }
    costs = specs["marts/cost_by_source"].metadata
    columns = {column.name: column for column in costs["dagster/column_schema"].columns}
    assert (columns["cost"].type, columns["calls"].description) == (
        "double",
        "texts, for a model that runs here ← stg_model_calls.calls",
    )
    chunks = specs["staging/stg_chunks"].metadata["dagster/column_lineage"].deps_by_column
    assert [dep.asset_key.to_user_string() for dep in chunks["tokens"]] == ["code/chunks", "markdown/chunks"]
    assert "source" not in chunks  # the name of the table, not a column of it
    coverage = specs["marts/index_coverage"].metadata["dagster/column_lineage"].deps_by_column
    assert [(dep.asset_key.path[-1], dep.column_name) for dep in coverage["updated_at"]] == [
        ("stg_index", "updated_at")
    ]
    assert specs["marts/freshness"].owners == ["team:search"]


def test_the_code_of_a_model_is_found_where_it_lies() -> None:
    for spec in build_model_assets(["code"], Settings()).specs:
        (reference,) = spec.metadata["dagster/code_references"].code_references
        assert Path(reference.file_path).is_file()
        assert reference.label == f"dbt_like_sql/{'/'.join(spec.key.path)}.sql"


def test_the_models_run_when_their_input_changed_and_for_a_tenth_of_the_time(
    workplace: Workplace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor: list[str | None] = [None]

    def tick() -> int:
        with dg.build_sensor_context(
            instance=instance, cursor=cursor[0], resources={"project": workplace.resource}
        ) as context:
            result = new_input().evaluate_tick(context)
        cursor[0] = result.cursor or cursor[0]
        return len(result.run_requests)

    assert tick() == 0
    workplace.declare("one", a_py="one = 1\n")
    assert workplace.run(instance, "refresh").success
    assert tick() == 1
    assert tick() == 0
    assert run(workplace, instance).success
    assert workplace.run(instance, "refresh").success
    assert tick() == 0  # nothing changed
    workplace.declare("one", b_py="two = 2\n")
    assert workplace.run(instance, "refresh").success
    assert tick() == 0  # the models ran just now
    monkeypatch.setattr(sql_models, "_REST", -1)
    assert tick() == 1
    assert tick() == 0
