"""What the oracle asks of a checkout, and how it asks it by every interface.

Questions follow from the checkout alone: its symbols, headings, file names and commit subjects, and those of
a set. Of the product only the interfaces are imported, in `open_interfaces`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

PREFIX = "/api/v1/knowledge"
_A_MINUTE = 1_000_000  # questions by MCP
_METHODS = "find_usages find_references get_call_graph get_class_hierarchy get_dependencies"
_ROUTES = "usages references calls hierarchy dependencies impact related"
GRAPH_METHODS = dict(
    zip(f"{_METHODS} analyze_dependencies find_related_code".split(), _ROUTES.split(), strict=True)
)
"""Methods in Python and tools of MCP -> the route over HTTP."""

_SYMBOL = re.compile(
    r"^\s*(?:export\s+)?(?:async\s+)?(?:def|class|function|struct|interface|enum)\s+([A-Za-z_]\w{2,})", re.M
)
_HEADING = re.compile(r"^#{1,4}\s+(\S.*?)\s*#*$", re.M)
_FORMS = {  # of what one is asked of
    "symbol": ("{}", "where is {} defined", "what calls {}", "how does {} work"),
    "heading": ("{}", "how do I use: {}"),
    "file": ("{}", "what is in {}"),
    "commit": ("{}", "why: {}"),
    "set": ("{}",),
}
_CODE = (".py", ".js", ".ts", ".cc", ".h", ".go", ".java")


@dataclass(frozen=True, slots=True)
class Question:
    """One question, and how it is asked: keys of `POST /search`, of which `filters` are lists by name."""

    text: str
    how: Mapping[str, Any] = field(default_factory=dict[str, Any])


Ask = Callable[..., Awaitable[Mapping[str, Any]]]
"""Asks by one interface; the answer is its JSON, one that was refused has the reason as `error`."""


@dataclass(frozen=True, slots=True)
class Interface:
    """How one interface is asked."""

    search: Ask  # of a `Question`
    context: Ask  # of a task's text and a number of tokens
    graph: Ask  # of a method of `GRAPH_METHODS` and a symbol


def run_git(checkout: Path, *arguments: str) -> str:
    """What git prints."""
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout


def list_files(checkout: Path) -> list[str]:
    """The tracked files."""
    return sorted(run_git(checkout, "ls-files", "-z").split("\0")[:-1])


def order_evenly(texts: Iterable[str]) -> list[str]:
    """Without repetitions, in an order that says nothing and is the same everywhere."""
    return sorted(set(texts), key=lambda text: hashlib.sha256(text.encode()).digest())


def list_symbols(checkout: Path) -> list[str]:
    """Names that its code defines."""
    return order_evenly(chain.from_iterable(map(find_symbols, _read_files(checkout, _CODE))))


def find_symbols(text: str) -> list[str]:
    """Names that a text defines, as far as a pattern sees them."""
    return _SYMBOL.findall(text)


def find_headings(text: str) -> list[str]:
    """Headings of a Markdown text, comments of its examples among them."""
    return [heading for heading in _HEADING.findall(text) if len(heading) < 200]


def list_questions(checkout: Path, set_file: Path, count: int) -> list[Question]:
    """So many questions, if the checkout has enough to ask of; the set may be missing."""
    lines = set_file.read_text().splitlines() if set_file.is_file() else []
    files = list_files(checkout)
    subjects = {
        "symbol": list_symbols(checkout),
        "heading": order_evenly(chain.from_iterable(map(find_headings, _read_files(checkout, (".md",))))),
        "file": order_evenly(files),
        "commit": order_evenly(run_git(checkout, "log", "--format=%s", "-2000").splitlines()),
        "set": order_evenly(json.loads(line)["question"] for line in lines),
    }
    return vary(build_texts(subjects, count), list_variants(files))


def _read_files(checkout: Path, endings: tuple[str, ...]) -> Iterable[str]:
    paths = (checkout / name for name in list_files(checkout) if name.endswith(endings))
    return (path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file())


def build_texts(subjects: Mapping[str, Sequence[str]], count: int) -> list[str]:
    """Texts of questions of every kind of subject in turn; those of a subject's later forms last."""
    rounds = max(map(len, _FORMS.values()))
    texts = (
        text
        for number in range(rounds)
        for row in zip_longest(*([_fill(kind, each, number) for each in subjects[kind]] for kind in subjects))
        for text in row
        if text
    )
    return list(islice(dict.fromkeys(texts), count))


def _fill(kind: str, subject: str, number: int) -> str | None:
    return _FORMS[kind][number].format(subject) if number < len(_FORMS[kind]) else None


