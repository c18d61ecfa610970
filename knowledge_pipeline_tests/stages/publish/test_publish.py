"""Releases in a real PostgreSQL with pgvector: what changed and no more, one switch, the same answers."""

from __future__ import annotations

import logging
import multiprocessing
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_pipeline.errors import ConfigError, KnowledgeError, StoreError, StoreUnavailable
from knowledge_pipeline.extensions import publish
from knowledge_pipeline.extensions import publish as postgres
from knowledge_pipeline.extensions.publish import (
    DSN_VARIABLE,
    PostgresPublication,
    TextStream,
    format_array,
    open_target,
)
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.access import write_audiences
from knowledge_pipeline.store.filters import MATCH_ALL
from knowledge_pipeline.store.lance_storage import open_dataset
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline.store.vectors import ExactVectors
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.stages.publish.conftest import Query

DOCS = Path(__file__).parents[3] / "docs" / "publish.md"
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(scope="module")
def released_once(template: Project) -> Project:
    """Two released sources: code for everybody, documents for a group of one tenant."""
    folder = template.root / "repo"
    (folder / "docs").mkdir(parents=True)
    (folder / "sessions.py").write_text('def sign_session(key):\n    """Sign sessions."""\n    return key\n')
    (folder / "retry.py").write_text("def retry(send):\n    return send() or send()\n")
    (folder / "docs" / "keys.md").write_text("# Keys\n\nThe signing key is rotated weekly.\n")
    template.declare("main", "code", folder)
    access = {"visibility": "private", "tenant": "acme", "principals": ["operators"]}
    template.declare("docs", "markdown", folder / "docs", access=access, metadata={"tags": ["handbook"]})
    template.refresh()
    return template


@pytest.fixture
def released(project: Project, released_once: Project) -> Project:
    """A copy of it."""
    project.copy_all(released_once)
    return project


def publish_now(project: Project) -> publish.PublishResult:
    return publish.refresh(project.lake, project.settings, open_target())


def read_index(project: Project) -> dict[str, dict[str, Any]]:
    """The rows of the live release, by id."""
    live = find_live_release(project.lake)
    assert live is not None
    rows: list[dict[str, Any]] = []
    for space, version in live.tables.items():
        table = project.lake.index(space, project.lake.list_spaces()[space])
        rows += table.read_rows(table.schema.names, version=version).to_pylist()
    return {row["id"]: row for row in rows}


def read_stamps(query: Query) -> dict[str, str]:
    """The transaction that wrote each published row, by id."""
    tables = query(
        "select tablename from pg_tables where schemaname = 'knowledge' and tablename like 'chunks%'"
    )
    return dict(row for (table,) in tables for row in query(f"select id, xmin::text from knowledge.{table}"))


PLAIN = ("id", "source", "visibility", "tenant", "principals", "tags", "uri", "title", "text", "archived")


def assert_published(project: Project, query: Query) -> None:
    """The view holds exactly the rows of the live release, vectors too."""
    found = query(f"select {', '.join(PLAIN)}, vector::text from knowledge.chunks")
    wanted = read_index(project)
    assert len(found) == len(wanted)
    for *values, vector in found:
        row = wanted[values[0]]
        assert values == [row[name] for name in PLAIN]
        assert np.array_equal(np.fromstring(vector[1:-1], np.float32, sep=","), np.float32(row["vector"]))


def test_a_first_publication_holds_the_release_and_a_second_one_writes_nothing(
    released: Project, query: Query
) -> None:
    first = publish_now(released)
    assert (first.added, first.changed, first.removed) == (len(read_index(released)), 0, 0)
    assert_published(released, query)
    before = read_stamps(query)
    again = publish_now(released)
    assert not again.has_changes
    assert read_stamps(query) == before
    (index,) = query(
        "select indexdef from pg_indexes where schemaname = 'knowledge' and indexdef like '%hnsw%'"
    )
    assert "vector_cosine_ops" in index[0]


def test_a_store_that_is_made_anew_with_the_same_versions_is_published(
    released: Project, query: Query, tmp_path: Path
) -> None:
    def make_anew() -> tuple[int, dict[str, int]]:
        shutil.rmtree(released.lake.root)
        released.refresh()
        live = find_live_release(released.lake)
        assert live
        return live.release, dict(live.tables)

    versions = make_anew()
    publish_now(released)
    (tmp_path / "repo" / "retry.py").write_text("def retry(send):\n    return send() or wait(send)\n")
    released.sources["docs"]["access"] = {"visibility": "private", "tenant": "acme", "principals": ["board"]}
    assert make_anew() == versions  # else this tests nothing
    assert publish_now(released).changed
    assert_published(released, query)
    assert query("select distinct principals from knowledge.chunks where visibility = 'private'") == [
        (["board"],)
    ]


