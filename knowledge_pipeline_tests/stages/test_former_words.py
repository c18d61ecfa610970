"""A store whose words have their first form gets those of the present one at its next refresh."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.chunking import registry
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages import index as index_words
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshOptions, RefreshOutcome
from knowledge_pipeline.stages.index import has_former_words
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.migrate import migrate
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.query.search.test_languages import QUESTIONS
from knowledge_pipeline_tests.store.migration.conftest import endpoint  # noqa: F401 - a fixture

STORE = Path(__file__).parents[1] / "corpus" / "words" / "v1.tar.xz"
UNCHANGED = {"nfc.md", *(f"en{number}.md" for number in range(9))}

pytestmark = pytest.mark.usefixtures("endpoint")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: OpenAIServer) -> Settings:  # noqa: F811
    """Of the store that the program before wrote, in the current folder, migrated."""
    with tarfile.open(STORE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "DOCUMENT_METADATA_VERSION", 1)
    settings = load_settings(tmp_path / "knowledge.yaml")
    migrate(Lake(settings.store))
    return settings


def open_index(settings: Settings) -> Table:
    lake = Lake(settings.store)
    ((space, dimensions),) = lake.list_spaces().items()
    return lake.index(space, dimensions)


def refresh(settings: Settings, **options: Any) -> RefreshOutcome:
    outcome = pipeline.refresh(Lake(settings.store), settings, settings.sources, RefreshOptions(**options))
    assert outcome.failures == {}
    return outcome


def read_rows(settings: Settings) -> dict[str, dict[str, Any]]:
    table = open_index(settings)
    return {row["id"]: row for row in table.read_rows(table.schema.names).to_pylist()}


def find(settings: Settings, question: str) -> list[str]:
    with KnowledgeBase.open(settings) as knowledge:
        return [
            Path(found.metadata["path"]).stem for found in knowledge.search(question, mode="words").results
        ]


def test_it_answers_as_before_until_then(settings: Settings) -> None:
    assert has_former_words(open_index(settings))
    assert find(settings, "Löschung") == ["nfc"]
    assert find(settings, "数据库备份") == []


def test_a_refresh_rewrites_the_words_that_differ_and_nothing_else(
    settings: Settings,
    endpoint: OpenAIServer,  # noqa: F811
) -> None:
    before, requests = read_rows(settings), len(endpoint.requests)
    outcome = refresh(settings)
    after = read_rows(settings)
    assert before.keys() == after.keys()
    changed = {id_ for id_ in before if before[id_] != after[id_]}
    assert all(before[id_] | {"words": after[id_]["words"]} == after[id_] for id_ in changed)
    paths = {after[id_]["path"] for id_ in changed}
    assert paths == {row["path"] for row in after.values()} - UNCHANGED
    assert len(endpoint.requests) == requests, "nothing is embedded"
    (stats,) = (stats for stats in outcome.stats if stats.stage == "index")
    assert (stats.added, stats.changed, dict(stats.notes)) == (
        0,
        0,
        {"chunks whose words were brought up to date": len(changed)},
    )
    assert outcome.release is not None and outcome.release.added == 1


def test_afterwards_it_is_what_indexing_anew_would_make(settings: Settings) -> None:
    refresh(settings)
    healed = {id_: row["words"] for id_, row in read_rows(settings).items()}
    for question, name in QUESTIONS:
        assert find(settings, question)[:1] == [name], question
    refresh(settings, full=True)
    assert {id_: row["words"] for id_, row in read_rows(settings).items()} == healed
    version = open_index(settings).version
    assert not refresh(settings).stats[-1].has_changes and open_index(settings).version == version


def test_a_kill_before_the_end_is_made_good(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(table: Table, **notes: str) -> None:
        raise KnowledgeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Table, "note_in_schema", fail)
        outcome = pipeline.refresh(Lake(settings.store), settings, settings.sources, RefreshOptions())
        assert outcome.failures
    assert has_former_words(open_index(settings))
    refresh(settings)
    assert not has_former_words(open_index(settings))
    assert find(settings, "数据库备份") == ["zh"]


def test_rows_are_read_in_portions(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_words, "_DOCUMENTS_AT_ONCE", 2)
    refresh(settings)
    assert find(settings, "术语") == ["small", "small", "small", "small"]


def test_a_new_store_has_the_present_form(settings: Settings, tmp_path: Path) -> None:
    fresh = settings.model_copy(update={"store": tmp_path / "fresh"})
    outcome = refresh(fresh)
    assert not has_former_words(open_index(fresh))
    assert all(not stats.notes for stats in outcome.stats)
