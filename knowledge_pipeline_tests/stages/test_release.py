"""Releases, rollbacks and purges, seen through what a reader of the live release finds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from knowledge_pipeline import maintenance as purge
from knowledge_pipeline.errors import NotFound, ReleaseRefused
from knowledge_pipeline.stages import pipeline as release
from knowledge_pipeline.store.filters import Filter, eq, one_of
from knowledge_pipeline.store.release import find_live_release, list_releases, publish_if_same_rows
from knowledge_pipeline.store.search import open_index
from knowledge_pipeline_tests.conftest import Project

EVERYTHING = Filter("true")


def found(project: Project, where: Filter = EVERYTHING) -> list[str]:
    """Texts that the live release holds."""

    async def read() -> list[str]:
        now = find_live_release(project.lake)
        texts: list[str] = []
        for space, version in now.tables.items() if now else ():
            reader = await open_index(project.lake.root, space, version)
            texts += [row["text"] for row in await reader.find_rows(where, limit=10_000, columns=["text"])]
        return sorted(texts)

    return asyncio.run(read())


@pytest.fixture(scope="module")
def released(template: Project) -> Project:
    """A source of one file, refreshed and released."""
    made = template.root / "repo"
    made.mkdir()
    (made / "a.py").write_text("first = 1\n")
    template.declare("main", "code", made)
    template.refresh()
    return template


@pytest.fixture
def folder(project: Project, released: Project) -> Path:
    """The source of a copy of it."""
    project.copy_all(released)
    return project.root / "repo"


def test_readers_see_what_was_released_and_nothing_else(project: Project, folder: Path) -> None:
    (folder / "a.py").write_text("second = 2\n")
    from knowledge_pipeline.stages.context import RefreshContext
    from knowledge_pipeline_tests.refreshed import refresh_source

    refresh_source(RefreshContext(project.lake, project.settings, project.settings.sources[0]))
    assert found(project) == ["first = 1"]
    release.release_newest(project.lake, project.settings)
    assert found(project) == ["second = 2"]


def test_a_rollback_brings_the_old_rows_back_and_can_be_rolled_back_itself(
    project: Project, folder: Path
) -> None:
    (folder / "a.py").write_text("second = 2\n")
    project.refresh()
    release.roll_back_release(project.lake, project.settings, 1)
    assert (found(project), find_live_release(project.lake).restores) == (["first = 1"], 1)  # type: ignore[union-attr]
    release.roll_back_release(project.lake, project.settings, 2)
    assert found(project) == ["second = 2"]


def test_a_refresh_after_a_rollback_that_is_not_pinned_releases_the_newest_again(
    project: Project, folder: Path
) -> None:
    (folder / "a.py").write_text("second = 2\n")
    project.refresh()
    release.roll_back_release(project.lake, project.settings, 1, pin=False)
    project.refresh()
    assert found(project) == ["second = 2"]


@pytest.fixture
def pinned(project: Project, folder: Path) -> Project:
    """Release 3 is pinned and has the content of release 1; release 2 has a second line."""
    (folder / "a.py").write_text("second = 2\n")
    project.refresh()
    release.roll_back_release(project.lake, project.settings, 1)
    return project


def test_refreshes_after_a_rollback_write_and_publish_nothing_until_it_is_unpinned(
    pinned: Project, folder: Path
) -> None:
    (folder / "a.py").write_text("third = 3\n")
    for _ in range(2):
        outcome = pinned.refresh()
        assert outcome.release and outcome.failures == {}
        (note,) = outcome.release.notes
        assert note.startswith("release 3 is pinned (content of release 1, since 20")
        assert (found(pinned), outcome.release.version) == (["first = 1"], 3)
    stats = release.release_newest(pinned.lake, pinned.settings, unpin=True)
    assert (found(pinned), stats.version, stats.added, dict(stats.notes)) == (["third = 3"], 4, 1, {})
    (folder / "a.py").write_text("fourth = 4\n")
    pinned.refresh()
    assert found(pinned) == ["fourth = 4"]


def test_the_pin_stays_where_the_checks_refuse_the_newest(pinned: Project) -> None:
    ((space, dimensions),) = pinned.lake.list_spaces().items()
    table = pinned.lake.index(space, dimensions)
    table.delete_where(eq("source", "main"))
    with pytest.raises(ReleaseRefused, match="has 1 chunks but 0 rows in the index"):
        release.release_newest(pinned.lake, pinned.settings, unpin=True)
    assert find_live_release(pinned.lake).pin and found(pinned) == ["first = 1"]  # type: ignore[union-attr]


def test_a_pin_on_the_newest_rows_can_be_ended(project: Project, folder: Path) -> None:
    release.roll_back_release(project.lake, project.settings, 1)
    assert release.release_newest(project.lake, project.settings, unpin=True).version == 3
    assert find_live_release(project.lake).pin is None  # type: ignore[union-attr]


def test_maintenance_keeps_the_pin_where_it_publishes_the_same_rows(project: Project, folder: Path) -> None:
    release.roll_back_release(project.lake, project.settings, 1)
    ((space, dimensions),) = project.lake.list_spaces().items()
    project.lake.index(space, dimensions).write_notes(rewritten="yes")
    with project.lake.lock_index():
        made = publish_if_same_rows(project.lake, keep=5)
    assert made is not None and made.release == 3 and made.pin


def test_a_purge_erases_from_a_pinned_release_which_stays_pinned_with_the_rest(
    project: Project, folder: Path
) -> None:
    secret = "Zanzibarquux"
    (folder / "b.py").write_text(f"{secret} = 1\n")
    project.refresh()
    (folder / "a.py").write_text("second = 2\n")
    project.refresh()
    release.roll_back_release(project.lake, project.settings, 2)
    (folder / "b.py").unlink()
    assert purge.purge_documents(project.lake, project.settings, "main", uri="b.py") == 1
    assert found(project) == ["first = 1"] and traces(project, secret) == 0
    assert project.refresh().failures == {}
    assert found(project) == ["first = 1"]
    release.release_newest(project.lake, project.settings, unpin=True)
    assert found(project) == ["second = 2"]


def test_a_purge_publishes_nothing_that_the_checks_refuse(
    project: Project, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "Zanzibarquux"
    (folder / "b.py").write_text(f"{secret} = 1\n")
    project.refresh()
    ((space, dimensions),) = project.lake.list_spaces().items()
    project.lake.index(space, dimensions).delete_where(eq("uri", "a.py"))
    with pytest.raises(ReleaseRefused, match="has 2 chunks but 1 rows in the index"):
        release.release_newest(project.lake, project.settings)
    (folder / "b.py").unlink()
    assert purge.purge_documents(project.lake, project.settings, "main", uri="b.py") == 1
    assert found(project) == ["first = 1"] and traces(project, secret) == 0
    (told,) = caplog.messages
    assert told == "what was indexed after release 2 is left out until the next refresh indexes it again"
    assert project.refresh().failures == {} and found(project) == ["first = 1"]


def test_a_purge_leaves_out_what_no_release_has_and_the_next_refresh_brings_it(
    project: Project, folder: Path
) -> None:
    from knowledge_pipeline.stages.context import RefreshContext
    from knowledge_pipeline_tests.refreshed import refresh_source

    (folder / "b.py").write_text("beta = 1\n")
    project.refresh()
    (folder / "a.py").write_text("second = 2\n")
    (folder / "c.py").write_text("gamma = 3\n")
    refresh_source(RefreshContext(project.lake, project.settings, project.settings.sources[0]))
    (folder / "b.py").unlink()
    purge.purge_documents(project.lake, project.settings, "main", uri="b.py")
    assert found(project) == ["first = 1"]
    project.refresh()
    assert found(project) == ["gamma = 3", "second = 2"]


@pytest.mark.parametrize("later_columns", [["pinned_since", "ranker"], ["ranker"]])
def test_a_store_of_before_pins_or_tuning_opens_without_a_new_index(
    project: Project, folder: Path, later_columns: list[str]
) -> None:
    project.lake.releases().open_newest().drop_columns(later_columns)
    assert [known.pin for known in list_releases(project.lake)] == [None]
    release.roll_back_release(project.lake, project.settings, 1)
    assert [bool(known.pin) for known in list_releases(project.lake)] == [False, True]


def test_a_release_that_is_not_there_is_refused_by_name(project: Project, folder: Path) -> None:
    with pytest.raises(NotFound, match=r"there is no release 99; kept releases: 1"):
        release.roll_back_release(project.lake, project.settings, 99)


def test_an_old_release_goes_in_the_commit_of_the_new_one(project: Project, folder: Path) -> None:
    from knowledge_pipeline.stages import pipeline

    releases = project.settings.releases.model_copy(update={"keep": 1})
    settings = project.settings.model_copy(update={"releases": releases})
    before = project.lake.releases().version
    (folder / "a.py").write_text("second = 2\n")
    pipeline.refresh(project.lake, settings, settings.sources)
    assert [known.release for known in list_releases(project.lake)] == [2]
    assert project.lake.releases().version == before + 1


@pytest.mark.slow
def test_only_the_configured_number_of_releases_is_kept(project: Project, folder: Path) -> None:
    settings = project.settings.model_copy(
        update={"releases": project.settings.releases.model_copy(update={"keep": 3})}
    )
    for number in range(6):
        (folder / "a.py").write_text(f"number = {number}\n")
        project.refresh()
        release.release_newest(project.lake, settings)
    project.sources["main"]["metadata"] = {"tags": ["x"]}
    with_keep = settings.model_copy(update={"sources": project.settings.sources})
    from knowledge_pipeline.stages import pipeline

    pipeline.refresh(project.lake, with_keep, with_keep.sources)
    assert [known.release for known in list_releases(project.lake)] == [6, 7, 8]
    space = next(iter(project.lake.list_spaces()))
    tags = project.lake.index(space, 32).open_newest().tags.list()
    assert sorted(tags) == ["release-6", "release-7", "release-8"]


@pytest.mark.sampled
@pytest.mark.parametrize("damage", ["missing", "double", "unsound"])
def test_a_damaged_index_is_not_released(project: Project, folder: Path, damage: str) -> None:
    (folder / "b.py").write_text("more = 1\n")
    project.refresh()
    space, dimensions = next(iter(project.lake.list_spaces().items()))
    table = project.lake.index(space, dimensions)
    first, second = table.read_rows(table.schema.names).to_pylist()
    now = {"updated_at": datetime.now(UTC)}
    if damage == "missing":
        table.delete_where(one_of("id", [first["id"]]))
    elif damage == "double":
        table.delete_where(one_of("id", [first["id"], second["id"]]))
        table.append([pa.RecordBatch.from_pylist([first | now, first | now], schema=table.schema)])
    else:
        broken = first | now | {"vector": [2.0] * dimensions}
        table.upsert([pa.RecordBatch.from_pylist([broken], schema=table.schema)])
    before = find_live_release(project.lake)
    problem = {
        "missing": "has 2 chunks but 1 rows in the index",
        "double": "1 chunk ids are in space .* twice",
        "unsound": "not finite or not of length 1",
    }
    with pytest.raises(ReleaseRefused, match=problem[damage]):
        release.release_newest(project.lake, project.settings)
    assert find_live_release(project.lake) == before


def test_a_vanished_file_leaves_the_search_but_not_the_archive(project: Project, folder: Path) -> None:
    (folder / "b.py").write_text("other = 1\n")
    project.refresh()
    (folder / "a.py").unlink()
    project.refresh()
    assert found(project, eq("archived", False)) == ["other = 1"]
    assert found(project) == ["first = 1", "other = 1"]
    (folder / "a.py").write_text("first = 1\n")
    project.refresh()
    assert found(project, eq("archived", False)) == ["first = 1", "other = 1"]


def test_purging_the_archived_leaves_no_trace_in_any_file(project: Project, folder: Path) -> None:
    secret = "Zanzibarquux"
    (folder / "b.py").write_text(f"{secret} = 1\n")
    project.refresh()
    assert traces(project, secret) > 0
    (folder / "b.py").unlink()
    project.refresh()
    assert purge.purge_documents(project.lake, project.settings, "main") == 1
    assert found(project) == ["first = 1"]
    assert traces(project, secret) == 0
    assert project.refresh().failures == {}
    assert found(project) == ["first = 1"]


def test_purging_a_source_leaves_no_trace_and_spares_the_others(
    project: Project, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    secret = "Zanzibarquux"
    (other / "b.py").write_text(f"{secret} = 1\n")
    project.declare("other", "code", other)
    project.refresh()
    del project.sources["other"]
    assert purge.purge_source(project.lake, project.settings, "other") == 1
    assert found(project) == ["first = 1"]
    assert traces(project, secret) == 0
    with pytest.raises(NotFound, match="nothing of a source 'other' is stored"):
        purge.purge_source(project.lake, project.settings, "other")


def traces(project: Project, word: str) -> int:
    """Files of the store that hold a word, in any case."""
    files = [path for path in project.lake.root.rglob("*") if path.is_file()]
    return sum(1 for path in files if word.lower().encode() in path.read_bytes().lower())
