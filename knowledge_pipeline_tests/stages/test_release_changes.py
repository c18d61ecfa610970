"""What a release changed, beside what a comparison of all rows of both releases says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from knowledge_pipeline.maintenance import MaintenanceOptions
from knowledge_pipeline.maintenance import refresh as maintain
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.stages.release_changes import CHANGES, compare_releases
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release, find_live_release
from knowledge_pipeline_tests.conftest import Project

FIRST = f"# First\n\n{'one ' * 300}\n"
SECTIONS = f"{FIRST}\n# Second\n\n{'two ' * 300}\n"


def read(lake: Lake, release: Release | None) -> dict[str, dict[str, tuple[str, str]]]:
    """All chunks of a release that are not archived, by source and id: document and fingerprint."""
    rows: dict[str, dict[str, tuple[str, str]]] = {}
    for space, version in release.tables.items() if release else ():
        table = lake.index(space, lake.list_spaces()[space])
        columns = ["source", "id", "uri", "fingerprint", "archived"]
        for row in table.read_rows(columns, version=version).to_pylist():
            if not row["archived"]:
                rows.setdefault(row["source"], {})[row["id"]] = row["uri"], row["fingerprint"]
    return rows


def compare_all(lake: Lake, former: Release | None, release: Release) -> dict[str, dict[str, int]]:
    """The same by reading everything."""
    before, after = read(lake, former), read(lake, release)
    changes: dict[str, dict[str, int]] = {}
    for source in before.keys() | after.keys():
        then, now = before.get(source, {}), after.get(source, {})
        differing = {id_ for id_ in then.keys() | now.keys() if then.get(id_) != now.get(id_)}
        documents_then, documents_now = ({uri for uri, _ in rows.values()} for rows in (then, now))
        touched = {(now.get(id_) or then[id_])[0] for id_ in differing}
        counts = {
            "documents_added": len(touched - documents_then),
            "documents_removed": len(touched - documents_now),
            "documents_changed": len(touched & documents_then & documents_now),
            "chunks_added": len(differing - then.keys()),
            "chunks_removed": len(differing - now.keys()),
            "chunks_changed": len(differing & then.keys() & now.keys()),
        }
        if touched:
            changes[source] = counts
    return changes


class Steps:
    """Releases one after the other, each compared with the one before in both ways."""

    def __init__(self, project: Project) -> None:
        self.project, self.live = project, None

    def release(self) -> dict[str, dict[str, int]]:
        """What the newest release changed."""
        former, lake = self.live, self.project.lake
        self.live = find_live_release(lake)
        assert self.live
        changes = compare_releases(lake, former, self.live)
        assert changes is not None
        found = {source: {name: counts[name] for name in CHANGES} for source, counts in changes.items()}
        assert found == compare_all(lake, former, self.live)
        return found

    def refresh(self) -> dict[str, dict[str, int]]:
        """The same after a refresh."""
        assert not self.project.refresh().failures
        return self.release()


def documents(changes: dict[str, dict[str, int]]) -> dict[str, tuple[int, ...]]:
    """Of each source, how many were added, changed and removed."""
    return {source: tuple(counts[name] for name in CHANGES[:3]) for source, counts in changes.items()}


@pytest.fixture
def folder(project: Project, tmp_path: Path) -> Path:
    """A source with two documents, one of which has two chunks."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text(SECTIONS)
    (folder / "b.md").write_text("# B\n")
    project.declare("notes", "markdown", folder)
    return folder


def test_each_release_says_what_it_changed_beside_the_one_before(
    project: Project, folder: Path, tmp_path: Path
) -> None:
    steps = Steps(project)
    assert documents(steps.refresh()) == {"notes": (2, 0, 0)}, "the first"
    assert steps.refresh() == {}, "a refresh of nothing"
    (folder / "a.md").write_text(SECTIONS.replace("two", "three"))
    assert documents(steps.refresh()) == {"notes": (0, 1, 0)}, "an edit"
    (folder / "a.md").write_text(SECTIONS)
    assert documents(steps.refresh()) == {"notes": (0, 1, 0)}, "the edit is undone"
    (folder / "b.md").unlink()
    (folder / "c.md").write_text("# C\n")
    assert documents(steps.refresh()) == {"notes": (1, 0, 1)}, "what is archived is removed"
    shutil.copytree(folder, tmp_path / "more")
    project.declare("more", "markdown", tmp_path / "more")
    assert documents(steps.refresh()) == {"more": (2, 0, 0)}, "a new source has the same documents"
    project.declare("notes", "markdown", folder, access={"tenant": "acme"})
    assert documents(steps.refresh()) == {"notes": (0, 2, 0)}, "each row says who may read it"
    project.refresh(full=True)
    assert steps.release() == {}, "rows that were written again as they were"


def test_a_rollback_takes_back_what_was_changed(project: Project, folder: Path) -> None:
    steps = Steps(project)
    steps.refresh()
    (folder / "c.md").write_text("# C\n")
    (folder / "a.md").write_text(FIRST)
    forth = steps.refresh()["notes"]
    roll_back_release(project.lake, project.settings, 1)
    back = steps.release()["notes"]
    opposite = {"added": "removed", "removed": "added", "changed": "changed"}
    names = {name: f"{what}_{opposite[how]}" for name in CHANGES for what, _, how in (name.partition("_"),)}
    assert {names[name]: count for name, count in back.items()} == forth
    assert forth["documents_added"] == forth["documents_changed"] == 1
    roll_back_release(project.lake, project.settings, 2)
    assert steps.release() == {"notes": forth}


def test_rows_that_a_compaction_moves_are_no_change_and_erased_ones_are_unknown(
    project: Project, folder: Path
) -> None:
    steps = Steps(project)
    steps.refresh()
    for number in range(3):
        (folder / f"d{number}.md").write_text(f"# D{number}\n")
        steps.refresh()
    first = find_live_release(project.lake)
    maintain(project.lake, project.settings, options=MaintenanceOptions(grace_s=0))
    assert steps.release() == {}
    settings = project.settings.model_copy(
        update={"releases": project.settings.releases.model_copy(update={"keep": 1})}
    )
    (folder / "e.md").write_text("# E\n")
    project.refresh()
    maintain(project.lake, settings, options=MaintenanceOptions(grace_s=0))
    live = find_live_release(project.lake)
    assert first and live
    assert compare_releases(project.lake, first, live) is None
