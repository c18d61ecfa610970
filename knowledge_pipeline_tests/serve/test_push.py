"""Documents that are pushed over HTTP: who may, what is refused, and what a refresh makes of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from knowledge_pipeline import errors
from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.config import file
from knowledge_pipeline.pushed import PushInbox
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.test_http_search import API, ask, refused
from knowledge_pipeline_tests.serve.world import World

NOTE = {"source": "acme-notes", "id": "guides/deploy.md", "text": "# Deploy\n\nThe heron flies on Tuesdays."}


@pytest.fixture
def running(own_world: World) -> Iterator[Running]:
    """A server of a world that takes what is pushed to the tenant acme; `ci` may push for it."""
    told = json.loads(own_world.config.read_text())
    for id_, access in (
        ("acme-notes", {"visibility": "tenant", "tenant": "acme"}),
        ("acme-secrets", {"visibility": "private", "tenant": "acme", "principals": ["ann"]}),
        ("globex-notes", {"visibility": "tenant", "tenant": "globex"}),
    ):
        entry = {"id": id_, "type": "push", "connection": {"type": "push"}, "access": access}
        told["sources"].append(entry)
    own_world.config.write_text(json.dumps(told))
    own_world.settings = file.load_settings(own_world.config)
    tokens = TokenStore(Lake(own_world.settings.store))
    _, own_world.tokens["ci"] = tokens.create("ci", tenant="acme", scopes=("push",))
    with Running(own_world.settings, config=own_world.config) as server:
        yield server


def test_a_pushed_document_is_found_by_who_may_see_it_and_gone_when_it_is_deleted(
    running: Running, own_world: World
) -> None:
    def found(seer: str) -> list[str]:
        results = ask(running.client(own_world.tokens[seer]), "search", query="heron flies", limit=3)[
            "results"
        ]
        return [each["content"] for each in results if each["citation"]["source"] == "acme-notes"]

    def wait_for(refresh_id: str) -> None:
        operator, state = running.client(own_world.tokens["operator"]), dict[str, str]()
        for _ in range(1_500):
            state = operator.get(f"{API}/sync/status/{refresh_id}").json()
            if state["status"] not in ("queued", "running"):
                break
            time.sleep(0.2)
        assert (state["status"], state["reason"]) == ("succeeded", "push"), state

    with KnowledgeClient(running.url, own_world.tokens["ci"]) as client:
        told = client.push(NOTE["source"], NOTE["id"], NOTE["text"], labels=["ops"], metadata={"area": "x"})
        assert (told["source"], told["id"]) == ("acme-notes", "guides/deploy.md")
        wait_for(told["refresh_id"])
        assert found("acme") == [NOTE["text"]] and found("globex") == found("public") == []
        wait_for(client.delete(NOTE["source"], NOTE["id"])["refresh_id"])
        assert found("acme") == []
        with pytest.raises(errors.NotFound, match=r"has no document 'guides/deploy\.md'"):
            client.delete(NOTE["source"], NOTE["id"])


def test_what_cannot_be_pushed_is_refused_in_a_sentence_and_not_kept(
    running: Running, own_world: World
) -> None:
    ci = running.client(own_world.tokens["ci"])
    operator = running.client(own_world.tokens["operator"])
    for client in (operator, running.client(own_world.tokens["acme"]), running.client()):
        assert client.post(f"{API}/documents", json=NOTE).status_code in (401, 403)
        where = {"source": NOTE["source"], "id": NOTE["id"]}
        assert client.delete(f"{API}/documents", params=where).status_code in (401, 403)
    for source in ("no-such", "globex-notes", "acme-secrets", "shop-docs"):  # nobody's, another's, not theirs
        said = refused(ci.post(f"{API}/documents", json=NOTE | {"source": source}), 404, "NotFound")
        assert said == f"there is no source called {source!r}"
        answer = ci.delete(f"{API}/documents", params={"source": source, "id": "a"})
        assert refused(answer, 404, "NotFound") == said
    said = refused(ci.post(f"{API}/documents", json=NOTE | {"source": "acme-docs"}), 422, "InvalidQuery")
    assert said == "source 'acme-docs' is of type 'markdown': documents are pushed to one of type 'push'"
    for wrong, sentence in (
        ({"id": "/etc/passwd"}, "names no document"),
        ({"text": " "}, "the text is empty"),
        ({"text": None}, "body.text"),
        ({"colour": "red"}, "body.colour: unknown; allowed: source, id, text"),
        ({"url": "javascript:alert(1)"}, "body.url"),
        ({"metadata": {"namespace": "other"}}, "metadata cannot have the key"),
        ({"metadata": {"a": {"b": 1}}}, "body.metadata"),
    ):
        answer = ci.post(f"{API}/documents", json=NOTE | wrong)
        assert sentence in refused(answer, 422, "InvalidQuery"), wrong
    assert ci.post(f"{API}/documents", json=NOTE | {"text": "x" * 2_000_000}).status_code == 413
    assert not PushInbox(Lake(own_world.settings.store).folder).list_waiting("acme-notes")


def test_what_was_accepted_is_on_the_disk(running: Running, own_world: World) -> None:
    assert running.client(own_world.tokens["ci"]).post(f"{API}/documents", json=NOTE).status_code == 202
    content = PushInbox(Lake(own_world.settings.store).folder).read("acme-notes", NOTE["id"])
    rows = Lake(own_world.settings.store).snapshot("push", "acme-notes").read_rows(["uri"]).to_pylist()
    assert (content and json.loads(content)["text"] == NOTE["text"]) or rows == [{"uri": NOTE["id"]}]
