"""Every argument of every interface changes something: a new one without a row here fails.

A row says what is asked without the argument and what with it; both are asked of a real server, and the
answers differ. Filters are asked of a store where each finds rows that nothing else finds.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

import anyio
import pytest
import typer
from pydantic import TypeAdapter
from typer.testing import CliRunner

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.cli.app import app
from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.config import file
from knowledge_pipeline.contract import requests
from knowledge_pipeline.contract.filters import FILTER_NAMES
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.graph_queries import CallArguments
from knowledge_pipeline.serve.mcp.inputs import KnowledgeQueryInput
from knowledge_pipeline.serve.mcp.tools import TOOLS
from knowledge_pipeline.serve.openai_tools import call_tool
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.query.search.rows import publish, row, write
from knowledge_pipeline_tests.serve.mcp_calls import over_http
from knowledge_pipeline_tests.serve.running import Running

API = "/api/v1/knowledge"
STORE = '''class Store:
    """Keeps payments."""

    def put_payment(self, key):
        """Keep a payment."""
        return check_payment(key)

    def get_payment(self, key):
        """The payment of a key."""
        return self.put_payment(key)


def check_payment(key):
    """Whether a payment is right."""
    return note_payment(key)


def note_payment(key):
    """Write a payment down."""
    return key
'''
CLIENT = '''from src.store import Store


def pay(amount):
    """Make a payment."""
    return Store().get_payment(amount)


def pay_twice(amount):
    """Make a payment again."""
    return Store().put_payment(amount)


class CardStore(Store):
    """Keeps payments by card."""


class GoldStore(CardStore):
    """Keeps payments by gold card."""
'''
TYPES = ("code", "jira", "confluence")


def of_metadata(source_type: str, **metadata: Any) -> dict[str, Any]:
    return {"source_type": source_type, "metadata": json.dumps(metadata)}


def at(year: int) -> datetime:
    return datetime(year, 6, 1, tzinfo=UTC)


FILTERS: Mapping[str, tuple[Any, list[dict[str, Any]]]] = {
    "languages": ("kotlin", [{"language": "kotlin"}]),
    "extensions": ("kts", [{"path": "only/here.kts", "language": None}]),
    "sources": ("lone", [{"source": "lone"}]),
    "source_types": ("slack", [{"source_type": "slack"}]),
    "repos": ("org/lone", [{"repo": "org/lone"}]),
    "branches": ("feature/x", [{"branch": "feature/x"}]),
    "paths": ("lonely", [{"path": "far/lonely/a.txt"}]),
    "authors": ("Lovelace", [{"author": "Ada Lovelace", "source_type": each} for each in TYPES]),
    "tags": ("core", [{"tags": ["core"]}]),
    "labels": ("bug", [{"labels": ["bug"], "source_type": each} for each in TYPES]),
    "projects": ("PAY", [{"project": "PAY", "source_type": "jira"}]),
    "statuses": ("Open", [{"status": "Open", "source_type": "jira"}]),
    "components": ("Checkout", [of_metadata("jira", components=["Checkout"])]),
    "fix_versions": ("2.1", [of_metadata("jira", fix_versions=["2.1"])]),
    "spaces": ("OPS", [{"wiki_space": "OPS", "source_type": "confluence"}]),
    "channels": ("general", [{"source_type": "slack", "path": "#general/1"}]),
    "kinds": ("enum", [{"symbol_kind": "enum"}]),
    "record_kinds": ("adr", [of_metadata("archive", kind="adr")]),
    "symbols": ("get", [of_metadata("code", symbols=["Lone.get"])]),
    "exports": ("Lonely", [of_metadata("code", exports=["Lonely"])]),
    "classes": ("Lone", [of_metadata("code", class_name="Lone")]),
    "imports": ("requests", [of_metadata("code", imports=["requests"])]),
    "titles": ("Runbook", [{"title": "Runbook of payments"}]),
    "sections": ("Retries", [{"section": "Retries"}]),
    "namespaces": ("team", [{"tags": ["namespace:team"]}]),
    "since": ("2028", [{"last_modified": at(2028), "source_type": each} for each in TYPES]),
    "until": ("2001", [{"last_modified": at(2000), "source_type": each} for each in TYPES]),
    "created_since": ("2028", [of_metadata("jira", created="2028-05-05T00:00:00+00:00")]),
    "created_until": ("2001", [of_metadata("jira", created="2000-05-05T00:00:00+00:00")]),
    "include_archived": (True, [{"archived": True, "source_type": each} for each in TYPES]),
}
"""Filter -> a value, and the rows that have it."""

LEFT_OUT: Any = object()  # an argument of the base that a row does without

Row = tuple[dict[str, Any], Any]
"""What else is asked, with the argument and without, and its value."""

QUESTION = {"query": "payment", "limit": 100}
EXAMPLE = {"text": "def put_payment(self, key): keep a payment", "limit": 100}
TASK = {"task": "retry a payment of a customer"}
TARGET = {"target": "Store.put_payment"}
NO_WORD = {"query": "zebra"}
BASES: Mapping[str, dict[str, Any]] = {
    "search": QUESTION,
    "similar": EXAMPLE,
    "context": TASK,
    "graph": TARGET,
    "get": {"id": "app:src/store.py"},
    "related": {"target": "src/store.py"},
}
ROWS: Mapping[str, Mapping[str, Row]] = {
    "search": {
        "query": ({}, "check whether right"),
        "limit": ({}, 1),
        "org_id": ({}, "acme"),
        "explain": ({}, True),
        "blame": ({"filters": {"sources": ["app"]}}, True),
        "include_metadata": ({}, False),
        "mode": (NO_WORD, "words"),
        "type": ({}, "code"),
        "max_age": ({}, "0s"),
        "offset": ({}, 2),
        "compact": ({}, True),
        "lines": ({}, 0),
        "file": ({}, "src/store.py"),
    },
    "similar": {
        "text": ({}, "def pay_twice(amount): again"),
        "path": ({"text": LEFT_OUT}, "src/store.py"),
        "source": ({"text": LEFT_OUT, "path": "twin.txt"}, "lone"),
        "limit": ({}, 1),
        "explain": ({}, True),
        "mode": ({"text": "zebra"}, "words"),
        "content_type": ({}, "document"),
        "max_age": ({}, "0s"),
        "offset": ({}, 2),
        "compact": ({}, True),
        "lines": ({}, 0),
    },
    "context": {
        "task": ({}, "check whether it is right"),
        "kind": ({}, "code_review"),
        "file": ({}, "src/store.py"),
        "files": ({}, ["src/store.py"]),
        "source": ({"file": "twin.txt"}, "lone"),
        "snippet": ({}, "def pay_twice(amount):"),
        "suffix": ({"kind": "complete_code", "snippet": "x = "}, "return pay_twice(1)"),
        "history": ({"kind": "chat"}, [{"role": "user", "content": "hello"}]),
        "max_tokens": ({}, 400),
        "template": ({}, "question"),
        "max_age": ({}, "0s"),
        "offset": ({"compact": True}, 2),
        "compact": ({}, True),
        "include_text": ({}, True),
        "include_metadata": ({}, True),
    },
    "graph": {
        "target": ({}, "check_payment"),
        "limit": ({"depth": 3}, 1),
        "depth": ({}, 2),
        "direction": ({}, "callees"),
        "max_age": ({}, "0s"),
        "offset": ({}, 1),
        "compact": ({}, True),
        "mermaid": ({}, True),
        "dot": ({}, True),
    },
    "get": {
        "id": ({}, "app:src/client.py"),
        "blame": ({}, True),
        "offset": ({}, 1),
        "limit": ({}, 1),
        "compact": ({}, True),
        "trace": ({}, True),
        "max_age": ({}, "0s"),
    },
    "related": {
        "target": ({}, "src/client.py"),
        "limit": ({"target": "PAY-9"}, 1),
        "max_age": ({}, "0s"),
    },
}
OWN_BASES = {"mcp get_class_hierarchy": {"target": "Store"}}
OWN_ROWS: Mapping[tuple[str, str], Row] = {
    ("mcp build_context", "source"): ({"files": ["twin.txt"]}, "lone"),  # it has no `file`
}
OWN_VALUES: Mapping[tuple[str, str], Any] = {
    ("mcp get_class_hierarchy", "target"): "GoldStore",
    ("mcp get_class_hierarchy", "depth"): 1,  # by default 5
    ("mcp analyze_dependencies", "depth"): 1,  # by default 3
}
"""What makes a difference to one tool alone."""

FOR_SCRIPTS = ("cli debug: explain changes nothing",)  # as its help says
FROM_AN_ERROR = {"source", "path"}  # which chooses of several files, and which stands for a text
NARROWED_BY_ERROR = {"graph"}  # a filter that leaves no target is told so


@dataclass(frozen=True)
class Answer:
    """What came back."""

    content: Any
    is_error: bool = False


Ask = Callable[[dict[str, Any]], Answer]


@dataclass(frozen=True)
class Asked:
    """One way to ask, and what it takes."""

    name: str
    operation: str
    arguments: frozenset[str]
    ask: Ask


@dataclass(frozen=True)
class Site:
    """The project, its server, and a knowledge base."""

    config: Path
    server: Running
    base: KnowledgeBase


@pytest.fixture(scope="module")
def site(tmp_path_factory, embedding_server) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("arguments")
    Repository(root / "app").write({"src/store.py": STORE, "src/client.py": CLIENT}).commit("Keep payments")
    jira = {"type": "jira", "url": "https://jira.invalid"}
    wiki = {"type": "confluence", "url": "https://wiki.invalid"}
    sources = [
        {"id": "app", "type": "code", "connection": {"type": "local", "path": "app"}},
        {"id": "tickets", "type": "jira", "projects": ["PAY"], "connection": jira},
        {"id": "wiki", "type": "confluence", "spaces": ["OPS"], "connection": wiki},
    ]
    embedding = {
        **{"provider": "openai", "model": "hashed-words", "base_url": embedding_server.url, "max_tries": 1},
        **{"api_key": "${TEST_EMBEDDING_KEY}", "dimensions": embedding_server.dimensions},
    }
    public = [{**source, "access": {"visibility": "public"}} for source in sources]
    (root / "knowledge.yaml").write_text(
        json.dumps({"store": "store", "embedding": embedding, "sources": public})
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
        settings = file.load_settings(root / "knowledge.yaml")
        lake = Lake(settings.store)
        assert not pipeline.refresh(lake, settings, settings.select_sources(["app"])).failures
        size = embedding_server.dimensions
        write(lake, resolve_space(settings.embedding).name, build_rows(size), dimensions=size)
        publish(lake)
        with (
            Running(settings, config=root / "knowledge.yaml", requests_per_minute=1_000_000) as server,
            KnowledgeBase.open(root / "knowledge.yaml", access=Access.public()) as base,
        ):
            yield Site(root / "knowledge.yaml", server, base)


def build_rows(dimensions: int) -> Iterator[dict[str, Any]]:
    """A row for each value of a filter, and a file of the same path in two sources."""
    for name, (_, several) in FILTERS.items():
        for number, columns in enumerate(several):
            defaults = {"language": None, "source": "rest", "repo": "org/rest", "source_type": "files"}
            path = columns.get("path", f"{name}/{number}.txt")
            values = {**defaults, **columns, "path": path, "dimensions": dimensions}
            values.setdefault("source_type", "files")
            if name in ("languages", "repos", "paths", "sources", "kinds"):
                values["source_type"] = "code"
            yield row(f"payment of {name} {number}", **values)
    mention = {"kind": "references", "target": "PAY-9", "name": "key:PAY-9"}
    for number in range(2):
        values = {**of_metadata("jira", mentions=[mention]), "mentions": [mention["name"]]}
        yield row(
            f"payment {number} is due", f"due/{number}", dimensions=dimensions, source="tickets", **values
        )
    for source in ("lone", "rest"):
        yield row(
            f"payment twin of {source}", "twin.txt", source=source, dimensions=dimensions, language=None
        )


def filters_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an interface that has all filters in one."""
    chosen = {name: value for name, value in given.items() if name in FILTER_NAMES}
    rest = {name: value for name, value in given.items() if name not in FILTER_NAMES}
    merged = {**rest.pop("filters", {}), **chosen}
    return rest | ({"filters": merged} if merged else {})


