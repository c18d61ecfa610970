"""Who may use the page: tokens in cookies, forms that only the page can send, headers that bind browsers."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import httpx2
import pytest

from knowledge_pipeline.serve.page.rendering import safe_redirect_path
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World


@pytest.fixture(scope="module")
def locked(world: World) -> Iterator[Running]:
    """A server that nobody may ask without a token."""
    with Running(world.settings, anonymous="off") as running:
        yield running


def form_of(page: httpx2.Response, action: str) -> dict[str, str]:
    """The hidden fields of a form."""
    form = re.search(rf'<form[^>]*action="{action}".*?</form>', page.text, re.DOTALL)
    assert form
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form[0])
    return {name: html.unescape(value) for name, value in fields}


def signed_in(client: httpx2.Client, token: str, address: str = "/") -> httpx2.Response:
    """What follows when a token is put into the page's own form."""
    form = form_of(client.get(address), "/sign-in")
    return client.post("/sign-in", data={**form, "token": token})


def test_without_a_token_every_page_asks_for_one_and_shows_nothing_else(locked: Running) -> None:
    client = locked.client()
    for address in ("/", "/?q=payments", "/sources", "/doc?id=shop-docs:README.md", "/graph?target=Store"):
        page = client.get(address)
        assert page.status_code == 401
        assert 'type="password"' in page.text and "canary" not in page.text


def test_the_link_of_a_start_signs_in_until_the_server_ends(world: World) -> None:
    with Running(world.settings, config=world.config) as running:
        client, token = running.client(), running.service.tokens.create_for_process("start")
        assert "canaryacmedocs" not in client.get("/?q=payments&source=acme-docs").text
        answer = client.get("/sign-in", params={"token": token})
        assert answer.status_code == 303 and answer.headers["location"] == "/"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "Max-Age" not in cookie  # until the browser ends
        assert "canaryacmedocs" in client.get("/?q=payments&source=acme-docs").text
    with Running(world.settings, config=world.config) as other:
        client = other.client()
        assert client.get("/sign-in", params={"token": token}).status_code == 401
        client.cookies.set("knowledge_token", token)
        assert client.get("/?q=payments").status_code == 401
        client.cookies.clear()  # as the answer told
        assert client.get("/?q=payments").status_code == 200


def test_a_link_signs_in_by_no_stored_token(server: Running, world: World) -> None:
    client = server.client()
    answer = client.get("/sign-in", params={"token": world.tokens["acme"]})
    assert answer.status_code == 401 and "set-cookie" not in {
        name for name, value in answer.headers.items() if "knowledge_token" in value
    }


def test_a_token_is_kept_in_a_cookie_that_no_script_and_no_other_site_gets(
    locked: Running, world: World
) -> None:
    client = locked.client()
    answer = signed_in(client, world.tokens["acme"], "/?q=payments&source=acme-docs")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?q=payments&source=acme-docs"
    (cookie,) = (
        each for each in answer.headers.get_list("set-cookie") if each.startswith("knowledge_token=")
    )
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    page = client.get(answer.headers["location"])
    assert page.status_code == 200 and "canaryacmedocs" in page.text
    assert world.tokens["acme"] not in page.text


def test_behind_https_the_cookie_is_secure(locked: Running, world: World) -> None:
    client = locked.client(**{"X-Forwarded-Proto": "https"})
    page = client.get("/")
    check = page.headers["set-cookie"]
    assert "Secure" in check
    value = re.search(r"knowledge_csrf=([^;]+)", check)
    assert value
    sent = {"Cookie": f"knowledge_csrf={value[1]}"}
    form = {**form_of(page, "/sign-in"), "token": world.tokens["acme"]}
    answer = client.post("/sign-in", data=form, headers=sent)
    assert answer.status_code == 303 and "Secure" in answer.headers["set-cookie"]


def test_a_token_sees_on_the_page_what_it_sees_elsewhere_and_its_end_is_felt(
    own_world: World,
) -> None:
    with Running(own_world.settings, anonymous="off") as running:
        client = running.client()
        signed_in(client, own_world.tokens["ann"])
        found = client.get("/", params={"q": "double charge", "limit": "50"}).text
        assert "canaryacmetickets" in found
        for canary in own_world.canaries_hidden_from("ann"):
            assert canary not in found
        form = form_of(client.get("/"), "/sign-out")
        assert client.post("/sign-out", data=form).headers["location"] == "/"
        assert client.get("/?q=double+charge").status_code == 401


