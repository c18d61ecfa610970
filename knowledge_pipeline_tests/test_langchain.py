"""The retriever for LangChain: what the standard tests of langchain-tests ask, over both doors."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import create_retriever_tool

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.langchain import KnowledgeRetriever
from knowledge_pipeline_tests.client.scripted_server import Scripted, ScriptedServer
from knowledge_pipeline_tests.conftest import Project

QUESTION = "how are payments retried"


@pytest.fixture(scope="module")
def indexed(template: Project) -> Project:
    """Four documents."""
    folder = template.root / "docs"
    folder.mkdir()
    for name in ("first", "second", "third", "fourth"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nHow payments of the {name} kind are retried.\n")
    template.declare("docs", "markdown", folder)
    template.refresh()
    return template


@pytest.fixture
def base(project: Project, indexed: Project) -> Iterator[KnowledgeBase]:
    """A copy of them, open."""
    project.copy_all(indexed)
    with KnowledgeBase.open(project.settings) as opened:
        yield opened


@pytest.fixture(params=["base", "client"])
def asked(request: pytest.FixtureRequest, base: KnowledgeBase) -> Iterator[KnowledgeBase | KnowledgeClient]:
    """A knowledge base; or a client, whose server tells that base's answers."""
    if request.param == "base":
        yield base
        return

    class Server(ScriptedServer):
        def next(self, request, body):
            super().next(request, body)
            how = {"limit": body.get("limit"), "filters": Filters(**_tuples(body.get("filters", {})))}
            return Scripted(told=base.search(body["query"], **how).as_json())

    with Server(Scripted()) as server, KnowledgeClient(server.url) as client:
        yield client


def _tuples(filters: dict) -> dict:
    return {name: tuple(values) for name, values in filters.items()}


def test_the_number_of_documents_is_set_in_the_constructor_or_in_the_call(asked):
    assert len(KnowledgeRetriever(base=asked, k=3).invoke(QUESTION)) == 3
    assert len(KnowledgeRetriever(base=asked, k=1).invoke(QUESTION)) == 1
    assert len(KnowledgeRetriever(base=asked).invoke(QUESTION, k=2)) == 2


def test_documents_carry_their_citation_and_what_feedback_needs(asked):
    (document,) = KnowledgeRetriever(base=asked, k=1, filters=Filters(paths=("second.md",))).invoke(QUESTION)
    assert isinstance(document, Document)
    assert "the second kind" in document.page_content
    told = document.metadata
    assert (told["citation"], told["source"], told["path"]) == ("second.md:1-3", "docs", "second.md")
    assert told["query_id"] and told["release"] > 0 and 0 < told["score"] <= 1 and told["degraded"] == []
    json.dumps(told)
    assert document.id


def test_the_tool_that_langchain_makes_of_it_cites(asked):
    tool = create_retriever_tool(
        KnowledgeRetriever(base=asked, k=2), "search_docs", "Searches the documents."
    )
    content = tool.invoke({"query": "payments of the second kind"})
    assert content.startswith("[second.md:1-3]\n# second") and content.count(".md:1-3]\n") == 2


def test_a_text_alone_is_the_content_of_its_result(asked, base):
    (document,) = KnowledgeRetriever(base=asked, k=1, cite=False).invoke(QUESTION)
    assert document.page_content == base.search(QUESTION, limit=1).results[0].content


def test_it_is_awaited_and_composed_as_any_runnable(asked):
    chain = KnowledgeRetriever(base=asked) | RunnableLambda(
        lambda found: {each.metadata["path"] for each in found}
    )

    async def awaited():
        return await chain.ainvoke(QUESTION)

    assert asyncio.run(awaited()) == chain.invoke(QUESTION) == {f"{name}.md" for name in _NAMES}


_NAMES = ("first", "second", "third", "fourth")


def test_filters_of_a_call_go_before_those_of_the_retriever(asked):
    retriever = KnowledgeRetriever(base=asked, filters=Filters(paths=("first.md",)))
    found = retriever.invoke(QUESTION, filters=Filters(paths=("third.md",)))
    assert [document.metadata["path"] for document in found] == ["third.md"]
    (typed,) = retriever.invoke(f"{QUESTION} path:third.md", filters=Filters())
    assert typed.metadata["notes"] == ["taken as filters, and not searched for: `path:third.md`"]


def test_a_server_is_asked_in_the_retriever_s_mode_awaited_or_not():
    empty = {"query_id": "q", "release": 1, "degraded": [], "results": []}
    with ScriptedServer(Scripted(told=empty)) as server, KnowledgeClient(server.url) as client:
        retriever = KnowledgeRetriever(base=client, mode="words")
        retriever.invoke(QUESTION)
        asyncio.run(retriever.ainvoke(QUESTION))
        assert [body["mode"] for _, _, body in server.asked] == ["words", "words"]


def test_what_goes_wrong_is_raised_and_no_empty_list(base, project):
    with pytest.raises(InvalidQuery):
        KnowledgeRetriever(base=base).invoke("")
    shutil.rmtree(project.lake.root)
    with KnowledgeBase.open(project.settings) as empty, pytest.raises(NotFound):
        KnowledgeRetriever(base=empty).invoke(QUESTION)
