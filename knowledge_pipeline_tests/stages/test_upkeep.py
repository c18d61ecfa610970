"""A running process compacts tables when nothing changes, and what is released stays the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline.stages import pipeline, upkeep
from knowledge_pipeline.stages.upkeep import PostponedUpkeep
from knowledge_pipeline.store import held_terms as change_tracker
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.lance_internals import RememberedVersion
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.refreshed import refresh_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    return folder


@pytest.fixture
def docs(project: Project, folder: Path) -> Project:
    (folder / "a.md").write_text("# First\n\nSome words.\n")
    project.declare("docs", "markdown", folder)
    return project


def refresh(project: Project, postponed: PostponedUpkeep) -> pipeline.RefreshOutcome:
    outcome = pipeline.refresh(project.lake, project.settings, project.settings.sources, upkeep=postponed)
    assert not outcome.failures
    return outcome


def tables(project: Project) -> dict[str, Table]:
    lake = project.lake
    found = {"snapshot": lake.snapshot("markdown", "docs"), "chunks": lake.chunks("markdown", "docs")}
    return found | {"index": lake.index(*next(iter(lake.list_spaces().items())))}


def test_a_postponed_upkeep_compacts_later_and_releases_the_same_rows(docs: Project, folder: Path) -> None:
    postponed = PostponedUpkeep()
    for edit in range(16):
        (folder / f"{edit % 3}.md").write_text(f"# First\n\nSome words, edit {edit}.\n")
        refresh(docs, postponed)
    before = {name: len(table.open_newest().versions()) for name, table in tables(docs).items()}
    rows = sorted(map(str, tables(docs)["index"].read_rows(["id", "fingerprint"]).to_pylist()))
    assert min(before.values()) >= 16 and postponed.is_due
    live = find_live_release(docs.lake)
    postponed.run(docs.lake, keep_releases=docs.settings.releases.keep)
    after = {name: len(table.open_newest().get_fragments()) for name, table in tables(docs).items()}
    assert max(after.values()) <= 2 and not postponed.is_due  # one that the index holds, and a tail
    assert sorted(map(str, tables(docs)["index"].read_rows(["id", "fingerprint"]).to_pylist())) == rows
    now = find_live_release(docs.lake)
    assert live and now and now.release == live.release + 1
    assert now.tables == {tables(docs)["index"].name: tables(docs)["index"].version}
    outcome = refresh(docs, postponed)
    assert outcome.release is not None and not outcome.release.has_changes


def test_after_an_upkeep_no_row_is_compared_again_and_an_edit_leaves_what_a_full_index_would(
    docs: Project, folder: Path
) -> None:
    postponed = PostponedUpkeep()

    def content() -> dict[str, list[str]]:
        chosen = {name: table for name, table in tables(docs).items() if name != "snapshot"}
        return {
            name: sorted(map(str, table.read_rows(["id", "fingerprint"]).to_pylist()))
            for name, table in chosen.items()
        }

    for edit in range(16):
        (folder / f"{edit % 3}.md").write_text(f"# First\n\nSome words, edit {edit}.\n")
        refresh(docs, postponed)
    space, dimensions = next(iter(docs.lake.list_spaces().items()))
    compared = [*tables(docs).values(), docs.lake.embeddings(space, "docs", dimensions)]
    before = [table.version for table in compared]
    postponed.run(docs.lake, keep_releases=docs.settings.releases.keep)
    assert all(table.version > version for table, version in zip(compared, before, strict=True))
    newest = {RememberedVersion.of(table.open_version()) for table in compared}
    complete = docs.lake.files.items(change_tracker._COMPLETE)  # pyright: ignore[reportPrivateUsage]
    known = [remembered.versions for _, _, remembered in complete]
    assert known and {version for versions in known for version in versions} <= newest
    (folder / "0.md").write_text("# First\n\nOther words.\n")
    (folder / "1.md").unlink()
    refresh(docs, postponed)
    left = content()
    docs.refresh(full=True)
    assert content() == left


def test_an_upkeep_leaves_a_source_that_another_process_refreshes(docs: Project) -> None:
    postponed = PostponedUpkeep()
    refresh(docs, postponed)
    with docs.lake.lock_source("docs"), docs.lake.lock_index():
        postponed.run(docs.lake, keep_releases=3)
        assert postponed.is_due
    postponed.run(docs.lake, keep_releases=3)
    assert not postponed.is_due


def test_an_upkeep_publishes_nothing_that_no_release_has(docs: Project, folder: Path) -> None:
    postponed = PostponedUpkeep()
    refresh(docs, postponed)
    live = find_live_release(docs.lake)
    (folder / "a.md").write_text("# Second\n\nOther words.\n")
    ctx = pipeline.RefreshContext(docs.lake, docs.settings, docs.settings.sources[0], upkeep=postponed)
    refresh_source(ctx)
    postponed.run(docs.lake, keep_releases=3)
    assert find_live_release(docs.lake) == live


def test_a_long_tail_is_indexed_at_once_all_the_same(
    docs: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAX_UNINDEXED_ROWS", "GRAPH_MAX_UNINDEXED_ROWS"):
        monkeypatch.setattr(indexes, name, 0)
    monkeypatch.setattr(upkeep, "MAX_POSTPONED_ROWS", 4)
    postponed, unindexed = PostponedUpkeep(), list[int]()
    for edit in range(6):
        (folder / f"b{edit}.md").write_text(f"# Number {edit}\n\nText.\n")
        refresh(docs, postponed)
        unindexed.append(indexes.count_unindexed_rows(tables(docs)["index"]))
    assert unindexed == [0, 1, 2, 3, 4, 0]


@pytest.mark.parametrize("max_postponed_rows", [1_000, 0])
def test_indexes_of_a_small_code_graph_are_built_when_nothing_changes(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch, max_postponed_rows: int
) -> None:
    monkeypatch.setattr(indexes, "GRAPH_INDEX_MIN_ROWS", 1)
    monkeypatch.setattr(upkeep, "MAX_POSTPONED_GRAPH_ROWS", max_postponed_rows)
    (folder / "a.py").write_text("def first():\n    return second()\n\n\ndef second():\n    return 1\n")
    project.declare("main", "code", folder)
    postponed = PostponedUpkeep()
    refresh(project, postponed)
    graph = project.lake.graph_tables()
    assert [not table.indexes for table in graph.values()] == [max_postponed_rows > 0] * 2
    postponed.run(project.lake, keep_releases=3)
    assert all(table.indexes for table in graph.values())
    live = find_live_release(project.lake)
    assert live and live.graph == {name: table.version for name, table in graph.items()}
