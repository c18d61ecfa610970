"""Access tokens of an identity server at HTTP and MCP: which are accepted, whom they name, what they see."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import anyio
import jwt
import pytest

from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve import oidc as provider
from knowledge_pipeline.serve.oidc import resolve_subject
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.identity_server import IdentityServer, create_pair
from knowledge_pipeline_tests.serve.isolation import Doors, Watch, hidden_from, secrets_of
from knowledge_pipeline_tests.serve.isolation_attempts import Intruder, Secret
from knowledge_pipeline_tests.serve.mcp_calls import over_http
from knowledge_pipeline_tests.serve.oidc_world import AUDIENCE, CLIENT, claims_of, issue, people, trusting
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.test_mcp_http import ACCEPTED, INITIALIZE
from knowledge_pipeline_tests.serve.world import SEERS, World

API = "/api/v1/knowledge"
SEED = 11


@pytest.fixture(scope="module")
def identity() -> Iterator[IdentityServer]:
    with IdentityServer() as server:
        server.people = people()
        yield server


@pytest.fixture(scope="module")
def trusted(world: World, identity: IdentityServer) -> Iterator[Running]:
    with Running(world.settings, config=world.config, anonymous="off", oidc=trusting(identity)) as running:
        yield running


@pytest.fixture(scope="module")
def secrets(world: World) -> dict[str, Secret]:
    return secrets_of(world)


@pytest.fixture
def own_identity() -> Iterator[IdentityServer]:
    with IdentityServer() as server:
        server.people = people()
        yield server


def ask(running: Running, token: str, query: str = "payments") -> Any:
    return running.client(token).post(f"{API}/search", json={"query": query, "limit": 50})


@pytest.mark.parametrize("seer", SEERS)
def test_a_person_sees_what_their_tenant_and_groups_may_see_and_nothing_else(
    trusted: Running, world: World, identity: IdentityServer, seer: str
) -> None:
    answer = ask(trusted, issue(identity, seer))
    assert answer.status_code == 200
    own = ask(trusted, world.tokens[seer]).json()["results"]
    assert [each["id"] for each in answer.json()["results"]] == [each["id"] for each in own] != []
    assert not [word for word in world.canaries_hidden_from(seer) if word in answer.text]


def test_mcp_answers_a_person_with_what_they_may_see(
    trusted: Running, world: World, identity: IdentityServer
) -> None:
    async def call() -> str:
        async with over_http(trusted.url, issue(identity, "ann")) as client:
            return str(await client.call_tool("knowledge_query", {"query": "double charge", "limit": 50}))

    told = anyio.run(call)
    assert "canaryacmetickets" in told
    assert not [word for word in world.canaries_hidden_from("ann") if word in told]


@pytest.mark.parametrize(
    ("claims", "settings", "expected"),
    [
        ({"email_verified": True}, {}, {"ann@example.org"}),
        ({"email_verified": False}, {}, set()),
        ({"email_verified": "true"}, {}, set()),
        ({}, {}, set()),
        ({}, {"emails_are_verified": True}, {"ann@example.org"}),
        ({"email_verified": True, "email": ["ann@example.org"]}, {}, set()),
        ({"email_verified": True}, {"claims": {"tenant": "org", "email": "upn"}}, set()),
    ],
)
def test_an_address_is_a_principal_where_it_is_verified(
    identity: IdentityServer, claims: dict[str, Any], settings: dict[str, Any], expected: set[str]
) -> None:
    trust = trusting(identity, **settings)("https://knowledge.test")
    given = {"sub": "1", "org": "acme", "exp": int(time.time()), "email": "ann@example.org", **claims}
    assert resolve_subject(trust, given, "1").access.principals == expected


def test_a_group_that_is_called_like_an_address_is_nobodys_principal(
    trusted: Running, world: World, identity: IdentityServer
) -> None:
    """Who may make groups at the identity server would be anybody there."""
    trust = trusting(identity)("https://knowledge.test")
    given = {"sub": "1", "org": "acme", "exp": int(time.time())}
    groups = ["ops", "ann@example.org", "Ann@Example.org", "ann\uff20example.org", "@ann"]
    assert resolve_subject(trust, given | {"groups": groups}, "1").access.principals == {"ops"}
    listed = [{"group": "ann@example.org", "principals": ["ann@example.org"]}]  # which the operator has said
    mapped = trusting(identity, groups=listed)("https://knowledge.test")
    assert resolve_subject(mapped, given | {"groups": groups}, "1").access.principals == {
        "ops",
        "ann@example.org",
    }


def test_without_an_audience_of_their_own_access_tokens_say_what_they_are(
    world: World, identity: IdentityServer
) -> None:
    """An ID token of a client needs no `at_hash`, and is for the same audience."""
    oidc = trusting(identity, audience=None)
    with Running(world.settings, config=world.config, anonymous="off", oidc=oidc) as running:
        id_token = {"aud": CLIENT, "azp": CLIENT, "auth_time": 1}
        for claims in ({}, {"nonce": "x"}, {"typ": "JWT"}, {"email": "ann@example.org"}):
            refusal = ask(running, issue(identity, "ann", **id_token, **claims))
            assert refusal.status_code == 401 and "serve.oidc.audience" in refusal.json()["detail"]
        for claims in ({"scope": "openid"}, {"scp": "read"}, {"typ": "Bearer"}, {"client_id": "cli"}):
            assert ask(running, issue(identity, "ann", **id_token, **claims)).status_code == 200
        assert ask(running, issue(identity, "ann", headers={"typ": "at+jwt"}, **id_token)).status_code == 200


@pytest.mark.sampled
@pytest.mark.parametrize("seer", ["public", "acme", "gil"])
def test_no_attempt_gets_a_person_at_what_they_may_not_see(
    trusted: Running, world: World, identity: IdentityServer, secrets: dict[str, Secret], seer: str
) -> None:
    doors = Doors(trusted, issue(identity, seer), Access.public())
    watch = Watch(secrets, hidden_from(seer))
    hidden = [secrets[each.id] for each in hidden_from(seer)]
    attempts = Intruder(SEED, hidden).attempts(40, ("http", "mcp", "page"))
    replies = [(attempt, doors.send(attempt)) for attempt in attempts]
    assert [attempt for attempt, reply in replies if watch.found(attempt, reply.text)] == []
    assert sum(reply.status == 200 for _, reply in replies) > 10


def unsigned(claims: dict[str, Any], header: dict[str, Any], key: bytes | None) -> str:
    """A token with any header, with HMAC or without a signature, as no library would make it."""

    def encode(content: bytes) -> str:
        return base64.urlsafe_b64encode(content).decode().rstrip("=")

    start = ".".join(encode(json.dumps(each).encode()) for each in (header, claims))
    return f"{start}.{encode(hmac.new(key, start.encode(), hashlib.sha256).digest()) if key else ''}"


def forge(identity: IdentityServer, how: str) -> str:
    """A token of somebody who may see everything of acme, with one thing wrong."""
    pair, other, now = identity.keys[-1], create_pair(), int(time.time())
    claims = {"iss": identity.issuer, "aud": AUDIENCE, "iat": now, "exp": now + 300, **claims_of("ann")}
    changed: dict[str, dict[str, Any]] = {
        "expired": {"exp": now - 60, "iat": now - 400},
        "not yet valid": {"nbf": now + 300},
        "of the future": {"iat": now + 300},
        "of another audience": {"aud": "https://other.test"},
        "with the audience as a prefix": {"aud": f"{AUDIENCE}/more"},
        "of another issuer": {"iss": "https://evil.test"},
        "of the issuer with a slash": {"iss": f"{identity.issuer}/"},
        "without an expiry": {"exp": None},
        "without an audience": {"aud": None},
        "without a subject": {"sub": None},
        "with a subject that is no text": {"sub": 7},
        "for sign-in": {"at_hash": "x"},
        "to refresh with": {"typ": "Refresh"},
        "with groups that are no names": {"groups": [{"name": "ann"}]},
        "with a principal that cannot be stored": {"groups": ["a\x00nn"]},
    }
    if how in changed:
        return issue(identity, "ann", **changed[how])
    header = {"alg": "HS256", "kid": pair.id, "typ": "JWT"}
    signed = issue(identity, "ann")
    head, body, signature = signed.split(".")
    changed_body = unsigned(claims | {"groups": ["gil"]}, header, None).split(".")[1]
    return {
        "with alg none": unsigned(claims, header | {"alg": "none"}, None),
        "with alg None in capitals": unsigned(claims, header | {"alg": "NONE"}, None),
        "with the public key as a secret": unsigned(claims, header, pair.public_pem()),
        "with the public JWK as a secret": unsigned(claims, header, json.dumps(pair.to_jwk()).encode()),
        "with another key of the same id": jwt.encode(claims, other.key, "RS256", {"kid": pair.id}),
        "with a key of its own": jwt.encode(
            claims, other.key, "RS256", {"kid": other.id, "jwk": other.to_jwk(), "jku": "http://127.0.0.1:1/"}
        ),
        "with another algorithm of the key": jwt.encode(claims, pair.key, "PS256", {"kid": pair.id}),
        "without a key id": jwt.encode(claims, pair.key, "RS256"),
        "with a critical extension": jwt.encode(claims, pair.key, "RS256", {"kid": pair.id, "crit": ["x"]}),
        "with a changed body": f"{head}.{changed_body}.{signature}",
        "without its signature": f"{head}.{body}.",
        "that is too long": issue(identity, "ann", more="x" * 40_000),
        "that is none": "a.b.c",
        "in two parts": f"{head}.{body}",
    }[how]


FORGED = {
    "expired": "the token has expired",
    "not yet valid": "not valid yet",
    "of the future": "not valid yet",
    "of another audience": "meant for others",
    "with the audience as a prefix": "meant for others",
    "of another issuer": "another issuer",
    "of the issuer with a slash": "another issuer",
    "without an expiry": "no claim exp",
    "without an audience": "no claim aud",
    "without a subject": "no claim sub",
    "with a subject that is no text": "not one that",
    "for sign-in": "send the access token instead",
    "to refresh with": "send the access token instead",
    "with groups that are no names": "not a list of names",
    "with a principal that cannot be stored": "cannot be stored",
    "with alg none": "no signature",
    "with alg None in capitals": "",
    "with the public key as a secret": "no signature with a public key",
    "with the public JWK as a secret": "no signature with a public key",
    "with another key of the same id": "not one that",
    "with a key of its own": "does not have",
    "with another algorithm of the key": "not one that",
    "without a key id": "not one that",
    "with a critical extension": "not one that",
    "with a changed body": "not one that",
    "without its signature": "not one that",
    "that is too long": "",
    "that is none": "not one that",
    "in two parts": "not one that",
}


def test_a_token_that_is_wrong_is_refused_at_each_interface_and_its_text_is_nowhere(
    own_world: World, identity: IdentityServer, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = {how: forge(identity, how) for how in FORGED}
    answers = {}
    with Running(own_world.settings, config=own_world.config, oidc=trusting(identity)) as running:
        for how, token in tokens.items():
            answers[how] = (
                ask(running, token),
                running.client(token, **ACCEPTED).post("/mcp", json=INITIALIZE),
                running.client(token).get("/", params={"q": "payments"}),
            )
            assert ask(running, own_world.tokens["ann"]).status_code == 200, how
    for how, each in answers.items():
        assert [answer.status_code for answer in each] == [401, 401, 401] or how == "that is too long", how
        for answer in each[:2]:
            assert (
                FORGED[how] in answer.json()["detail"]
                if answer.status_code == 401
                else answer.status_code == 431
            ), how
    rows, logged = refusals(own_world), Counter[tuple[str, ...]]()
    for row in rows:  # equal ones are summed up
        logged[row["outcome"], row["interface"], str(row["token"]), row["reason"]] += row["requests"]
    reasons = [http.json()["detail"] for http, _, _ in answers.values()]
    assert logged == Counter(
        ("unauthenticated", interface, "None", reason)
        for reason in reasons
        for interface in ("http", "mcp", "page")
    )
    told = "".join(answer.text for each in answers.values() for answer in each) + caplog.text + str(rows)
    parts = [part for token in tokens.values() for part in token.split(".")]
    assert not [part for part in parts if len(part) > 10 and part in told]


def refusals(world: World) -> list[dict[str, Any]]:
    columns = ["at", "outcome", "interface", "token", "tenant", "requests", "reason", "address"]
    rows = Lake(world.settings.store).log_table("refusals").read_rows(columns).to_pylist()
    return sorted(rows, key=lambda row: row["at"])


def test_the_audit_names_the_person_once_for_each_attempt(own_world: World, identity: IdentityServer) -> None:
    subject = f"{identity.issuer}#sub-of-ann"
    token = issue(identity, "ann")
    refused = issue(identity, "ann", azp="evil")
    build = trusting(identity, allowed_clients=["some-cli"])
    with Running(own_world.settings, config=own_world.config, anonymous="off", oidc=build) as running:
        assert ask(running, token).status_code == 200
        assert running.client(token).get("/", params={"q": "payments"}).status_code == 200
        assert running.client(token).get(f"{API}/docs/globex-docs:README.md").status_code == 404
        assert running.client(token).get(f"{API}/sync/status").status_code == 403
        answer = ask(running, refused)
        assert answer.status_code == 403 and "allowed_clients" in answer.json()["detail"]
    columns = ["interface", "token", "tenant", "principals"]
    asked = Lake(own_world.settings.store).log_table("queries").read_rows(columns).to_pylist()
    person = {"token": subject, "tenant": "acme", "principals": ["ann"]}
    by_interface = sorted(asked, key=lambda row: row["interface"])
    assert by_interface == [{"interface": name, **person} for name in ("http", "page")]
    rows = refusals(own_world)
    assert [(row["outcome"], row["token"], row["requests"]) for row in rows] == [
        ("not_found", subject, 1),
        ("forbidden", subject, 1),
        ("forbidden", subject, 1),
    ]
    assert [row["address"] for row in rows] == [None] * 3


def test_a_key_that_is_new_is_read_and_one_that_is_gone_counts_no_more(
    world: World, own_identity: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "RETRY_INTERVAL_S", 0.0)
    before = issue(own_identity, "ann")
    with Running(world.settings, anonymous="off", oidc=trusting(own_identity)) as running:
        assert ask(running, before).status_code == 200
        own_identity.rotate("ES256")
        assert ask(running, issue(own_identity, "ann")).status_code == 200
        assert ask(running, before).status_code == 401


def test_unknown_keys_have_the_identity_server_asked_once_in_a_while(
    world: World, own_identity: IdentityServer
) -> None:
    with Running(world.settings, anonymous="off", oidc=trusting(own_identity)) as running:
        assert ask(running, issue(own_identity, "ann")).status_code == 200
        for _ in range(20):
            assert ask(running, issue(own_identity, "ann", pair=create_pair("ES256"))).status_code == 401
    assert own_identity.asked["/keys"] == 1


def test_tokens_that_claim_another_issuer_have_nobody_asked(
    world: World, own_identity: IdentityServer
) -> None:
    own_identity.faults.down = True
    with Running(world.settings, anonymous="off", oidc=trusting(own_identity)) as running:
        token = issue(own_identity, "ann", iss="https://evil.test")
        assert ask(running, token).status_code == 401


def test_while_the_identity_server_is_down_known_keys_and_own_tokens_work_and_new_keys_do_not(
    own_world: World, own_identity: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "RETRY_INTERVAL_S", 0.0)
    with Running(own_world.settings, anonymous="off", oidc=trusting(own_identity)) as running:
        known = issue(own_identity, "ann")
        assert ask(running, known).status_code == 200
        own_identity.faults.down = True
        own_identity.rotate()
        new = ask(running, issue(own_identity, "ann"))
        assert new.status_code == 503 and "retry-after" in new.headers
        assert (
            f"the identity server {own_identity.issuer} answers with the status 503" in new.json()["detail"]
        )
        assert new.json()["code"] == "IdentityUnavailable"
        assert ask(running, known).status_code == 200
        assert ask(running, own_world.tokens["ann"]).status_code == 200
        monkeypatch.setattr(provider, "MAX_AGE_S", 0.0)  # as if it were down for an hour
        assert ask(running, known).status_code == 503
        own_identity.faults.down = False
        assert ask(running, issue(own_identity, "ann")).status_code == 200
    rows = refusals(own_world)  # equal ones are summed up
    assert {(row["outcome"], row["interface"], row["token"]) for row in rows} == {
        ("unidentified", "http", None)
    }
    assert sum(row["requests"] for row in rows) == 2


def test_an_identity_server_that_hangs_keeps_no_more_than_some_threads_and_own_tokens_work(
    world: World, own_identity: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "TIMEOUT_S", 3.0)
    own_identity.faults.wait_s = 60.0
    token = issue(own_identity, "ann")
    with Running(world.settings, anonymous="off", oidc=trusting(own_identity)) as running:

        async def flood() -> list[int]:
            statuses = list[int]()

            async def one() -> None:
                answer = await anyio.to_thread.run_sync(ask, running, token, limiter=limiter)
                statuses.append(answer.status_code)

            limiter = anyio.CapacityLimiter(60)
            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(one)
                await anyio.sleep(0.5)
                own = await anyio.to_thread.run_sync(ask, running, world.tokens["ann"], limiter=limiter)
                assert own.status_code == 200
                waiting = 50 - len(statuses)
                assert waiting <= provider.MAX_WAITING
            return statuses

        assert set(anyio.run(flood)) == {503}


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"issuer": "https://other.test"}, "calls itself by another issuer"),
        ({"jwks_uri": "http://keys.example.org/"}, "has no jwks_uri with https"),
        ({"jwks_uri": None}, "has no jwks_uri with https"),
        ({"jwks_uri": "file:///etc/passwd"}, "has no jwks_uri with https"),
    ],
)
def test_a_discovery_document_that_cannot_be_trusted_identifies_nobody(
    world: World,
    own_identity: IdentityServer,
    metadata: dict[str, Any],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    own_identity.faults.metadata = metadata
    with Running(world.settings, anonymous="off", oidc=trusting(own_identity)) as running:
        answer = ask(running, issue(own_identity, "ann"))
    assert answer.status_code == 503
    assert said in caplog.text


def test_a_required_scope_and_the_groups_that_were_left_out_are_told(
    world: World, identity: IdentityServer
) -> None:
    build = trusting(identity, required_scopes=["knowledge.read"])
    with Running(world.settings, anonymous="off", oidc=build) as running:
        answer = ask(running, issue(identity, "ann", scope="openid"))
        assert answer.status_code == 403 and "lacks the scope knowledge.read" in answer.json()["detail"]
        assert ask(running, issue(identity, "ann", scope="openid knowledge.read")).status_code == 200
        assert ask(running, issue(identity, "ann", scp="knowledge.read")).status_code == 200
        left_out = {"groups": None, "_claim_names": {"groups": "src1"}, "scp": "knowledge.read"}
        answer = ask(running, issue(identity, "ann", **left_out))
        assert (
            answer.status_code == 403
            and "groupMembershipClaims `ApplicationGroup`" in answer.json()["detail"]
        )


def test_mapped_groups_manage_and_listed_ones_alone_may_ask(world: World, identity: IdentityServer) -> None:
    mapped = [
        {"group": "/ops", "everything": True, "scopes": ["query", "admin"]},
        {"group": "/billing", "principals": ["ann"], "tenant": "acme"},
        {"group": "/globex", "tenant": "globex"},
    ]
    build = trusting(identity, groups=mapped, only_listed_groups=True)
    with Running(world.settings, config=world.config, anonymous="off", oidc=build) as running:
        ops, billing = issue(identity, "public", groups=["/ops"]), issue(identity, "gil", groups=["/billing"])
        assert running.client(ops).get(f"{API}/sources").status_code == 200
        assert "canaryglobextickets" in ask(running, ops).text
        assert running.client(billing).get(f"{API}/sources").status_code == 403
        found = ask(running, billing, "double charge").text
        assert "canaryacmetickets" in found and "canaryglobex" not in found
        nobody = ask(running, issue(identity, "gil"))
        assert nobody.status_code == 403 and "none of your groups" in nobody.json()["detail"]
        both = ask(running, issue(identity, "gil", groups=["/billing", "/globex"]))
        assert both.status_code == 403 and "several tenants" in both.json()["detail"]


def test_clients_discover_where_to_get_a_token(trusted: Running, identity: IdentityServer) -> None:
    refused = trusted.client(**ACCEPTED).post("/mcp", json=INITIALIZE)
    url = f"{trusted.url}/.well-known/oauth-protected-resource/mcp"
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{url}"'
    told = trusted.client().get(url)
    assert told.headers["access-control-allow-origin"] == "*"
    assert told.json() == {
        "resource": f"{trusted.url}/mcp",
        "resource_name": "knowledge",
        "authorization_servers": [identity.issuer],
        "bearer_methods_supported": ["header"],
    }
    whole = trusted.client().get("/.well-known/oauth-protected-resource").json()
    assert whole["resource"] == trusted.url


def test_without_an_identity_server_nothing_of_it_is_there(server: Running) -> None:
    client = server.client("kpt_no_such")
    assert client.get("/.well-known/oauth-protected-resource").status_code == 404
    refused = client.get(f"{API}/collections")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert ask(server, "a.b.c").status_code == 401


def test_a_server_without_an_identity_server_loads_nothing_of_it(world: World) -> None:
    script = (
        "import sys; from pathlib import Path; from knowledge_pipeline.config.settings import Settings; "
        "from knowledge_pipeline.serve.http.app import create_app; "
        "from knowledge_pipeline.serve.service import Service; "
        "create_app(Service(Settings(store=Path(sys.argv[1])))); "
        "print([name for name in sys.modules if name == 'jwt' or '.serve.oidc' in name])"
    )
    store = str(world.settings.store)
    told = subprocess.run([sys.executable, "-c", script, store], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
