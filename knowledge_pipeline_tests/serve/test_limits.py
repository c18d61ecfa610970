"""What asks for more than `limits` allows is refused by every interface, in the same sentence."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.cli.app import app
from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import LimitSettings
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.errors import ConfigError, InvalidQuery
from knowledge_pipeline.query.plan import PROFILES
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World

SMALLEST = {
    **{"query_chars": 100, "example_chars": 100, "task_chars": 100, "name_chars": 100, "id_chars": 500},
    **{
        "task_files": 1,
        "filter_values": 10,
        "filter_patterns": 5,
        "filter_chars": 200,
        "results": 20,
        "context_tokens": 1_000,
        "graph_nodes": 100,
        "graph_depth": 5,
    },
}
LONG, PREFIX = "pay " * 25 + "x", "/api/v1/knowledge"
MANY = tuple(f"s{number}" for number in range(11))
PATHS = [word for each in MANY[:4] for word in ("--path", each)]
SOURCES = [word for each in MANY for word in ("--source", each)]


@dataclass(frozen=True)
class Excess:
    """One question too much, as each interface takes it; None where an interface cannot ask it."""

    key: str
    sentence: str
    python: Callable[[KnowledgeBase], Any]
    cli: list[str]
    http: tuple[str, dict[str, Any] | None]  # path, body; without a body it is a GET
    mcp: tuple[str, dict[str, Any]]
    page: str | None

    @property
    def told(self) -> str:
        return f"{self.sentence}; allowed: at most {SMALLEST[self.key]:,} (limits.{self.key})"


EXCESSES = (
    Excess(
        "query_chars",
        "the question has 101 characters",
        lambda base: base.search(LONG),
        ["search", LONG],
        ("/search", {"query": LONG}),
        ("knowledge_query", {"query": LONG}),
        f"/?q={LONG}",
    ),
    Excess(
        "query_chars",
        "the question has 101 characters",
        lambda base: base.search(LONG, type="code"),
        ["debug", "--query", LONG, "--type", "code"],
        ("/query", {"query": LONG}),
        ("code_search", {"query": LONG}),
        f"/?q={LONG}&type=code",
    ),
    Excess(
        "example_chars",
        "the text has 101 characters",
        lambda base: base.similar(text=LONG),
        ["similar", LONG],
        ("/similar", {"text": LONG}),
        ("search_code", {"query": LONG}),
        f"/?q={LONG}&type=similar",
    ),
    Excess(
        "example_chars",
        "the snippet has 101 characters",
        lambda base: base.context(Task("pay", snippet=LONG)),
        ["context", "pay", "--snippet", LONG],
        ("/context", {"task": "pay", "snippet": LONG}),
        ("build_context", {"task": "pay", "snippet": LONG}),
        None,
    ),
    Excess(
        "task_files",
        "the task has 2 files",
        lambda base: base.context(Task("pay", files=("a.py", "b.py"))),
        ["context", "pay", "--file", "a.py", "--file", "b.py"],
        ("/context", {"task": "pay", "files": ["a.py", "b.py"]}),
        ("build_context", {"task": "pay", "files": ["a.py", "b.py"]}),
        None,
    ),
    Excess(
        "example_chars",
        "the suffix has 101 characters",
        lambda base: base.context(Task("pay", kind="complete_code", suffix=LONG)),
        ["context", "pay", "--task", "complete_code", "--suffix", LONG],
        ("/context", {"task": "pay", "kind": "complete_code", "suffix": LONG}),
        ("build_context", {"task": "pay", "kind": "complete_code", "suffix": LONG}),
        None,
    ),
    Excess(
        "task_chars",
        "the task has 101 characters",
        lambda base: base.context(LONG),
        ["context", LONG],
        ("/context", {"task": LONG}),
        ("build_context", {"task": LONG}),
        None,
    ),
    Excess(
        "name_chars",
        "the value of a filter has 101 characters",
        lambda base: base.search("pay", filters=Filters(paths=("x" * 101,))),
        ["search", "pay", "--path", "x" * 101],
        ("/search", {"query": "pay", "filters": {"paths": ["x" * 101]}}),
        ("knowledge_query", {"query": "pay", "paths": ["x" * 101]}),
        f"/?q=pay&path={'x' * 101}",
    ),
    Excess(
        "name_chars",
        "the path has 101 characters",
        lambda base: base.similar(path="x" * 101),
        ["similar", "--file", "x" * 101],
        ("/similar", {"path": "x" * 101}),
        ("search_code", {"file": "x" * 101}),
        None,
    ),
    Excess(
        "name_chars",
        "the target has 101 characters",
        lambda base: base.graph.find_usages("x" * 101),
        ["graph", "usages", "x" * 101],
        ("/graph/usages", {"target": "x" * 101}),
        ("find_usages", {"target": "x" * 101}),
        f"/graph?target={'x' * 101}",
    ),
    Excess(
        "id_chars",
        "the id has 501 characters",
        lambda base: base.get("s:" + "x" * 499),
        ["related", "x" * 501],
        ("/s:" + "x" * 499, None),
        ("get_document", {"id": "s:" + "x" * 499}),
        f"/doc?id=s:{'x' * 499}",
    ),
    Excess(
        "filter_values",
        "the filters together have 11 values",
        lambda base: base.search("pay", filters=Filters(sources=MANY)),
        ["search", "pay", *SOURCES],
        ("/query/docs", {"query": "pay", "filters": {"sources": MANY[:1]}}),
        ("knowledge_query", {"query": "pay", "sources": MANY}),
        "/?q=pay&" + "&".join(f"source={each}" for each in MANY),
    ),
    Excess(
        "filter_values",
        "the filters together have 11 values",
        lambda base: base.search("pay source:a,b,c", filters=Filters(sources=MANY[:8])),
        ["search", "pay source:a,b,c", *SOURCES[:16]],
        ("/search", {"query": "pay source:a,b,c", "filters": {"sources": MANY[:8]}}),
        ("knowledge_query", {"query": "pay source:a,b,c", "sources": MANY[:8]}),
        "/?q=pay source:a,b,c&" + "&".join(f"source={each}" for each in MANY[:8]),
    ),
    Excess(
        "filter_patterns",
        "the filters together, by authors and paths, have 6 values",
        lambda base: base.search("pay author:a,b", filters=Filters(paths=MANY[:4])),
        ["search", "pay author:a,b", *PATHS],
        ("/search", {"query": "pay author:a,b", "filters": {"paths": MANY[:4]}}),
        ("knowledge_query", {"query": "pay", "paths": MANY[:4], "authors": ["a", "b"]}),
        "/?q=pay author:a,b&" + "&".join(f"path={each}" for each in MANY[:4]),
    ),
    Excess(
        "filter_chars",
        "the filters together have 201 characters",
        lambda base: base.search("pay", filters=Filters(paths=("x" * 100, "y" * 100, "z"))),
        ["search", "pay", "--path", "x" * 100, "--path", "y" * 100, "--path", "z"],
        ("/search", {"query": "pay", "filters": {"paths": ["x" * 100, "y" * 100, "z"]}}),
        ("code_search", {"query": "pay", "paths": ["x" * 100, "z"], "languages": ["y" * 100]}),
        f"/?q=pay&path={'x' * 100}&path={'y' * 100}&path=z",
    ),
    Excess(
        "results",
        "the limit is 21 results",
        lambda base: base.search("pay", limit=21),
        ["search", "pay", "--limit", "21"],
        ("/search", {"query": "pay", "limit": 21}),
        ("knowledge_query", {"query": "pay", "limit": 21}),
        "/?q=pay&limit=21",
    ),
    Excess(
        "context_tokens",
        "the budget is 1,001 tokens",
        lambda base: base.context("pay", max_tokens=1_001),
        ["context", "pay", "--max-tokens", "1001"],
        ("/context", {"task": "pay", "max_tokens": 1_001}),
        ("build_context", {"task": "pay", "max_tokens": 1_001}),
        None,
    ),
    Excess(
        "graph_nodes",
        "the limit is 101 nodes",
        lambda base: base.graph.find_usages("Store", limit=101),
        ["graph", "usages", "Store", "--limit", "101"],
        ("/graph/usages", {"target": "Store", "limit": 101}),
        ("find_usages", {"target": "Store", "limit": 101}),
        None,
    ),
    Excess(
        "graph_depth",
        "the depth is 6 steps",
        lambda base: base.graph.get_call_graph("Store", depth=6),
        ["graph", "calls", "Store", "--depth", "6"],
        ("/graph/calls", {"target": "Store", "depth": 6}),
        ("get_call_graph", {"target": "Store", "depth": 6}),
        None,
    ),
)
EACH = pytest.mark.parametrize("excess", EXCESSES, ids=lambda each: f"{each.key}-{each.mcp[0]}")


@pytest.fixture(scope="module")
def limited(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The organisation under a knowledge.yaml with the smallest limits."""
    declared = json.loads(world.config.read_text())
    declared |= {"store": str(world.root / "store"), "limits": SMALLEST, "context": {"max_tokens": 1_000}}
    root = tmp_path_factory.mktemp("limited")
    with pytest.MonkeyPatch.context() as patched:
        for name, value in world.environment.items():
            patched.setenv(name, value)
        for entry in declared["sources"]:
            if entry["connection"]["type"] == "local":
                entry["connection"]["path"] = str(world.root / entry["connection"]["path"])
        (root / "knowledge.yaml").write_text(json.dumps(declared))
        settings = file.load_settings(root / "knowledge.yaml")
        yield World(root, settings, world.environment, world.tokens, world.ids)