def list_variants(files: Sequence[str]) -> list[Mapping[str, Any]]:
    """Ways to ask; half of them are the default one."""
    ending = Counter(Path(name).suffix for name in files if name.endswith(_CODE)).most_common(1)
    folder = Counter(Path(name).parts[0] for name in files if "/" in name).most_common(1)
    variants: list[Mapping[str, Any]] = [
        {"type": "code"},
        {"mode": "words"},
        {"type": "historical"},
        {"mode": "vectors"},
        {"limit": 30, "explain": True},
        {"filters": {"source_types": ["markdown"]}},
        *({"filters": {"languages": [name[1:]]}} for name, _ in ending),
        *({"filters": {"paths": [name]}} for name, _ in folder),
    ]
    return [how for variant in variants for how in ({}, variant)]


def vary(texts: Iterable[str], variants: Sequence[Mapping[str, Any]]) -> list[Question]:
    """Ask one after the other in the next way."""
    return [Question(text, variants[number % len(variants)]) for number, text in enumerate(texts)]


@asynccontextmanager
async def open_interfaces(config: Path) -> AsyncGenerator[tuple[dict[str, Interface], Ask]]:
    """All that answer in this process, by name, and `get` of a path of the HTTP API."""
    import httpx2
    from mcp import Client

    from knowledge_pipeline import Access, AsyncKnowledgeBase
    from knowledge_pipeline.config.file import load_settings
    from knowledge_pipeline.serve.http.app import create_app
    from knowledge_pipeline.serve.mcp.server import create_server
    from knowledge_pipeline.serve.service import Identity, Service

    service = Service(load_settings(config), config=config)
    app = create_app(service)
    identity = Identity(Access.operator("mcp"), frozenset({"query"}), "operator", _A_MINUTE)
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=None) as http,
        Client(create_server(service, lambda _: identity)) as mcp,
        AsyncKnowledgeBase.open(config) as base,
    ):
        of_http, get = _by_http(http)
        yield {"python": _in_process(base), "http": of_http, "mcp": _by_mcp(mcp)}, get


def _in_process(base: Any) -> Interface:
    from knowledge_pipeline import Filters
    from knowledge_pipeline.errors import KnowledgeError

    async def answer(asked: Awaitable[Any]) -> Mapping[str, Any]:
        try:
            return (await asked).as_json()
        except KnowledgeError as error:
            return {"error": str(error)}

    def search(question: Question) -> Awaitable[Mapping[str, Any]]:
        lists: Mapping[str, list[str]] = question.how.get("filters", {})
        filters: dict[str, Any] = {name: tuple(values) for name, values in lists.items()}
        return answer(base.search(question.text, **{**question.how, "filters": Filters(**filters)}))

    return Interface(
        search,
        lambda text, tokens: answer(base.context(text, max_tokens=tokens)),
        lambda method, symbol: answer(getattr(base.graph, method)(symbol)),
    )


def _by_http(client: Any) -> tuple[Interface, Ask]:
    async def answer(asked: Awaitable[Any]) -> Mapping[str, Any]:
        body: Any = (response := await asked).json()
        return body if response.is_success else {"error": f"{response.status_code}: {body.get('detail')}"}

    def post(route: str, **body: Any) -> Awaitable[Mapping[str, Any]]:
        return answer(client.post(f"{PREFIX}/{route}", json=body))

    interface = Interface(
        lambda question: post("search", query=question.text, **question.how),
        lambda text, tokens: post("context", task=text, max_tokens=tokens),
        lambda method, symbol: post(f"graph/{GRAPH_METHODS[method]}", target=symbol),
    )
    return interface, lambda path: answer(client.get(f"{PREFIX}/{path}"))


def _by_mcp(client: Any) -> Interface:
    async def call(tool: str, **arguments: Any) -> Mapping[str, Any]:
        result = await client.call_tool(tool, arguments)
        text = result.content[0].text
        return {"error": text} if result.is_error else {"text shown": text}

    def search(question: Question) -> Awaitable[Mapping[str, Any]]:
        how = {name: value for name, value in question.how.items() if name not in ("filters", "explain")}
        return call("knowledge_query", query=question.text, **how, **question.how.get("filters", {}))

    return Interface(
        search,
        lambda text, tokens: call("build_context", task=text, max_tokens=tokens),
        lambda method, symbol: call(method, target=symbol),
    )


async def search_by_command(config: Path, question: Question) -> Mapping[str, Any]:
    """The answer of `knowledge search --json`, a process."""
    options = [f"--{name}={question.how[name]}" for name in ("type", "mode", "limit") if name in question.how]
    command = [sys.executable, "-m", "knowledge_pipeline.cli", "--config", str(config), "search", "--json"]
    process = await asyncio.create_subprocess_exec(
        *command, *options, "--", question.text, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    printed, problem = await process.communicate()
    return {"error": problem.decode()} if process.returncode else json.loads(printed)
