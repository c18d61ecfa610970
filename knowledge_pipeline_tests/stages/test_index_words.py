"""Each chunk of a small document carries the words of all its chunks, and of no other document."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.records import build_embedded_text
from knowledge_pipeline.stages.context import RefreshOutcome
from knowledge_pipeline.stages.index import SMALL_DOCUMENT_CHUNKS
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline.words import expand_identifiers
from knowledge_pipeline_tests.conftest import Project, tables

LARGEST = SMALL_DOCUMENT_CHUNKS[-1]


def section(name: str) -> str:
    """A chunk of its own, with one word that no other has."""
    return f"# {name}\n\n{'plain ' * 12}only{name}.\n\n"


def names(number: int) -> list[str]:
    return [f"part{chr(ord('a') + at)}" for at in range(number)]


def write(folder: Path, path: str, sections: list[str]) -> None:
    """Always of the same time, which else would change every chunk of the document."""
    (folder / path).write_text("".join(map(section, sections)))
    os.utime(folder / path, (0, 0))


@pytest.fixture
def folder(project: Project, tmp_path: Path) -> Path:
    """What the project's one source holds; a section of it makes a chunk."""
    project.declare("main", "markdown", tmp_path / "docs", chunking={"max_tokens": 64, "min_tokens": 0})
    (tmp_path / "docs").mkdir()
    write(tmp_path / "docs", "other.md", ["elsewhere"])
    return tmp_path / "docs"


def rows_of(project: Project, path: str) -> list[dict[str, Any]]:
    """The index rows of one document, in its order."""
    (rows,) = (rows for name, rows in tables(project).items() if name.startswith("index"))
    return sorted((row for row in rows if row["uri"] == path), key=lambda row: row["start_char"])


def own_words(row: dict[str, Any]) -> str:
    return expand_identifiers(build_embedded_text(row["header"], row["text"]))


def counts(outcome: RefreshOutcome) -> tuple[int, int, int]:
    """Index rows added, changed, removed."""
    assert outcome.failures == {}
    (stats,) = (stats for stats in outcome.stats if stats.stage == "index")
    return stats.added, stats.changed, stats.removed


@pytest.mark.parametrize("number", SMALL_DOCUMENT_CHUNKS)
def test_a_chunk_of_a_small_document_says_its_own_words_twice_and_the_others_once(
    project: Project, folder: Path, number: int
) -> None:
    write(folder, "a.md", names(number))
    project.refresh()
    rows = rows_of(project, "a.md")
    assert len(rows) == number
    for at, row in enumerate(rows):
        assert row["words"] == "\n\n".join(
            [own_words(row), *(expand_identifiers(other["text"]) for other in rows)]
        )
        said = Counter(row["words"].replace(".", " ").split())
        assert [said[f"onlypart{letter}"] for letter in "abcd"[:number]] == [
            2 if at == other else 1 for other in range(number)
        ]
        assert "elsewhere" not in row["words"]


@pytest.mark.parametrize("number", [1, LARGEST + 1, LARGEST + 4])
def test_a_chunk_of_any_other_document_says_its_own_words_alone(
    project: Project, folder: Path, number: int
) -> None:
    write(folder, "a.md", names(number))
    project.refresh()
    rows = rows_of(project, "a.md")
    assert len(rows) == number
    assert [row["words"] for row in rows] == [own_words(row) for row in rows]


def test_editing_one_chunk_writes_its_siblings_words_anew_and_nothing_else(
    project: Project, folder: Path
) -> None:
    write(folder, "a.md", names(LARGEST))
    write(folder, "b.md", names(LARGEST))
    project.refresh()
    write(folder, "a.md", [*names(LARGEST - 1), "rewritten"])
    outcome = project.refresh()
    assert counts(outcome) == (1, LARGEST - 1, 1)
    assert all("onlyrewritten" in row["words"] for row in rows_of(project, "a.md"))
    assert not any("onlyrewritten" in row["words"] for row in rows_of(project, "b.md"))


def test_a_sibling_that_goes_takes_its_words_along(project: Project, folder: Path) -> None:
    write(folder, "a.md", names(3))
    project.refresh()
    write(folder, "a.md", names(2))
    assert counts(project.refresh()) == (0, 2, 1)
    assert not any("partc" in row["words"] for row in rows_of(project, "a.md"))
    write(folder, "a.md", names(1))
    assert counts(project.refresh()) == (0, 1, 1)
    assert [row["words"] for row in rows_of(project, "a.md")] == [
        own_words(row) for row in rows_of(project, "a.md")
    ]


@pytest.mark.slow
def test_a_document_that_grows_over_the_limit_and_back_is_written_whole(
    project: Project, folder: Path
) -> None:
    write(folder, "a.md", names(LARGEST))
    project.refresh()
    small = rows_of(project, "a.md")
    write(folder, "a.md", names(LARGEST + 1))
    assert counts(project.refresh()) == (1, LARGEST, 0)
    assert [row["words"] for row in rows_of(project, "a.md")] == [
        own_words(row) for row in rows_of(project, "a.md")
    ]
    write(folder, "a.md", names(LARGEST + 2))
    assert counts(project.refresh()) == (1, 0, 0), "a large document's chunks do not know each other"
    write(folder, "a.md", names(LARGEST))
    assert counts(project.refresh()) == (0, LARGEST, 2)
    assert rows_of(project, "a.md") == small


def test_a_document_that_is_archived_keeps_each_chunks_own_words(project: Project, folder: Path) -> None:
    write(folder, "a.md", names(3))
    project.refresh()
    small = rows_of(project, "a.md")
    (folder / "a.md").unlink()
    assert counts(project.refresh()) == (0, 3, 0)
    rows = rows_of(project, "a.md")
    assert [row["archived"] for row in rows] == [True] * 3
    assert [row["words"] for row in rows] == [own_words(row) for row in rows]
    write(folder, "a.md", names(3))
    assert counts(project.refresh()) == (0, 3, 0)
    assert rows_of(project, "a.md") == small


def test_a_document_whose_chunks_are_written_in_different_batches_is_whole(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(5):
        write(folder, f"{at}.md", [f"{name}{at}" for name in names(3)])
    monkeypatch.setattr("knowledge_pipeline.stages.index._MAX_ROWS_AT_ONCE", 0)  # more are read in batches
    monkeypatch.setattr("knowledge_pipeline.stages.index._BATCH_ROWS", 2)
    project.refresh()
    apart = tables(project)
    monkeypatch.undo()
    project.refresh(full=True)
    assert tables(project) == apart
    assert all("partc3" in row["words"] for row in rows_of(project, "3.md"))


def test_siblings_are_read_once_a_batch(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(20):
        write(folder, f"{at}.md", names(3))
    asked: list[str] = []
    read = Table.read_rows

    def heard(table: Table, columns: Any, where: Any = None, **options: Any) -> Any:
        if {"text", "row_hash"} <= {*columns} and where:
            asked.append(where.sql)
        return read(table, columns, where, **options)

    monkeypatch.setattr(Table, "read_rows", heard)
    project.refresh()
    assert sum("uri IN (" in sql for sql in asked) == 1
