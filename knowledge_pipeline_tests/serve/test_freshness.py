"""What an answer says of how far it can be trusted: question x what changed underneath x every interface."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.cli.app import app
from knowledge_pipeline.client import KnowledgeClient
from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.git import remote_heads
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.freshness import record_heads
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.serve.mcp_calls import over_http
from knowledge_pipeline_tests.serve.running import Running

API = "/api/v1/knowledge"
CODE = 'def sign_session(key):\n    """Sign a session with a key."""\n    return key\n'
GUIDE = "# Deploy\n\nHow to deploy the payment service to a cluster.\n"


@dataclass
class Site:
    """A project over real repositories, its store and its server."""

    root: Path
    settings: Settings
    server: Running | None = None
    tokens: dict[str, str] = field(default_factory=dict)
    repositories: dict[str, Repository] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.root / "knowledge.yaml"

    @property
    def lake(self) -> Lake:
        return Lake(self.settings.store)

    def refresh(self, *ids: str, **options: Any) -> Any:
        return pipeline.refresh(self.lake, self.settings, self.settings.select_sources(ids), **options)

    def look(self) -> None:
        """As the sensor and `knowledge watch` do."""
        watched = remote_heads.group_by_watched_branch(self.settings.sources)
        queries = list(remote_heads.build_queries(watched).values())
        record_heads(self.lake, watched, remote_heads.poll_remote_heads(queries))


def build(root: Path, embedding: OpenAIServer, *, hidden: bool = True) -> Site:
    """`hidden`: whether the source that only gil of globex may see has anything."""
    repositories = {name: Repository(root / name) for name in ("app", "guide", "bulky", "secret", "late")}
    repositories["app"].write({"src/app.py": CODE}).commit()
    repositories["guide"].write({"docs/deploy.md": GUIDE}).commit()
    repositories["bulky"].write({"docs/a.md": "# Bulky\n\nShort.\n", "docs/b.md": "x " * 9000}).commit()
    repositories["late"].write({"docs/late.md": "# Late\n\nA page that comes late.\n"}).commit()
    secret = {"src/zebra.py": "def zebra_secret():\n    return 'zebra'\n"} if hidden else {}
    repositories["secret"].write({**secret, "README.txt": "x"}).commit()

    def declare(id_: str, type_: str, **rest: Any) -> dict[str, Any]:
        connection = {"type": "git", "url": str(root / id_), "branch": "main"}
        refresh = {"trigger": "on_commit"}
        access = {"visibility": "public"}
        return {
            "id": id_,
            "type": type_,
            "connection": connection,
            "refresh": refresh,
            "access": access,
            **rest,
        }

    gils = {"visibility": "private", "tenant": "globex", "principals": ["gil"]}
    sources = [
        declare("app", "code"),
        declare("guide", "markdown"),
        declare("bulky", "markdown", max_bytes=10_000),
        declare("secret", "code", access=gils),
        declare("late", "markdown", access={"visibility": "tenant", "tenant": "late"}),
    ]
    model = {
        **{"provider": "openai", "model": "hashed-words", "base_url": embedding.url, "max_tries": 1},
        **{"api_key": "${TEST_EMBEDDING_KEY}", "dimensions": embedding.dimensions},
    }
    (root / "knowledge.yaml").write_text(
        json.dumps({"store": "store", "embedding": model, "sources": sources})
    )
    site = Site(root, file.load_settings(root / "knowledge.yaml"), repositories=repositories)
    outcome = site.refresh("app", "guide", "bulky", "secret")
    assert {*outcome.failures} <= {"secret"}  # without content, there may be nothing to read
    store = TokenStore(site.lake)
    for name, tenant, principals in (("public", None, ()), ("acme", "acme", ("ann",)), ("late", "late", ())):
        site.tokens[name] = store.create(name, tenant=tenant, principals=list(principals))[1]
    site.tokens["operator"] = store.create("operator", everything=True)[1]
    return site


@pytest.fixture(scope="module")
def environment(embedding_server: OpenAIServer) -> Iterator[OpenAIServer]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
        yield embedding_server


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, environment: OpenAIServer) -> Site:
    return build(tmp_path_factory.mktemp("freshness"), environment)


def change(site: Site, name: str, *commits: Mapping[str, str]) -> None:
    for files in commits:
        site.repositories[name].write(dict(files)).commit()


def make_stale(site: Site) -> None:
    change(site, "app", {"src/b.py": "x = 1\n"}, {"src/b.py": "x = 2\n"})
    site.look()


def make_failing(site: Site) -> None:
    shutil.move(site.root / "app", site.root / "gone")
    assert "app" in site.refresh("app").failures


def make_partial(site: Site) -> None:
    assert not site.refresh("late", words_only=True).failures


def leave(site: Site) -> None:
    """As it was."""


@dataclass(frozen=True)
class Case:
    """A question, what changed underneath, and what every answer says."""

    name: str
    change: Callable[[Site], None]
    arguments: Mapping[str, Any]
    says: str | None  # a pattern; None: nothing of sources
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by source
    caller: str = "operator"


SIGN = {"query": "sign a session with a key", "filters": {"sources": ["app"]}}
NOTHING = {"query": "giraffe", "mode": "words"}
ZEBRA = {"query": "zebra", "mode": "words"}  # that the hidden source alone has
CASES = (
    Case("fresh", leave, SIGN, None, {"app": {"commits_behind": 0, "too_old": False}}),
    Case(
        "stale",
        make_stale,
        SIGN,
        r"`app` is 2 commits behind its origin \(\d+ (s|min), looked at \d+ (s|min) ago\)",
        {"app": {"commits_behind": 2, "minutes_behind": 0}},
    ),
    Case(
        "failing",
        make_failing,
        SIGN,
        r"`app` cannot be refreshed since \d{4}-\d\d-\d\d \d\d:\d\d UTC because \S",
        {"app": {"problem": ...}},
    ),
    Case(
        "older than asked for",
        leave,
        {**SIGN, "max_age": "0s"},
        r"not as new as 0s: `app` \(last known to be current: \d+ (s|min) ago\); their results stay",
        {"app": {"too_old": True}},
    ),
    Case("as new as asked for", leave, {**SIGN, "max_age": "2h"}, None, {"app": {"too_old": False}}),
    Case(
        "partial",
        make_partial,
        {**NOTHING, "filters": {"sources": ["late"]}},
        r"0 % of `late` has vectors so far",
        {"late": {"embedded_share": 0.0}},
    ),
    Case("never read", leave, NOTHING, r"`late`: it was not indexed yet"),
    Case(
        "skipped",
        leave,
        {**NOTHING, "filters": {"sources": ["bulky"]}},
        r"`bulky` has documents without text \(1 larger than 10000 bytes",
        {"bulky": {"skipped": ...}},
    ),
    Case(
        "filtered by two",
        leave,
        {"query": "sign a session", "filters": {"sources": ["guide"], "languages": ["python"]}},
        r"without `languages: python` 1 chunk remains; without `sources: guide` \d chunks? remain",
    ),
    Case(
        "filtered, by words",
        leave,
        {"query": "session", "mode": "words", "filters": {"sources": ["guide"]}},
        r"without `sources: guide` something is found",
    ),
    Case(
        "not covered",
        leave,
        {"query": "sign a session", "type": "historical"},
        r"no source that you may see has any commit or pull request; "
        r"there are chunks of (code|docs) \(\d\), (code|docs) \(\d\)",
    ),
    Case(
        "failing, to those who may not see all",
        make_failing,
        {**NOTHING, "filters": {"sources": ["app"]}},
        r"`app` cannot be refreshed since",
        caller="public",
    ),
    Case("hidden", leave, {**ZEBRA, "filters": {"sources": ["secret"]}}, None, caller="acme"),
)


def in_python(site: Site, case: Case) -> tuple[str, list[Any]]:
    access = {"operator": Access.operator(), "public": Access.public()}.get(case.caller)
    access = access or Access(tenant="acme", principals=frozenset({"ann"}))
    arguments = dict(case.arguments)
    with KnowledgeBase.open(site.config, access=access) as base:
        answer = base.search(arguments.pop("query"), **arguments).as_json()
    return "\n".join(answer["notes"]), answer["freshness"]


def by_command(site: Site, case: Case) -> tuple[str, list[Any]]:
    arguments = dict(case.arguments)
    words = ["search", "--config", str(site.config), arguments.pop("query")]
    options = {"sources": "--source", "languages": "--language", "max_age": "--max-age"}
    for name, value in {**arguments.pop("filters", {}), **arguments}.items():
        for each in value if isinstance(value, list) else [value]:
            words += [options.get(name, f"--{name}"), each]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    answer = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    return " ".join(shown.output.split()), answer["freshness"]


def over_the_web(site: Site, case: Case) -> tuple[str, list[Any]]:
    assert site.server
    answer = site.server.client(site.tokens[case.caller]).post(f"{API}/search", json=dict(case.arguments))
    assert answer.status_code == 200, answer.text
    return "\n".join(answer.json()["notes"]), answer.json()["freshness"]


def by_tool(site: Site, case: Case) -> tuple[str, list[Any]]:
    assert site.server
    arguments = {**case.arguments, **case.arguments.get("filters", {})}
    arguments.pop("filters", None)
    url, token = site.server.url, site.tokens[case.caller]

    async def call() -> Any:
        async with over_http(url, token) as client:
            return await client.call_tool("knowledge_query", arguments)

    result = anyio.run(call)
    assert not result.is_error, result.content
    states = result.structured_content.get("freshness", {})
    assert all(re.fullmatch(r"[0-9a-f]{12} as of [-0-9]+ \d\d:\d\d", state) for state in states.values())
    return result.content[0].text, [{"source": source} for source in states]


def on_the_page(site: Site, case: Case) -> tuple[str, list[Any]]:
    assert site.server
    params = {"q": case.arguments["query"], "mode": case.arguments.get("mode", "hybrid")}
    params |= {"type": case.arguments.get("type", "semantic")}
    filters = case.arguments.get("filters", {})
    params |= {{"sources": "source", "languages": "language"}[name]: value for name, value in filters.items()}
    shown = site.server.client(site.tokens[case.caller]).get("/", params=params)
    assert shown.status_code == 200, shown.text
    return re.sub(r"\s+", " ", re.sub(r"</?code>", "`", shown.text).replace("&#39;", "'")), []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_interface_says_what_is_wrong_underneath(
    case: Case, template: Site, environment: OpenAIServer, tmp_path: Path
) -> None:
    site = copy_site(template, tmp_path)
    case.change(site)
    mcp = site.settings.serve.mcp.model_copy(update={"output_schemas": True})
    with Running(site.settings, config=site.config, mcp=mcp) as server:
        site.server = server
        interfaces = [in_python, over_the_web, by_tool]
        interfaces += [by_command] if case.caller == "operator" else []
        interfaces += [on_the_page] if "max_age" not in case.arguments else []
        for interface in interfaces:
            text, freshness = interface(site, case)
            if case.says is None:
                forbidden = r"behind its origin|cannot be refreshed|not as new as|without text|secret`"
                assert not re.search(forbidden, text), (interface.__name__, text)
            else:
                flags = re.IGNORECASE if interface in (by_tool, on_the_page, by_command) else 0
                assert re.search(case.says, text, flags), (interface.__name__, text)
            if interface is by_tool and case.states and "giraffe" not in case.arguments["query"]:
                assert [it["source"] for it in freshness] == [*case.states]
            elif interface not in (on_the_page, by_tool):
                by_source = {it["source"]: it for it in freshness}
                for source, expected in case.states.items():
                    for name, value in expected.items():
                        actual = by_source[source].get(name)
                        assert actual == value or (value is ... and actual), (
                            interface.__name__,
                            name,
                            actual,
                        )
                assert "secret" not in by_source


def test_who_may_not_see_the_whole_source_reads_no_reason(template: Site, tmp_path: Path) -> None:
    site = copy_site(template, tmp_path)
    shutil.move(site.root / "secret", site.root / "gone")
    assert "secret" in site.refresh("secret").failures
    gil = Access(tenant="globex", principals=frozenset({"gil"}))
    answers = {}
    for name, access in (("gil", gil), ("ann", Access(tenant="globex", principals=frozenset({"ann"})))):
        with KnowledgeBase.open(site.config, access=access) as base:
            answers[name] = base.search("nothing", mode="words", filters={"sources": ["secret"]}).as_json()
    assert "`secret` cannot be refreshed" in str(answers["gil"]["notes"])
    assert "secret`" not in str(answers["ann"]["notes"])
    assert answers["ann"]["freshness"] == []


TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+]+|\d+ (s|min) ago")


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = {"query_id", "took_ms", "timings_ms", "release", "revision"}
        return {name: without_times(inner) for name, inner in value.items() if name not in left_out}
    if isinstance(value, list):
        return [without_times(inner) for inner in value]
    return TIMES.sub("TIME", value) if isinstance(value, str) else value


@pytest.mark.timeout(600)
def test_an_answer_has_the_same_bytes_whether_or_not_there_is_something_hidden(
    template: Site, environment: OpenAIServer, tmp_path: Path
) -> None:
    empty = build(tmp_path, environment, hidden=False)
    questions = (
        ZEBRA,
        {**ZEBRA, "filters": {"sources": ["secret"]}},
        {**ZEBRA, "max_age": "0s"},
        {"query": "zebra", "filters": {"languages": ["python"], "sources": ["guide", "secret"]}},
        {"query": "zebra secret", "type": "historical"},
        {"query": "zebra lang:cobol path:zebra"},
    )
    answers: list[list[str]] = []
    for site in (template, empty):
        with Running(site.settings, config=site.config) as server:
            found = []
            for caller in ("public", "acme"):
                client = server.client(site.tokens[caller])
                for question in questions:
                    reply = client.post(f"{API}/search", json=question)
                    found.append(json.dumps(without_times(reply.json())))
                graph = client.post(f"{API}/graph/usages", json={"target": "zebra_secret"})
                found.append(graph.json()["detail"])
            answers.append(found)
    assert answers[0] == answers[1]


def test_after_a_rollback_an_answer_names_the_commit_that_is_live(template: Site, tmp_path: Path) -> None:
    site = copy_site(template, tmp_path)
    first = site.repositories["app"].git("rev-parse", "HEAD")
    change(site, "app", {"src/app.py": CODE.replace("a key", "two keys")})
    second = site.repositories["app"].git("rev-parse", "HEAD")
    site.look()
    release = site.refresh("app").release
    assert release is not None
    assert revision_of(site) == (second, None)
    pipeline.roll_back_release(site.lake, site.settings, release.version - 1)
    assert revision_of(site) == (first, 1)


def revision_of(site: Site) -> tuple[str | None, int | None]:
    with KnowledgeBase.open(site.config) as base:
        (state,) = base.search("sign a session", filters={"sources": ["app"]}).freshness
        return state.revision, state.commits_behind or None


def test_every_kind_of_answer_names_the_indexed_commit(template: Site) -> None:
    head = template.repositories["app"].git("rev-parse", "HEAD")
    with Running(template.settings, config=template.config) as server:
        client = server.client(template.tokens["public"])
        filters = {"filters": {"sources": ["app"]}}
        asked = {
            "query": {"query": "sign a session", **filters},
            "similar": {"text": CODE, **filters},
            "context": {"task": "sign a session", **filters},
            "graph/usages": {"target": "sign_session"},
            "related": {"target": "src/app.py"},
        }
        answers = {path: client.post(f"{API}/{path}", json=body).json() for path, body in asked.items()}
        id_ = answers["query"]["results"][0]["id"]
        for path in (id_, f"docs/{id_}", f"trace/{id_}"):
            answers[path] = client.get(f"{API}/{path}").json()
    for path, answer in answers.items():
        (state,) = answer["freshness"]
        assert (state["source"], state["revision"], state["too_old"]) == ("app", head, False), path


@dataclass(frozen=True)
class Operation:
    """One kind of answer from the source `app`, as each interface asks for it; `ID` stands for a chunk."""

    python: Callable[..., Any]
    client: Callable[..., Any]
    http: tuple[str, dict[str, Any] | None]  # None: by GET
    tool: tuple[str, dict[str, Any]] | None = None
    command: tuple[str, ...] = ()


FILTERS = {"sources": ["app"]}
OPERATIONS: Mapping[str, Operation] = {
    "search": Operation(
        lambda base, _, **age: base.search("sign a session", filters=FILTERS, **age),
        lambda client, _, **age: client.search("sign a session", filters=FILTERS, **age),
        ("search", {"query": "sign a session", "filters": FILTERS}),
        ("knowledge_query", {"query": "sign a session", **FILTERS}),
        ("search", "sign a session", "--source", "app"),
    ),
    "exact": Operation(
        lambda base, _, **age: base.search("sign_session(", mode="exact", **age),
        lambda client, _, **age: client.search("sign_session(", mode="exact", **age),
        ("search", {"query": "sign_session(", "mode": "exact"}),
        ("knowledge_query", {"query": "sign_session(", "mode": "exact"}),
        ("search", "sign_session(", "--mode", "exact"),
    ),
    "similar": Operation(
        lambda base, _, **age: base.similar(text=CODE, filters=FILTERS, **age),
        lambda client, _, **age: client.similar(text=CODE, filters=FILTERS, **age),
        ("similar", {"text": CODE, "filters": FILTERS}),
        ("search_code", {"query": CODE, "repos": []}),
        ("similar", CODE, "--source", "app"),
    ),
    "context": Operation(
        lambda base, _, **age: base.context(Task("sign a session", filters=FILTERS), **age),
        lambda client, _, **age: client.context("sign a session", filters=FILTERS, **age),
        ("context", {"task": "sign a session", "filters": FILTERS}),
        ("build_context", {"task": "sign a session", **FILTERS}),
        ("context", "sign a session", "--source", "app"),
    ),
    "graph": Operation(
        lambda base, _, **age: base.graph.find_usages("sign_session", **age),
        lambda client, _, **age: client.graph("find_usages", "sign_session", **age),
        ("graph/usages", {"target": "sign_session"}),
        ("find_usages", {"target": "sign_session"}),
        ("graph", "usages", "sign_session"),
    ),
    "chunk": Operation(
        lambda base, id_, **age: base.get(id_, **age),
        lambda client, id_, **age: client.get(id_, **age),
        ("ID", None),
        ("get_document", {"id": "ID"}),
        ("get", "ID"),
    ),
    "trace": Operation(
        lambda base, id_, **age: base.trace(id_, **age),
        lambda client, id_, **age: client.trace(id_, **age),
        ("trace/ID", None),
        command=("get", "ID", "--trace"),
    ),
    "related": Operation(
        lambda base, _, **age: base.related("src/app.py", **age),
        lambda client, _, **age: client.related("src/app.py", **age),
        ("related", {"target": "src/app.py"}),
        command=("related", "src/app.py"),
    ),
}
OLD = r"not as new as 0s: `app` \(last known to be current: \d+ \w+ ago\)"


@pytest.mark.timeout(600)
def test_every_kind_of_answer_takes_an_age_at_every_interface(template: Site) -> None:
    def ask_tool(name: str, arguments: dict[str, Any]) -> str:
        async def call() -> Any:
            async with over_http(server.url, template.tokens["operator"]) as tools:
                return await tools.call_tool(name, arguments)

        return anyio.run(call).content[0].text

    with (
        Running(template.settings, config=template.config) as server,
        KnowledgeBase.open(template.config) as base,
        KnowledgeClient(server.url, template.tokens["operator"]) as client,
    ):
        web = server.client(template.tokens["operator"])
        id_ = base.search("sign a session", filters=FILTERS).results[0].id
        for name, operation in OPERATIONS.items():
            for age, is_old in (("0s", True), ("2h", False)):
                path, body = operation.http
                path = f"{API}/{path.replace('ID', id_)}"
                request = {"params": {"max_age": age}} if body is None else {"json": {**body, "max_age": age}}
                answers = {
                    "python": operation.python(base, id_, max_age=age).as_json(),
                    "client": operation.client(client, id_, max_age=age),
                    "http": web.request("GET" if body is None else "POST", path, **request).json(),
                }
                for interface, answer in answers.items():
                    (state,) = answer["freshness"]
                    said = bool(re.search(OLD, "\n".join(answer["notes"])))
                    assert (state["source"], state["too_old"], said) == ("app", is_old, is_old), (
                        name,
                        interface,
                        answer["notes"],
                    )
                texts = list[str]()
                if operation.tool:
                    tool, arguments = operation.tool
                    given = {key: id_ if value == "ID" else value for key, value in arguments.items()}
                    texts.append(ask_tool(tool, {**given, "max_age": age}))
                words = [id_ if word == "ID" else word for word in operation.command]
                words += ["--config", str(template.config), "--max-age", age]
                texts.append(" ".join(CliRunner().invoke(app, words).output.split()))
                for text in texts:
                    assert bool(re.search(OLD, text, re.IGNORECASE)) == is_old, (name, age, text)
            with pytest.raises(InvalidQuery, match="found max_age 'soon'; allowed: a span such as 30s"):
                operation.python(base, id_, max_age="soon")
        document = web.get(f"{API}/docs/{id_}", params={"max_age": "0s"}).json()
        assert document["freshness"][0]["too_old"] and re.search(OLD, str(document["notes"]))


def test_a_wrong_span_is_refused_in_a_sentence(template: Site) -> None:
    with KnowledgeBase.open(template.config) as base, pytest.raises(InvalidQuery) as error:
        base.search("sign", max_age="soon")
    assert str(error.value) == "found max_age 'soon'; allowed: a span such as 30s, 15m, 2h or 1d"


def test_a_symbol_that_is_not_there_may_be_in_a_source_that_fails(template: Site, tmp_path: Path) -> None:
    site = copy_site(template, tmp_path)
    make_failing(site)
    with KnowledgeBase.open(site.config) as base, pytest.raises(NotFound) as error:
        base.graph.find_usages("zebra_of_tomorrow")
    assert "there is no symbol" in str(error.value) and "`app` cannot be refreshed since" in str(error.value)


def copy_site(template: Site, root: Path) -> Site:
    """Another one like it: refreshing it changes nothing of the template."""
    for name in template.repositories:
        shutil.copytree(template.root / name, root / name)
    shutil.copytree(template.root / "store", root / "store")
    text = template.config.read_text().replace(str(template.root), str(root))
    (root / "knowledge.yaml").write_text(text)
    repositories = {name: replace_root(it, root / name) for name, it in template.repositories.items()}
    settings = file.load_settings(root / "knowledge.yaml")
    return Site(root, settings, tokens=template.tokens, repositories=repositories)


def replace_root(repository: Repository, root: Path) -> Repository:
    other = copy.copy(repository)
    other.root = root
    return other
