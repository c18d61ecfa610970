"""Secrets leave before anything is embedded or indexed, and places stay right."""

from __future__ import annotations

import re
from pathlib import Path

from knowledge_pipeline.config.sources import SanitizeSettings
from knowledge_pipeline.sanitizing.sanitize import sanitize
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.connectors.files.test_extraction import pdf
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


def test_pages_keep_their_numbers_when_one_before_them_is_redacted(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "manuals"
    folder.mkdir()
    lines = (f"token = {TOKEN} ", "leaf 2 says what it says. ", "leaf 3 says what it says. ")
    (folder / "a.pdf").write_bytes(pdf(*(line * 300 for line in lines)))
    project.declare("manuals", "files", folder)
    project.refresh()
    rows = tables(project)["chunks manuals"]
    leaves = [(row["page"], set(re.findall(r"token|leaf \d", row["text"]))) for row in rows]
    assert {page for page, found in leaves if found == {"leaf 2"}} == {2}
    assert {page for page, found in leaves if found == {"leaf 3"}} == {3}
    assert not any(TOKEN in row["text"] for row in rows)


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
