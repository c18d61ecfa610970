"""A sentence of each source is searched for before a release, in stores that are really broken."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from knowledge_pipeline.checks.canaries import (
    MAX_OTHER_SOURCES,
    MAX_SENTENCES,
    MAX_WORDS,
    check_canaries,
    choose_sentences,
    take_turn,
)
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import ReleaseRefused
from knowledge_pipeline.stages import pipeline as release
from knowledge_pipeline.stages.context import describe_failures
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.indexes import rebuild_indexes
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project

ACME = {"visibility": "tenant", "tenant": "acme"}


@pytest.fixture(scope="module")
def released(template: Project) -> Project:
    """A source of two documents for one tenant, refreshed and released."""
    made = template.root / "docs"
    made.mkdir()
    for name, text in (("a", "The zeppelin leaves at noon."), ("b", "Quinces ripen late in autumn.")):
        (made / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    template.declare("main", "markdown", made, access=ACME)
    template.refresh()
    return template


@pytest.fixture
def indexed(project: Project, released: Project) -> Project:
    """A store that holds them."""
    project.copy_store(released)
    return project


def index_of(project: Project) -> Table:
    (named,) = project.lake.list_spaces().items()
    return project.lake.index(*named)


def rewrite(**values: Any) -> Callable[[Table], None]:
    """A row as a faulty stage would have written it just now."""

    def damage(table: Table) -> None:
        row = min(table.read_rows(table.schema.names).to_pylist(), key=lambda row: row["uri"])
        changed = row | values | {"updated_at": datetime.now(UTC)}
        table.upsert([pa.RecordBatch.from_pylist([changed], schema=table.schema)])

    return damage


def lose_words_of_the_index(table: Table) -> None:
    """The full-text index says that it holds the newest row, and was built before it was written."""
    import lance

    rebuild_indexes(table)
    dataset = table.open_newest()
    made: Any = dataset.read_transaction(dataset.version)
    (index,) = made.operation.new_indices
    rewrite()(table)
    dataset = table.open_newest()
    covering = replace(index, fragment_ids={each.fragment_id for each in dataset.get_fragments()})
    change = lance.LanceOperation.CreateIndex(new_indices=[covering], removed_indices=[index])
    lance.LanceDataset.commit(str(table.path), change, read_version=dataset.version)


DAMAGE = [
    (rewrite(words="nothing of it"), "is not found by its words '", "tenant 'acme'"),
    (lose_words_of_the_index, "is not found by its words '", "a.md"),
    (rewrite(source_type="code"), "is not found by its words '", "knowledge reindex --source main"),
    (rewrite(vector=None), "is not found by its own vector", "tenant 'acme'"),
    (rewrite(tenant="other"), "can be read by tenant 'other'", "`access` of the source does not say"),
    (rewrite(visibility="public"), "can be read by everybody", "`access` of the source does not say"),
]


@pytest.mark.parametrize(("damage", "what", "where"), DAMAGE)
def test_what_is_indexed_and_not_found_by_its_readers_alone_keeps_the_release_back(
    indexed: Project, damage: Callable[[Table], None], what: str, where: str
) -> None:
    before = find_live_release(indexed.lake)
    damage(index_of(indexed))
    found = check_canaries(indexed.lake, indexed.settings, "markdown")
    assert not found.passed and found.sources == ("main",)
    assert (
        what in found.message and where in found.message and found.message.startswith("source 'main': chunk ")
    )
    assert {row["uri"] for row in found.sample_rows.to_pylist()} == {"a.md"}
    with pytest.raises(ReleaseRefused, match=r"last release stays live: docs/checks\.md") as refused:
        release.release_newest(indexed.lake, indexed.settings)
    (failure,) = describe_failures({"release": pickle.loads(pickle.dumps(refused.value))})
    assert failure["about"] == ["main"] * ("source 'main'" in failure["error"])  # else the whole store
    assert find_live_release(indexed.lake) == before
    indexed.refresh(full=True)  # what the message says
    assert find_live_release(indexed.lake) != before


def test_a_row_that_nobody_may_read_is_named(indexed: Project) -> None:
    open_log(indexed.lake, "refreshes").delete_where(
        eq("source", "main")
    )  # so what it was made of is unknown
    rewrite(tenant=None)(index_of(indexed))
    found = check_canaries(indexed.lake, indexed.settings, "markdown")
    assert "can be read by nobody: it is for tenant None" in found.message


def test_access_that_was_configured_since_the_last_refresh_is_no_fault_of_the_index(
    indexed: Project, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "c.md").write_text("# c\n\nMarmalade is made of bitter oranges.\n")
    indexed.sources["main"]["access"] = {"visibility": "private", "tenant": "acme", "principals": ["ann"]}
    indexed.declare("other", "markdown", other)
    assert indexed.refresh("other").failures == {}
    assert indexed.refresh().failures == {}
    live = find_live_release(indexed.lake)
    assert live and live.release == 3


TEXTS = [
    "",
    "-- !! --",
    "the and of it",
    "東京都は日本の首都であり、世界最大の都市圏の一つである" * 4,
    "ｆｕｌｌｗｉｄｔｈ ½ ² Ⅷ İstanbul ſtraße naïve nai\u0308ve क्षि\u200dक",
    "x" * 400,
    "a_b_c __init__ HTTPServerConfig parseHTML5 std::vector<int> C:\\temp",
    "lang:python path:src/ source:main type:code since:yesterday",
    "🙂🙂 🙂",
    "0 1 2 3 4 5 6 7 8 9 . . . ; ; ;",
    "SELECT 'it''s' FROM \"t\" WHERE a = '); DROP'",
]


def test_odd_and_common_texts_make_no_false_alarm(project: Project, tmp_path: Path) -> None:
    for source, access in (("open", {}), ("closed", ACME)):
        made = tmp_path / source
        made.mkdir()
        for number in range(70):  # more than are looked at: each copy has the same rank
            (made / f"licence{number}.md").write_text("# Licence\n\nPermission is hereby granted to all.\n")
        for number, text in enumerate(TEXTS):
            (made / f"odd{number}.md").write_text(text)
        project.declare(source, "markdown", made, access=access)
    for turn in range(4):
        assert project.refresh().failures == {}
        for source in project.sources:
            (tmp_path / source / f"odd{turn}.md").write_text(f"{TEXTS[turn + 1]}\n\n{TEXTS[-turn]}\n")


def test_nothing_is_searched_for_where_nothing_was_written(indexed: Project) -> None:
    assert check_canaries(indexed.lake, indexed.settings, "markdown").figures == {"sources": 0}
    rewrite()(index_of(indexed))
    found = check_canaries(indexed.lake, indexed.settings, "markdown")
    assert found.passed
    figures = {name: value for name, value in found.figures.items() if name != "seconds"}
    assert figures["sources"] == 1 and figures["chunks"] == figures["by_words"] == figures["by_vector"] != 0
    assert figures["withheld"] == 2 * int(figures["chunks"])  # from another tenant, and from the public


def test_each_source_has_its_turn(project: Project, tmp_path: Path) -> None:
    for number in range(11):
        project.declare(f"s{number:02}", "markdown", tmp_path)
    settings: Settings = project.settings
    turns = [take_turn(settings.sources, MAX_OTHER_SOURCES, turn) for turn in range(6)]
    assert [len(turn) for turn in turns] == [MAX_OTHER_SOURCES] * 6
    assert {source.id for turn in turns for source in turn} == {source.id for source in settings.sources}
    assert take_turn(settings.sources[:2], MAX_OTHER_SOURCES, 7) == list(settings.sources[:2])


@pytest.mark.parametrize("text", TEXTS)
def test_sentences_are_few_short_and_the_same_each_time(text: str) -> None:
    chosen = choose_sentences(text, ["the zeppelin leaves", text])
    assert list(chosen) == list(choose_sentences(text, ["the zeppelin leaves", text]))
    assert len(chosen) <= MAX_SENTENCES and all(0 < len(each.split()) <= MAX_WORDS for each in chosen)


def test_the_sentence_of_the_rarest_words_comes_first() -> None:
    common = "Copyright of the authors of this program"
    assert choose_sentences(f"{common}.\nQuinces ripen late.", [common, common])[0] == "quinces ripen late"
