"""Documents that are made to keep a server busy: their pages come as fast as others."""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline_tests.conftest import Project, embedding_by
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.serve.running import Running

COLONS = ":::: " * 12_000  # took a general highlighter minutes as `.ini`
PATIENCE_S = 20.0


def test_a_page_of_what_is_slow_to_highlight_comes_at_once(
    tmp_path: Path, embedding_server: OpenAIServer
) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "fence.md").write_text(f"# Colons\n\n```ini\n{COLONS}\n```\n")
    project = Project(tmp_path, embedding_by(embedding_server))
    project.declare("hostile", "markdown", folder)
    assert not project.refresh().failures
    with Running(project.settings) as running:
        page = running.client().get("/doc?id=hostile:fence.md", timeout=PATIENCE_S)
        assert page.status_code == 200
        assert "::::" in page.text
