"""What every service that documents are read from is asked, and how often, through the whole pipeline.

A fake of the service runs on a real socket, and the connector's own client library talks to it. What becomes
of documents that change, and of a service that fails, is in `lives`, for every type of source.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.connectors.registry import open_api_source
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages.context import RefreshOutcome
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.stages.lives.services import ServiceOrigin
from knowledge_pipeline_tests.stages.lives.table import KINDS
from knowledge_pipeline_tests.stages.test_named_documents import SERVICES


class Lived:
    """A service with documents, and a project that reads it."""

    def __init__(self, project: Project, origin: ServiceOrigin) -> None:
        self.project, self.origin, self.server = project, origin, origin.server
        project.sources["service"] = {"id": "service", **origin.declare()}

    def create_many(self, count: int) -> list[str]:
        """Documents with the texts "number0", "number1"; their keys."""
        texts = [f"Text number{number} of the archive." for number in range(count)]
        return [self.origin.create(f"Document {number}", text) for number, text in enumerate(texts)]

    @property
    def calls(self) -> int:
        return len(self.server.requests)

    def refresh(self, **options: Any) -> RefreshOutcome:
        outcome = self.project.refresh(**options)
        for failure in outcome.failures.values():
            raise failure
        return outcome

    def finds(self, words: str) -> bool:
        """Whether a question is answered by a passage with these words."""
        with KnowledgeBase(self.project.settings) as knowledge:
            return any(words in each.content for each in knowledge.search(words, limit=20).results)


@pytest.fixture(params=SERVICES)
def lived(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> Iterator[Lived]:
    with KINDS[request.param].open(tmp_path / "origin") as origin:
        assert isinstance(origin, ServiceOrigin)
        yield Lived(project, origin)


@pytest.fixture
def always_whole(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every listing is due to be a whole one."""
    with open_api_source(lived.project.settings.sources[0]) as service:
        monkeypatch.setattr(type(service), "full_listing_interval", timedelta(0))


@pytest.mark.sampled
def test_another_filter_lists_everything_anew(lived: Lived) -> None:
    lived.create_many(3)
    declared = lived.project.sources["service"]
    lived.project.sources["service"] = {**declared, "since": "800 days"}
    (narrow,) = (stats for stats in lived.refresh().stats if stats.stage == "snapshot")
    assert not narrow.notes
    (again,) = (stats for stats in lived.refresh().stats if stats.stage == "snapshot")
    assert any(note.startswith("listed since") for note in again.notes)
    lived.project.sources["service"] = {**declared, "since": "900 days"}
    (wide,) = (stats for stats in lived.refresh().stats if stats.stage == "snapshot")
    assert not wide.notes
    assert wide.rows == narrow.rows >= 1


@pytest.mark.sampled
def test_a_second_refresh_asks_little_and_changes_nothing(lived: Lived) -> None:
    lived.create_many(30)
    lived.refresh()
    first, before = lived.calls, tables(lived.project)
    lived.refresh()
    assert lived.calls - first <= 6
    assert tables(lived.project) == before


@pytest.mark.sampled
def test_one_edit_costs_few_calls_and_changes_one_document(lived: Lived) -> None:
    uris = lived.create_many(30)
    lived.refresh()
    first = lived.calls
    lived.server.edit(uris[7], "A new text about the harbour pilot.")
    outcome = lived.refresh()
    (snapshot,) = (stats for stats in outcome.stats if stats.stage == "snapshot")
    assert (snapshot.changed, snapshot.added, snapshot.removed) == (1, 0, 0)
    assert snapshot.seen <= 31
    assert lived.calls - first <= 12


@pytest.mark.sampled
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_told_at_once_and_loses_nothing(lived: Lived, always_whole: None, status: int) -> None:
    lived.create_many(1)
    lived.refresh()
    before, calls = tables(lived.project), lived.calls
    with lived.origin.answer(status), pytest.raises(SourceRefused) as refused:
        lived.refresh()
    assert "connection." in str(refused.value) or "permission" in str(refused.value)
    assert lived.calls - calls <= 8
    assert tables(lived.project) == before


@pytest.mark.sampled
def test_a_limit_is_waited_for(lived: Lived) -> None:
    lived.create_many(12)
    lived.server.limit(after=2, reset_s=1)
    lived.refresh()
    assert lived.finds("number11")


@pytest.mark.sampled
def test_a_long_limit_is_told_with_its_end_and_the_rest_comes_later(lived: Lived) -> None:
    lived.create_many(12)
    lived.server.limit(after=1, reset_s=3600)
    with pytest.raises(SourceUnavailable, match=r"until \d{4}-\d\d-\d\d \d\d:\d\d UTC"):
        lived.refresh()
    lived.server.limit(after=10_000, reset_s=1)
    lived.refresh()
    rows = lived.project.lake.snapshot(lived.project.settings.sources[0].type, "service").read_rows(["uri"])
    assert rows.num_rows == 12