@pytest.fixture(scope="module")
def client(limited: World) -> Iterator[Any]:
    with Running(limited.settings, config=limited.config) as server:
        yield server.client(limited.tokens["public"])


@pytest.fixture(scope="module")
def base(limited: World) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(limited.config) as opened:
        yield opened


@EACH
def test_python_refuses_what_asks_for_too_much(base, excess):
    with pytest.raises(InvalidQuery) as refused:
        excess.python(base)
    assert str(refused.value) == excess.told


def test_python_traces_no_id_that_is_too_long(base):
    with pytest.raises(InvalidQuery, match="the id has 501 characters"):
        base.trace("s:" + "x" * 499)


@EACH
def test_the_command_line_refuses_what_asks_for_too_much(limited, excess):
    arguments = ["--config", str(limited.config), "--json", *excess.cli]
    result = CliRunner().invoke(app, arguments, prog_name="knowledge")
    assert result.exit_code == 2, result.output
    assert excess.told in result.stderr


@EACH
def test_http_refuses_what_asks_for_too_much_with_422(client, excess):
    path, body = excess.http
    answer = client.get(PREFIX + path) if body is None else client.post(PREFIX + path, json=body)
    assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (
        422,
        "InvalidQuery",
        excess.told,
    )


@EACH
def test_mcp_refuses_what_asks_for_too_much(client, excess):
    name, arguments = excess.mcp
    called = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    called["params"] = {"name": name, "arguments": arguments}
    answer = client.post("/mcp", json=called, headers={"Accept": "application/json, text/event-stream"})
    line = next(each for each in answer.text.splitlines() if '"jsonrpc"' in each)
    result = json.loads(line.removeprefix("data: "))["result"]
    assert result["isError"]
    assert excess.told in result["content"][0]["text"]


