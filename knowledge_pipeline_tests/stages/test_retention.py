"""Records that are older than `retention` keeps their kind are archived by a refresh, and come back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages.context import RefreshOutcome
from knowledge_pipeline.stages.snapshot import is_up_to_date
from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline_tests.conftest import Project, tables


@pytest.fixture
def records(tmp_path: Path) -> Path:
    today = datetime.now(UTC).date()
    for name, kind, days in (("old", "session", 400), ("new", "session", 20), ("choice", "adr", 4000)):
        path = tmp_path / "records" / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        dated = today - timedelta(days=days)
        path.write_text(
            f"---\nkind: {kind}\ndate: {dated}\n---\n# The {name} record\n\nWhat was said then.\n"
        )
    return tmp_path / "records"


def refresh(project: Project, records: Path, **options: object) -> RefreshOutcome:
    project.declare("records", "archive", records, **options)
    outcome = project.refresh()
    assert not outcome.failures
    return outcome


def live(project: Project) -> set[str]:
    rows = project.lake.snapshot("archive", "records").read_rows(["uri"], is_null("archived_at"))
    return set(rows["uri"].to_pylist())


def test_a_record_is_archived_by_its_own_date_and_kind(project: Project, records: Path):
    outcome = refresh(project, records, retention={"sessions": "180d"})
    assert live(project) == {"new.md", "choice.md"}
    snapshot = outcome.stats[0]
    assert (snapshot.added, snapshot.notes) == (3, {"archived session older than 180 days": 1})
    with KnowledgeBase(project.settings) as knowledge:
        titles = {result.metadata["title"] for result in knowledge.search("record", limit=9).results}
        assert titles == {"The new record", "The choice record"}
        found = knowledge.search("record", limit=9, filters={"include_archived": True}).results
        assert "The old record" in {result.metadata["title"] for result in found}


def test_what_is_archived_stays_so_and_a_change_of_the_setting_moves_only_what_it_concerns(
    project: Project, records: Path
):
    refresh(project, records)
    assert len(live(project)) == 3
    removed = refresh(project, records, retention={"session": "1 year"})
    assert (removed.stats[0].removed, removed.stats[0].changed) == (1, 0)
    assert sum(stats.tokens for stats in removed.stats) == 0, "nothing is embedded anew"
    before = tables(project)
    again = refresh(project, records, retention={"session": "1 year"})
    assert not any(stats.has_changes or stats.notes for stats in again.stats) and tables(project) == before
    (source,) = project.settings.sources
    with open_source(source, cache=project.lake.cache) as opened:
        assert is_up_to_date(project.lake, source, opened.discover())
    assert refresh(project, records, retention={"session": "2 years"}).stats[0].changed == 1
    assert len(live(project)) == 3


def test_an_archived_record_that_is_gone_or_edited_is_followed(project: Project, records: Path):
    retention = {"session": "180d"}
    refresh(project, records, retention=retention)
    (records / "old.md").write_text((records / "new.md").read_text())
    assert refresh(project, records, retention=retention).stats[0].changed == 1
    assert "old.md" in live(project)
    (records / "old.md").unlink()
    assert refresh(project, records, retention=retention).stats[0].removed == 1
    assert not refresh(project, records, retention=retention).stats[0].has_changes


def test_a_full_reindex_leaves_what_refreshes_left(project: Project, records: Path):
    refresh(project, records, retention={"session": "180d"})
    before = tables(project)
    assert not project.refresh(full=True).failures
    assert tables(project) == before
