"""`knowledge sql`, and that docs/sql.md is what the files say."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import cogapp
import pytest

from knowledge_pipeline.sql_models.files import FOLDER, load_models
from knowledge_pipeline_tests.cli.conftest import Run

DOCS = Path(__file__).parents[2] / "docs" / "sql.md"


def test_the_docs_say_what_the_files_say() -> None:
    assert cogapp.Cog().main(["cog", "--check", str(DOCS)]) == 0


def test_models_are_listed_with_what_they_answer(run: Run, nowhere: Path) -> None:
    out = run("sql").out
    assert "Which sources cost most?" in out
    listed = run("sql", "--json").json["models"]
    assert {model["model"] for model in listed} == {model.name for model in load_models()}
    assert listed[0]["layer"] == "marts"


def test_a_model_is_run_and_printed(run: Run, indexed: Path) -> None:
    out = run("sql", "chunks_by_source").out
    heading, *rows = out.splitlines()
    assert heading.split()[:3] == ["SOURCE", "SOURCE_TYPE", "CHUNKS"]
    assert {row.split()[0] for row in rows} == {"shop-code", "shop-docs", "shop-history"}
    assert not (indexed / ".knowledge" / "marts").exists()


def test_links_of_a_commit_are_files_of_the_other_sources(run: Run, indexed: Path) -> None:
    rows = run("sql", "document_links", "--json").json["rows"]
    changed = {(row["target"], row["target_source"]) for row in rows if row["kind"] == "changes"}
    assert {("src/sessions.py", "shop-code"), ("docs/guide.md", "shop-docs")} <= changed


def test_rows_are_json_and_csv_for_programs(run: Run, indexed: Path) -> None:
    answer = run("sql", "index_coverage", "--json", "--limit", "1").json
    assert (len(answer["rows"]), answer["total"]) == (1, 3)
    assert answer["rows"][0]["coverage"] == 1.0
    assert {"name": "source", "type": "string"} in answer["columns"]
    told = run("sql", "index_coverage", "--csv", "--limit", "0")
    rows = list(csv.DictReader(io.StringIO(told.out)))
    assert {row["source"] for row in rows} == {"shop-code", "shop-docs", "shop-history"}
    assert "The first 2 of 3 rows" in run("sql", "index_coverage", "--csv", "--limit", "2").err


def test_a_model_without_rows_says_so(run: Run, indexed: Path) -> None:
    told = run("sql", "unanswered_questions")
    assert (told.out, told.err) == ("", "No rows.\n")
    assert run("sql", "unanswered_questions", "--csv").out == "text,type,times,last_at\n"


def test_the_sql_of_a_model_is_shown(run: Run, nowhere: Path) -> None:
    shown = run("sql", "freshness", "--show").out
    assert shown == (FOLDER / "marts" / "freshness.sql").read_text()
    assert "age_hours" in run("sql", "freshness", "--show", "--json").json["columns"]


def test_tests_are_run_and_their_outcome_is_the_exit_code(run: Run, indexed: Path) -> None:
    tests = run("sql", "--test", "--json").json["tests"]
    assert len(tests) > 10 and {test["outcome"] for test in tests} == {"passed"}
    own = indexed / "own" / "tests"
    own.mkdir(parents=True)
    (own / "no_code.sql").write_text(
        "-- There is no code.\nselect uri from stg_documents where path like '%.py'\n"
    )
    (own / "no_docs.sql").write_text(
        "-- severity: warn\nselect uri from stg_documents where path like '%.md'\n"
    )
    config = indexed / "knowledge.yaml"
    config.write_text(f"{config.read_text()}\nsql_models: {{folders: [own]}}\n")
    ran = run("sql", "--test", code=1)
    outcomes = {line.split()[0]: line.split()[1:3] for line in ran.out.splitlines()}
    assert (outcomes["no_code"][0], outcomes["no_docs"][0]) == ("failed", "warned")
    assert "the test no_code found 1 row that should not exist" in ran.err
    assert "no_docs" not in ran.err
    assert "no_docs" in run("sql", "--test", "no_docs").out
    assert "freshness is no test" in run("sql", "--test", "freshness", code=2).err


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("select * from {{ ref('stg_documents') }}", "has a template, {{ ref('stg_documents') }}"),
        ("pivot stg_documents on source using count(*)", "is a statement: write select * from"),
    ],
)
def test_what_other_tools_read_is_refused_in_one_sentence(run: Run, indexed: Path, sql: str, sentence: str):
    own = indexed / "own" / "marts"
    own.mkdir(parents=True)
    (own / "mine.sql").write_text(sql)
    config = indexed / "knowledge.yaml"
    config.write_text(f"{config.read_text()}\nsql_models: {{folders: [own]}}\n")
    assert f"error: marts/mine.sql {sentence}" in run("sql", "mine", code=2).err


def test_a_query_is_answered(run: Run, indexed: Path) -> None:
    query = "select source, count(*) as n from raw_documents group by source order by source"
    rows = run("sql", "--query", query, "--json").json["rows"]
    assert rows[0] == {"source": "shop-code", "n": 1}
    assert run("sql", "--query", "select 'nan'::double as x", "--json").json["rows"] == [{"x": None}]


def test_a_query_that_reaches_for_more_is_refused_in_a_sentence(run: Run, indexed: Path) -> None:
    refused = run("sql", "--query", "select * from read_csv('/etc/passwd')", code=2)
    assert refused.out == ""
    assert refused.err.count("\n") == 1
    assert "root:" not in refused.err
    assert "may only read" in run("sql", "--query", "install httpfs", code=2).err


def test_what_makes_no_sense_is_told(run: Run, indexed: Path) -> None:
    assert "there is no SQL model 'cost'" in run("sql", "cost", code=3).err
    assert "not both" in run("sql", "freshness", "--query", "select 1", code=2).err
    assert "--show needs a MODEL" in run("sql", "--show", code=2).err
    assert "not both" in run("sql", "freshness", "--csv", "--json", code=2).error["error"]


@pytest.mark.slow
def test_it_works_where_dagster_is_not(run_program: Run, indexed: Path, tmp_path: Path) -> None:
    for name in ("dagster", "matplotlib"):
        (tmp_path / "without").mkdir(exist_ok=True)
        (tmp_path / "without" / f"{name}.py").write_text("raise ModuleNotFoundError('not here')")
    told = run_program("sql", "chunks_by_type", "--json", PYTHONPATH=str(tmp_path / "without"))
    assert told.json["total"] == 3
