"""A small organisation: three tenants and the public, each with code, documents and tickets, and tokens.

Every source has a word of its own, its canary, in the texts, titles, paths and symbols of all of its
documents, and nowhere else. Whoever meets the canary of a source that they may not see has found a leak.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer
from knowledge_pipeline_tests.fakes.jira.server import JiraServer
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

SECRETS = (
    "TEST_EMBEDDING_KEY",
    "TEST_JIRA_TOKEN",
    "TEST_WIKI_TOKEN",
    "TEST_GITHUB_SECRET",
    "TEST_GITLAB_TOKEN",
    "TEST_JIRA_SECRET",
)


@dataclass(frozen=True)
class Held:
    """One source, and who may see it."""

    id: str
    type: str
    tenant: str | None = None  # None: public
    principals: tuple[str, ...] = ()  # private, where there are some

    @property
    def canary(self) -> str:
        return f"canary{self.id.replace('-', '')}"

    @property
    def access(self) -> dict[str, Any]:
        if self.tenant is None:
            return {"visibility": "public"}
        visibility = "private" if self.principals else "tenant"
        return {"visibility": visibility, "tenant": self.tenant, "principals": list(self.principals)}

    def seen_by(self, tenant: str | None, principals: tuple[str, ...]) -> bool:
        if self.tenant is None:
            return True
        return tenant == self.tenant and (not self.principals or bool(set(self.principals) & set(principals)))


SOURCES = (
    Held("shop-code", "code"),
    Held("shop-docs", "markdown"),
    Held("shop-tickets", "jira"),
    Held("acme-code", "code", "acme"),
    Held("acme-docs", "markdown", "acme"),
    Held("acme-tickets", "jira", "acme", ("ann",)),
    Held("acme-records", "archive", "acme"),
    Held("globex-code", "code", "globex", ("gil",)),
    Held("globex-docs", "markdown", "globex"),
    Held("globex-tickets", "jira", "globex"),
    Held("globex-wiki", "confluence", "globex", ("gil", "gus")),
    Held("initech-code", "code", "initech"),
    Held("initech-docs", "markdown", "initech", ("ida",)),
    Held("initech-tickets", "jira", "initech"),
)

SEERS: Mapping[str, tuple[str | None, tuple[str, ...]]] = {
    "public": (None, ()),
    "acme": ("acme", ()),
    "ann": ("acme", ("ann",)),
    "globex": ("globex", ()),
    "gil": ("globex", ("gil",)),
    "initech": ("initech", ()),
    "ida": ("initech", ("ida",)),
}
"""Tokens with the scope `query`: tenant and principals. There are also `operator` (sees all, scopes
query and admin), `admin` (tenant acme, scope admin alone), `monitor` (scope metrics alone), `slow` (public,
two requests a minute), `expired` and `revoked`."""


@dataclass
class World:
    """The project, its store, and the secrets of its tokens by name."""

    root: Path
    settings: Settings
    environment: Mapping[str, str]  # that knowledge.yaml names, for processes
    tokens: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)  # of the tokens

    @property
    def config(self) -> Path:
        return self.root / "knowledge.yaml"

    def sources_of(self, seer: str) -> tuple[Held, ...]:
        """What the holder of a token may see."""
        if seer == "operator":
            return SOURCES
        return tuple(source for source in SOURCES if source.seen_by(*SEERS[seer]))

    def canaries_hidden_from(self, seer: str) -> tuple[str, ...]:
        """Words that must be in no answer to the holder of a token."""
        seen = self.sources_of(seer)
        return tuple(source.canary for source in SOURCES if source not in seen)


def build(root: Path, embedding: OpenAIServer) -> World:
    """Write the sources, read and release them, and make the tokens."""
    with ExitStack() as stack:
        jira, wiki = stack.enter_context(JiraServer()), stack.enter_context(ConfluenceServer())
        environment = dict(zip(SECRETS, _secrets(embedding, jira, wiki), strict=True))
        with pytest.MonkeyPatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            _write(root, embedding, jira, wiki)
            settings = file.load_settings(root / "knowledge.yaml")
            _refresh(settings)
            (root / "acme-records/adr/0002.md").unlink()  # what is gone from an archive is archived
            _refresh(settings, "acme-records")
    world = World(root, settings, environment)
    _make_tokens(world)
    return world


def _secrets(embedding: OpenAIServer, jira: JiraServer, wiki: ConfluenceServer) -> Iterator[str]:
    yield from (
        embedding.key,
        jira.token,
        wiki.token,
        "-".join(("hook", "secret")),
        "-".join(("hook", "token")),
        "-".join(("hook", "jira")),
    )


def _refresh(settings: Settings, *ids: str) -> None:
    outcome = pipeline.refresh(Lake(settings.store), settings, settings.select_sources(ids))
    assert not outcome.failures, {source: str(error) for source, error in outcome.failures.items()}


def _write(root: Path, embedding: OpenAIServer, jira: JiraServer, wiki: ConfluenceServer) -> None:
    entries = [_entry(root, source, jira, wiki) for source in SOURCES]
    told = {
        "store": "store",
        "embedding": {
            "provider": "openai",
            "model": "hashed-words",
            "base_url": embedding.url,
            "api_key": "${TEST_EMBEDDING_KEY}",
            "dimensions": embedding.dimensions,
            "max_tries": 1,
        },
        "serve": {
            "requests_per_minute": 1_000_000,
            "webhooks": {
                "github_secret": "${TEST_GITHUB_SECRET}",
                "gitlab_token": "${TEST_GITLAB_TOKEN}",
                "jira_secret": "${TEST_JIRA_SECRET}",
            },
        },
        "sources": entries,
    }
    (root / "knowledge.yaml").write_text(json.dumps(told, indent=2))  # YAML is a superset of JSON


def _entry(root: Path, source: Held, jira: JiraServer, wiki: ConfluenceServer) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": source.id, "type": source.type, "access": source.access}
    if source.type == "jira":
        _open_tickets(jira, source)
        entry["projects"] = [_project(source)]
        secret = {"email": jira.email, "token": "${TEST_JIRA_TOKEN}"}
        entry["connection"] = {"type": "jira", "url": jira.url, **secret}
    elif source.type == "confluence":
        wiki.create(f"On call {source.canary}", f"<p>Who wakes up when {source.canary} rings the pager.</p>")
        secret = {"email": wiki.email, "token": "${TEST_WIKI_TOKEN}"}
        entry["connection"] = {"type": "confluence", "url": wiki.url, **secret}
    else:
        writers = {"code": _write_code, "markdown": _write_docs, "archive": _write_records}
        writers[source.type](root / source.id, source)
        entry["connection"] = {"type": "local", "path": source.id}
    return entry


def _project(source: Held) -> str:
    return source.id.partition("-")[0].upper()


def _open_tickets(jira: JiraServer, source: Held) -> None:
    project, canary = _project(source), source.canary
    text = f"Customers of {canary} are charged twice when a payment is retried."
    jira.site.create(f"Double charge {canary}", text, project=project, labels=["billing"], status="To Do")
    text = f"Sessions of {canary} end too early. Caused by {project}-1."
    jira.site.create(f"Early logout {canary}", text, project=project, labels=["login"], status="Done")


def _write_code(folder: Path, source: Held) -> None:
    package = folder / source.id.partition("-")[0]
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    canary = source.canary
    if source.id == "shop-code":
        (folder / "pyproject.toml").write_text('[project]\nname = "shop"\nversion = "1"\n')
        (package / "store.py").write_text(STORE.replace("CANARY", canary))
    (package / f"{canary}.py").write_text(CODE.replace("CANARY", canary))


def _write_docs(folder: Path, source: Held) -> None:
    (folder / "guides").mkdir(parents=True)
    project, canary = _project(source), source.canary
    guide = GUIDE.replace("CANARY", canary).replace("PROJECT", project)
    (folder / "guides" / f"{canary}.md").write_text(guide)
    (folder / "README.md").write_text(f"# Read me {canary}\n\nHow the shop of {canary} stores payments.\n")


def _write_records(folder: Path, source: Held) -> None:
    (folder / "adr").mkdir(parents=True)
    for number, title in ((1, "Keep payments"), (2, "Drop payments")):
        record = f"---\ntitle: {title} {source.canary}\n---\n\n{title} in a store of {source.canary}.\n"
        (folder / "adr" / f"{number:04}.md").write_text(record)


def _make_tokens(world: World) -> None:
    tokens = TokenStore(Lake(world.settings.store))

    def create(name: str, **allowed: Any) -> None:
        made, secret = tokens.create(name, **allowed)
        world.tokens[name], world.ids[name] = secret, made.id

    for name, (tenant, principals) in SEERS.items():
        create(name, tenant=tenant, principals=principals)
    create("operator", everything=True, scopes=("query", "admin"))
    create("admin", tenant="acme", scopes=("admin",))
    create("monitor", scopes=("metrics",))
    create("slow", requests_per_minute=2)
    create("expired", expires_in=timedelta(microseconds=1))
    create("revoked")
    tokens.revoke("revoked")


STORE = '''"""Where payments are kept, and CANARY."""


class Store:
    """Keeps payments of CANARY."""

    def put_payment(self, key, amount):
        """Keep a payment under its key."""
        return (key, amount)

    def get_payment(self, key):
        """The payment of a key."""
        return self.put_payment(key, 0)
'''
CODE = '''"""Payments of CANARY, retried."""

from shop.store import Store


def CANARY_total(amounts):
    """Sum the payments of CANARY."""
    store = Store()
    return sum(store.get_payment(amount)[1] for amount in amounts)


def CANARY_retry(send, times):
    """Send a payment of CANARY again until it works."""
    for _ in range(times):
        if send():
            return CANARY_total([times])
    return 0
'''
GUIDE = """# Payments of CANARY

How a payment of CANARY is retried: see PROJECT-1.

## Sessions of CANARY

How sessions are signed with a key, and when they end.
"""
