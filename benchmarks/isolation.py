"""Counts what the isolation suite tries, what the audit has of it, and how soon revoked access is gone.

    python -m benchmarks.isolation [--attempts N] [--revocations N]

The organisation of the tests: three tenants and the public, each source with a word that is nowhere else; and
a private repository at a small GitHub, which says who may read it. Every kind of caller, with own tokens and
with signed ones of an identity server, sends generated attempts at what it may not see by HTTP, MCP, the page
and Python; the word, the ids or the name of a hidden source in any answer is a canary. Then the logs are
read, and compared with what was answered and refused. Last, access is revoked in each way there is, and each
interface asked until it is gone.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import describe_machine
from benchmarks.isolation_audit import Audit
from benchmarks.isolation_revoked import print_revocations
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.identity_server import IdentityServer, create_pair
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.serve.isolation import (
    CALLERS,
    REFUSED,
    Doors,
    Siege,
    Watch,
    hidden_from,
    secrets_of,
)
from knowledge_pipeline_tests.serve.isolation_attempts import Intruder, Secret
from knowledge_pipeline_tests.serve.oidc_world import AUDIENCE, issue, trusting
from knowledge_pipeline_tests.serve.repository_world import RepositoryProject, open_project
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import SEERS, World, build

DOORS = ("http", "mcp", "page", "python")
BY_NETWORK = DOORS[:3]


@dataclass(frozen=True)
class Besieger:
    """One kind of caller, what it may not see, and the interfaces that know it."""

    name: str
    sender: Doors
    secrets: Sequence[Secret]
    interfaces: Sequence[str] = DOORS


def main() -> None:
    """Try, audit, revoke, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--attempts", type=int, default=200, help="of each caller")
    parser.add_argument("--revocations", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        embedding = stack.enter_context(OpenAIServer())
        root = Path(temporary) / "world"
        root.mkdir()
        world = build(root, embedding)
        project = open_project(stack, "github", Path(temporary) / "repository", embedding)
        os.environ.update(world.environment | project.environment)
        project.refresh()
        _print_attempts(world, project, Path(temporary), options.attempts)
        print_revocations(world, project, Path(temporary), options.revocations)


def _print_attempts(world: World, project: RepositoryProject, folder: Path, count: int) -> None:
    table = Table(title=f"Attempts by caller and interface, and canaries found, {describe_machine()}")
    for heading in ("caller", *DOORS, "canaries"):
        table.add_column(heading, justify="left" if heading == "caller" else "right")
    audit = Audit([Lake(world.settings.store), project.lake])
    with ExitStack() as servers:
        besiegers = [*_list_own(servers, world, folder), *_list_signed(servers, world)]
        besiegers += _list_of_repository(servers, project)
        audit.start()
        for seed, besieger in enumerate(besiegers):
            held = {secret.source.id: secret for secret in besieger.secrets}
            watch = Watch(held, [secret.source for secret in besieger.secrets])
            tried, canaries = Counter[str](), 0
            attempts = Intruder(1_000 + seed, besieger.secrets).attempts(count, besieger.interfaces)
            for attempt in attempts:
                reply = besieger.sender.send(attempt)
                audit.count(attempt, reply)
                tried[attempt.door] += 1
                canaries += watch.found(attempt, reply.text) is not None
            table.add_row(besieger.name, *(str(tried[door] or "") for door in DOORS), str(canaries))
    Console(width=110).print(table)
    audit.print_table()


def _list_own(servers: ExitStack, world: World, folder: Path) -> Iterator[Besieger]:
    """Callers with tokens of the service, and without one."""
    secrets = secrets_of(world)
    siege = servers.enter_context(Siege(world, folder, secrets))
    for name in (*CALLERS, "slow", "admin", *REFUSED):
        hidden = hidden_from("public" if name == "slow" else name)
        # Python has no tokens: a caller there is whom the program says, and cannot be refused.
        interfaces = DOORS if name in CALLERS else BY_NETWORK
        yield Besieger(name, siege.doors(name), [secrets[each.id] for each in hidden], interfaces)


def _list_signed(servers: ExitStack, world: World) -> Iterator[Besieger]:
    """People with tokens that an identity server signed, and those whose tokens are no good."""
    identity, secrets = servers.enter_context(IdentityServer()), secrets_of(world)
    trust = trusting(identity)
    server = servers.enter_context(
        Running(world.settings, config=world.config, anonymous="off", metrics=True, oidc=trust)
    )
    for name in ("acme", "ann", "gil"):
        access = Access(SEERS[name][0], frozenset(SEERS[name][1]))
        sender = Doors(server, issue(identity, name), access)
        hidden = [secrets[each.id] for each in hidden_from(name)]
        yield Besieger(f"{name}, OIDC", sender, hidden, BY_NETWORK)
    wrong = {
        "expired, OIDC": issue(identity, "gil", exp=1_000_000_000),
        "other audience, OIDC": issue(identity, "gil", aud="another"),
        "foreign key, OIDC": issue(identity, "gil", pair=create_pair()),
    }
    for name, token in wrong.items():
        yield Besieger(name, Doors(server, token, Access.public()), list(secrets.values()), BY_NETWORK)


def _list_of_repository(servers: ExitStack, project: RepositoryProject) -> Iterator[Besieger]:
    """People of the tenant who may not read the repository, where its host says who may."""
    secret, tokens = project.secret(), TokenStore(project.lake)
    identity = servers.enter_context(IdentityServer())
    trust = trusting(identity, claims={}, tenant="acme")
    server = servers.enter_context(
        Running(project.settings, config=project.config, anonymous="off", metrics=True, oidc=trust)
    )
    _, ben = tokens.create("ben", tenant="acme", principals=["ben@example.org"])
    access = Access("acme", frozenset({"ben@example.org"}))
    yield Besieger("ben, from_source", Doors(server, ben, access), [secret])
    _, foreign = tokens.create("foreign", tenant="globex", principals=["ada@example.org"])
    access = Access("globex", frozenset({"ada@example.org"}))
    yield Besieger("other tenant, from_source", Doors(server, foreign, access), [secret])
    claims = {"aud": AUDIENCE, "azp": "some-cli", "email_verified": True}
    signed = identity.issue(sub="ben", email="ben@example.org", **claims)
    yield Besieger("ben, from_source, OIDC", Doors(server, signed, access), [secret], BY_NETWORK)
    unverified = identity.issue(sub="ada", email="ada@example.org", **claims | {"email_verified": False})
    yield Besieger(
        "unverified ada, from_source, OIDC", Doors(server, unverified, access), [secret], BY_NETWORK
    )


if __name__ == "__main__":
    main()
