"""Sends attempts through every door as every caller, and looks for what must not be in the answers.

Two ways of looking. Whatever names a hidden document - its canary, its source, the ids of its chunks
and of its code - is in no answer, unless the attempt itself said so and is merely repeated. And where
an answer does not depend on statistics of all documents, it is the same as that of a store in which
the hidden documents never were.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2

from knowledge_pipeline import AsyncKnowledgeBase, Filters, KnowledgeBase
from knowledge_pipeline.config import file
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.maintenance import purge_source
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.serve.isolation_attempts import Attempt, Intruder, Secret
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import SEERS, SOURCES, Held, World

CALLERS = ("anonymous", *SEERS)
REFUSED = ("expired", "revoked", "unknown", "nobody")  # nobody: no token where one is needed
_VOLATILE = frozenset(
    (
        "query_id",
        "knowledge/query_id",
        "took_ms",
        "timings_ms",
        "release",
        "released_at",
        "refreshed_at",
        "created_at",
        "age_hours",
        "request_id",
    )
)
_MCP = {"Accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Reply:
    """All that came back."""

    status: int
    text: str  # with the headers
    told: Any  # JSON, or the text


@dataclass(frozen=True)
class Leak:
    """What an answer told that it must not tell."""

    caller: str
    attempt: Attempt
    found: str


def hidden_from(caller: str) -> tuple[Held, ...]:
    """Sources that a caller may see nothing of; the holder of `admin` manages those of acme."""
    if caller == "admin":
        return tuple(source for source in SOURCES if source.tenant not in ("acme", None))
    if caller in REFUSED:
        return SOURCES
    tenant, principals = SEERS["public" if caller == "anonymous" else caller]
    return tuple(source for source in SOURCES if not source.seen_by(tenant, principals))


def secrets_of(world: World) -> dict[str, Secret]:
    """What there is to be found out, by source, as an operator knows it."""
    with KnowledgeBase(world.settings) as base:
        return {source.id: _secret(base, source) for source in SOURCES}


def _secret(base: KnowledgeBase, source: Held) -> Secret:
    every = Filters(sources=(source.id,), include_archived=True)
    answer = base.search(f"payments {source.canary}", filters=every, limit=100, explain=True)
    results, nodes = answer.results, list[str]()
    for path in {result.citation.path for result in results if result.citation.path.endswith(".py")}:
        found = base.graph.find_usages(path, filters=Filters(sources=(source.id,)))
        nodes += [node.id for node in found.nodes if node.source == source.id]
    return Secret(
        source,
        chunks=tuple(result.id for result in results),
        uris=tuple(dict.fromkeys(result.span.uri for result in results)),
        paths=tuple(dict.fromkeys(result.citation.path for result in results)),
        titles=tuple(dict.fromkeys(result.citation.title or "untitled" for result in results)),
        urls=tuple(result.citation.url for result in results if result.citation.url),
        nodes=tuple(nodes),
        queries=(answer.query_id,),
    )


class Doors:
    """All doors of one store, for one caller."""

    def __init__(self, server: Running, token: str | None, access: Access) -> None:
        self._http = server.client(token)
        self._server, self._access = server, access
        self._page = server.client(token, Accept="text/html")

    def send(self, attempt: Attempt) -> Reply:
        """What the attempt gets."""
        if attempt.door == "python":
            return asyncio.run(asked_in_python(self._server.service.base, attempt, self._access))
        if attempt.door == "mcp":
            params = {"name": attempt.name, "arguments": attempt.given}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            return _reply(self._http.post("/mcp", json=body, headers=_MCP))
        client = self._page if attempt.door == "page" else self._http
        body = attempt.given if attempt.method == "POST" else None
        return _reply(client.request(attempt.method, attempt.name, headers=attempt.headers, json=body))


EVERY_DOOR = frozenset({"http", "mcp", "page", "python"})


def list_leaking_doors(leaks: Iterable[Attempt]) -> set[str]:
    """The doors by which attempts got at something, asked until it is every door."""
    found: set[str] = set()
    for attempt in leaks:
        found.add(attempt.door)
        if found == EVERY_DOOR:
            break
    return found


async def asked_in_python(base: AsyncKnowledgeBase, attempt: Attempt, access: Access) -> Reply:
    """The answer, or the error, of the Python API on behalf of a caller."""
    given = dict(attempt.given)
    if "filters" in given:
        narrowed: dict[str, Any] = {
            name: tuple(value) for name, value in given["filters"].items() if isinstance(value, list)
        }
        given["filters"] = Filters(
            **narrowed, include_archived=bool(given["filters"].get("include_archived"))
        )
    method = (
        getattr(base.graph, given.pop("asked")) if attempt.name == "graph" else getattr(base, attempt.name)
    )
    try:
        if attempt.name in ("get", "trace", "related", "context", "graph"):
            answer = await method(next(iter(given.values())), access=access)
        else:
            answer = await (
                method(given.pop("text"), **given, access=access)
                if attempt.name == "search"
                else method(**given, access=access)
            )
    except KnowledgeError as error:
        return Reply(400, str(error), f"{type(error).__name__}: {error}")
    told = answer.as_json()
    spoken = asdict(answer) if is_dataclass(answer) and not isinstance(answer, type) else {}
    return Reply(200, json.dumps(told, ensure_ascii=False) + repr(spoken), told)


def _reply(response: httpx2.Response) -> Reply:
    headers = "\n".join(f"{name}: {value}" for name, value in response.headers.items())
    told: Any = response.text
    if told.startswith((": ping", "event: message")):  # of MCP, which a slow answer begins with pings
        told = told.partition("event: message")[2].partition("data: ")[2].strip() or told
    try:
        told = json.loads(told)
    except ValueError:
        told = _without_moments(told)
    return Reply(response.status_code, f"{headers}\n\n{response.text}", told)


def _without_moments(page: str) -> str:
    """A page without what differs every time: checks, ids of questions, moments and times."""
    page = re.sub(r"(?s)<(header|footer|aside|dl|time|script|form).*?</\1>", "", page)
    page = re.sub(r'data-csrf="[^"]*"|[0-9a-f]{8}-[0-9a-f-]{27}|release \d+|\d+(\.\d+)? m?s\b', "", page)
    return re.sub(r"\s+", " ", page)


def alike(one: Reply, other: Reply) -> bool:
    """Whether two answers tell the same, but for when, in how long, and under which id."""
    return one.status == other.status and _plain(one.told) == _plain(other.told)


def _plain(told: Any) -> Any:
    match told:
        case dict():
            return {name: _plain(value) for name, value in told.items() if name not in _VOLATILE}
        case list():
            return [_plain(each) for each in told]
        case str() if "query_id" in told or "took" in told:  # a text for a model, with all of that in it
            return re.sub(r"[0-9a-f-]{36}|\d+(\.\d+)? ?ms|release \d+", "", told)
    return told


class Watch:
    """Knows what names each hidden source, and finds it in answers however it is written."""

    def __init__(self, secrets: Mapping[str, Secret], hidden: Iterable[Held]) -> None:
        self._markers = tuple(
            marker.lower()
            for source in hidden
            for secret in [secrets[source.id]]
            for marker in (source.canary, source.id, *secret.chunks, *secret.nodes)
        )

    def found(self, attempt: Attempt, text: str) -> str | None:
        """A marker that the answer has and the attempt had not.

        What was asked in compatible characters, such as wide letters, is shown as full text is asked for it.
        """
        sent = _readings(json.dumps([attempt.name, attempt.given, attempt.headers], ensure_ascii=False))
        sent += "\n" + unicodedata.normalize("NFKC", sent)
        said = _readings(text)
        return next((each for each in self._markers if each in said and each not in sent), None)


def _readings(text: str) -> str:
    """A text as it is, and as readers of JSON, HTML and addresses read it, without marks."""
    unescaped = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    read = html.unescape(unquote(unescaped))
    bare = re.sub(r"</?(?:span|mark|wbr)\b[^>]*>", "", read)
    return "\n".join((text, read, bare, unquote(read))).lower()


class Siege:
    """A store with all documents behind its doors, and stores without those that a caller may not see."""

    def __init__(self, world: World, folder: Path, secrets: Mapping[str, Secret], **serve: Any) -> None:
        self._world, self._folder, self._serve = world, folder, serve
        self._open = ExitStack()
        self.secrets = secrets
        self._servers: dict[str, Running] = {}  # by who may ask them without a token
        self._oracles: dict[tuple[Held, ...], Running] = {}
        self._purged: dict[tuple[Held, ...], Path] = {(): world.root}  # by what is lacking

    def __enter__(self) -> Siege:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def doors(self, caller: str) -> Doors:
        """To everything, as a caller."""
        anonymous = {"anonymous": "public", "nobody": "off"}.get(caller, "loopback")
        if anonymous not in self._servers:
            world = self._world
            self._servers[anonymous] = self._started(world.settings, world.config, anonymous=anonymous)
        server = self._servers[anonymous]
        return Doors(server, self._token(caller), _access(caller))

    def oracle(self, caller: str) -> Doors:
        """To what the caller may see alone."""
        hidden = hidden_from(caller)
        if hidden not in self._oracles:
            self._oracles[hidden] = self._without(hidden)
        return Doors(
            self._oracles[hidden], self._token(caller) or self._world.tokens["public"], _access(caller)
        )

    def attempts(self, caller: str, count: int, *, seed: int, doors: Sequence[str]) -> Iterator[Attempt]:
        """At what is hidden from a caller."""
        return Intruder(seed, [self.secrets[each.id] for each in hidden_from(caller)]).attempts(count, doors)

    def leaks(
        self,
        caller: str,
        count: int,
        *,
        seed: int = 0,
        doors: Sequence[str] = ("http", "mcp", "page", "python"),
        compared: bool = True,
        primed: bool = True,
    ) -> Iterator[Leak]:
        """What attempts get at; with `primed` one who may see all asks some of the same first."""
        watch = Watch(self.secrets, hidden_from(caller))
        mine, operators = self.doors(caller), self.doors("operator")
        oracle = self.oracle(caller) if compared else None
        for number, attempt in enumerate(self.attempts(caller, count, seed=seed, doors=doors)):
            if primed and number % 3 == 0 and not attempt.name.endswith(("sync", "feedback")):
                operators.send(attempt)
            reply = mine.send(attempt)
            assert reply.status < 500 or attempt.name.partition("?")[0] in ("/ready", "/health/watcher"), (
                attempt,
                reply,
            )
            if found := watch.found(attempt, reply.text):
                yield Leak(caller, attempt, found)
            elif oracle and attempt.stable and not alike(reply, expected := oracle.send(attempt)):
                yield Leak(caller, attempt, f"{reply.told!r:.600} instead of {expected.told!r:.600}")

    def _token(self, caller: str) -> str | None:
        if caller in ("anonymous", "nobody"):
            return None
        return self._world.tokens.get(caller, "kpt_00000000_unknown")

    def _without(self, hidden: tuple[Held, ...]) -> Running:
        number = len(self._oracles)
        served = shutil.copytree(self._purge(hidden, number), self._folder / f"oracle{number}")
        settings = file.load_settings(served / "knowledge.yaml")
        return self._started(settings, served / "knowledge.yaml")

    def _purge(self, hidden: tuple[Held, ...], number: int) -> Path:
        """A copy without sources, of the one that lacks most of them already."""
        nearest = max((lacked for lacked in self._purged if set(lacked) <= set(hidden)), key=len)
        root = shutil.copytree(self._purged[nearest], self._folder / f"purged{number}")
        settings = file.load_settings(root / "knowledge.yaml")
        for source in hidden:
            if source not in nearest:
                purge_source(Lake(settings.store), settings, source.id)
        left = Lake(settings.store).list_stored_sources().keys()
        assert left == {source.id for source in SOURCES} - {source.id for source in hidden}
        self._purged[hidden] = root
        return root

    def _started(self, settings: Any, config: Path, **serve: Any) -> Running:
        return self._open.enter_context(
            Running(settings, config=config, metrics=True, **self._serve, **serve)
        )


def _access(caller: str) -> Access:
    if caller == "operator":
        return Access.operator()
    tenant, principals = SEERS.get(caller, (None, ()))
    return Access(tenant, frozenset(principals))
