"""Secrets leave before anything is embedded or indexed, and places stay right."""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline.config.settings import SanitizeSettings
from knowledge_pipeline.sanitizing.sanitize import sanitize
from knowledge_pipeline.stages import chunks
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"


def test_a_secret_reaches_neither_the_embedder_nor_the_index(
    project: Project, tmp_path: Path, embedding_server: OpenAIServer
) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "a.py").write_text(f'TOKEN = "{TOKEN}"\n\n\ndef push():\n    return TOKEN\n')
    project.declare("main", "code", folder)
    asked = len(embedding_server.requests)
    outcome = project.refresh()
    sent = [text for request in embedding_server.requests[asked:] for text in request.texts]
    assert sent and not any(TOKEN in text for text in sent)
    held = tables(project)
    assert not any(
        TOKEN in str(row) for name in held if not name.startswith("snapshot") for row in held[name]
    )
    assert next(stats for stats in outcome.stats if stats.stage == "chunks").found.total() == 1
    assert any("REDACTED" in row["text"] for row in held["chunks main"])


def test_a_dropped_document_leaves_its_reason_and_no_chunk(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "a.py").write_text(f'TOKEN = "{TOKEN}"\n')
    (folder / "b.py").write_text("fine = 1\n")
    project.declare("main", "code", folder, sanitize={"secrets": "drop"})
    outcome = project.refresh()
    skipped = next(stats for stats in outcome.stats if stats.stage == "chunks").skipped
    assert [reason.split(":")[0] for reason in skipped] == ["dropped by the sanitizer"]
    assert {row["uri"] for name, rows in tables(project).items() if "index" in name for row in rows} == {
        "b.py"
    }


def test_pages_keep_their_numbers_when_one_before_them_is_redacted() -> None:
    text = f"first page with {TOKEN} in it.\nsecond page.\nthird page."
    starts = [0, text.index("second"), text.index("third")]
    assert chunks._split_pages(text, {"page_starts": starts}) == [
        f"first page with {TOKEN} in it.\n",
        "second page.\n",
        "third page.",
    ]
    assert chunks._split_pages(text, {}) == [text]


def test_a_chunk_is_an_exact_slice_of_the_sanitized_document(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    body = f'A = 1\nTOKEN = "{TOKEN}"\n\n\ndef after():\n    """Comes later."""\n    return A\n'
    (folder / "a.py").write_text(body)
    project.declare("main", "code", folder)
    project.refresh()
    clean = sanitize(body, SanitizeSettings()).text
    assert clean != body
    rows = tables(project)["chunks main"]
    assert all(clean[row["start_char"] : row["end_char"]] == row["text"] for row in rows)
    (last,) = (row for row in rows if "Comes later" in row["text"])
    assert last["end_line"] == body.count("\n")
