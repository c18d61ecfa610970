"""MCP over streamable HTTP, by the SDK's own client."""

from __future__ import annotations

import re
import time
from functools import partial

import anyio
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.config.operation import McpSettings
from knowledge_pipeline.embedding import query_embedder as vectors
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.mcp.server import create_server
from knowledge_pipeline.serve.mcp.tools import TOOLS
from knowledge_pipeline.serve.openai_tools import acall_tool
from knowledge_pipeline.serve.service import Identity, Service
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.openai_server import Fault
from knowledge_pipeline_tests.serve.mcp_calls import RIGHT, all_of, over_http, text_of
from knowledge_pipeline_tests.serve.running import Running

SPECIFIED = {
    *("knowledge_query", "code_search", "search_jira_tickets", "search_confluence", "find_related_code"),
    *("analyze_dependencies", "find_usages", "get_call_graph", "get_class_hierarchy", "search_code"),
    *("find_references", "get_dependencies", "get_document", "build_context", "list_sources"),
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPTED = {"Accept": "application/json, text/event-stream"}


def test_the_tools_are_those_of_the_specification_and_say_what_they_take(server, world):
    async def listed():
        async with over_http(server.url, world.tokens["operator"]) as client:
            return (await client.list_tools()).tools, client.instructions

    tools, instructions = anyio.run(listed)
    assert {tool.name for tool in tools} == SPECIFIED == set(TOOLS) == set(RIGHT)
    for tool in tools:
        assert tool.annotations.read_only_hint
        unlisted = {"org_id", "content_type", "max_age"}  # which programs send
        assert set(tool.input_schema["properties"]) == {*TOOLS[tool.name].input_model.model_fields} - unlisted
        assert tool.title and tool.description and tool.output_schema is None
        assert f"`{tool.name}`" in instructions or tool.name == "search_confluence"  # which is not public


@pytest.mark.sampled
@pytest.mark.parametrize(("mode", "seer"), [("auto", "gil"), ("legacy", "public"), ("auto", "acme")])
def test_every_tool_answers_and_none_shows_what_the_token_may_not_see(server, world, mode, seer):
    async def asked():
        async with over_http(server.url, world.tokens[seer], mode=mode) as client:
            return {name: await client.call_tool(name, dict(given)) for name, given in RIGHT.items()}

    for name, result in anyio.run(asked).items():
        if name == "search_confluence" and seer != "gil":  # who alone may see a wiki
            assert "there is no tool 'search_confluence'" in text_of(result)
            continue
        assert not result.is_error, (name, text_of(result))
        assert result.structured_content is None, "many clients hand a model nothing else where it is there"
        assert not text_of(result).lstrip().startswith("{"), "the JSON is not told twice"
        assert "shop" in all_of(result) or name == "search_confluence", name
        assert [word for word in world.canaries_hidden_from(seer) if word in all_of(result)] == [], name


def test_a_tool_answers_what_the_python_door_answers(world):
    async def asked(url: str):
        async with over_http(url, world.tokens["acme"]) as client:
            given = {"query": "payment", "languages": "python", "paths": '["acme/", "shop/"]', "limit": 3}
            return await client.call_tool("code_search", given)

    with KnowledgeBase.open(world.settings, access=Access("acme", frozenset())) as base:
        filters = Filters(languages=("python",), paths=("acme/", "shop/"))
        expected = base.search("payment", type="code", filters=filters, limit=3).as_json()["results"]
    with Running(world.settings, config=world.config, mcp=McpSettings(output_schemas=True)) as server:
        told = anyio.run(asked, server.url).structured_content["results"]
    assert [(each["id"], each["content"], each["source"]) for each in told] == [
        (each["id"], each["content"], each["citation"]["source"]) for each in expected
    ]
    places = [(each["citation"]["path"], each["citation"]["lines"].replace("L", "")) for each in expected]
    assert [each["location"] for each in told] == [f"{path}:{lines}" for path, lines in places] != []
    assert [each["document_id"] for each in told] == [
        f"{each['citation']['source']}:{each['citation']['path']}" for each in expected
    ]


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("knowledge_query", {}, "query is missing"),
        (
            "knowledge_query",
            {"query": "x" * 5000},
            "the question has 5,000 characters; allowed: at most 4,000",
        ),
        (
            "knowledge_query",
            {"query": "pay", "limit": 0},
            "limit: input should be greater than or equal to 1",
        ),
        ("knowledge_query", {"query": "pay", "since": "soon"}, "found since:soon; allowed: a date"),
        (
            "knowledge_query",
            {"query": "pay", "source_types": ["wikipedia"]},
            "source_types.0: input should be 'code'",
        ),
        (
            "code_search",
            {"query": "pay", "langauge": "go"},
            "there is no argument 'langauge'; allowed: query",
        ),
        ("search_code", {}, "give `query`, a piece of code, or `file`, a path"),
        ("search_code", {"file": "nowhere.py"}, "there is no file 'nowhere.py' in the index"),
        ("search_jira_tickets", {"query": "lang:python"}, "the question has filters but no words"),
        (
            "find_usages",
            {"target": "Stor"},
            "there is no symbol 'Stor' in the code graph: did you mean Store?",
        ),
        ("get_call_graph", {"target": "Store", "direction": "up"}, "direction: input should be 'callers'"),
        (
            "analyze_dependencies",
            {"target": "Store", "depth": 11},
            "the depth is 11 steps; allowed: at most 10",
        ),
        ("get_document", {"id": "nothing"}, "there is no chunk or document 'nothing'"),
        ("get_document", {"id": "shop-docs:README.md", "offset": 9}, "found offset 9; the document has 1"),
        ("build_context", {"task": " "}, "the task is empty"),
        ("drop_tables", {}, "there is no tool 'drop_tables'; there are knowledge_query"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(server, world, name, given, sentence):
    async def asked():
        async with over_http(server.url, world.tokens["public"]) as client:
            return await client.call_tool(name, given)

    result = anyio.run(asked)
    assert result.is_error
    assert text_of(result).startswith(f"Error: {sentence}")
    assert "\n" not in text_of(result) and "pydantic" not in text_of(result)


def test_a_tool_that_cannot_answer_names_no_command_that_an_agent_might_type(world, tmp_path):
    service = Service(world.settings.model_copy(update={"store": tmp_path / "empty"}))
    identity = Identity(Access.operator("mcp"), frozenset({"query"}), "operator", 600)

    async def asked() -> dict[str, str]:
        async with Client(create_server(service, lambda _: identity)) as client:
            return {name: text_of(await client.call_tool(name, dict(given))) for name, given in RIGHT.items()}

    try:
        told = anyio.run(asked)
        by_openai = anyio.run(partial(acall_tool, service.base, {"query": "payment"}))
    finally:
        service.close()
    sentence = "Error: nothing is released yet: whoever operates this knowledge base can mend that"
    assert {*told.values(), by_openai} == {sentence}


@pytest.mark.parametrize("name", ["nobody", "expired", "revoked"])
def test_without_a_valid_token_nothing_is_answered(server, world, name):
    token = world.tokens.get(name, "kpt_00000000_nothing")
    answer = server.client(token).post("/mcp", json=INITIALIZE, headers=ACCEPTED)
    assert (answer.status_code, answer.json()["code"]) == (401, "Unauthenticated")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_token_without_the_scope_query_may_ask_nothing(server, world):
    async def asked():
        async with over_http(server.url, world.tokens["admin"]) as client:
            return await client.call_tool("knowledge_query", {"query": "payment"})

    assert text_of(anyio.run(asked)) == (
        "Error: this requires the scope 'query': whoever operates this knowledge base can mend that"
    )


@pytest.mark.parametrize(
    ("name", "asked", "hidden", "missing"),
    [
        ("get_document", "id", "globex-docs:README.md", "globex-docs:MISSED.md"),
        ("search_code", "file", "canaryglobexcode.py", "canaryglobexnone.py"),
        ("find_usages", "target", "canaryglobexcode_total", "canaryglobexcude_total"),
        ("find_references", "target", "globex/canaryglobexcode.py", "globex/canaryglobexcude.py"),
        ("get_call_graph", "target", "canaryglobexcode_retry", "canaryglobexcude_retry"),
        ("get_dependencies", "target", "globex/canaryglobexcode", "globex/canaryglobexcude"),
    ],
)
def test_another_tenant_s_documents_are_answered_as_unknown(server, world, name, asked, hidden, missing):
    async def both():
        async with over_http(server.url, world.tokens["acme"]) as client:
            return [await client.call_tool(name, {asked: each}) for each in (hidden, missing)]

    found, unknown = anyio.run(both)
    assert found.is_error and unknown.is_error
    said = [text_of(found).replace(hidden, "IT"), text_of(unknown).replace(missing, "IT")]
    assert len({sentence.partition(": did you mean ")[0] for sentence in said}) == 1, said
    assert [word for word in world.canaries_hidden_from("acme") if word in said[0]] == []


def test_two_at_once_each_see_their_own(server, world):
    found: dict[str, set[str]] = {}

    async def ask(seer: str) -> None:
        async with over_http(server.url, world.tokens[seer]) as client:
            for _ in range(5):
                result = await client.call_tool("knowledge_query", {"query": "payment", "limit": 100})
                sources = set(re.findall(r"source (\S+) · score", text_of(result)))
                found.setdefault(seer, set()).update(sources)

    async def at_once():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "ida")
            tasks.start_soon(ask, "globex")

    anyio.run(at_once)
    for seer in ("ida", "globex"):
        assert found[seer] == {source.id for source in world.sources_of(seer)}


def test_more_requests_than_allowed_are_told_when_to_come_back(world):
    with Running(world.settings, config=world.config) as fresh:

        async def asked():
            async with over_http(fresh.url, world.tokens["slow"]) as client:
                return [await client.call_tool("knowledge_query", {"query": "payment"}) for _ in range(3)]

        *answered, refused = anyio.run(asked)
    assert not any(result.is_error for result in answered)
    assert refused.is_error
    assert text_of(refused).startswith("Error: more than 2 requests within a minute: try again in ")


def test_a_question_that_is_cancelled_makes_room_for_the_next(world, embedding_server, monkeypatch):
    monkeypatch.setattr(vectors, "ENDPOINT_BUDGET_S", 600.0)  # else the question goes on without its vector
    with Running(world.settings, config=world.config, max_concurrent=1, timeout_s=600) as narrow:

        async def asked() -> float:
            async with over_http(narrow.url, world.tokens["public"]) as client:
                await client.call_tool("get_document", {"id": "shop-docs:README.md"})
                embedding_server.fail_next(Fault(wait_s=600))
                slow = {"query": "a question that takes long"}
                async with anyio.create_task_group() as group:
                    group.start_soon(client.call_tool, "knowledge_query", slow)
                    while not embedding_server.at_once:
                        await anyio.sleep(0.01)
                    group.cancel_scope.cancel()
                began = time.monotonic()
                assert not (await client.call_tool("get_document", {"id": "shop-docs:README.md"})).is_error
                assert embedding_server.at_once
                embedding_server.go_on()
                return time.monotonic() - began

        assert anyio.run(asked) < 60


def test_a_connection_does_not_outlive_its_token(own_world):
    tokens = TokenStore(Lake(own_world.settings.store))
    with Running(own_world.settings, config=own_world.config) as server:

        async def asked():
            _, secret = tokens.create("for a while")
            async with over_http(server.url, secret) as client:
                assert not (await client.call_tool("knowledge_query", {"query": "payment"})).is_error
                tokens.revoke("for a while")
                await anyio.sleep(1.1)
                with pytest.raises(MCPError):
                    await client.call_tool("knowledge_query", {"query": "payment"})

        anyio.run(asked)


def test_pages_of_other_sites_are_refused(server, world):
    def posted(**headers: str) -> int:
        client = server.client(world.tokens["public"])
        return client.post("/mcp", json=INITIALIZE, headers={**ACCEPTED, **headers}).status_code

    assert posted(Origin="https://elsewhere.example") == 403
    assert posted(Origin="null") == 403
    assert posted(Host="elsewhere.example") == 421
    assert posted(Origin=server.url) == 200


def test_there_is_no_session_to_listen_to_or_to_steal(server, world):
    client = server.client(world.tokens["public"])
    answer = client.post("/mcp", json=INITIALIZE, headers=ACCEPTED)
    assert answer.status_code == 200
    assert "mcp-session-id" not in answer.headers
    assert client.get("/mcp", headers=ACCEPTED).status_code == 405
    assert client.delete("/mcp").status_code == 405
