"""A refresh of named documents reads those alone, and archives the ones that are gone or hidden."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from knowledge_pipeline.store.access import read_audiences
from knowledge_pipeline_tests.conftest import Project, embedding_by
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.fakes.served import Asked, Sent
from knowledge_pipeline_tests.stages.lives.life import Life
from knowledge_pipeline_tests.stages.lives.services import ServiceOrigin
from knowledge_pipeline_tests.stages.lives.table import KINDS

SERVICES = [name for name, kind in KINDS.items() if kind.connection in ("jira", "confluence", "slack")]
SERVICES += [name for name, kind in KINDS.items() if kind.source_type in ("github_pr", "github_issues")]


def refresh(life: Life, *uris: str) -> None:
    outcome = life.project.refresh(documents=[f"life/{uri}" for uri in uris])
    assert not outcome.failures, outcome.failures


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVICES)
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
            life.require_gone(life.texts[hidden])
            origin.show(hidden)
        refresh(life, hidden, removed)  # what is back is taken again, and nothing else, in whatever order
        assert hidden in life.live_uris() and removed not in life.live_uris()
        life.refresh(due=True)  # what no event told is found, and the tables are those of a new index
        life.require_found(life.texts[other])


def test_permissions_of_named_documents_leave_those_of_others(
    tmp_path: Path, embedding_server: OpenAIServer
) -> None:
    with JiraServer(cloud=True) as server:
        site, project = server.site, Project(tmp_path, embedding_by(embedding_server))
        site.emails |= {"Ada": "ada@acme.example", "Bob": "bob@acme.example"}
        site.levels["7"] = [site.holder("Bob")]
        site.browse("Ada", "Bob")
        one, other = (site.create(title, "The same text.") for title in ("One", "Other"))
        access = {"visibility": "from_source", "tenant": "acme"}
        project.sources["life"] = {
            "id": "life",
            "type": "jira",
            "connection": server.connection(),
            "access": access,
        }
        assert not project.refresh().failures

        site.change(one, security={"id": "7"})
        asked = len(server.requests)
        assert not project.refresh(documents=[f"life/{one}"]).failures
        assert not [each for each in server.requests[asked:] if each.path == "search/jql"], (
            "nothing is listed"
        )
        stored = project.lake.snapshot("jira", "life").read_rows(["uri", "audience"]).to_pylist()
        assert {row["uri"]: row["audience"] for row in stored} == {
            one: "project/PROJ/level/7",
            other: "project/PROJ",
        }
        readers = read_audiences(project.lake, "jira", "life")
        assert set(readers) == {"audience:jira/life/project/PROJ", "audience:jira/life/project/PROJ/level/7"}

        site.delete(other)
        assert not project.refresh(documents=[f"life/{other}"]).failures
        rows = project.lake.snapshot("jira", "life").read_rows(["uri", "archived_at"]).to_pylist()
        assert {row["uri"]: bool(row["archived_at"]) for row in rows} == {one: False, other: True}


class MeetingJira(JiraServer):
    """Answers its first call only once all that share its barrier are called."""

    meeting: threading.Barrier | None = None

    def send(self, asked: Asked) -> Sent:
        meeting, self.meeting = self.meeting, None
        if meeting:
            meeting.wait()
        return super().send(asked)


def test_sources_of_named_documents_wait_for_their_services_side_by_side_and_fail_apart(
    tmp_path: Path, embedding_server: OpenAIServer
) -> None:
    project, documents = Project(tmp_path, embedding_by(embedding_server)), list[str]()
    with ExitStack() as running:
        servers = [running.enter_context(MeetingJira(cloud=True)) for _ in range(3)]
        for number, server in enumerate(servers):
            id_ = f"life{number}"
            documents.append(f"{id_}/{server.site.create('One', f'The former text of {number}.')}")
            project.sources[id_] = {"id": id_, "type": "jira", "connection": server.connection()}
        assert not project.refresh().failures
        meeting = threading.Barrier(3, timeout=60)
        for number, server in enumerate(servers):
            server.site.edit(documents[number].partition("/")[2], f"Another text of {number}.")
            server.meeting = meeting
        servers[1].token = "revoked"
        outcome = project.refresh(documents=documents)
    assert outcome.failures.keys() == {"life1"}
    texts = [
        project.lake.snapshot("jira", f"life{number}").read_rows(["text"]).to_pylist()[0]["text"]
        for number in range(3)
    ]
    assert ["Another" in text for text in texts] == [True, False, True]
    assert outcome.release and outcome.release.version == 2