@pytest.mark.parametrize("excess", [each for each in EXCESSES if each.page], ids=lambda each: each.page[:20])
def test_the_page_refuses_what_asks_for_too_much_with_422(client, excess):
    answer = client.get(excess.page, headers={"Accept": "text/html"})
    assert answer.status_code == 422
    assert excess.told[1:] in html.unescape(answer.text)  # a sentence begins with a capital there


def test_every_limit_is_tried():
    assert {each.key for each in EXCESSES} == set(LimitSettings.model_fields) == set(SMALLEST)
    assert {name: each.metadata[0].ge for name, each in LimitSettings.model_fields.items()} == SMALLEST


def test_no_setting_refuses_what_interfaces_ask_for_by_themselves(client, limited):
    """Whoever names no limit must not be told of one."""
    assert max(each.default_limit for each in PROFILES.values()) <= SMALLEST["results"]
    for path in ("/?q=payment", "/graph?target=Store"):
        assert client.get(path).status_code == 200
    for operation in ("usages", "hierarchy", "impact"):
        assert client.post(f"{PREFIX}/graph/{operation}", json={"target": "Store"}).status_code == 200
    assert client.post(f"{PREFIX}/context", json={"task": "retry a payment"}).status_code == 200


def test_a_budget_above_the_limit_is_a_wrong_configuration(tmp_path):
    path = tmp_path / "knowledge.yaml"
    path.write_text("context: {max_tokens: 5000}\nlimits: {context_tokens: 4000}\n")
    with pytest.raises(
        ConfigError, match=r"context.max_tokens \(5000\) must be at most limits.context_tokens"
    ):
        file.load_settings(path)