def flat(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an interface that has each filter as one."""
    return {**given.get("filters", {}), **{name: value for name, value in given.items() if name != "filters"}}


CHANGING = {"query_id", "took_ms", "timings_ms", "cached", "feedback"}


def comparable(value: Any) -> Any:
    """JSON without what differs between two equal questions."""
    if isinstance(value, dict):
        return {name: comparable(inner) for name, inner in value.items() if name not in CHANGING}
    return [comparable(inner) for inner in value] if isinstance(value, list) else value


def names_of(function: Callable[..., Any], *others: str) -> frozenset[str]:
    left_out = {"self", "access", "method", "filters", *others}
    return frozenset(set(inspect.signature(function).parameters) - left_out) | frozenset(FILTER_NAMES)


def or_error(call: Callable[[], Any]) -> Answer:
    try:
        return Answer(comparable(call()))
    except KnowledgeError as error:
        return Answer(str(error), is_error=True)


OF_TRANSFER = {"text", "filters", "include_text", "include_metadata"}  # of a request, and no part of a task


def in_python(site: Site) -> Iterator[Asked]:
    base = site.base

    def context(given: dict[str, Any]) -> Any:
        given = filters_of(given)
        size = {name: given.pop(name) for name in ("max_tokens", "template", "max_age") if name in given}
        task = requests.Task(given.pop("task"), **{**given, "history": turns(given), "files": files(given)})
        return base.context(task, **size).as_json()

    def turns(given: dict[str, Any]) -> Any:
        return tuple(requests.ChatTurn(**turn) for turn in given.get("history", ()))

    def files(given: dict[str, Any]) -> Any:
        return tuple(given.get("files", ()))

    def search(given: dict[str, Any]) -> Any:
        given = filters_of(given)
        return base.search(given.pop("query"), **given).as_json()

    def graph(given: dict[str, Any]) -> Any:
        given = filters_of(given)
        return base.graph.get_call_graph(given.pop("target"), **given).as_json()

    task_names = {each.name for each in fields(requests.ContextRequest)} - OF_TRANSFER | {"task"}
    yield Asked(
        "python search",
        "search",
        names_of(KnowledgeBase.search, "text") | {"query"},
        lambda given: or_error(lambda: search(given)),
    )
    yield Asked(
        "python similar",
        "similar",
        names_of(KnowledgeBase.similar),
        lambda given: or_error(lambda: base.similar(**filters_of(given)).as_json()),
    )
    yield Asked(
        "python context",
        "context",
        frozenset(task_names) | frozenset(FILTER_NAMES),
        lambda given: or_error(lambda: context(given)),
    )
    yield Asked(
        "python graph",
        "graph",
        frozenset({"target", *get_type_hints(CallArguments)} - {"access", "filters"})
        | frozenset(FILTER_NAMES),
        lambda given: or_error(lambda: graph(given)),
    )
    yield Asked(
        "python get",
        "get",
        names_of(KnowledgeBase.get) - set(FILTER_NAMES),
        lambda given: or_error(lambda: base.get(**given).as_json()),
    )
    yield Asked(
        "python tool",
        "search",
        frozenset(KnowledgeQueryInput.model_fields),
        lambda given: to_text(call_tool(base, json.dumps(flat(given)))),
    )


def to_text(text: str) -> Answer:
    return Answer(re.sub(r"score \d\.\d+", "", text), text.startswith("Error: "))


def in_client(site: Site) -> Iterator[Asked]:
    client = KnowledgeClient(site.server.url)
    for method in ("search", "similar", "context"):
        call = getattr(client, method)
        yield Asked(
            f"client {method}",
            method,
            names_of(getattr(KnowledgeClient, method)),
            lambda given, call=call: or_error(lambda: call(**filters_of(given))),
        )
    yield Asked(
        "client graph",
        "graph",
        names_of(KnowledgeClient.graph),
        lambda given: or_error(lambda: client.graph("get_call_graph", **filters_of(given))),
    )
    yield Asked(
        "client get",
        "get",
        names_of(KnowledgeClient.get) - set(FILTER_NAMES),
        lambda given: or_error(lambda: client.get(**given)),
    )


def over_the_web(site: Site) -> Iterator[Asked]:
    client = site.server.client()

    def post(path: str, given: dict[str, Any]) -> Answer:
        reply = client.post(f"{API}/{path}", json=given)
        return Answer(comparable(reply.json()), reply.is_error)

    def get(path: str, given: dict[str, Any]) -> Answer:
        params = {
            name: [json.dumps(item) if isinstance(item, dict) else item for item in value]
            if isinstance(value, list)
            else value
            for name, value in flat(given).items()
        }
        reply = client.get(f"{API}/{path}", params=params)
        return Answer(comparable(reply.json()), reply.is_error)

    kinds = {
        "search": ("search", requests.SearchRequest),
        "query": ("search", requests.QueryRequest),
        "similar": ("similar", requests.SimilarRequest),
        "context": ("context", requests.ContextRequest),
        "graph/calls": ("graph", requests.CallGraphRequest),
    }
    for path, (operation, request) in kinds.items():
        names = frozenset(TypeAdapter(request).json_schema()["properties"]) - {"filters"}
        yield Asked(
            f"http {path}",
            operation,
            names | frozenset(FILTER_NAMES),
            lambda given, path=path: post(path, filters_of(given)),
        )
    openapi = client.get("/openapi.json").json()["paths"]
    for path in ("search", "context"):
        parameters = openapi[f"{API}/{path}"]["get"]["parameters"]
        yield Asked(
            f"http get {path}",
            path,
            frozenset(
                each["name"]
                for each in parameters
                if each["in"] == "query" and not each.get("description", "").startswith("The same as")
            ),  # of the aliases, test_aliases.py asks
            lambda given, path=path: get(path, given),
        )
    yield Asked(
        "http tool",
        "search",
        frozenset(KnowledgeQueryInput.model_fields),
        lambda given: post("tools/search_knowledge_base", flat(given)),
    )


OPERATION_OF_TOOL = {
    **dict.fromkeys(("knowledge_query", "code_search", "search_jira_tickets", "search_confluence"), "search"),
    **{"search_code": "similar", "build_context": "context", "get_document": "get"},
}
NAMES_OF_SIMILAR = {"text": "query", "path": "file"}


def by_tools(site: Site) -> Iterator[Asked]:
    def ask_tool(name: str, given: dict[str, Any]) -> Answer:
        async def call() -> Any:
            async with over_http(site.server.url, None) as client:
                return await client.call_tool(name, given)

        result = anyio.run(call)
        text = to_text(result.content[0].text)
        return Answer(text.content, bool(result.is_error))

    for name, tool in TOOLS.items():
        operation = OPERATION_OF_TOOL.get(name, "graph")
        names = frozenset(tool.input_model.model_fields)
        renamed = NAMES_OF_SIMILAR if operation == "similar" else {}

        def ask(given: dict[str, Any], name: str = name, renamed: Mapping[str, str] = renamed) -> Answer:
            given = {renamed.get(key, key): value for key, value in flat(given).items()}
            allowed = TOOLS[name].input_model.model_fields
            return ask_tool(name, {key: value for key, value in given.items() if key in allowed})

        canonical = {value: key for key, value in renamed.items()}
        yield Asked(f"mcp {name}", operation, frozenset(canonical.get(each, each) for each in names), ask)


POSITIONAL = {
    "search": "query",
    "similar": "text",
    "context": "task",
    "graph": "target",
    "get": "id",
    "related": "target",
}
OF_OPTIONS = {
    **{name.removesuffix("s"): name for name in FILTER_NAMES},
    **{
        "status": "statuses",
        "branch": "branches",
        "class": "classes",
        "include_archived": "include_archived",
    },
}
SHARED = {"config", "json", "quiet", "verbose", "debug", "help"}


def by_commands(site: Site, folder: Path) -> Iterator[Asked]:
    def run(command: tuple[str, ...], operation: str, given: dict[str, Any]) -> Answer:
        given = flat(given)
        is_option = POSITIONAL[operation] in options[command]
        text = None if is_option else given.pop(POSITIONAL[operation], None)
        words = [*command, "--config", str(site.config), *([text] if text is not None else [])]
        for name, value in given.items():
            flag = options[command].get(name)
            assert flag, (command, name)
            if name == "history":
                value = folder / "turns.json"
                value.write_text(json.dumps(given[name]))
            for each in value if isinstance(value, list) else [value]:
                words += [flag] if each is True else [flag, str(each)]
        result = CliRunner().invoke(app, words)
        return Answer(
            re.sub(r"\d+\.\d ms.*|\d+\.\d\d |query [\w-]+", "", result.output), result.exit_code != 0
        )

    commands = typer.main.get_command(app).commands
    options: dict[tuple[str, ...], dict[str, str]] = {}
    chosen = {
        ("search",): "search",
        ("debug",): "search",
        ("similar",): "similar",
        ("context",): "context",
        ("graph", "calls"): "graph",
        ("get",): "get",
        ("related",): "related",
    }
    for command, operation in chosen.items():
        found = commands[command[0]]
        found = found.commands[command[1]] if len(command) > 1 else found
        flags = options[command] = {}
        for parameter in found.params:
            flag = max(parameter.opts, key=len)
            name = flag.removeprefix("--").replace("-", "_")
            if flag.startswith("--") and name not in SHARED:
                flags[OF_OPTIONS.get(name, name)] = flag
        if operation == "context":
            flags["kind"] = flags.pop("task")
        if operation == "similar":
            flags["path"] = flags.pop("file")
        names = frozenset(flags) | {POSITIONAL[operation]}
        yield Asked(
            f"cli {' '.join(command)}",
            operation,
            names,
            lambda given, command=command, operation=operation: run(command, operation, given),
        )


INTERFACES = {
    "python": in_python,
    "client": in_client,
    "http": over_the_web,
    "mcp": by_tools,
}


def complete(operation: str, name: str) -> Row:
    """What to ask for an argument: of its row, or as a filter. Raises `KeyError`: there is none."""
    if name in FILTERS and name not in ROWS[operation]:
        value = FILTERS[name][0]
        return {}, value if isinstance(value, bool) or name in (
            "since",
            "until",
            "created_since",
            "created_until",
        ) else [value]
    return ROWS[operation][name]


def check(asked: Asked) -> list[str]:
    """What is wrong with the arguments of one way to ask."""
    problems: list[str] = []
    answers: dict[str, Answer] = {}
    for name in sorted(asked.arguments):
        other, value = OWN_ROWS.get((asked.name, name)) or complete(asked.operation, name)
        value = OWN_VALUES.get((asked.name, name), value)
        base = {**BASES[asked.operation], **OWN_BASES.get(asked.name, {})}
        without = {key: each for key, each in {**base, **other}.items() if each is not LEFT_OUT}
        without = {key: each for key, each in without.items() if key in {*asked.arguments, "filters"}}
        with_it = {**without, name: value}
        key = repr(without)
        if key not in answers:
            answers[key] = asked.ask(without)
        before, after = answers[key], asked.ask(with_it)
        assert not before.is_error or name in FROM_AN_ERROR, (asked.name, name, before)
        if before == after:
            problems.append(f"{asked.name}: {name} changes nothing ({with_it}: {str(after.content)[:300]})")
        elif after.is_error and not (name in FILTERS and asked.operation in NARROWED_BY_ERROR):
            problems.append(f"{asked.name}: {name} is refused: {str(after.content)[:300]}")
    return problems


def test_every_argument_of_every_interface_has_a_row(site, tmp_path):
    ways = [way for interface in INTERFACES.values() for way in interface(site)]
    ways += by_commands(site, tmp_path)
    missing = {
        (way.name, name) for way in ways for name in way.arguments - set(FILTERS) - set(ROWS[way.operation])
    }
    assert missing == set()


@pytest.mark.sampled
@pytest.mark.parametrize("interface", INTERFACES)
def test_every_argument_changes_the_answer(site, interface):
    ways = list(INTERFACES[interface](site))
    assert [problem for way in ways for problem in check(way)] == []


def test_every_argument_of_the_command_line_changes_what_is_printed(site, tmp_path):
    problems = [problem for way in by_commands(site, tmp_path) for problem in check(way)]
    assert [problem for problem in problems if not problem.startswith(FOR_SCRIPTS)] == []


@pytest.mark.sampled
@pytest.mark.parametrize("interface", INTERFACES)
def test_an_empty_text_is_not_set_in_every_optional_argument(site, interface):
    for way in INTERFACES[interface](site):
        base = {key: value for key, value in BASES[way.operation].items() if key in way.arguments}
        optional = way.arguments - base.keys()
        with_empty = {**base, **dict.fromkeys(optional, "")}
        if interface == "python":  # what is typed: filters and texts
            typed = {*FILTER_NAMES, "mode", "path", "source", "type"}
            typed -= (
                set() if way.name == "python search" else {"type"} if way.name != "python tool" else set()
            )
            with_empty = {
                **base,
                **dict.fromkeys(optional & (typed if "tool" not in way.name else optional), ""),
            }
        assert way.ask(with_empty) == way.ask(base), way.name


def test_an_empty_option_of_a_command_is_not_set(site):
    ask = {way.name: way for way in by_commands(site, site.config.parent)}
    empty = dict.fromkeys((*FILTER_NAMES[:1], "since", "type", "mode", "limit"), "")
    assert ask["cli search"].ask({"query": "payment", **empty}) == ask["cli search"].ask({"query": "payment"})


def test_a_filter_narrows_to_the_rows_that_have_it(site):
    for name, (value, rows) in FILTERS.items():
        wanted = (
            value
            if isinstance(value, bool) or name in ("since", "until")
            else [value]
            if "created" not in name
            else value
        )
        results = site.base.search("payment", filters={name: wanted}, limit=100).results
        texts = {result.content for result in results}
        own = {f"payment of {name} {number}" for number, _ in enumerate(rows)}
        assert own <= texts, name
        if name not in ("include_archived", "sources", "source_types"):
            assert texts == own, name