def test_an_increment_writes_what_changed_and_no_more_and_a_rollback_takes_it_back(
    released: Project, query: Query, tmp_path: Path
) -> None:
    publish_now(released)
    before = read_stamps(query)
    (tmp_path / "repo" / "retry.py").write_text(
        "def retry(send):\n    return any(send() for _ in range(9))\n"
    )
    (tmp_path / "repo" / "added.py").write_text("def added():\n    return 1\n")
    released.refresh()
    result = publish_now(released)
    assert result.added and result.added + result.changed < result.rows
    assert_published(released, query)
    after = read_stamps(query)
    rewritten = [each for each in after if after[each] != before.get(each)]
    assert len(rewritten) == result.added + result.changed
    roll_back_release(released.lake, released.settings, 1)
    back = publish_now(released)
    assert (back.added, back.removed) == (result.removed, result.added)
    assert_published(released, query)
    assert query("select release from knowledge.publication") == [(back.release,)]


def test_a_reader_sees_the_old_release_until_the_new_one_is_complete(
    released: Project, query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_now(released)
    before = sorted(query("select id, text from knowledge.chunks"))
    (tmp_path / "repo" / "sessions.py").write_text("def verify_session(key):\n    return key\n")
    released.refresh()
    seen: list[Any] = []
    finish = PostgresPublication.finish

    def look_then_finish(self: PostgresPublication, *arguments: Any) -> None:
        seen.append(sorted(query("select id, text from knowledge.chunks")))
        finish(self, *arguments)
        seen.append(sorted(query("select id, text from knowledge.chunks")))

    monkeypatch.setattr(PostgresPublication, "finish", look_then_finish)
    publish_now(released)
    assert seen == [before, before]
    assert_published(released, query)


def publish_and_die(project: Project) -> None:
    """Publish in a process of its own, which is killed before it commits."""

    def die(self: PostgresPublication, *arguments: Any) -> None:
        signal.raise_signal(signal.SIGKILL)

    PostgresPublication.finish = die  # type: ignore[method-assign]
    publish_now(project)


def test_a_publication_that_is_killed_changes_nothing_and_the_next_one_completes(
    released: Project, query: Query, tmp_path: Path
) -> None:
    publish_now(released)
    before = read_stamps(query)
    (tmp_path / "repo" / "added.py").write_text("def added():\n    return 1\n")
    released.refresh()
    victim = SPAWN.Process(target=publish_and_die, args=(released,))
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    assert read_stamps(query) == before
    publish_now(released)
    assert_published(released, query)


def test_another_model_is_another_table_and_the_view_moves_with_it(released: Project, query: Query) -> None:
    publish_now(released)
    (old,) = query(
        "select tablename from pg_tables where schemaname = 'knowledge' and tablename like 'chunks%'"
    )
    released.embedding = released.embedding.model_copy(update={"model": "other-words"})
    assert released.refresh().failures == {}
    publish_now(released)
    (new,) = query(
        "select tablename from pg_tables where schemaname = 'knowledge' and tablename like 'chunks%'"
    )
    assert new != old
    assert_published(released, query)


def test_vectors_that_come_later_are_published_then(
    released: Project, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = find_live_release(released.lake)
    assert live is not None
    ((space, _),) = live.tables.items()
    table = released.lake.index(space, released.lake.list_spaces()[space])
    fields = [table.schema.field(name) for name in ("id", "vector", "unembedded")]
    (row, *_) = table.read_rows(["id"]).to_pylist()
    vector = table.read_rows(["id", "vector"]).to_pylist()[0]["vector"]

    def set_vector(value: Any) -> None:
        columns = {"id": [row["id"]], "vector": [value], "unembedded": [value is None or None]}
        table.update_columns(pa.Table.from_pydict(columns, schema=pa.schema(fields)))
        from knowledge_pipeline.store.release import publish_release

        publish_release(released.lake, keep=10)

    set_vector(None)
    assert publish_now(released).rows == query("select count(*) from knowledge.chunks")[0][0]
    assert query("select count(*) from knowledge.chunks where vector is null") == [(1,)]
    set_vector(vector)
    assert publish_now(released).changed == 1
    assert_published(released, query)


def example_query() -> str:
    """The query with filters of docs/publish.md."""
    (found,) = re.findall(r"```sql\n(-- nearest.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    return found


@pytest.mark.parametrize(
    ("tenant", "principals", "sees"),
    [
        (None, [], {"main"}),
        ("acme", [], {"main"}),
        ("acme", ["operators"], {"main", "docs"}),
        ("other", ["operators"], {"main"}),
        ("acme", ["Ann@Example.com"], {"main", "wiki"}),
        ("acme", ["ann@example.com", "operators"], {"main", "docs", "wiki"}),
        ("acme", ["bob@example.com"], {"main"}),
    ],
)
def test_the_query_in_the_docs_shows_each_reader_what_the_store_shows(
    released: Project, query: Query, tenant: str | None, principals: list[str], sees: set[str]
) -> None:
    live = find_live_release(released.lake)
    assert live is not None
    ((space, _),) = live.tables.items()
    table = released.lake.index(space, released.lake.list_spaces()[space])
    row = table.read_rows(table.schema.names).to_pylist()[0]
    wiki = {"id": "w", "source": "wiki", "visibility": "private", "tenant": "acme", "fingerprint": "w"}
    guarded = row | wiki | {"principals": ["audience:confluence/wiki/a1"]}
    table.upsert(pa.Table.from_pylist([guarded], schema=table.schema).to_batches())
    audience = [frozenset({"ann@example.com", "carl@example.com"}), frozenset({"*"})]
    write_audiences(released.lake.audiences("confluence", "wiki"), {"a1": audience})
    from knowledge_pipeline.store.release import publish_release

    publish_release(released.lake, keep=10)
    assert publish_now(released).audiences == 1
    values = {"question": "[" + ",".join(["1"] * 32) + "]", "tenant": tenant, "principals": principals}
    found = query(example_query(), values=values | {"source_types": None, "tags": None})
    assert {path_source for path_source, *_ in found} == sees
    write_audiences(released.lake.audiences("confluence", "wiki"), {})
    assert publish_now(released).audiences == 1
    assert query("select count(*) from knowledge.audiences") == [(0,)]


def test_filters_of_the_query_narrow(released: Project, query: Query) -> None:
    publish_now(released)
    values: dict[str, Any] = {"question": "[" + ",".join(["1"] * 32) + "]", "tenant": "acme"}
    values |= {"principals": ["operators"], "source_types": ["markdown"], "tags": ["handbook"]}
    assert {source for source, *_ in query(example_query(), values=values)} == {"docs"}
    assert query(example_query(), values=values | {"tags": ["none"]}) == []


def test_a_source_with_permissions_of_its_own_is_read_by_its_audiences_alone() -> None:
    select = publish.select_principals
    assert select(["operators", "audience:jira/t/1"], guarded=True) == ["audience:jira/t/1"]
    assert select(["operators"], guarded=True) == []
    assert select(["operators"], guarded=False) == ["operators"]


NASTY = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["\\N", "\\.", "{}", '"', "NULL", "\x00"]
)


@given(texts=st.lists(NASTY, max_size=4), text=NASTY)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_texts_and_arrays_arrive_as_they_are(query: Query, dsn: str, texts: list[str], text: str) -> None:
    import psycopg2

    from knowledge_pipeline.extensions.publish import format_rows

    rows = pa.RecordBatch.from_pydict({"a": [texts], "b": pa.array([text], pa.string())})
    rows = rows.cast(pa.schema([("a", pa.list_(pa.string())), ("b", pa.string())]))
    connection = psycopg2.connect(dsn)
    with connection.cursor() as cursor:
        cursor.execute("create temp table t (a text[], b text)")
        cursor.copy_expert("copy t from stdin", TextStream(format_rows([rows])))
        cursor.execute("select a, b from t")
        assert cursor.fetchall() == [
            ([each.replace("\x00", "\ufffd") for each in texts], text.replace("\x00", "\ufffd"))
        ]
    connection.close()


def test_an_empty_array_and_nested_metadata_are_written_so_that_they_are_read() -> None:
    assert format_array([]) == "{}"
    assert publish._clean_json('{"a\\u0000": ["\\ud800", 1, null]}') == '{"a\ufffd": ["?", 1, null]}'
    assert publish._clean_json('{"a": "\\\\u0000"}') == '{"a": "\\\\u0000"}'


WRONG = {
    "wrong password": "postgresql://dagster:{secret}@127.0.0.1:{port}/postgres",
    "nobody listens": "postgresql://dagster:{secret}@127.0.0.1:1/postgres",
    "no address": "{secret}",
    "wrong option": "postgresql://dagster:{secret}@127.0.0.1:{port}/postgres?password2={secret}",
}


@pytest.mark.parametrize("what", WRONG)
def test_an_address_that_is_wrong_is_one_sentence_without_the_secret(
    released: Project,
    pgvector_server: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    what: str,
) -> None:
    secret = "s3cr3t-p4ss"
    monkeypatch.setenv(DSN_VARIABLE, WRONG[what].format(secret=secret, port=pgvector_server.port))
    with caplog.at_level(logging.DEBUG), pytest.raises(KnowledgeError) as raised:
        publish_now(released)
    error: BaseException | None = raised.value
    assert DSN_VARIABLE in str(error)
    assert isinstance(error, StoreError | StoreUnavailable | ConfigError)
    assert error.__cause__ is None and error.__suppress_context__
    assert secret not in str(error) + caplog.text + repr(open_target()) + open_target().description


@pytest.mark.parametrize("schema", ["Drop", "a b", 'x"; drop schema public; --', "pg_catalog", "", "a" * 41])
def test_a_schema_that_is_no_plain_name_is_refused(dsn: str, schema: str) -> None:
    if schema:
        with pytest.raises(ConfigError, match="found the schema"):
            open_target(schema)
    assert open_target("other_1").description == "schema other_1 of PostgreSQL"


def test_no_two_spaces_share_a_table_whatever_their_names() -> None:
    names = ["a-b", "a_b", "A_B", "x" * 90, "x" * 91, 'q"; drop table t', "ä"]
    tables = {postgres.table_name(each) for each in names}
    assert len(tables) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]{1,50}", each) for each in tables)


def test_a_database_without_pgvector_is_told_what_to_install(
    released: Project, pgvector_server: Any, monkeypatch: pytest.MonkeyPatch, dsn: str, query: Query
) -> None:
    query("create role plain login password 'plain'")
    address = dsn.partition("@")[2]
    monkeypatch.setenv(DSN_VARIABLE, f"postgresql://plain:plain@{address}")
    with pytest.raises(StoreError, match=r"permission denied|create extension vector"):
        publish_now(released)
    query("drop role plain")


def test_nothing_released_is_said(project: Project, dsn: str) -> None:
    with pytest.raises(KnowledgeError, match="nothing is released yet"):
        publish_now(project)


def load_questions(vectors: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Vectors near stored ones, but not equal to them."""
    random = np.random.default_rng(7)
    for at in random.integers(0, len(vectors), count):
        yield np.float32(vectors[at] + random.normal(0, 0.3, vectors.shape[1]) * np.abs(vectors[at]).mean())


def test_exact_answers_of_the_database_are_those_of_the_store(released: Project, query: Query) -> None:
    publish_now(released)
    live = find_live_release(released.lake)
    assert live is not None
    ((space, version),) = live.tables.items()
    table = released.lake.index(space, released.lake.list_spaces()[space])
    dataset = open_dataset(table.path, version)
    exact = ExactVectors.load(dataset)
    ids = dict(zip(*dataset.to_table(columns=["id"], with_row_id=True).to_pydict().values(), strict=True))
    by_row = {row: id_ for id_, row in ids.items()}
    for question in load_questions(exact.vectors, 24):
        rows, scores = exact.search(question, MATCH_ALL, limit=3)
        text = "[" + ",".join(map(str, question.tolist())) + "]"
        found = query(
            "set local enable_indexscan = off",
            "select id, 1 - (vector <=> %s::vector) as score from knowledge.chunks "
            "order by score desc limit 3",
            values=[text],
        )
        assert [score for _, score in found] == pytest.approx(scores.tolist(), abs=1e-5)
        assert {id_ for id_, _ in found} == {by_row[row] for row in rows.tolist()}


def test_a_source_that_is_not_declared_any_more_is_withheld(released: Project, query: Query) -> None:
    publish_now(released)
    assert query("select distinct source from knowledge.chunks order by source") == [("docs",), ("main",)]
    entry = released.sources.pop("docs")
    result = publish_now(released)
    assert result.removed and query("select distinct source from knowledge.chunks") == [("main",)]
    assert not publish_now(released).removed
    released.sources["docs"] = entry
    assert publish_now(released).added == result.removed