@pytest.mark.parametrize("name", ["expired", "revoked", "made up"])
def test_a_token_that_is_not_valid_is_not_kept(locked: Running, world: World, name: str) -> None:
    client = locked.client()
    answer = signed_in(client, world.tokens.get(name, "kpt_00000000_x"))
    assert answer.status_code == 401
    assert "not known, expired or revoked" in answer.text
    assert "knowledge_token" not in client.cookies


def test_a_token_without_the_scope_to_ask_is_told_so(locked: Running, world: World) -> None:
    client = locked.client()
    assert signed_in(client, world.tokens["admin"]).status_code == 303
    page = client.get("/?q=payments")
    assert page.status_code == 403 and "this requires the scope" in page.text.lower()


def test_who_asks_too_often_is_told_when_to_come_back(locked: Running, world: World) -> None:
    client = locked.client()
    signed_in(client, world.tokens["slow"])
    pages = [client.get("/sources") for _ in range(3)]
    assert [page.status_code for page in pages] == [200, 200, 429]
    assert int(pages[2].headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("changed", "headers"),
    [
        ({"csrf": ""}, {}),
        ({"csrf": "x" * 43}, {}),
        ({"csrf": "ü"}, {}),
        ({}, {"Sec-Fetch-Site": "cross-site"}),
        ({}, {"Sec-Fetch-Site": "same-site"}),
    ],
)
def test_a_form_that_another_site_sends_changes_nothing(
    server: Running, world: World, changed: dict[str, str], headers: dict[str, str]
) -> None:
    client = server.client()
    form = {**form_of(client.get("/sign-in"), "/sign-in"), "token": world.tokens["acme"], **changed}
    for address in ("/sign-in", "/sign-out", "/feedback"):
        answer = client.post(address, data=form, headers=headers)
        assert answer.status_code == 403 and "not sent by this page" in answer.text
    assert "knowledge_token" not in client.cookies


def test_a_form_without_the_cookie_of_the_check_changes_nothing(server: Running) -> None:
    assert server.client().post("/sign-out", data={"csrf": ""}).status_code == 403


def test_what_is_no_form_is_refused(server: Running) -> None:
    assert server.client().post("/sign-in", content=b"\xff\xfe=").status_code == 422
    assert server.client().post("/sign-in", content=b"&".join([b"a=1"] * 50)).status_code == 422


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/",
        "//example.org/",
        "/\\example.org/",
        "\\\\example.org",
        "javascript:alert(1)",
        "/a b",
        "/\r\nSet-Cookie: a=b",
        "/sign-out",
        "/sign-in/callback?code=a",
        "",
        "//[",
        "/ü",
    ],
)
def test_one_is_only_led_on_within_the_site(address: str) -> None:
    assert safe_redirect_path(address) == "/"


def test_an_address_of_the_site_is_gone_on_to() -> None:
    assert safe_redirect_path("/?q=a%20b&type=code") == "/?q=a%20b&type=code"


@pytest.mark.parametrize(
    "address", ["/", "/?q=payments", "/sign-in", "/doc?id=no", "/?q=lang:go", "/sources"]
)
def test_every_page_forbids_the_browser_all_that_it_does_not_need(server: Running, address: str) -> None:
    headers = server.client().get(address).headers
    policy = dict(each.strip().partition(" ")[::2] for each in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_pages_have_no_script_or_style_of_their_own_and_name_no_other_host(server: Running) -> None:
    client = server.client()
    for address in (
        "/",
        "/?q=payments&limit=50",
        "/graph?target=Store",
        "/sources",
        "/doc?id=shop-docs:README.md",
    ):
        text = client.get(address).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=\"/static/)", text)
        assert not re.search(r'(?:src|action)="(?!/)', text)


def test_files_of_the_page_are_kept_by_browsers_until_they_change(server: Running) -> None:
    client = server.client()
    for address in re.findall(r'"(/static/[^"]+)"', client.get("/").text):
        first = client.get(address)
        assert first.status_code == 200 and "immutable" in first.headers["cache-control"]
        again = client.get(address, headers={"If-None-Match": first.headers["etag"]})
        assert again.status_code == 304 and not again.content
    assert client.get("/static/page.css?v=other").headers["cache-control"] == "no-cache"
