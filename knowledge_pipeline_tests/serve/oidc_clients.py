"""What browsers and MCP's own client do to sign somebody in."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urljoin, urlsplit

import anyio.to_thread
import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

CALLBACK = "http://127.0.0.1:3/callback"  # where nobody listens: it is read off the redirect


class Memory:
    """Keeps tokens, as the SDK asks for it."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client, self.tokens = client, None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def walk(address: str, person: str, until: str) -> str:
    """Go on at an identity server, as a person, until it leads to an address that begins with `until`."""
    with httpx2.Client(trust_env=False) as browser:
        for _ in range(20):
            if address.startswith(until):
                return address
            page = browser.get(address)
            form = re.search(r'<form[^>]*action="([^"]+)"', page.text)
            if page.status_code == 200 and form:
                prompt = re.search(r'name="prompt" value="(\w+)"', page.text)
                fields = {"prompt": prompt[1] if prompt else "", "login": person, "password": "-"}
                page = browser.post(urljoin(address, html.unescape(form[1])), data=fields)
            if "location" in page.headers:
                address = urljoin(address, page.headers["location"])
                continue
            link = re.search(rf'href="([^"]+)">Continue as {person}<', page.text)
            assert link, page.text
            address = urljoin(address, html.unescape(link[1]))
    raise AssertionError("it leads nowhere")


@asynccontextmanager
async def signed_in_over_mcp(
    url: str, person: str, client: OAuthClientInformationFull | None = None
) -> AsyncIterator[tuple[Client, Memory]]:
    """The SDK's client: it finds the identity server by itself, and a person signs in there."""
    memory, answers = Memory(client), list[str]()

    async def redirect(address: str) -> None:
        answers.append(await anyio.to_thread.run_sync(walk, address, person, CALLBACK))

    async def receive() -> AuthorizationCodeResult:
        query = {name: values[0] for name, values in parse_qs(urlsplit(answers[-1]).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query["state"], iss=query.get("iss"))

    told = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none", "scope": "openid"}
    auth = OAuthClientProvider(
        f"{url}/mcp", OAuthClientMetadata.model_validate(told), memory, redirect, receive
    )
    async with (
        httpx2.AsyncClient(auth=auth, trust_env=False, timeout=240) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as connected,
    ):
        yield connected, memory
