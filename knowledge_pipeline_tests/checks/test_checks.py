"""Every check on a store that is really broken, and on one that is not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from knowledge_pipeline.checks.integrity import SAMPLE_ROWS, Check, CheckResult
from knowledge_pipeline.checks.registry import CHECKS, list_checks, run_blocking_checks
from knowledge_pipeline.config.operation import CheckSettings
from knowledge_pipeline.config.settings import CostSettings, Settings
from knowledge_pipeline.errors import Busy, ReleaseRefused
from knowledge_pipeline.sql_models import files, run
from knowledge_pipeline.stages import chunks, snapshot
from knowledge_pipeline.stages import pipeline as release
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.stages.run_log import log_refreshes
from knowledge_pipeline.store import fragments as held_columns
from knowledge_pipeline.store.filters import eq, one_of
from knowledge_pipeline.store.logs import append_rows, open_log
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.refreshed import refresh_source

NAMES = [check.name for check in CHECKS]
BLOCKING = [check.name for check in list_checks(blocking=True)]


@pytest.fixture(scope="module")
def released(template: Project) -> Project:
    """A source of three files, refreshed and released."""
    made = template.root / "repo"
    made.mkdir()
    for name in ("a", "b", "c"):
        (made / f"{name}.py").write_text(f"def {name}():\n    return {name!r}\n")
    template.declare("main", "code", made)
    template.refresh()
    return template


@pytest.fixture
def indexed(project: Project, released: Project) -> None:
    """A store that holds it."""
    project.copy_store(released)


@pytest.fixture
def folder(project: Project, released: Project) -> Path:
    """The same, and a copy of its folder to write in."""
    project.copy_all(released)
    return project.root / "repo"


def find(project: Project, name: str, **checks: Any) -> CheckResult:
    """What a check finds of the code; `checks` are settings."""
    (check,) = (check for check in CHECKS if check.name == name)
    settings = project.settings.model_copy(update={"checks": CheckSettings(**checks)})
    return check.run(project.lake, settings, "code")


def index_of(project: Project) -> Table:
    (named,) = project.lake.list_spaces().items()
    return project.lake.index(*named)


def rows_of(table: Table) -> list[dict[str, Any]]:
    rows = table.read_rows(table.schema.names).to_pylist()
    return sorted(rows, key=lambda row: row["uri"])


def write(table: Table, *rows: dict[str, Any]) -> None:
    """Append rows, whatever the table holds, as written just now."""
    now = {"updated_at": datetime.now(UTC)} if "updated_at" in table.schema.names else {}
    table.append([pa.RecordBatch.from_pylist([row | now for row in rows], schema=table.schema)])


def cut_only(project: Project) -> None:
    """A refresh that ends, or has come, before its index stage."""
    this = RefreshContext(project.lake, project.settings, project.settings.sources[0])
    snapshot.refresh(this)
    chunks.refresh(this)


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_store_passes(project: Project, indexed: None, name: str) -> None:
    found = find(project, name)
    assert found.passed, found.message
    assert found.message


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("fresh",)])
def test_an_empty_store_passes(project: Project, name: str) -> None:
    project.declare("main", "code", project.root)
    assert find(project, name).passed


def lose_a_row(table: Table) -> None:
    table.delete_where(one_of("id", [rows_of(table)[0]["id"]]))


def leave_a_row_over(table: Table) -> None:
    write(table, rows_of(table)[0] | {"id": "0" * 32, "uri": "gone.py"})


def swap_a_row(table: Table) -> None:
    lose_a_row(table)
    leave_a_row_over(table)


def double_a_row(table: Table) -> None:
    write(table, rows_of(table)[0])


def set_vector(table: Table, vector: np.ndarray) -> None:
    """By Lance itself, because LanceDB refuses to write NaN."""
    import lance

    row = rows_of(table)[0]
    table.delete_where(one_of("id", [row["id"]]))
    broken = row | {"vector": vector.astype("f4"), "updated_at": datetime.now(UTC)}
    lance.write_dataset(pa.Table.from_pylist([broken], schema=table.schema), str(table.path), mode="append")


def break_a_vector(table: Table) -> None:
    set_vector(table, np.full(table.schema.field("vector").type.list_size, np.nan))


def stretch_a_vector(table: Table) -> None:
    set_vector(table, np.ones(table.schema.field("vector").type.list_size))


def hide_a_row(table: Table) -> None:
    table.upsert([pa.RecordBatch.from_pylist([rewritten(table, visibility="hidden")], schema=table.schema)])


def rewritten(table: Table, **values: Any) -> dict[str, Any]:
    return rows_of(table)[0] | values | {"updated_at": datetime.now(UTC)}


DAMAGE = [
    (lose_a_row, "index_matches_chunks", "has 3 chunks but 2 rows in the index (1 missing, 0 left over)"),
    (leave_a_row_over, "index_matches_chunks", "3 chunks but 4 rows in the index (0 missing, 1 left over)"),
    (swap_a_row, "index_matches_chunks", "3 chunks but 3 rows in the index (1 missing, 1 left over)"),
    (double_a_row, "chunk_ids_are_unique", "1 chunk ids are in space"),
    (break_a_vector, "vectors_are_sound", "1 of 1 new vectors in space"),
    (stretch_a_vector, "vectors_are_sound", "not finite or not of length 1"),
    (hide_a_row, "sentences_are_found", "can be read by visibility 'hidden', which `access` of the source"),
]


@pytest.mark.parametrize(("damage", "name", "sentence"), DAMAGE)
def test_damage_is_found_where_it_is_and_keeps_the_release_back(
    project: Project, indexed: None, damage: Callable[[Table], None], name: str, sentence: str
) -> None:
    damage(index_of(project))
    found = find(project, name)
    assert not found.passed
    assert sentence in found.message
    assert all(row["chunk_id"] for row in found.sample_rows.to_pylist())
    assert {row["uri"] for row in found.sample_rows.to_pylist()} <= {"a.py", "gone.py"}
    assert found.sample_rows.num_rows >= 1
    before = find_live_release(project.lake)
    with pytest.raises(ReleaseRefused) as refused:
        release.release_newest(project.lake, project.settings)
    assert found.message in str(refused.value)
    assert find_live_release(project.lake) == before


def test_every_blocking_check_is_seen_to_fail_above() -> None:
    assert {name for _, name, _ in DAMAGE} == set(BLOCKING) - {"edges_end_at_symbols"}  # in `test_graph`


@pytest.mark.sampled
@pytest.mark.parametrize(("damage", "name", "_sentence"), DAMAGE)
def test_damage_is_found_before_the_first_release_too(
    project: Project, indexed: None, damage: Callable[[Table], None], name: str, _sentence: str
) -> None:
    project.lake.releases().delete_where(eq("release", 1))
    assert find_live_release(project.lake) is None
    assert find(project, name).passed
    damage(index_of(project))
    assert not find(project, name).passed


@pytest.mark.sampled
@pytest.mark.parametrize(("damage", "name", "_sentence"), DAMAGE)
def test_damage_older_than_a_rollback_is_found_after_it(
    project: Project, folder: Path, damage: Callable[[Table], None], name: str, _sentence: str
) -> None:
    (folder / "a.py").write_text("def changed():\n    return 1\n")
    project.refresh()
    damage(index_of(project))
    release.roll_back_release(project.lake, project.settings, 1)
    assert not find(project, name).passed


def test_rows_of_a_space_that_the_source_has_left_are_left_over(project: Project, indexed: None) -> None:
    row = rows_of(index_of(project))[0]
    other = project.lake.index("another-model", len(row["vector"]))
    write(other, row)
    found = find(project, "index_matches_chunks")
    assert "3 chunks but 4 rows in the index (0 missing, 1 left over)" in found.message
    assert found.sample_rows.to_pylist()[0]["space"] == "another-model"


def test_what_is_stored_of_a_source_no_longer_configured_keeps_nothing_back(
    project: Project, indexed: None, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "d.py").write_text("def d():\n    return 4\n")
    project.declare("other", "code", other)
    refresh_source(RefreshContext(project.lake, project.settings, project.settings.sources[1]))
    del project.sources["other"]
    assert find(project, "index_matches_chunks").passed
    assert release.release_newest(project.lake, project.settings).added == 1


def test_rows_of_a_source_of_which_nothing_is_stored_are_left_over(project: Project, indexed: None) -> None:
    write(index_of(project), rows_of(index_of(project))[0] | {"id": "0" * 32, "source": "nobody"})
    found = find(project, "index_matches_chunks")
    assert "source 'nobody' has 0 chunks but 1 rows in the index" in found.message


def test_a_refresh_before_its_index_stage_keeps_nothing_back(project: Project, folder: Path) -> None:
    (folder / "a.py").write_text("def changed():\n    return 1\n")
    cut_only(project)
    assert find(project, "index_matches_chunks").passed


def test_a_source_that_is_written_and_refreshed_again_is_waited_for_and_not_called_broken(
    project: Project, folder: Path
) -> None:
    (folder / "a.py").write_text("def changed():\n    return 1\n")
    refresh_source(RefreshContext(project.lake, project.settings, project.settings.sources[0]))
    (folder / "a.py").write_text("def changed():\n    return 2\n")
    cut_only(project)
    with project.lake.lock_source("main"):
        found = find(project, "index_matches_chunks")
        assert (found.passed, found.may_recover) == (False, True)
        with pytest.raises(Busy, match="a refresh of it is running"):
            release.release_newest(project.lake, project.settings)
    with pytest.raises(ReleaseRefused, match="has 3 chunks but 3 rows"):
        release.release_newest(project.lake, project.settings)
    assert project.refresh().failures == {}


def test_only_what_changed_since_the_live_release_is_looked_at(project: Project, folder: Path) -> None:
    (folder / "a.py").write_text("def changed():\n    return 1\n")
    refresh_source(RefreshContext(project.lake, project.settings, project.settings.sources[0]))
    assert find(project, "vectors_are_sound").figures["new_rows"] == 1
    assert find(project, "index_matches_chunks").figures["changed_sources"] == 1
    release.release_newest(project.lake, project.settings)
    assert find(project, "vectors_are_sound").figures["new_rows"] == 0
    assert find(project, "index_matches_chunks").figures["changed_sources"] == 0


def test_vectors_beside_new_ones_are_not_read(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_columns, "MAX_TABLE_ROWS", 0)  # as of a large table
    released = [*(index_of(project).path / "data").iterdir()]
    (folder / "d.py").write_text("def added():\n    return 1\n")
    refresh_source(RefreshContext(project.lake, project.settings, project.settings.sources[0]))
    for file in released:
        file.unlink()
    assert find(project, "vectors_are_sound").figures["new_rows"] == 1


def test_the_blocking_checks_are_run_in_their_order_under_the_lock_of_the_index(
    project: Project, indexed: None
) -> None:
    names = [check.name for check, _ in run_blocking_checks(project.lake, project.settings, "code")]
    assert names == BLOCKING


@pytest.mark.slow
def test_a_text_that_chunks_share_is_a_duplicate(project: Project, folder: Path) -> None:
    for number in range(30):
        (folder / f"copy{number}.py").write_text("shared = 1\n")
    (folder / "gone.py").write_text("shared = 1\n")
    project.refresh()
    (folder / "gone.py").unlink()
    project.refresh()
    found = find(project, "duplicate_share")
    assert not found.passed
    assert found.figures["share"] == round(30 / 33, 4)
    (row,) = found.sample_rows.to_pylist()
    assert (row["chunks"], row["sources"], row["text"]) == (30, 1, "shared = 1")
    assert find(project, "duplicate_share", duplicate_share=0.95).passed


def test_skipped_documents_are_counted_with_reasons_and_empty_ones_are_not(
    project: Project, folder: Path
) -> None:
    (folder / "empty.py").write_text("")
    (folder / "broken.py").write_bytes(b"\x00\x01\x02" * 50)
    project.refresh()
    found = find(project, "skipped_share")
    assert not found.passed
    assert found.figures == {"share": 0.2, "allowed": 0.1, "documents": 5, "empty": 1}
    (row,) = found.sample_rows.to_pylist()
    assert (row["source"], row["uri"], row["stage"]) == ("main", "broken.py", "snapshot")
    assert row["reason"]


def test_what_is_skipped_for_the_most_frequent_reason_is_shown_first(project: Project, folder: Path) -> None:
    (folder / "a_large.py").write_text("x = 1\n" * 20)
    for name in ("z.py", "y.py"):
        (folder / name).write_bytes(b"\x00\x01\x02" * 20)
    project.sources["main"]["max_bytes"] = 100
    project.refresh()
    rows = find(project, "skipped_share").sample_rows.to_pylist()
    assert [row["uri"] for row in rows] == ["y.py", "z.py", "a_large.py"]


def test_documents_that_the_sanitizer_drops_are_skipped_ones(project: Project, folder: Path) -> None:
    (folder / "a.py").write_text("mail = 'jane.doe@example.org'\n")
    project.sources["main"]["sanitize"] = {"personal_data": "drop"}
    project.refresh()
    (row,) = find(project, "skipped_share").sample_rows.to_pylist()
    assert (row["uri"], row["stage"]) == ("a.py", "chunks")
    assert "dropped by the sanitizer" in row["reason"]


def test_chunks_that_the_model_cuts_or_that_say_nothing_are_odd(project: Project, indexed: None) -> None:
    first, second, third = rows_of(index_of(project))
    table = index_of(project)
    table.upsert(
        [
            pa.RecordBatch.from_pylist(
                [
                    first | {"tokens": 10_000},
                    first | {"tokens": 11_000, "id": "2" * 32},
                    second | {"tokens": 3},  # the only one of its document
                    third | {"tokens": 3, "start_char": 0, "uri": "c.py"},
                    third | {"tokens": 3, "start_char": 90, "uri": "c.py", "id": "1" * 32},  # the last one
                ],
                schema=table.schema,
            )
        ]
    )
    found = find(project, "chunk_sizes")
    assert not found.passed
    assert (found.figures["large"], found.figures["small"], found.figures["chunks"]) == (2, 1, 5)
    assert [(row["uri"], row["tokens"]) for row in found.sample_rows.to_pylist()] == [
        ("a.py", 11_000),  # the largest first
        ("a.py", 10_000),
        ("c.py", 3),
    ]


def age(project: Project, hours: float) -> None:
    """Make the last refresh of the source so old."""
    log = open_log(project.lake, "refreshes")
    log.delete_where(eq("source", "main"))
    at = datetime.now(UTC) - timedelta(hours=hours)
    log_refreshes(project.lake, project.settings, [Stats("index", "main", at=at)])


@pytest.mark.parametrize(
    ("trigger", "in_time", "late"),
    [("on_commit", 25, 27), ("realtime", 25, 27), ("daily", 25, 27), ("hourly", 2, 3), ("weekly", 190, 193)],
)
def test_a_source_is_stale_when_its_trigger_would_have_refreshed_it(
    project: Project, indexed: None, trigger: str, in_time: float, late: float
) -> None:
    project.sources["main"]["refresh"] = {"trigger": trigger}
    age(project, in_time)
    assert find(project, "fresh").passed
    age(project, late)
    found = find(project, "fresh")
    assert not found.passed
    (row,) = found.sample_rows.to_pylist()
    assert (row["source"], row["trigger"], row["hours"]) == ("main", trigger, late)


def test_a_source_that_is_refreshed_by_hand_is_never_late(project: Project, indexed: None) -> None:
    project.sources["main"]["refresh"] = "manual"
    age(project, 9_000)
    assert find(project, "fresh").passed


def test_a_source_that_was_never_refreshed_is_stale_and_comes_first(project: Project, indexed: None) -> None:
    age(project, 30)
    project.declare("new", "code", project.root)
    found = find(project, "fresh")
    assert [(row["source"], row["refreshed"] == "never") for row in found.sample_rows.to_pylist()] == [
        ("new", True),
        ("main", False),
    ]
    assert (found.figures["stale"], found.figures["never_refreshed"]) == (2, 1)


def test_vectors_of_gone_texts_and_of_former_models_are_orphans(project: Project, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.py").write_text(f"def other_{name}():\n    return 2\n")
    project.refresh()
    found = find(project, "orphaned_vectors", orphaned_share=0.3)
    assert (found.figures["vectors"], found.figures["orphaned"], found.passed) == (5, 2, False)
    assert find(project, "orphaned_vectors").passed
    row = rows_of(index_of(project))[0]
    write(project.lake.index("another-model", len(row["vector"])), row)
    former = project.lake.embeddings("another-model", "main", len(row["vector"]))
    write(former, {"text_key": row["text_key"], "vector": row["vector"]})
    found = find(project, "orphaned_vectors", orphaned_share=0.3)
    assert {(row["space"], row["orphaned"]) for row in found.sample_rows.to_pylist()} >= {
        ("another-model", 1)
    }


def test_a_long_tail_beside_the_index_is_told_and_a_short_one_is_not(project: Project, indexed: None) -> None:
    row = rows_of(index_of(project))[0]
    write(index_of(project), *(row | {"id": f"{number:032}"} for number in range(100)))
    short = find(project, "unindexed_tail")
    assert (short.passed, short.figures["unindexed"]) == (True, 100)
    write(index_of(project), *(row | {"id": f"{number:032}"} for number in range(100, 2500)))
    long = find(project, "unindexed_tail")
    assert (long.passed, long.figures["unindexed"], long.sample_rows.num_rows) == (False, 2500, 1)


def spend(project: Project, cost: float, *, days: float = 0, source: str | None = "main") -> None:
    at = datetime.now(UTC) - timedelta(days=days)
    call = {"at": at, "kind": "embedding", "provider": "openai", "model": "large", "source": source}
    append_rows(project.lake, "llm_calls", [call | {"calls": 1, "tokens": 1, "cost": cost, "seconds": 1.0}])


def test_what_models_cost_in_thirty_days_is_held_against_the_budget(project: Project, indexed: None) -> None:
    spend(project, 3.0)
    spend(project, 1.5)
    spend(project, 1.0, source=None)
    spend(project, 50.0, days=31)
    assert find(project, "cost_within_budget").passed
    assert find(project, "cost_within_budget", monthly_budget=6).passed
    found = find(project, "cost_within_budget", monthly_budget=5)
    assert not found.passed
    assert found.message == "models cost 5.50 in the last 30 days (allowed: 5.00)"
    assert [(row["source"], row["cost"]) for row in found.sample_rows.to_pylist()] == [
        ("main", 4.5),
        (None, 1.0),
    ]


def test_a_budget_that_is_reached_fails_the_check_of_costs(project: Project, indexed: None) -> None:
    spend(project, 3.0)
    (check,) = (check for check in CHECKS if check.name == "cost_within_budget")
    for stop_at, passed in ((4.0, True), (3.0, False)):
        costs = CostSettings.model_validate({"budgets": [{"window": "day", "stop_at": stop_at}]})
        settings = project.settings.model_copy(update={"costs": costs})
        found = check.run(project.lake, settings, "code")
        assert (found.passed, "of 3 for the total" in found.message) == (passed, not passed)


def test_no_more_rows_are_shown_than_a_person_reads(project: Project, indexed: None) -> None:
    row = rows_of(index_of(project))[0]
    write(index_of(project), *(row | {"id": f"{number:032}"} for number in range(100)))
    found = find(project, "index_matches_chunks")
    assert (found.figures["left_over"], found.sample_rows.num_rows) == (100, SAMPLE_ROWS)


def test_thresholds_are_settings_that_exist() -> None:
    known = Settings().checks
    assert all(hasattr(known, check.threshold) for check in CHECKS if check.threshold)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "check", [check for check in CHECKS if check.inspect_query], ids=lambda check: check.name
)
def test_where_to_look_further_can_be_asked(project: Project, indexed: None, check: Check) -> None:
    query = check.inspect_query if " " in check.inspect_query else f"select * from {check.inspect_query}"
    assert run.run_query(project.lake, files.load_models(), query, limit=5).rows is not None


@pytest.mark.sampled
@pytest.mark.parametrize(("damage", "name", "_sentence"), DAMAGE)
def test_what_the_page_of_checks_advises_puts_it_right(
    project: Project, indexed: None, damage: Callable[[Table], None], name: str, _sentence: str
) -> None:
    damage(index_of(project))
    if name in ("vectors_are_sound", "sentences_are_found"):
        assert project.refresh().failures.keys() == {"release"}
        assert project.refresh(full=True).failures == {}
    else:
        assert project.refresh().failures == {}
    assert find(project, name).passed
    assert find_live_release(project.lake).release == 2  # type: ignore[union-attr]
    assert [row["uri"] for row in rows_of(index_of(project))] == ["a.py", "b.py", "c.py"]
