"""How current a source is, by what was written of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline import freshness
from knowledge_pipeline.freshness import (
    CHANGED,
    FreshnessReader,
    IndexedRevision,
    SeenCommit,
    SourceRecord,
    update_record,
    write_looks,
)
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.bucket.s3_server import S3Bucket
from knowledge_pipeline_tests.fakes.bucket.store import store_in

LIVE = {"small": 5}


def record(*seen: tuple[str | None, float, float], **changes) -> SourceRecord:
    indexed = (IndexedRevision("small", 5, "one", 100.0, 110.0),)
    return SourceRecord(**{"indexed": indexed, "seen": tuple(SeenCommit(*it) for it in seen), **changes})


@pytest.mark.parametrize(
    ("seen", "as_of", "behind_since", "commits"),
    [
        ((), 100.0, None, 0),
        ((("one", 90.0, 105.0),), 100.0, None, 0),  # seen before all was read: it says nothing
        ((("two", 90.0, 109.0),), 100.0, None, 0),  # a look while it was read, which read what came after
        ((("one", 90.0, 200.0),), 200.0, None, 0),
        ((("one", 90.0, 150.0), ("two", 180.0, 200.0)), 150.0, 180.0, None),
        ((("two", 180.0, 200.0),), 100.0, 180.0, None),
        ((("two", 90.0, 200.0),), 100.0, 200.0, None),  # the same before and after, and another was read
        ((("two", 120.0, 130.0), ("one", 140.0, 200.0)), 200.0, None, 0),  # a push that was taken back
        (((None, 90.0, 200.0),), 200.0, None, 0),  # a folder
        (((None, 90.0, 150.0), (CHANGED + "a", 180.0, 200.0)), 150.0, 180.0, None),
        (((CHANGED + "a", 90.0, 95.0), (None, 120.0, 200.0)), 200.0, None, 0),
        (
            ((CHANGED + "a", 120.0, 130.0), (None, 140.0, 200.0)),
            100.0,
            120.0,
            None,
        ),  # read by a later version
    ],
)
def test_looks_say_how_far_what_is_indexed_is_behind(seen, as_of, behind_since, commits):
    state = record(*seen).find_live(LIVE)
    assert state is not None
    assert (state.as_of, state.behind_since, state.commits_behind) == (as_of, behind_since, commits)


def test_commits_are_counted_between_the_indexed_and_the_newest_alone():
    counted = record(("two", 120.0, 130.0), counted=("one", "two", 3)).find_live(LIVE)
    stale = record(("three", 120.0, 130.0), counted=("one", "two", 3)).find_live(LIVE)
    assert counted and stale and (counted.commits_behind, stale.commits_behind) == (3, None)


def test_a_folder_that_could_not_be_indexed_is_not_current():
    state = record((None, 90.0, 200.0), failed_since=150.0).find_live(LIVE)
    assert state is not None and state.as_of == 100.0


def test_a_release_has_the_revision_of_its_version():
    one = SourceRecord().add_indexed(IndexedRevision("small", 4, "one", 1.0, 2.0), has_changes=True)
    two = one.add_indexed(IndexedRevision("small", 7, "two", 3.0, 4.0), has_changes=True)
    moved = two.add_indexed(IndexedRevision("small", 9, "three", 5.0, 6.0), has_changes=False)

    def revision_at(version: int) -> str | None:
        state = moved.find_live({"small": version})
        return state and state.indexed.revision

    assert [revision_at(version) for version in (3, 4, 6, 7, 9)] == [None, "one", "one", "three", "three"]


def test_a_success_ends_a_failure():
    failing = SourceRecord(failed_since=1.0, problem="no answer")
    done = failing.add_indexed(IndexedRevision("small", 1, None, 1.0, 2.0), has_changes=True)
    assert (done.failed_since, done.problem) == (None, "")


@pytest.fixture(params=["folder", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "folder":
        return Lake(tmp_path / "store")
    bucket: S3Bucket = request.getfixturevalue("s3")
    return Lake(store_in(bucket, tmp_path / "here"))


def test_what_one_machine_writes_another_reads(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(freshness, "_POLL_INTERVAL_S", 1e-9)
    reader = FreshnessReader(lake)
    reader.read()
    assert reader.records == {}
    indexed = IndexedRevision("small", 5, "one", 100.0, 110.0, {"too large": 2}, 0.5)
    update_record(lake, "app", lambda it: it.add_indexed(indexed, has_changes=True))
    write_looks(lake, {"app": "two", "other": "x"}, lambda source, of, commit: 3 if of == "one" else None)
    reader.read()
    (source, read), *others = reader.records.items()
    assert (source, others, read.indexed, read.counted) == ("app", [], (indexed,), ("one", "two", 3))
    assert read.seen[-1].commit == "two"
    update_record(lake, "app", lambda it: it.add_indexed(indexed._replace(revision="two"), has_changes=False))
    reader.read()
    assert reader.records["app"].indexed[-1].revision == "two" and reader.records["app"].seen


def test_looks_that_see_nothing_new_are_written_once_a_minute(tmp_path: Path):
    lake = Lake(tmp_path)
    write_looks(lake, {"app": "one"})
    written = (tmp_path / "freshness" / ".looks.json").stat().st_ino
    write_looks(lake, {"app": "one"})
    assert (tmp_path / "freshness" / ".looks.json").stat().st_ino == written
    write_looks(lake, {"app": "two"})
    assert (tmp_path / "freshness" / ".looks.json").stat().st_ino != written


def test_what_is_damaged_or_cannot_be_written_fails_nothing(tmp_path: Path):
    (tmp_path / "freshness").mkdir()
    for name, content in (
        ("a", "{"),
        ("b", "[]"),
        ("c", '{"indexed": 3}'),
        (".looks", '{"a": {"seen": [[]]}, "b": [3]}'),
    ):
        (tmp_path / "freshness" / f"{name}.json").write_text(content)
    reader = FreshnessReader(Lake(tmp_path))
    reader.read()
    assert reader.records == dict.fromkeys("abc", SourceRecord())
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    update_record(Lake(blocked), "app", lambda it: it)
    write_looks(Lake(blocked), {"app": "one"})
