"""Attempts to get at what is hidden: what callers could send to each door, made from what they must not know.

An attempt knows real ids, paths, names and addresses of hidden documents, as if they had been guessed,
and puts them into every parameter that could reach content.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from knowledge_pipeline.contract.aliases import PREFIX as ALIAS_PREFIX
from knowledge_pipeline.contract.aliases import SINGULAR_FILTERS
from knowledge_pipeline_tests.serve.world import Held

PREFIX = "/api/v1/knowledge"
ASKED = ("payments", "how is a payment retried", "customers are charged twice", "sessions", "def get_payment")
FORGED = (
    {"X-Tenant": "acme", "X-Principals": "ann,gil,ida", "X-Knowledge-On-Behalf-Of": "gil"},
    {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-User": "gil"},
    {"Host": "localhost", "X-Real-IP": "127.0.0.1"},
    {"Cookie": "tenant=globex; everything=true"},
)
INJECTED = (
    "' OR 1=1 --",
    "' OR visibility = 'private' OR source = '",
    "') OR (visibility IN ('tenant', 'private')) --",
    '" OR "1"="1',
    "%",
    "*",
    "**",
    "\\' OR true --",
    "\x00",
    "\u200b",
    "'; DROP TABLE index; --",
    "{a,b}[!x]?",
)


@dataclass(frozen=True)
class Secret:
    """What an intruder may have guessed of one source."""

    source: Held
    chunks: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()  # of the code graph
    queries: tuple[str, ...] = ()  # ids of answers that others got

    @property
    def names(self) -> tuple[str, ...]:
        """By which code may be asked for."""
        own, folder = self.source.canary, self.source.id.partition("-")[0]
        return (f"{own}_total", f"{own}_retry", f"{folder}.{own}", f"{folder}.{own}.{own}_total")

    @property
    def keys(self) -> tuple[str, ...]:
        """Of tickets."""
        project = self.source.id.partition("-")[0].upper()
        return f"{project}-1", f"{project}-2"


@dataclass(frozen=True)
class Attempt:
    """One request: of HTTP and the page by method and path, of MCP by tool, of Python by method."""

    door: str  # "http", "page", "mcp", "python"
    name: str  # route, tool or method
    given: dict[str, Any] = field(default_factory=dict)  # body, form, arguments
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "POST"
    stable: bool = False  # the answer is the same where the hidden documents do not exist


Maker = Callable[["Intruder"], Attempt]


class Intruder:
    """Draws attempts at some secrets; the same seed gives the same ones."""

    def __init__(self, seed: int, secrets: Sequence[Secret]) -> None:
        self._chosen = random.Random(seed)
        self._secrets = secrets

    def attempts(
        self, count: int, doors: Sequence[str] = ("http", "mcp", "page", "python")
    ) -> Iterator[Attempt]:
        """So many; every kind of every door once, before any comes again."""
        makers = [(door, maker) for door in doors for maker in MAKERS[door]]
        for number in range(count):
            if number % len(makers) == 0:
                self._chosen.shuffle(makers)
            door, maker = makers[number % len(makers)]
            made = maker(self)
            assert made.door == door
            yield made

    def one_of(self, values: Sequence[Any]) -> Any:
        return self._chosen.choice(values)

    def chance(self, share: float) -> bool:
        return self._chosen.random() < share

    @property
    def secret(self) -> Secret:
        return self.one_of(self._secrets)

    def id(self) -> str:
        """Of a hidden chunk or document, or nearly."""
        secret = self.secret
        of_it = [*secret.chunks, *(f"{secret.source.id}:{uri}" for uri in secret.uris)]
        of_it += [f"{secret.source.id}:{path}" for path in secret.paths] + list(secret.nodes)
        return self._bent(self.one_of(of_it)) if self.chance(0.2) else self.one_of(of_it)

    def target(self) -> str:
        """Of the code graph, or nearly."""
        if self.chance(0.4):  # may be seen; what has to do with it may not
            return self.one_of(
                ["Store.get_payment", "shop/store.py", "shop/store.py:Store", "shop/store.py:11"]
            )
        secret = self.secret
        folder, path = secret.source.id.partition("-")[0], self.one_of(secret.paths)
        name = self.one_of(secret.names)
        may = [
            name,
            f"{path}:{name}",
            f"{path}:12",
            path,
            f"{folder}/",
            folder,
            self.one_of(secret.nodes or ["x"]),
        ]
        may += [name[:-1], f"shop.{name}"]
        return self.one_of(may)

    def document(self) -> str:
        """By which `related` may know a document."""
        secret = self.secret
        return self.one_of([*secret.keys, *secret.paths, *secret.urls, *secret.titles, self.id(), "SHOP-1"])

    def word(self) -> str:
        """Anything of a secret."""
        secret = self.secret
        every = (
            secret.source.canary,
            secret.source.id,
            *secret.titles,
            *secret.paths,
            *secret.names,
            *secret.keys,
        )
        return self._bent(self.one_of(every)) if self.chance(0.3) else self.one_of(every)

    def question(self) -> str:
        """A question that asks for a secret."""
        secret, word = self.secret, self.word()
        asked = self.one_of(ASKED)
        forms = (word, f'"{word}"', f"{asked} {word}", f"{asked} source:{secret.source.id}")
        forms += (
            f"path:{self.one_of(secret.paths)} {asked}",
            f"{asked} tenant:{secret.source.tenant} {word}",
        )
        forms += (f"{asked} {self.one_of(INJECTED)}", f"source:*{secret.source.id[-4:]} {asked}", asked)
        return self.one_of(forms).replace("\x00", "") or "payments"

    def filters(self, names: Sequence[str]) -> dict[str, Any]:
        """Some conditions with secrets and injected ones in them."""
        made: dict[str, Any] = {}
        for name in self._chosen.sample(list(names), k=min(len(names), self.one_of([0, 0, 0, 1, 2]))):
            made[name] = [self._value(name) for _ in range(self.one_of([1, 1, 3]))]
        return made

    def _value(self, name: str) -> str:
        secret, kind = self.secret, name
        if self.chance(0.35):
            value = self.one_of(INJECTED)
            return f"{secret.source.id}{value}" if self.chance(0.5) else value
        values: dict[str, Sequence[str]] = {
            "sources": (secret.source.id, secret.source.id.upper(), f"{secret.source.id}*", "shop-docs"),
            "paths": (*secret.paths, f"**/{secret.source.canary}*", "**", f"../{secret.paths[0]}"),
            "source_types": (secret.source.type,),
            "languages": ("python", "py", "markdown"),
            "projects": (secret.keys[0][:-2], "*"),
            "labels": ("billing", "login"),
            "statuses": ("To Do", "Done"),
            "spaces": ("OPS",),
            "channels": ("ops", "#general"),
            "kinds": ("function", "class"),
            "namespaces": (secret.source.id, "shop"),
            "branches": ("*", "HEAD", "release/*", f"*{secret.source.canary}*"),
        }
        return self.one_of(values.get(kind, (self.word(), secret.source.canary, "main", "*")))

    def _bent(self, text: str) -> str:
        """Misspelt, in other letters, or with more around it."""
        where = self._chosen.randrange(len(text))
        return self.one_of(
            [
                text.upper(),
                text[:where] + text[where + 1 :] or "x",
                text + self.one_of(INJECTED),
                "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text),
                f"{text[:where]}\u200b{text[where:]}",
                f"{text[:where]}*",
            ]
        )


_LISTS = (
    "languages", "extensions", "sources", "repos", "branches", "paths", "authors", "tags", "labels",
    "projects", "statuses", "spaces", "channels", "kinds", "classes", "imports", "titles", "sections",
    "symbols", "exports", "namespaces", "components", "fix_versions", "record_kinds",
)  # fmt: skip
_OF_CODE = ("languages", "sources", "repos", "branches", "paths", "tags")
_GRAPH = ("related", "usages", "references", "calls", "hierarchy", "dependencies", "impact")
_GRAPH_METHODS = (
    "find_related_code", "find_usages", "find_references", "get_call_graph", "get_class_hierarchy",
    "get_dependencies", "analyze_dependencies",
)  # fmt: skip


def _narrowed(of: Intruder) -> dict[str, Any]:
    filters: dict[str, Any] = of.filters(_LISTS)
    if of.chance(0.2):
        filters["include_archived"] = True
    if of.chance(0.1):
        filters["since"] = "1970-01-01T00:00:00Z"
    return filters


def _post(of: Intruder, route: str, body: dict[str, Any], *, stable: bool = False) -> Attempt:
    headers = dict(of.one_of(FORGED)) if of.chance(0.15) else {}
    headers.pop("Host", None)
    if of.chance(0.1):
        body, stable = (
            {**body, of.one_of(["access", "tenant", "everything"]): of.one_of([True, "acme"])},
            False,
        )
    if of.chance(0.1):
        headers["Accept"], stable = "text/event-stream", False
    return Attempt("http", f"{PREFIX}/{route}", body, headers, stable=stable)


def _search(route: str) -> Maker:
    def make(of: Intruder) -> Attempt:
        body = {"query": of.question(), "filters": _narrowed(of), "limit": of.one_of([1, 5, 100])}
        if route == "search":
            body["type"] = of.one_of(["semantic", "code", "similar", "historical"])
        body["explain"] = of.chance(0.5)
        return _post(of, route, body)

    return make


def _as_others_ask(of: Intruder) -> Attempt:
    """One of the other attempts at the API, at its other address and by other names."""
    made = of.one_of([maker for maker in MAKERS["http"] if maker not in (_webhook, _as_others_ask)])(of)
    given = made.given
    if "query" in given and of.chance(0.5):
        given = {**given, "orgId": of.secret.source.tenant or "acme"}
    if "filters" in given and of.chance(0.5):
        names = {name: alias for alias, name in SINGULAR_FILTERS.items()}
        given = {**given, "filters": {names.get(name, name): it for name, it in given["filters"].items()}}
    return replace(made, name=made.name.replace(PREFIX, ALIAS_PREFIX), given=given)


def _similar(of: Intruder) -> Attempt:
    secret = of.secret
    by_path = {"path": of.one_of(secret.paths), **({"source": secret.source.id} if of.chance(0.6) else {})}
    body = by_path if of.chance(0.6) else {"text": f"{of.word()} {of.one_of(ASKED)}"}
    return _post(of, "similar", {**body, "filters": _narrowed(of), "explain": of.chance(0.5)})


def _tool(of: Intruder) -> Attempt:
    return _post(
        of, "tools/search_knowledge_base", {"query": of.question(), **of.filters(_OF_QUERY), "limit": 20}
    )


def _context(of: Intruder) -> Attempt:
    secret = of.secret
    body: dict[str, Any] = {
        "task": of.question(),
        "max_tokens": of.one_of([300, 4000]),
        "filters": _narrowed(of),
    }
    body["kind"] = of.one_of(["code_generation", "code_review", "issue_resolution", "question", "chat"])
    if of.chance(0.3):
        body |= {"files": list(secret.paths)[:3]}
    elif of.chance(0.6):
        body |= {"file": of.one_of(secret.paths), "source": of.one_of([secret.source.id, "shop-code"])}
    if of.chance(0.3):
        body["snippet"] = of.word()
    return _post(of, "context", body)


def _related(of: Intruder) -> Attempt:
    return _post(of, "related", {"target": of.document()}, stable=True)


def _graph(of: Intruder) -> Attempt:
    body = {"target": of.target(), "filters": of.filters(_OF_CODE), "limit": of.one_of([1, 50])}
    return _post(of, f"graph/{of.one_of(_GRAPH)}", body, stable=True)


def _by_id(forms: tuple[str, ...]) -> Maker:
    def make(of: Intruder) -> Attempt:
        path = of.one_of(forms).format(quote(of.id(), safe=""))
        return Attempt("http", f"{PREFIX}/{path}", method="GET", stable=True)

    return make


def _get(*paths: str, stable: bool) -> Maker:
    def make(of: Intruder) -> Attempt:
        smuggled = of.one_of(["", "", "?tenant=acme", "?everything=true&hours=9999", "?access=operator"])
        path = of.one_of(paths)
        smuggled = smuggled.replace("?", "&") if "?" in path else smuggled
        return Attempt("http", f"{path}{smuggled}", method="GET", stable=stable)

    return make


def _feedback(of: Intruder) -> Attempt:
    secret = of.secret
    body = {
        "query_id": of.one_of(secret.queries),
        "result_id": of.one_of(secret.chunks),
        "judgement": "useful",
    }
    if sum(map(ord, body["result_id"])) % 2:  # draws nothing, so that the other attempts stay as they are
        return Attempt("http", f"{PREFIX}/model-calls", {"provider": "p", "model": secret.names[0]})
    return Attempt("http", f"{PREFIX}/feedback", body)


def _sync(of: Intruder) -> Attempt:
    source = of.secret.source
    return Attempt("http", f"{PREFIX}/sync", {"sources": [source.id]})


def _page(form: str, make: Callable[[Intruder], dict[str, Any]], *, stable: bool = False) -> Maker:
    def made(of: Intruder) -> Attempt:
        return Attempt("page", f"{form}?{urlencode(make(of), doseq=True)}", method="GET", stable=stable)

    return made


def _page_search(of: Intruder) -> dict[str, Any]:
    narrowed = of.filters(("source", "source_type", "language", "path"))
    secret = of.secret
    if of.chance(0.3):  # hints of what was meant are made of names
        narrowed["source"] = [secret.source.id[:-1]]
    asked = of.question() if of.chance(0.7) else of.one_of(secret.names)[:-1]
    return {"q": asked, "type": of.one_of(["semantic", "code", "similar"]), **narrowed}


def _page_graph(of: Intruder) -> dict[str, Any]:
    asked = {"target": of.target(), "operation": of.one_of(["calls", "usages", "impact", "related"])}
    return {**asked, "source": of.secret.source.id} if of.chance(0.4) else asked


def _mcp(tool: str, make: Callable[[Intruder], dict[str, Any]], *, stable: bool = False) -> Maker:
    return lambda of: Attempt("mcp", tool, make(of), stable=stable)


_OF_QUERY = ("sources", "repos", "languages", "paths", "authors")


def _mcp_context(of: Intruder) -> dict[str, Any]:
    secret = of.secret
    file = {"file": of.one_of(secret.paths), "source": secret.source.id} if of.chance(0.6) else {}
    return {"task": of.question(), **file, **of.filters(("sources", "repos", "languages"))}


def _mcp_like(of: Intruder) -> dict[str, Any]:
    secret = of.secret
    if of.chance(0.5):
        return {"file": of.one_of(secret.paths), "source": secret.source.id}
    return {"query": of.word(), **of.filters(("paths", "repos"))}


def _python(method: str, make: Callable[[Intruder], dict[str, Any]], *, stable: bool = False) -> Maker:
    return lambda of: Attempt("python", method, make(of), stable=stable)


def _python_similar(of: Intruder) -> dict[str, Any]:
    secret = of.secret
    return of.one_of([{"path": of.one_of(secret.paths), "source": secret.source.id}, {"text": of.word()}])


def _webhook(of: Intruder) -> Attempt:
    """An event of a hidden document that nobody has signed: not even its source is told of."""
    service, secret = of.one_of(["github", "gitlab", "jira", "confluence", "slack", "s3", "gcs"]), of.secret
    issue = {"id": of.one_of(secret.uris).rpartition("/")[2], "key": secret.keys[0]}
    event = {"webhookEvent": "jira:issue_updated", "issue": issue, "page": {"id": issue["id"]}}
    return Attempt("http", f"/webhooks/{service}", event, {"X-Hub-Signature": "sha256=00"}, stable=True)


MAKERS: dict[str, list[Maker]] = {
    "http": [
        *map(_search, ("search", "search", "query", "query/code", "query/tickets", "query/docs")),
        *(_similar, _tool, _context, _related, _graph, _graph, _feedback, _sync, _webhook),
        *map(_by_id, (("{}", "{}?blame=true"), ("docs/{}", "trace/{}"), ("docs/{}/export",))),
        _get(*(f"{PREFIX}/{name}" for name in ("collections", "status")), stable=True),
        _get(*(f"{PREFIX}/{name}" for name in ("stats", "sources", "sync/status", "tools")), stable=False),
        _get(f"{PREFIX}/sync/status/{'0' * 32}", stable=True),
        _get(f"{PREFIX}/events?follow=false&after=0", stable=False),
        _get("/health", "/health/watcher", "/ready", "/metrics", "/openapi.json", "/docs", stable=False),
        _as_others_ask,
    ],
    "page": [
        _page("/", _page_search),
        _page("/", _page_search),
        _page("/doc", lambda of: {"id": of.id(), "q": of.word()}, stable=True),
        lambda of: _page(of.one_of(["/similar", "/blame", "/trace"]), lambda of: {"id": of.id()})(of),
        _page("/related", lambda of: {"id": of.document()}),
        _page("/graph", _page_graph),
        lambda of: _page(
            of.one_of(["/sources", "/progress"]), lambda of: {"source": of.secret.source.id, "follow": False}
        )(of),
        _page("/", lambda of: {"tenant": of.secret.source.tenant or ""}),
    ],
    "mcp": [
        _mcp("knowledge_query", lambda of: {"query": of.question(), **of.filters(_OF_QUERY), "limit": 50}),
        _mcp(
            "knowledge_query", lambda of: {"query": of.word()[:4], "mode": "exact", "limit": 50}, stable=True
        ),
        _mcp("code_search", lambda of: {"query": of.question(), **of.filters(_OF_QUERY[:4])}),
        _mcp("search_code", _mcp_like),
        _mcp(
            "search_jira_tickets", lambda of: {"query": of.question(), **of.filters(("projects", "labels"))}
        ),
        _mcp("search_confluence", lambda of: {"query": of.question(), **of.filters(("spaces", "authors"))}),
        _mcp("get_document", lambda of: {"id": of.id()}, stable=True),
        _mcp("build_context", _mcp_context),
        _mcp("list_sources", lambda of: of.filters(("repos", "languages")), stable=True),
        *(
            _mcp(name, lambda of: {"target": of.target(), **of.filters(("sources", "paths"))}, stable=True)
            for name in _GRAPH_METHODS
        ),
    ],
    "python": [
        _python("search", lambda of: {"text": of.question(), "filters": _narrowed(of), "limit": 50}),
        _python("search", lambda of: {"text": of.word(), "mode": of.one_of(["exact", "regex"])}, stable=True),
        _python("similar", _python_similar),
        lambda of: _python(of.one_of(["get", "trace"]), lambda of: {"id": of.id()}, stable=True)(of),
        _python("related", lambda of: {"target": of.document()}, stable=True),
        _python("context", lambda of: {"task": of.question()}),
        _python("status", lambda _: {}, stable=True),
        _python("graph", lambda of: {"asked": of.one_of(_GRAPH_METHODS), "target": of.target()}, stable=True),
    ],
}
