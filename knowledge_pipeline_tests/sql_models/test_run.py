"""The SQL models over real tables: what each of them tells."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from knowledge_pipeline.errors import ConfigError, InvalidQuery, NotFound
from knowledge_pipeline.sql_models import run
from knowledge_pipeline.sql_models.files import load_models
from knowledge_pipeline.sql_models.model import Model
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.duckdb_session import open_duckdb
from knowledge_pipeline.store.filters import eq, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import append_rows
from knowledge_pipeline_tests.conftest import Project

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def loaded() -> list[Model]:
    return load_models()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A store with nothing in it."""
    return Lake(tmp_path / "store")


@pytest.fixture
def told(loaded: list[Model], lake: Lake) -> Callable[[str], Rows]:
    """The rows of a model over the store that is otherwise empty."""
    return lambda name: run.query_model(lake, loaded, name, limit=None).rows.to_pylist()


def of(project: Project, loaded: list[Model], name: str) -> Rows:
    return run.query_model(project.lake, loaded, name, limit=None).rows.to_pylist()


def write(folder: Path, **files: str | bytes) -> Path:
    """Files of a source; `a__b.md` in the folder `a`."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_md", ".md").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


@pytest.fixture(scope="module")
def indexed_once(template: Project) -> Project:
    """Code and documents of one repository, a copy of a document elsewhere, a file that cannot be read."""
    shop = write(
        template.root / "shop",
        src__pay_py="from .cart import total\nimport src.cart\nimport os\n\n\ndef pay():\n    total()\n",
        src__cart_py="def total():\n    return 1\n",
        bad_py=b"\x00\x01" * 100,
        docs__guide_md="---\nsupersedes: [old.md]\nrelated: other.md\n---\n# Guide\n\nSee "
        "[other](other.md#part), [code](../src/pay.py), [gone](gone.md), "
        "[site](https://example.com/a), [top](#guide).\n",
        docs__other_md="# Other\n\nThe same words in two places.\n",
    )
    template.declare("code", "code", shop)
    template.declare("docs", "markdown", shop)
    template.declare(
        "copy",
        "markdown",
        write(template.root / "copy", other_md="# Other\n\nThe same words in two places.\n"),
    )
    template.refresh()
    return template


@pytest.fixture
def indexed(project: Project, indexed_once: Project) -> Project:
    """A copy of it."""
    project.copy_all(indexed_once)
    return project


def refreshed(
    source: str, at: datetime, *, stage: str = "index", rows: int = 0, **rest: Any
) -> dict[str, Any]:
    counts = dict.fromkeys(("seen", "added", "changed", "removed", "skipped", "tokens"), 0)
    return {
        "at": at,
        "source": source,
        "source_type": "code",
        "stage": stage,
        "rows": rows,
        "cost": 0.0,
        "seconds": 2.0,
        **counts,
        **rest,
    }


def called(at: datetime, cost: float, **rest: Any) -> dict[str, Any]:
    base = {"at": at, "kind": "completion", "provider": "openai", "model": "large", "cost": cost}
    return {**base, "calls": 1, "tokens": 100, "seconds": 4.0, **rest}


def asked(query_id: str, *, at: datetime = DAY, took_ms: float = 10.0, **rest: Any) -> dict[str, Any]:
    base = {
        "query_id": query_id,
        "at": at,
        "type": "code",
        "text": "how",
        "interface": "cli",
        "principals": [],
        "release": 1,
    }
    return {**base, "results": 5, "took_ms": took_ms, "cached": False, "degraded": [], **rest}


def judged(query_id: str, judgement: str, *, result_id: str = "chunk") -> dict[str, Any]:
    return {"at": DAY, "query_id": query_id, "result_id": result_id, "judgement": judgement}


def scored(
    metric: str, value: float, *, at: datetime = DAY, tables: str = '{"a": 3, "b": 1}'
) -> dict[str, Any]:
    return {"at": at, "tables": tables, "golden": "g", "type": "all", "metric": metric, "value": value}


def test_an_empty_store_gives_empty_marts_and_no_test_fails(lake: Lake, loaded: list[Model]) -> None:
    made = {one.model.name: one for one in run.refresh(lake, loaded)}
    assert set(made) == {model.name for model in loaded}
    assert {name for name, one in made.items() if one.rows} == set()
    marts = {model.name for model in loaded if model.layer == "marts"}
    assert {path.stem for path in (lake.root / "marts").iterdir()} == marts
    assert {one.path.name for one in made.values() if one.path} == {f"{name}.parquet" for name in marts}


def test_a_healthy_store_fails_no_test(indexed: Project, loaded: list[Model]) -> None:
    wrong = [one for one in run.refresh(indexed.lake, loaded) if one.model.layer == "tests" and one.rows]
    assert wrong == []


def test_marts_say_how_much_there_is(indexed: Project, loaded: list[Model]) -> None:
    held = {row["source"]: row for row in of(indexed, loaded, "chunks_by_source")}
    assert {source: row["documents"] for source, row in held.items()} == {"code": 2, "docs": 2, "copy": 1}
    assert all(row["tokens"] > 0 for row in held.values())
    assert not any(isinstance(value, Decimal) for row in held.values() for value in row.values())
    types = {row["source_type"]: row for row in of(indexed, loaded, "chunks_by_type")}
    assert (types["markdown"]["sources"], types["markdown"]["duplicate_chunks"]) == (2, 2)
    assert types["code"]["duplicate_share"] == 0
    sizes = of(indexed, loaded, "chunk_sizes")
    assert sum(row["chunks"] for row in sizes) == sum(row["chunks"] for row in held.values())
    assert {row["tokens_to"] - row["tokens_from"] for row in sizes} == {63}


def test_coverage_falls_when_rows_are_missing(indexed: Project, loaded: list[Model]) -> None:
    assert {row["coverage"] for row in of(indexed, loaded, "index_coverage")} == {1}
    for space, dimensions in indexed.lake.list_spaces().items():
        indexed.lake.index(space, dimensions).delete_where(eq("source", "docs"))
    assert of(indexed, loaded, "index_coverage")[0]["source"] == "docs"
    (missing,) = of(indexed, loaded, "index_covers_every_chunk")
    assert (missing["source"], missing["indexed_rows"]) == ("docs", 0)


def test_an_index_row_without_a_chunk_is_found(indexed: Project, loaded: list[Model]) -> None:
    chunks = indexed.lake.chunks("markdown", "copy")
    (id_,) = chunks.read_rows(["id"])["id"].to_pylist()
    chunks.delete_where(one_of("id", [id_]))
    assert [row["id"] for row in of(indexed, loaded, "index_rows_have_a_chunk")] == [id_]


def test_skipped_documents_have_a_reason(indexed: Project, loaded: list[Model]) -> None:
    (skipped,) = of(indexed, loaded, "skipped_documents")
    assert (skipped["source"], skipped["uri"], skipped["stage"]) == ("code", "bad.py", "snapshot")
    (reason,) = of(indexed, loaded, "skipped_by_reason")
    assert (reason["reason"], reason["documents"], reason["example"]) == (skipped["reason"], 1, "code/bad.py")


def test_a_text_in_two_sources_is_a_duplicate(indexed: Project, loaded: list[Model]) -> None:
    (twice,) = of(indexed, loaded, "duplicate_content")
    assert (twice["documents"], twice["sources"]) == (2, 2)
    assert (twice["first_place"], twice["last_place"]) == ("copy/other.md", "docs/docs/other.md")
    assert twice["repeated_tokens"] == twice["tokens"]


def test_links_lead_to_documents_of_the_source_or_of_its_repository(
    indexed: Project, loaded: list[Model]
) -> None:
    found = {
        (row["uri"], row["kind"], row["target"]): (row["leads_to"], row["target_source"], row["target_uri"])
        for row in of(indexed, loaded, "document_links")
    }
    assert found == {
        ("docs/guide.md", "links", "other.md#part"): ("document", "docs", "docs/other.md"),
        ("docs/guide.md", "links", "../src/pay.py"): ("document", "code", "src/pay.py"),
        ("docs/guide.md", "links", "gone.md"): ("unknown", None, None),
        ("docs/guide.md", "links", "https://example.com/a"): ("outside", None, None),
        ("docs/guide.md", "supersedes", "old.md"): ("unknown", None, None),
        ("docs/guide.md", "related", "other.md"): ("document", "docs", "docs/other.md"),
        ("src/pay.py", "imports", ".cart"): ("document", "code", "src/cart.py"),
        ("src/pay.py", "imports", "src.cart"): ("document", "code", "src/cart.py"),
        ("src/pay.py", "imports", "os"): ("outside", None, None),
    }
    assert {row["target"] for row in of(indexed, loaded, "broken_links")} == {"gone.md", "old.md"}
    central = {row["uri"]: row["documents"] for row in of(indexed, loaded, "most_linked_documents")}
    assert central == {"src/cart.py": 1, "docs/other.md": 1, "src/pay.py": 1}


@pytest.mark.parametrize(
    ("path", "kind", "target", "place"),
    [
        ("a/b/c.md", "links", "../d.md", "a/d.md"),
        ("a/b/c.md", "links", "./../../d.md?raw=1#x", "d.md"),
        ("a/b/c.md", "links", "../../../../d.md", "d.md"),
        ("a/b/c.md", "links", "/docs/d.md", "docs/d.md"),
        ("a/b/c.ts", "imports", "./d", "a/b/d"),
        ("a/b/c.py", "imports", "..d.e", "a/d/e"),
        ("a/b/c.py", "imports", ".", "a/b"),
        ("a/b/c.c", "imports", "d.h", "a/b/d.h"),
        ("a/b/c.rs", "imports", "crate::d", "a/b/crate/d"),
    ],
)
def test_a_link_is_read_from_where_it_stands(
    lake: Lake, told: Callable[[str], Rows], path: str, kind: str, target: str, place: str
) -> None:
    chunks = lake.chunks("code", "s")
    row = {field.name: _some(field.type) for field in chunks.schema if not field.nullable}
    row |= {
        "id": "1",
        "uri": path,
        "path": path,
        "metadata": f'{{"{kind}": ["{target}"]}}',
        "archived": False,
    }
    chunks.append([schemas_batch([row], chunks.schema)])
    lake.snapshot("code", "s").append([])
    assert place in [row["place"] for row in told("int_link_places")]


def test_metadata_of_an_unforeseen_shape_is_no_error(lake: Lake, told: Callable[[str], Rows]) -> None:
    chunks = lake.chunks("code", "s")
    told_ = [
        '{"links": "x"}',
        '{"links": [1, null]}',
        '{"front_matter": ["related"]}',
        "[]",
        "broken",
        "null",
    ]
    told_ += ['{"front_matter": {"related": {"a": 1}}}', '{"front_matter": {"related": [{"a": 1}, 2]}}']
    base = {field.name: _some(field.type) for field in chunks.schema if not field.nullable}
    rows = [{**base, "id": str(i), "uri": f"u{i}", "metadata": metadata} for i, metadata in enumerate(told_)]
    chunks.append([schemas_batch(rows, chunks.schema)])
    lake.snapshot("code", "s").append([])
    assert {(row["uri"], row["target"]) for row in told("document_links")} == {
        ("u1", "1"),
        ("u7", '{"a":1}'),
        ("u7", "2"),
    }


def _some(type_: Any) -> Any:
    return {"string": "", "large_string": "", "bool": False}.get(str(type_), 0)


def schemas_batch(rows: Rows, schema: Any) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(rows, schema=schema)


def test_freshness_is_the_age_of_the_last_refresh_to_the_end(lake: Lake, told: Callable[[str], Rows]) -> None:
    now = datetime.now(UTC)
    append_rows(
        lake,
        "refreshes",
        [
            refreshed("old", now - timedelta(hours=48)),
            refreshed("old", now, stage="chunks"),  # it did not get to the index
            refreshed("new", now - timedelta(hours=30)),
            refreshed("new", now - timedelta(hours=1)),
        ],
    )
    assert [(row["source"], row["age_hours"]) for row in told("freshness")] == [("old", 48.0), ("new", 1.0)]


def test_a_source_that_was_never_noted_is_the_stalest(indexed: Project, loaded: list[Model]) -> None:
    append_rows(indexed.lake, "refreshes", [refreshed("new", datetime.now(UTC))])
    rows = of(indexed, loaded, "freshness")
    assert {row["source"] for row in rows} == {"code", "docs", "copy", "new"}
    assert all(row["newest_document"] is None for row in rows if row["source"] == "new")


def test_costs_are_told_by_source_session_project_and_day(lake: Lake, told: Callable[[str], Rows]) -> None:
    embedding = {"kind": "embedding", "model": "small"}
    append_rows(
        lake,
        "llm_calls",
        [
            called(DAY, 0.5, source="docs", **embedding),
            called(DAY + timedelta(days=1), 0.25, source="docs", **embedding),
            called(DAY, 2.0, source="code", **embedding),
            called(DAY, 3.0, session="s1", project="p1"),
            called(DAY + timedelta(days=40), 4.0, session="s1", project="p1"),
        ],
    )
    by_source = told("cost_by_source")
    assert [(row["source"], row["cost"], row["calls"]) for row in by_source] == [
        ("code", 2.0, 1),
        ("docs", 0.75, 2),
    ]
    assert by_source[1]["tokens_per_second"] == 25.0
    (session,) = told("cost_by_session")
    assert (session["session"], session["cost"], session["models"]) == ("s1", 7.0, 1)
    projects = {(row["project"], row["month"], row["kind"]): row["cost"] for row in told("cost_by_project")}
    assert projects == {
        ("p1", date(2026, 3, 1), "completion"): 3.0,
        ("p1", date(2026, 4, 1), "completion"): 4.0,
        ("", date(2026, 3, 1), "embedding"): 2.75,
    }
    assert [(row["day"].day, row["cost"]) for row in told("cost_by_day")] == [
        (1, 3.0),
        (1, 2.5),
        (2, 0.25),
        (10, 4.0),
    ]
    append_rows(lake, "llm_calls", [called(DAY, -1.0)])
    assert [row["cost"] for row in told("costs_are_not_negative")] == [-1.0]


def test_the_query_log_tells_latency_and_what_became_of_results(
    lake: Lake, told: Callable[[str], Rows]
) -> None:
    asks = [asked(f"q{number}", took_ms=float(number)) for number in range(1, 101)]
    asks[0] |= {"cached": True}
    asks[1] |= {"results": 0, "text": "where is it", "degraded": ["rerank"]}
    asks.append(asked("night", at=DAY.replace(hour=23, minute=59), type="semantic"))
    append_rows(lake, "queries", asks)
    append_rows(lake, "feedback", [judged("q3", "clicked"), judged("q3", "clicked"), judged("q4", "useless")])
    code, semantic = told("queries_by_day")
    assert (semantic["type"], semantic["day"]) == ("semantic", date(2026, 3, 1))
    assert code["queries"] == 100
    assert [code[name] for name in ("p50_ms", "p95_ms", "p99_ms")] == pytest.approx([50.5, 95.05, 99.01])
    shares = ("cache_hit_rate", "zero_result_rate", "degraded_rate", "click_through_rate")
    assert [code[name] for name in shares] == [0.01] * 4
    assert (code["useful"], code["useless"]) == (0, 1)
    (question,) = told("unanswered_questions")
    assert (question["text"], question["times"]) == ("where is it", 1)


def test_the_query_log_tells_latency_and_the_cache_s_part_by_interface(
    lake: Lake, told: Callable[[str], Rows]
) -> None:
    cached = [asked(f"c{n}", took_ms=1.0, cached=True, interface="http", token="t1") for n in range(3)]
    slow = asked("slow", took_ms=40.0, interface="http", token="t2", degraded=["vector"])
    append_rows(lake, "queries", [*cached, slow, asked("agent", took_ms=7.0, interface="mcp", token="t1")])
    http, mcp = told("queries_by_interface")
    assert [(row["interface"], row["queries"], row["tokens"]) for row in (http, mcp)] == [
        ("http", 4, 2),
        ("mcp", 1, 1),
    ]
    assert [http[name] for name in ("p50_ms", "p95_ms", "p99_ms")] == pytest.approx([1.0, 34.15, 38.83])
    assert (http["p95_uncached_ms"], http["cache_hit_rate"], http["degraded_rate"]) == (40.0, 0.75, 0.25)
    assert (mcp["p95_uncached_ms"], mcp["cache_hit_rate"]) == (7.0, 0.0)


def test_what_people_judged_is_told_as_golden_questions_name_it(
    indexed: Project, loaded: list[Model]
) -> None:
    chunks = {row["uri"]: row["id"] for row in of(indexed, loaded, "stg_chunks") if row["source"] == "docs"}
    guide, other = chunks["docs/guide.md"], chunks["docs/other.md"]
    append_rows(indexed.lake, "queries", [asked("q1"), asked("q2"), asked("q3", text="where")])
    append_rows(
        indexed.lake,
        "feedback",
        [
            judged("q1", "useful", result_id=guide),
            judged("q2", "useful", result_id=guide),
            judged("q2", "useless", result_id=other),
            judged("q3", "clicked", result_id=guide),
            judged("q3", "useful", result_id="gone"),
        ],
    )
    found = of(indexed, loaded, "judged_questions")
    counts = ("useful", "clicked", "useless")
    assert [(row["text"], row["document"], *(row[name] for name in counts)) for row in found] == [
        ("how", "docs:docs/guide.md", 2, 0, 0),
        ("where", "docs:docs/guide.md", 0, 1, 0),
        ("how", "docs:docs/other.md", 0, 0, 1),
    ]


def test_relevance_is_told_by_release_of_searches_alone(lake: Lake, told: Callable[[str], Rows]) -> None:
    append_rows(
        lake,
        "queries",
        [
            asked("q1", release=1, scores=[0.5, 0.25]),
            asked("q2", release=1, scores=[]),
            asked("q3", release=2, scores=[0.75]),
            asked("q4", release=2, scores=None),  # looked up by its id
        ],
    )
    append_rows(lake, "feedback", [judged("q1", "clicked"), judged("q3", "useless"), judged("q4", "useful")])
    first, second = told("relevance_by_release")
    names = ("release", "questions", "judged", "relevant", "useless", "relevant_share", "mean_best_score")
    assert [first[name] for name in names] == [1, 2, 1, 1, 0, 0.5, 0.5]
    assert [second[name] for name in names] == [2, 1, 1, 0, 1, 0.0, 0.75]


def test_a_question_noted_twice_and_feedback_without_one_are_found(
    lake: Lake, told: Callable[[str], Rows]
) -> None:
    append_rows(lake, "queries", [asked("q1"), asked("q1")])
    append_rows(lake, "feedback", [judged("q1", "useful"), judged("q2", "useful")])
    assert [row["query_id"] for row in told("questions_are_unique")] == ["q1"]
    assert [row["query_id"] for row in told("feedback_is_of_a_question")] == ["q2"]


def test_quality_is_told_with_the_release_of_the_tables(lake: Lake, told: Callable[[str], Rows]) -> None:
    release = {"release": 7, "created_at": DAY, "tables": '{"b":1,"a":3}', "rows": 10, "restores": None}
    lake.releases().append([schemas_batch([release], schemas.RELEASES)])
    later = DAY + timedelta(days=1)
    append_rows(
        lake,
        "evaluations",
        [
            scored("nDCG@10", 0.5),
            scored("questions", 40.0),
            scored("nDCG@10", 1.5, at=later, tables='{"a": 4}'),
        ],
    )
    first, second = told("quality_over_time")
    assert (first["release"], first["ndcg_10"], first["questions"], first["mrr_10"]) == (7, 0.5, 40, None)
    assert (second["release"], second["ndcg_10"]) == (None, 1.5)
    assert [row["value"] for row in told("scores_are_shares")] == [1.5]


def test_rows_of_a_source_last_until_its_next_refresh(lake: Lake, told: Callable[[str], Rows]) -> None:
    append_rows(
        lake,
        "refreshes",
        [
            refreshed("a", DAY, rows=10),
            refreshed("a", DAY + timedelta(hours=1), rows=20),
            refreshed("b", DAY + timedelta(days=1), rows=5),
            refreshed("a", DAY + timedelta(days=2), rows=7),
        ],
    )
    assert [(row["day"].day, row["sources"], row["rows"]) for row in told("rows_over_time")] == [
        (1, 1, 20),
        (2, 2, 25),
        (3, 2, 12),
    ]


def test_throughput_counts_refreshes_that_made_something(lake: Lake, told: Callable[[str], Rows]) -> None:
    embedding = {"stage": "embeddings"}
    append_rows(
        lake,
        "refreshes",
        [refreshed("a", DAY, added=30, changed=10, **embedding), refreshed("b", DAY, **embedding)],
    )
    (day,) = told("throughput")
    assert (day["refreshes"], day["items"], day["seconds"], day["per_second"]) == (2, 40, 4.0, 20.0)
    slow = told("slow_sources")
    assert [(row["source"], row["max_seconds"]) for row in slow] == [("a", 2.0), ("b", 2.0)]


def test_one_model_runs_with_what_it_reads_and_alone_is_kept(indexed: Project, loaded: list[Model]) -> None:
    (made,) = run.refresh(indexed.lake, loaded, {"skipped_by_reason"})
    assert (made.model.name, made.rows) == ("skipped_by_reason", 1)
    assert [path.name for path in (indexed.lake.root / "marts").iterdir()] == ["skipped_by_reason.parquet"]
    assert made.path is not None
    assert pq.read_table(made.path).num_rows == 1


def test_texts_and_vectors_are_never_loaded(indexed: Project, loaded: list[Model]) -> None:
    for name in ("raw_documents", "raw_chunks", "raw_index"):
        answer = run.run_query(indexed.lake, loaded, f"select * from {name}", limit=1)
        assert not {"text", "header", "words", "vector"} & set(answer.rows.schema.names)
        assert answer.total > 1


def test_a_query_joins_models_and_raw_tables(indexed: Project, loaded: list[Model]) -> None:
    query = """
    with big as (select source from chunks_by_source where documents > 1)
    select raw_chunks.source, count(*) as n from raw_chunks join big using (source) group by 1 order by 1;
    """
    answer = run.run_query(indexed.lake, loaded, query, limit=1)
    assert (answer.rows.to_pylist()[0]["source"], answer.total) == ("code", 2)
    assert not (indexed.lake.root / "marts").exists()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from read_csv('/etc/passwd')", "disabled by configuration"),
        ("select * from read_text('{file}')", "disabled by configuration"),
        ("select * from read_blob('{file}')", "disabled by configuration"),
        ("select * from read_parquet('https://example.com/a.parquet')", "cannot be run"),
        ("select * from glob('/*')", "disabled by configuration"),
        ("select (select content from read_text('{file}')) from raw_chunks", "disabled by configuration"),
        ("select * from '/etc/passwd'", "does not exist"),
        ("select * from query('copy (select 1) to ''{file}''')", "cannot be run"),
        ("copy (select 1) to '{file}'", "may only read"),
        ("attach '{file}' as other", "may only read"),
        ("install httpfs", "may only read"),
        ("load httpfs", "may only read"),
        ("set enable_external_access = true", "may only read"),
        ("select 1; select 2", "may only read"),
        ("create table t as select 1", "may only read"),
        ("insert into raw_chunks select * from raw_chunks", "may only read"),
        ("drop table raw_chunks", "may only read"),
        ("selct", "is not one select"),
        ("", "is not one select"),
        ("select * from nowhere", "'nowhere', which does not exist; there are: raw_documents"),
        ("select nothing from raw_chunks", "cannot be run: Binder Error"),
    ],
)
def test_a_query_reaches_nothing_but_the_tables(
    lake: Lake, loaded: list[Model], tmp_path: Path, query: str, message: str
) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("secret")
    with pytest.raises(InvalidQuery, match=message) as refused:
        run.run_query(lake, loaded, query.format(file=file), limit=1)
    assert "\n" not in str(refused.value)
    assert file.read_text() == "secret"


def test_local_variables_of_the_program_are_no_tables(lake: Lake, loaded: list[Model]) -> None:
    secret = schemas_batch([], schemas.RELEASES)
    assert secret.num_rows == 0
    with open_duckdb(lake) as duck, pytest.raises(ConfigError, match="secret does not exist"):
        duck.create_view("v", "select * from secret")


def test_a_model_that_is_not_there_is_named(lake: Lake, loaded: list[Model]) -> None:
    with pytest.raises(NotFound, match="no SQL model 'chunk'"):
        run.query_model(lake, loaded, "chunk", limit=None)


@pytest.mark.slow
def test_a_table_larger_than_the_memory_is_sorted_all_the_same(tmp_path: Path) -> None:
    with open_duckdb(Lake(tmp_path), memory_limit="60MB") as duck:
        duck.create_table("large", "select i, md5(i::varchar) as text from range(3_000_000) numbers(i)")
        assert duck.fetch_rows("select * from large order by text", limit=1).num_rows == 1
