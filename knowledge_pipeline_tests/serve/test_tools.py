"""The search as a tool of OpenAI's form, in Python and over HTTP."""

from __future__ import annotations

import asyncio
import json

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.openai_tools import acall_tool, build_search_tool, call_tool, stream_results

TOOLS = "/api/v1/knowledge/tools"
ASKED = json.dumps({"query": "payment", "languages": ["python"], "limit": 2, "since": None})


@pytest.fixture(scope="module")
def base(world):
    with KnowledgeBase.open(world.settings, access=Access("acme", frozenset())) as opened:
        yield opened


def test_the_schema_has_the_form_of_both_apis():
    chat, responses = build_search_tool(), build_search_tool("responses")
    assert set(chat) == {"type", "function"}
    assert responses == {"type": "function", **chat["function"], "strict": False}
    parameters = chat["function"]["parameters"]
    assert chat["function"]["name"] == "search_knowledge_base"
    assert (parameters["type"], parameters["required"]) == ("object", ["query"])
    assert all(each["description"] and "type" in each for each in parameters["properties"].values())
    assert len(json.dumps(chat)) < 5_000


def test_a_call_is_answered_for_the_model_to_read(base):
    told = call_tool(base, ASKED)
    assert told == asyncio.run(acall_tool(base.asynchronous, ASKED))
    assert told.startswith("[1] ") and "[2] " in told and "[3] " not in told
    assert "```python\n" in told


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("{", "Error: the arguments are not JSON: send one object"),
        ("[]", "Error: the arguments are not an object: send one with query, since"),
        ("{}", "Error: query is missing"),
        ('{"query": "x", "top": 3}', "Error: there is no argument 'top'; allowed: query, since"),
    ],
)
def test_a_call_that_is_wrong_is_answered_so_that_the_model_can_mend_it(base, arguments, sentence):
    assert call_tool(base, arguments).startswith(sentence)
    assert asyncio.run(acall_tool(base.asynchronous, arguments)).startswith(sentence)


def test_results_are_streamed_one_by_one(base):
    async def streamed():
        return [result["id"] async for result in stream_results(base.asynchronous, ASKED)]

    expected = base.search("payment lang:python", limit=2)
    assert asyncio.run(streamed()) == [result.id for result in expected.results]


def test_a_stream_of_a_question_that_makes_no_sense_raises(base):
    async def streamed():
        return [result async for result in stream_results(base.asynchronous, "{}")]

    with pytest.raises(InvalidQuery, match="query is missing"):
        asyncio.run(streamed())


def test_the_server_lists_the_tool_and_answers_its_calls(asking):
    client = asking("acme")
    assert client.get(TOOLS).json() == {"tools": [build_search_tool()]}
    assert client.get(TOOLS, params={"format": "responses"}).json() == {
        "tools": [build_search_tool("responses")]
    }
    answer = client.post(f"{TOOLS}/search_knowledge_base", json=json.loads(ASKED))
    assert answer.status_code == 200
    assert len(answer.json()["results"]) == 2
    refused = client.post(f"{TOOLS}/search_knowledge_base", json={"query": "x", "top": 3})
    assert (refused.status_code, refused.json()["code"]) == (422, "InvalidQuery")


def test_the_server_streams_the_results_where_that_is_accepted(asking):
    headers = {"Accept": "text/event-stream"}
    answer = asking("acme").post(f"{TOOLS}/search_knowledge_base", json=json.loads(ASKED), headers=headers)
    events = [event.split("\n")[0] for event in answer.text.strip().split("\n\n")]
    assert events == ["event: result", "event: result", "event: answer"]


def test_the_tool_is_listed_to_nobody_without_a_token(server):
    assert server.client("kpt_00000000_nothing").get(TOOLS).status_code == 401
