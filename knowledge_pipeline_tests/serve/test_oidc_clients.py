"""MCP's own client signs a person in; and a certified identity server, where one is installed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp.shared.auth import OAuthClientInformationFull

from knowledge_pipeline.config.operation import OidcSettings
from knowledge_pipeline.serve import oidc as provider
from knowledge_pipeline_tests.fakes.identity_server import IdentityServer
from knowledge_pipeline_tests.serve.oidc_clients import CALLBACK, signed_in_over_mcp, walk
from knowledge_pipeline_tests.serve.oidc_world import CLIENT, SECRET, claims_of, people, trusting
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import SEERS, World

INSTALLED = os.environ.get("KNOWLEDGE_TEST_OIDC_PROVIDER")  # a folder after `npm install oidc-provider@9`
SCRIPT = Path(__file__).parents[1] / "fakes" / "oidc_provider.mjs"


def ask_over_mcp(url: str, person: str, client: OAuthClientInformationFull | None = None) -> str:
    async def call() -> str:
        async with signed_in_over_mcp(url, person, client) as (connected, _):
            return str(await connected.call_tool("knowledge_query", {"query": "double charge", "limit": 50}))

    return anyio.run(call)


def settings_for(issuer: str, url: str, **changed: object) -> OidcSettings:
    given = {
        "issuer": issuer,
        "client_id": CLIENT,
        "client_secret": SECRET,
        "audience": f"{url}/mcp",
        "public_url": url,
        "claims": {"tenant": "org"},
    }
    return OidcSettings.model_validate(given | changed)


def test_the_sdk_finds_the_identity_server_and_sees_what_the_person_may_see(world: World) -> None:
    with IdentityServer() as identity:
        identity.people = people()
        identity.register("agent", None, CALLBACK)
        told = {"client_id": "agent", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        client = OAuthClientInformationFull.model_validate({**told, "issuer": identity.issuer})
        with Running(
            world.settings, anonymous="off", oidc=lambda url: settings_for(identity.issuer, url)
        ) as running:
            answer = ask_over_mcp(running.url, "ann", client)
    assert "canaryacmetickets" in answer
    assert not [word for word in world.canaries_hidden_from("ann") if word in answer]


def test_a_token_for_the_page_is_none_for_the_api(world: World) -> None:
    with IdentityServer() as identity:
        build = trusting(identity)
        with Running(world.settings, anonymous="off", oidc=build) as running:
            id_token = identity.issue(aud=CLIENT, azp=CLIENT, nonce="n", **claims_of("ann"))
            answer = running.client(id_token).get("/api/v1/knowledge/collections")
    assert answer.status_code == 401 and "meant for others" in answer.json()["detail"]


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture
def certified(world: World, port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server that trusts a certified identity server, which is told of it, and starts later."""
    assert INSTALLED
    monkeypatch.setattr(provider, "RETRY_INTERVAL_S", 0.0)
    issuer = f"http://127.0.0.1:{port}"
    with Running(world.settings, anonymous="off", oidc=lambda url: settings_for(issuer, url)) as running:
        page = {
            "client_id": CLIENT,
            "client_secret": SECRET,
            "redirect_uris": [f"{running.url}/sign-in/callback"],
            "grant_types": ["authorization_code"],
            "response_types": ["code"],
        }
        claims = {
            name: {"org": tenant, "groups": list(principals)} for name, (tenant, principals) in SEERS.items()
        }
        told = json.dumps({"clients": [page], "people": claims, "audience": f"{running.url}/mcp"})
        node = shutil.which("node")
        assert node, "node is not installed"
        process = subprocess.Popen(
            [node, str(SCRIPT), INSTALLED, str(port), told], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            assert process.stdout
            while (line := process.stdout.readline()) and b"listening" not in line:
                pass
            assert line, "the identity server did not start"
            yield running
        finally:
            process.kill()
            process.communicate()


@pytest.mark.slow
@pytest.mark.skipif(
    not INSTALLED, reason="KNOWLEDGE_TEST_OIDC_PROVIDER names no folder of npm's oidc-provider"
)
def test_with_a_certified_identity_server_the_page_and_mcp_show_what_a_person_may_see(
    certified: Running, world: World
) -> None:
    client = certified.client()
    start = client.get("/sign-in/start", params={"next": "/?q=double+charge"})
    assert start.status_code == 303
    done = client.get(walk(start.headers["location"], "ann", certified.url))
    assert done.status_code == 200 and "Signed in" in done.text
    page = client.get("/?q=double+charge&limit=50").text
    over_mcp = ask_over_mcp(certified.url, "ann")  # its client registers itself
    for told in (page, over_mcp):
        assert "canaryacmetickets" in told
        assert not [word for word in world.canaries_hidden_from("ann") if word in told]
