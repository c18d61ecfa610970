"""The SQL models on real tables, as assets and as plain functions."""

from decimal import Decimal
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.stages import models
from knowledge_pipeline.store.duck import opened
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.defs.conftest import Workplace


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


def materialize(workplace: Workplace, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    keys = [
        key for key in workplace.definitions().resolve_all_asset_keys() if key.path[0] in ("staging", "marts")
    ]
    job = workplace.definitions().resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, asset_selection=keys)


def test_the_marts_say_what_the_tables_hold(indexed: Workplace, instance: dg.DagsterInstance) -> None:
    assert materialize(indexed, instance).success
    assert {row["source"]: row["chunks"] for row in rows(indexed, "chunks_by_source")} == {
        "one": 2,
        "docs": 1,
    }
    assert {row["source"]: row["coverage"] for row in rows(indexed, "index_coverage")} == {
        "one": 1,
        "docs": 1,
    }
    (skipped,) = rows(indexed, "skipped_documents")
    assert (skipped["source"], skipped["uri"], skipped["stage"]) == ("one", "bad.py", "snapshot")
    assert not any(
        isinstance(row[name], Decimal) for row in rows(indexed, "chunks_by_source") for name in row
    )


def test_a_sql_test_with_a_row_is_a_failed_check(indexed: Workplace, instance: dg.DagsterInstance) -> None:
    for space, dimensions in indexed.lake.spaces().items():
        indexed.lake.index(space, dimensions).delete_where(eq("source", "docs"))
    checks = {
        evaluation.check_name: evaluation
        for evaluation in materialize(indexed, instance).get_asset_check_evaluations()
    }
    assert checks["chunk_ids_are_unique"].passed
    assert not checks["index_covers_every_chunk"].passed
    assert checks["index_covers_every_chunk"].metadata["rows_that_should_not_be"].value == 1


def test_an_empty_store_gives_empty_marts(tmp_path: Path) -> None:
    made = models.refresh(Lake(tmp_path / "store"), models.load())
    assert {one.model.name for one in made if one.path} == {
        "chunks_by_source",
        "index_coverage",
        "skipped_documents",
    }
    assert all(one.rows == 0 for one in made)


def test_lineage_is_what_the_sql_reads(workplace: Workplace) -> None:
    workplace.declare("one")
    graph = workplace.definitions().resolve_asset_graph()
    parents = {
        node.key.to_user_string(): {key.to_user_string() for key in node.parent_keys}
        for node in graph.asset_nodes
    }
    assert parents["staging/stg_chunks"] == {"code/chunks"}
    assert parents["marts/index_coverage"] == {"staging/stg_chunks", "staging/stg_index"}
    assert parents["staging/stg_releases"] == {"release"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"staging/a.sql": "delete from raw_chunks"}, "models only read"),
        ({"staging/a.sql": "select 1; select 2"}, "is not one select"),
        ({"staging/a.sql": "selct 1 from"}, "is not one select"),
        ({"staging/a.sql": "select * from nowhere"}, "reads 'nowhere', which does not exist"),
        ({"marts/a.sql": "select * from b", "marts/b.sql": "select * from a"}, "in a circle"),
    ],
)
def test_a_wrong_model_is_refused_by_name(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        models.load(tmp_path)


def test_a_table_larger_than_the_memory_is_sorted_all_the_same(tmp_path: Path) -> None:
    with opened(Lake(tmp_path), memory_limit="60MB") as duck:
        duck.create_table("large", "select i, md5(i::varchar) as text from range(3_000_000) numbers(i)")
        assert duck.rows("select * from large order by text", limit=1).num_rows == 1
