"""What hangs on documents lives as they do, whatever service keeps it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.contract.describe import describe_relation
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.fakes.kept_files import FileStore, KeptFile
from knowledge_pipeline_tests.fakes.slack.server import SlackServer
from knowledge_pipeline_tests.stages.lives.script import quick_retries


class Place(ABC):
    """A service, as those who attach files change it."""

    def __init__(self, source_type: str, server: Any) -> None:
        self.source_type, self.server = source_type, server

    @property
    def connection(self) -> Any:
        connection = self.server.connection
        return connection() if callable(connection) else connection

    def create(self, title: str) -> str:
        return self.server.create(title, f"About {title}.")

    @abstractmethod
    def attach(self, uri: str, name: str, text: str, **more: Any) -> object:
        """A new file at a document; what `detach` takes."""

    @abstractmethod
    def detach(self, uri: str, file: Any) -> None:
        """Take it away."""

    def remove(self, uri: str) -> None:
        self.server.delete(uri)


class ServicePlace(Place):
    def attach(self, uri: str, name: str, text: str, **more: Any) -> object:
        return self.server.attach(uri, name, text.encode(), **more)

    def detach(self, uri: str, file: Any) -> None:
        self.server.detach(uri, file)


class ConfluencePlace(ServicePlace):
    def detach(self, uri: str, file: Any) -> None:
        self.server.delete(file)


class CodeHostPlace(Place):
    """Files are links in a text."""

    links: dict[str, list[str]]

    def attach(self, uri: str, name: str, text: str, **more: Any) -> object:
        link = self.server.upload(name, text.encode(), **more)
        self.links.setdefault(uri, []).append(link)
        self._write(uri)
        return link

    def detach(self, uri: str, file: Any) -> None:
        self.links[uri].remove(file)
        self._write(uri)

    def create(self, title: str) -> str:
        self.links = getattr(self, "links", {})
        return super().create(title)

    def _write(self, uri: str) -> None:
        self.server.edit(uri, "\n".join(["See", *self.links[uri]]))


PLACES: Mapping[str, Callable[[], Place]] = {
    "jira cloud": lambda: ServicePlace("jira", JiraServer(cloud=True)),
    "jira server": lambda: ServicePlace("jira", JiraServer(cloud=False, context="/jira")),
    "confluence cloud": lambda: ConfluencePlace("confluence", ConfluenceServer("cloud")),
    "confluence server": lambda: ConfluencePlace("confluence", ConfluenceServer("server")),
    "slack": lambda: ServicePlace("slack", SlackServer()),
    "github": lambda: CodeHostPlace("github_issues", GithubServer(kind="issue")),
    "gitlab": lambda: CodeHostPlace("github_pr", GitlabServer(kind="merge_request")),
}


@pytest.fixture
def store() -> Iterator[FileStore]:
    with FileStore() as server:
        yield server


class Attached:
    """A project that reads a place, and what its snapshot has of attachments."""

    def __init__(self, project: Project, place: Place) -> None:
        self.project, self.place, self._compared = project, place, 0
        self.configure(attachments=True)

    def configure(self, **more: Any) -> None:
        told = {"id": "a", "type": self.place.source_type, "connection": self.place.connection}
        self.project.sources["a"] = (
            told | ({"state": "all"} if "github" in self.place.source_type else {}) | more
        )

    def refresh(self, *, compared: bool = True, **options: bool) -> dict[str, str]:
        """What live attachments say, by name; skipped ones by their reason."""
        outcome = self.project.refresh(**options)
        for failure in outcome.failures.values():
            raise failure
        if compared:
            self._compared += 1
            full = Project(self.project.root / f"full{self._compared}", self.project.embedding)
            full.sources = self.project.sources
            assert not full.refresh().failures
            assert tables(self.project, archived=False) == tables(full)
        return {
            row["path"].rpartition("/")[2]: row["skipped"] or row["text"].strip()
            for row in self.rows()
            if "/attachments/" in row["uri"] and not row["archived_at"]
        }

    def rows(self) -> list[dict[str, Any]]:
        table = self.project.lake.snapshot(self.place.source_type, "a")
        return table.read_rows(table.schema.names).to_pylist()


@pytest.fixture
def attached(request, project) -> Iterator[Attached]:
    place = PLACES[request.param]()
    with place.server, quick_retries():
        yield Attached(project, place)


@pytest.mark.slow
@pytest.mark.parametrize("attached", PLACES, indirect=True)
def test_attachments_live_as_their_documents_do(attached, store, monkeypatch):
    place = attached.place
    [source] = attached.project.settings.sources
    with open_source(source, cache=attached.project.root) as opened:  # what is gone is known at once
        monkeypatch.setattr(type(opened), "full_listing_interval", timedelta(0))
    place.server.files.store = store
    first, second = place.create("Fees"), place.create("Rota")
    fees = place.attach(first, "fees.txt", "Fees are waived.")
    place.attach(first, "picture.png", "no document")
    place.attach(second, "rota.txt", "Ada is on call.")
    assert attached.refresh() == {"fees.txt": "Fees are waived.", "rota.txt": "Ada is on call."}
    assert store.identities == [], "the other host was sent no token"

    downloads = list(place.server.files.downloads)
    before = tables(attached.project)
    attached.refresh(compared=False)
    assert tables(attached.project) == before
    assert place.server.files.downloads == downloads, "a refresh without a change reads none"

    place.attach(first, "more.txt", "More of it.")
    place.detach(first, fees)
    assert attached.refresh(compared=False).keys() == {"more.txt", "rota.txt"}
    assert len(place.server.files.downloads) == len(downloads) + 1, "what stays is not read again"
    assert attached.refresh() == {"more.txt": "More of it.", "rota.txt": "Ada is on call."}

    place.remove(second)
    assert attached.refresh().keys() == {"more.txt"}
    gone = {row["uri"] for row in attached.rows() if row["archived_at"]}
    assert len([uri for uri in gone if "/attachments/" in uri]) == 2, (
        "archived with their documents, not lost"
    )

    attached.configure()
    assert attached.refresh() == {}
    attached.configure(attachments={"max_bytes": 3})
    assert attached.refresh()["more.txt"].startswith("larger than 3 bytes")
    attached.configure(attachments=True)
    assert attached.refresh() == {"more.txt": "More of it."}


@pytest.mark.parametrize("attached", ["jira server"], indirect=True)
def test_an_attachment_says_what_it_hangs_on_and_follows_it(attached):
    place, site = attached.place, attached.place.server.site
    ticket = place.create("Fees")
    place.attach(ticket, "fees.txt", "Fees are waived for albatrosses.")
    attached.refresh(compared=False)
    with KnowledgeBase(attached.project.settings) as base:
        [hit] = base.search("albatrosses waived").results[:1]
        told = hit.metadata
        assert (told["title"], told["path"]) == (
            "fees.txt (attached to PROJ-1 Fees)",
            "PROJ/PROJ-1/fees.txt",
        )
        assert f"{place.server.url}/secure/attachment/90001/fees.txt#L1" == hit.citation.url
        assert told["attached_to"]["uri"] == ticket
        [relation] = base.related(f"a:{ticket}").relations
        assert (describe_relation(relation), relation.document.path) == ("has attachment", told["path"])
        assert describe_relation(base.related(f"a:{relation.document.uri}").relations[0]) == "attached to"

    site.change(ticket, summary="Charges", status="Done")
    attached.refresh(compared=False)
    [row] = [row for row in attached.rows() if "/attachments/" in row["uri"]]
    assert row["title"] == "fees.txt (attached to PROJ-1 Charges)"
    assert json.loads(row["metadata"])["status"] == "Done"
    assert len(place.server.files.downloads) == 1, "what it hangs on is not in the file"

    place.attach(ticket, "broken.txt", "", status=503)
    assert "answered 503" in str(attached.project.refresh().failures["a"])
    [path] = [path for path in place.server.files.by_path if path.endswith("broken.txt")]
    place.server.files.by_path[path] = KeptFile(b"It is whole.")
    assert attached.refresh(compared=False)["broken.txt"] == "It is whole.", "the ticket counted as unread"


@pytest.mark.parametrize("attached", ["jira server"], indirect=True)
def test_attachments_of_other_formats_are_counted_in_the_notes_of_a_refresh(attached):
    ticket = attached.place.create("Fees")
    for name in ("fees.txt", "a.png", "b.png", "c.vsd"):
        attached.place.attach(ticket, name, "Fees are waived.")
    stats = {stats.stage: stats for stats in attached.project.refresh().stats}
    assert stats["snapshot"].notes["attachments of other formats (2 .png, 1 .vsd)"] == 3


@pytest.mark.parametrize("attached", ["jira server"], indirect=True)
def test_an_attachment_is_read_by_whom_its_document_is_read_by(attached):
    place, site = attached.place, attached.place.server.site
    site.emails["Ada Lovelace"] = "ada@example.org"
    site.browse("Ada Lovelace")
    site.levels = {"7": []}
    attached.configure(
        attachments=True, access={"visibility": "from_source", "trust_emails": True, "tenant": "acme"}
    )
    ticket = place.create("Fees")
    place.attach(ticket, "fees.txt", "Fees are waived.")
    attached.refresh(compared=False)
    first = {row["audience"] for row in attached.rows()}
    assert len(first) == 1 and None not in first
    site.change(ticket, security={"id": "7"})
    attached.refresh(compared=False)
    assert first.isdisjoint(changed := {row["audience"] for row in attached.rows()})
    assert len(changed) == 1 and len(place.server.files.downloads) == 1
