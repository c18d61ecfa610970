"""A refresh of named documents reads those alone, and archives the ones that are gone or hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline_tests.conftest import embedding_by
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.stages.lives.life import Life
from knowledge_pipeline_tests.stages.lives.services import ServiceOrigin
from knowledge_pipeline_tests.stages.lives.table import KINDS

SERVICES = [name for name, kind in KINDS.items() if kind.connection in ("jira", "confluence", "slack")]
SERVICES += [name for name, kind in KINDS.items() if kind.source_type in ("github_pr", "github_issues")]


def refresh(life: Life, *uris: str) -> None:
    outcome = life.project.refresh(documents=[f"life/{uri}" for uri in uris])
    assert not outcome.failures, outcome.failures


@pytest.mark.parametrize(
    "name", [name if name == "slack" else pytest.param(name, marks=pytest.mark.slow) for name in SERVICES]
)
def test_named_documents_are_read_and_no_others(
    name: str, tmp_path: Path, embedding_server: OpenAIServer
) -> None:
    with KINDS[name].open(tmp_path / "origin") as origin:
        assert isinstance(origin, ServiceOrigin)
        life = Life(origin, tmp_path, embedding_by(embedding_server))
        edited, removed, hidden, other = (life.create(f"Number {number}") for number in range(4))
        life.refresh(compared=False)

        former, unread = life.edit(edited), life.edit(other)
        created, gone = life.create("Number 5"), life.remove(removed)
        refresh(life, edited, removed, created, "none/1", f"{edited.partition('/')[0]}/0")
        life.require_found(life.texts[edited], life.texts[created], unread)
        life.require_gone(former, gone)

        if origin.can("hide"):
            origin.hide(hidden)
            refresh(life, hidden)
            life.require_gone(life.texts.pop(hidden))
            origin.show(hidden)
        refresh(life, hidden)  # what is back is taken again
        assert hidden in life.live_uris()
