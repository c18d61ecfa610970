"""Signing in at the page by an identity server: the code flow, the session, and what may go wrong in it."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.identity_server import IdentityServer
from knowledge_pipeline_tests.serve.oidc_world import CLIENT, people, trusting
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.test_page_sessions import form_of, signed_in
from knowledge_pipeline_tests.serve.world import World


@pytest.fixture
def identity() -> Iterator[IdentityServer]:
    with IdentityServer() as server:
        server.people = people()
        yield server


@pytest.fixture
def trusted(own_world: World, identity: IdentityServer) -> Iterator[Running]:
    with Running(
        own_world.settings, config=own_world.config, anonymous="off", oidc=trusting(identity)
    ) as running:
        yield running


@pytest.fixture(scope="module")
def shared_identity() -> Iterator[IdentityServer]:
    """For tests that leave it as it is."""
    with IdentityServer() as server:
        server.people = people()
        yield server


@pytest.fixture(scope="module")
def refusing(world: World, shared_identity: IdentityServer) -> Iterator[Running]:
    """A server that trusts it, at which nobody signs in."""
    oidc = trusting(shared_identity)
    with Running(world.settings, config=world.config, anonymous="off", oidc=oidc) as running:
        yield running


def answer_of(client: httpx2.Client, person: str, path: str = "/?q=payments") -> str:
    """The address that the identity server leads a browser back to, once somebody has signed in there."""
    link = re.search(r'class="button" href="([^"]+)"', client.get(path).text)
    assert link
    start = client.get(html.unescape(link[1]))
    assert start.status_code == 303
    choice = httpx2.get(start.headers["location"], trust_env=False)
    found = re.search(rf'href="([^"]+)">(?:Continue as )?{person}<', choice.text)
    assert found, choice.text
    there = urlsplit(start.headers["location"])
    back = httpx2.get(f"{there.scheme}://{there.netloc}{html.unescape(found[1])}", trust_env=False)
    assert back.status_code == 302
    return back.headers["location"]


def changed(address: str, **query: str | None) -> str:
    """An address with other values in its query."""
    parts = urlsplit(address)
    given = {name: values[0] for name, values in parse_qs(parts.query).items()} | query
    return parts._replace(query=urlencode({k: v for k, v in given.items() if v is not None})).geturl()


def cookies_of(answer: httpx2.Response) -> dict[str, set[str]]:
    """Attributes by name of those that are set to something."""
    found = [each.split("; ") for each in answer.headers.get_list("set-cookie")]
    return {
        parts[0].partition("=")[0]: set(parts[1:]) for parts in found if parts[0].partition("=")[2] != '""'
    }


def refusals(world: World) -> list[tuple[str, str, int]]:
    columns = ["outcome", "reason", "interface", "requests"]
    rows = Lake(world.settings.store).log_table("refusals").read_rows(columns).to_pylist()
    return [(row["outcome"], row["reason"], row["requests"]) for row in rows if row["interface"] == "page"]


def test_one_signs_in_sees_what_one_may_see_and_signs_out(
    trusted: Running, own_world: World, identity: IdentityServer
) -> None:
    client = trusted.client()
    done = client.get(answer_of(client, "ann", "/?q=double+charge&limit=50"))
    assert done.status_code == 200
    (target,) = re.findall(r'http-equiv="refresh" content="0; url=([^"]+)"', done.text)
    assert html.unescape(target) == "/?q=double+charge&limit=50"
    cookies = cookies_of(done)
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= cookies["knowledge_token"]
    assert "knowledge_sign_in" not in client.cookies
    age = next(each for each in cookies["knowledge_token"] if each.startswith("Max-Age="))
    assert 0 < int(age.partition("=")[2]) <= identity.id_token_s
    page = client.get("/?q=double+charge&limit=50")
    assert page.status_code == 200 and "canaryacmetickets" in page.text
    assert not [word for word in own_world.canaries_hidden_from("ann") if word in page.text]
    session = client.cookies["knowledge_token"]
    out = client.post("/sign-out", data=form_of(page, "/sign-out"))
    assert out.status_code == 303
    after = client.get(out.headers["location"])
    assert "You are signed out here" in after.text and f"{identity.issuer}/logout" in after.text
    client.cookies.set("knowledge_token", session)  # as somebody would who had stolen it
    stolen = client.get("/?q=double+charge")
    assert stolen.status_code == 401 and "the session is over" in stolen.text.lower()


def test_the_cookie_of_a_sign_in_comes_back_with_a_link_of_another_site_and_nowhere_else(
    trusted: Running,
) -> None:
    client = trusted.client()
    start = client.get("/sign-in/start")
    attributes = cookies_of(start)["knowledge_sign_in"]
    assert {"HttpOnly", "SameSite=lax", "Path=/sign-in"} <= attributes
    sent = parse_qs(urlsplit(start.headers["location"]).query)
    assert sent["code_challenge_method"] == ["S256"] and len(sent["code_challenge"][0]) == 43
    assert sent["redirect_uri"] == [f"{trusted.url}/sign-in/callback"]
    assert sent["scope"] == ["openid profile email"]
    assert len(sent["state"][0]) == len(sent["nonce"][0]) == 43


def test_a_session_ends_with_its_token(world: World, identity: IdentityServer) -> None:
    identity.id_token_s = 2
    with Running(world.settings, anonymous="off", oidc=trusting(identity)) as running:
        client = running.client()
        assert client.get(answer_of(client, "acme")).status_code == 200
        session = client.cookies["knowledge_token"]
        deadline = time.monotonic() + 60
        while (page := client.get("/sources")).status_code == 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert page.status_code == 401
        client.cookies.set("knowledge_token", session)  # a browser would have dropped it
        assert client.get("/sources").status_code == 401


def expect_refusal(answer: httpx2.Response, sentence: str, *, status: int = 401) -> None:
    assert answer.status_code == status and sentence in answer.text, answer.text
    assert "knowledge_token" not in cookies_of(answer)


def test_an_answer_that_this_browser_did_not_ask_for_signs_nobody_in(
    trusted: Running, own_world: World
) -> None:
    mine, theirs = trusted.client(), trusted.client()
    address = answer_of(theirs, "gil")  # an attacker's own sign-in, whose address a victim opens
    expect_refusal(mine.get(address), "not begun in this browser")
    answer_of(mine, "ann")
    expect_refusal(mine.get(address), "not begun in this browser")
    trusted.__exit__(None, None, None)
    assert sum(count for outcome, reason, count in refusals(own_world) if "not begun" in reason) == 2


def test_an_answer_counts_once(trusted: Running) -> None:
    client = trusted.client()
    address = answer_of(client, "ann")
    kept = client.cookies["knowledge_sign_in"]
    assert client.get(address).status_code == 200
    for cookie in (None, kept):
        again = trusted.client()
        if cookie:
            again.cookies.set("knowledge_sign_in", cookie)
        expect_refusal(again.get(address), "not begun in this browser, or is over")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"state": "x" * 43}, "not begun in this browser"),
        ({"state": None}, "not begun in this browser"),
        ({"state": "ü"}, "not begun in this browser"),
        ({"iss": "https://evil.test"}, "not begun in this browser"),
        ({"code": "made-up"}, "answers with the status 400"),
        ({"code": None}, "refused the sign-in (without a reason)"),
        ({"code": None, "error": "<script>alert(1)</script>"}, "refused the sign-in (without a reason)"),
    ],
)
def test_a_changed_answer_signs_nobody_in(
    refusing: Running, change: dict[str, str | None], sentence: str
) -> None:
    client = refusing.client()
    answer = client.get(changed(answer_of(client, "ann"), **change))
    expect_refusal(answer, sentence)
    assert "<script>alert" not in answer.text and "made-up" not in answer.text


def test_who_refuses_at_the_identity_server_is_told_so(refusing: Running) -> None:
    client = refusing.client()
    expect_refusal(client.get(answer_of(client, "Refuse")), "refused the sign-in (access_denied)")


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"nonce": "other"}, "answered another sign-in"),
        ({"nonce": None}, "answered another sign-in"),
        ({"aud": "other-client"}, "meant for others"),
        ({"aud": [CLIENT, "other"], "azp": "other"}, "not one that"),
        ({"aud": [CLIENT, "other"], "azp": None}, "not one that"),
        ({"azp": "other"}, "not one that"),
        ({"iss": "https://evil.test"}, "another issuer"),
        ({"exp": 1_000_000_000}, "has expired"),
        ({"sub": None}, "no claim sub"),
    ],
)
def test_an_id_token_that_is_wrong_signs_nobody_in(
    refusing: Running,
    shared_identity: IdentityServer,
    claims: dict[str, Any],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_identity.faults, "id_token", claims)
    client = refusing.client()
    expect_refusal(client.get(answer_of(client, "ann")), sentence)


def test_too_many_groups_and_unlisted_people_are_told_what_to_do(
    trusted: Running, own_world: World, identity: IdentityServer
) -> None:
    identity.faults.id_token = {"groups": None, "_claim_names": {"groups": "src1"}}
    client = trusted.client()
    expect_refusal(client.get(answer_of(client, "ann")), "groupMembershipClaims", status=403)
    trusted.__exit__(None, None, None)
    columns = ["outcome", "token", "requests"]
    rows = Lake(own_world.settings.store).log_table("refusals").read_rows(columns).to_pylist()
    subject = f"{identity.issuer}#sub-of-ann"
    assert {"outcome": "forbidden", "token": subject, "requests": 1} in rows


def test_while_the_identity_server_is_down_one_signs_in_with_an_own_token(
    trusted: Running, own_world: World, identity: IdentityServer
) -> None:
    client = trusted.client()
    address = answer_of(client, "ann")
    identity.faults.down = True
    expect_refusal(client.get(address), "answers with the status 503", status=503)
    assert signed_in(client, own_world.tokens["ann"]).status_code == 303
    assert client.get("/sources").status_code == 200


def test_a_client_secret_that_is_wrong_is_told_without_it(trusted: Running, identity: IdentityServer) -> None:
    client = trusted.client()
    address = answer_of(client, "ann")
    identity.clients[CLIENT].secret = "changed"
    answer = client.get(address)
    expect_refusal(answer, "answers with the status 401")
    assert "client-secret" not in answer.text


def test_a_public_client_signs_in_by_pkce_alone(world: World, identity: IdentityServer) -> None:
    build = trusting(identity, client_secret=None)
    with Running(world.settings, anonymous="off", oidc=build) as running:
        identity.clients[CLIENT].secret = None
        client = running.client()
        assert client.get(answer_of(client, "acme")).status_code == 200
        assert client.get("/?q=payments").status_code == 200


def test_one_is_led_on_within_the_site_alone(trusted: Running) -> None:
    client = trusted.client()
    start = client.get("/sign-in/start", params={"next": "https://evil.test/"})
    there = urlsplit(start.headers["location"])
    choice = httpx2.get(start.headers["location"], trust_env=False).text
    found = re.search(r'href="([^"]+)">Continue as ann<', choice)
    assert found
    back = httpx2.get(f"{there.scheme}://{there.netloc}{html.unescape(found[1])}", trust_env=False)
    done = client.get(back.headers["location"])
    assert 'content="0; url=/"' in done.text and "evil.test" not in done.text


def test_the_page_of_a_server_without_an_identity_server_names_none(server: Running) -> None:
    page = server.client().get("/sign-in")
    assert "/sign-in/start" not in page.text
    assert server.client().get("/sign-in/start").status_code == 404


def test_where_the_public_address_is_https_cookies_are_of_this_host_alone(
    world: World, shared_identity: IdentityServer
) -> None:
    """Whatever the request looks like, and a page of a sister host can set none of these."""
    oidc = trusting(shared_identity, public_url="https://knowledge.test")
    with Running(world.settings, config=world.config, anonymous="off", oidc=oidc) as running:
        client = running.client()
        page = client.get("/")
        start = client.get("/sign-in/start")
        for answer, name in ((page, "knowledge_csrf"), (start, "knowledge_sign_in")):
            attributes = cookies_of(answer)[f"__Host-{name}"]
            assert {"Secure", "HttpOnly", "Path=/"} <= attributes and len(cookies_of(answer)) == 1
        csrf = re.search(r"__Host-knowledge_csrf=([^;]+)", page.headers["set-cookie"])
        assert csrf
        form = {**form_of(page, "/sign-in"), "token": world.tokens["acme"]}
        tossed = client.post("/sign-in", data=form, headers={"Cookie": f"knowledge_csrf={csrf[1]}"})
        assert tossed.status_code == 403  # set by somebody else
        own = client.post("/sign-in", data=form, headers={"Cookie": f"__Host-knowledge_csrf={csrf[1]}"})
        assert own.status_code == 303 and set(cookies_of(own)) == {"__Host-knowledge_token"}
        token = world.tokens["acme"]
        assert client.get("/?q=payments", headers={"Cookie": f"knowledge_token={token}"}).status_code == 401
        shown = client.get("/?q=payments", headers={"Cookie": f"__Host-knowledge_token={token}"})
        assert shown.status_code == 200 and "canaryacmedocs" in shown.text
        wrong = client.get("/?q=payments", headers={"Cookie": "__Host-knowledge_token=x"})
        deleted = [
            each
            for each in wrong.headers.get_list("set-cookie")
            if each.startswith("__Host-knowledge_token=")
        ]
        assert wrong.status_code == 401 and len(deleted) == 1 and "Secure" in deleted[0]
