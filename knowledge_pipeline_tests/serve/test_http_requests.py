"""What every request passes: who asks, how much is sent, by which name, and what is said of it."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import socket
import time
from urllib.parse import urlsplit

import pytest

from knowledge_pipeline.serve.logs import ACCESS_LOG
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.test_http_search import API, refused
from knowledge_pipeline_tests.serve.world import SOURCES

SEARCH = f"{API}/search"
QUESTION = {"query": "payments"}


@pytest.fixture(scope="module")
def strict(world):
    """A server that asks everybody for a token, and takes small bodies, quickly sent."""
    changes = {"anonymous": "off", "max_body_bytes": 2_000, "timeout_s": 2.0}
    with Running(world.settings, config=world.config, **changes) as running:
        yield running


def test_who_asks_from_this_machine_needs_no_token_unless_the_settings_say_so(server, strict):
    assert server.client().post(SEARCH, json=QUESTION).status_code == 200
    answer = strict.client().post(SEARCH, json=QUESTION)
    refused(answer, 401, "Unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_who_asks_from_this_machine_without_a_token_sees_what_is_public_alone(server, world):
    """A reverse proxy with default settings looks like a program of this machine."""
    public = {each.id for each in world.sources_of("public")}
    for source in SOURCES:
        answer = server.client().post(SEARCH, json={"query": source.canary, "limit": 50})
        assert {each["metadata"]["source"] for each in answer.json()["results"]} <= public, source


@pytest.mark.parametrize(
    "header",
    ["Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "CF-Connecting-IP"],
)
def test_whatever_a_proxy_has_passed_on_needs_a_token(server, header):
    refused(server.client().post(SEARCH, json=QUESTION, headers={header: "x"}), 401, "Unauthenticated")


@pytest.mark.parametrize("token", ["expired", "revoked"])
def test_a_token_that_has_ended_is_not_taken(asking, token):
    assert "not known, expired or revoked" in refused(
        asking(token).post(SEARCH, json=QUESTION), 401, "Unauthenticated"
    )


@pytest.mark.parametrize(
    "header", ["Bearer kpt_0_0", "Bearer x", "Bearer", "Basic dTpw", "Token abc", "", "Bearer \u00ff"]
)
def test_what_is_no_token_is_never_taken_for_nobody(server, header):
    sent = {"Authorization": header.encode("latin-1")}
    refused(server.client().post(SEARCH, json=QUESTION, headers=sent), 401, "Unauthenticated")


@pytest.mark.parametrize(
    ("token", "method", "path"),
    [
        ("acme", "POST", "sync"),
        ("acme", "POST", "sync/acme-code"),
        ("acme", "GET", "sync/status"),
        ("acme", "GET", "sources"),
        ("acme", "DELETE", "sources/acme-code"),
        ("admin", "GET", "status"),
        ("admin", "GET", "0" * 32),
        ("admin", "GET", "docs/acme-docs:README.md/export"),
    ],
)
def test_a_token_without_the_scope_is_refused(asking, token, method, path):
    body = {"json": {}} if path == "sync" else {}
    refused(asking(token).request(method, f"{API}/{path}", **body), 403, "Forbidden")


def test_a_token_has_its_rate(world):
    with Running(world.settings, config=world.config) as own:
        client = own.client(world.tokens["slow"])
        assert [client.get(f"{API}/status").status_code for _ in range(2)] == [200, 200]
        answer = client.get(f"{API}/status")
        refused(answer, 429, "TooManyRequests")
        assert 1 <= int(answer.headers["retry-after"]) <= 60


def test_a_body_that_is_too_large_is_a_problem_however_it_is_sent(strict, world):
    client = strict.client(world.tokens["acme"])
    large = json.dumps({"query": "x" * 3_000}).encode()
    assert "more than 2,000 bytes" in refused(client.post(SEARCH, content=large), 413, "ContentTooLarge")
    refused(client.post(SEARCH, content=iter([large[:1_500], large[1_500:]])), 413, "ContentTooLarge")


def test_a_length_that_says_too_much_is_refused_before_the_body_comes(strict):
    with socket.create_connection(("127.0.0.1", urlsplit(strict.url).port)) as connection:
        connection.sendall(
            f"POST {SEARCH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n".encode()
        )
        answer = connection.recv(65_536).decode()
    assert answer.startswith("HTTP/1.1 413") and "application/problem+json" in answer


def test_a_body_that_does_not_come_is_not_waited_for(strict):
    with socket.create_connection(("127.0.0.1", urlsplit(strict.url).port)) as connection:
        connection.settimeout(120)
        connection.sendall(
            f"POST {SEARCH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()  # until it is closed
    assert answer.startswith("HTTP/1.1 408") and "did not arrive within 2 s" in answer


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"query": 5}',
        b'{"query": "\\ud800"}',
        b'{"\\ud800": 1, "query": "x"}',
        b'{"query": "x", "limit": 1e999}',
        b'{"query": "x", "limit": ' + b"9" * 5_000 + b"}",
        b'{"query": "x", "filters": {"langauges": ["go"]}}',
        b'{"query": "x", "' + b"k" * 50_000 + b'": 1}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_senseless_body_is_a_problem_of_a_few_words(asking, content):
    answer = asking("acme").post(SEARCH, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 10_000


def test_a_problem_names_the_field(asking):
    told = asking("acme").post(SEARCH, json={"query": "x", "limit": 0, "filters": {"since": "soon"}}).json()
    assert {each["field"] for each in told["errors"]} == {"body.limit", "body.filters.since"}


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("search", {"query": "x", "filters": {"source_tipes": ["code"]}}, "did you mean source_types?"),
        ("search", {"query": "x", "filtres": {}}, "did you mean filters?"),
        ("context", {"task": "x", "tasks": "y"}, "did you mean task?"),
        ("tools/search_knowledge_base", {"query": "x", "reposs": "y"}, "did you mean repos?"),
    ],
)
def test_an_unknown_name_is_told_with_those_that_are_known(asking, path, body, said):
    detail = refused(asking("acme").post(f"{API}/{path}", json=body), 422, "InvalidQuery")
    assert ": unknown; allowed: " in detail
    assert detail.endswith(said)


def test_an_unknown_parameter_is_told_with_those_that_are_known(asking):
    answer = asking("acme").get(SEARCH, params={"query": "x", "langauges": "go"})
    detail = refused(answer, 422, "InvalidQuery")
    assert detail.startswith("query.langauges: unknown; allowed: query, limit,")
    assert detail.endswith("did you mean languages?")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8321", "127.0.0.1.evil.example", "[", "x@y", ""]
)
def test_on_this_machine_only_its_own_names_are_answered(server, host):
    answer = server.client().post(SEARCH, json=QUESTION, headers={"Host": host})
    refused(answer, 421, "MisdirectedRequest")
    assert server.client().get("/ready", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8321", "127.9.9.9"])
def test_every_name_of_this_machine_is_answered(server, host):
    assert server.client().get(f"{API}/status", headers={"Host": host}).status_code == 200


def test_with_names_only_those_are_answered(world):
    with Running(world.settings, config=world.config, allowed_hosts=("Know.example",)) as own:
        client = own.client(world.tokens["acme"])
        assert client.get(f"{API}/status", headers={"Host": "know.EXAMPLE:443"}).status_code == 200
        refused(client.get(f"{API}/status"), 421, "MisdirectedRequest")


def test_pages_of_other_sites_may_not_ask_unless_the_settings_say_so(server, world):
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in server.client().options(SEARCH, headers=asked).headers
    with Running(world.settings, config=world.config, cors_origins=("https://app.example",)) as own:
        answer = own.client().options(SEARCH, headers=asked)
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        other = own.client().options(SEARCH, headers=asked | {"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
        told = own.client().get(f"{API}/status", headers={"Origin": "https://app.example"})
        assert "X-Request-ID" in told.headers["access-control-expose-headers"]


def test_each_answer_has_an_id_and_careful_headers(asking, server):
    answer = asking("acme").get(f"{API}/status", headers={"X-Request-ID": "my-id.1"})
    assert answer.headers["x-request-id"] == "my-id.1"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers
    made = server.client().get("/no-such", headers={"X-Request-ID": "two words"})
    assert len(made.headers["x-request-id"]) == 36
    refused(made, 404, "HTTPError")


def test_head_is_get_without_the_body(asking):
    client = asking("acme")
    answer = client.head(f"{API}/status")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/json"
    assert client.head(f"{API}/similar").status_code == 405


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (f"{API}/similar", "POST, OPTIONS"),
        (f"{API}/search", "GET, POST, HEAD, OPTIONS"),
        (f"{API}/sources", "GET, POST, HEAD, OPTIONS"),
        (f"{API}/sources/x", "DELETE, OPTIONS"),
        (f"{API}/sync/status", "GET, POST, HEAD, OPTIONS"),
        ("/health", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_path_says_which_methods_it_takes(server, path, allowed):
    answer = server.client().options(path)
    assert (answer.status_code, answer.headers["allow"]) == (204, allowed)
    wrong = server.client().patch(path)
    refused(wrong, 405, "HTTPError")
    assert wrong.headers["allow"] == allowed


def lines_of(caplog, *answers) -> list[dict]:
    """One for each answer: a line is written when its answer is sent, which may be after it arrived."""
    ids = [answer.headers["x-request-id"] for answer in answers]
    for _ in range(2_400):
        lines = [record.request for record in caplog.records if record.name == ACCESS_LOG]
        ours = [line for line in lines if line["request_id"] in ids]
        if len(ours) >= len(ids):
            break
        time.sleep(0.05)
    assert [line["request_id"] for line in ours] == ids
    return ours


def test_a_request_is_told_in_one_line_without_its_content(asking, world, caplog):
    with caplog.at_level(logging.INFO, ACCESS_LOG):
        answer = asking("acme").post(SEARCH, json={"query": "payments of nobody"})
        first, second = lines_of(caplog, answer, asking("acme").get(f"{API}/docs/acme-docs:README.md"))
    assert (first["route"], first["status"], first["method"]) == (SEARCH, 200, "POST")
    assert first["query_id"] == answer.json()["query_id"]
    assert first["request_id"] == answer.headers["x-request-id"]
    assert first["token"] == world.ids["acme"] and first["duration_ms"] > 0
    assert second["route"] == f"{API}/docs/{{id:knowledge_id}}"
    assert "nobody" not in f"{first}{second}" and "README" not in f"{first}{second}"


def test_what_nobody_foresaw_is_a_problem_with_an_id_and_nothing_of_the_error(world, caplog):
    class Strange(Exception):
        pass

    with Running(world.settings, config=world.config) as own:

        async def broken(**_):
            raise Strange("a secret of the machine")

        own.service.base.status = broken
        answer = own.client().get(f"{API}/status")
    detail = refused(answer, 500, "InternalError")
    assert "Strange" in detail and "secret" not in detail
    assert answer.headers["x-request-id"] in caplog.text


def test_a_slow_answer_is_a_problem_in_time(strict, world):
    async def slow(*_, **__):
        await asyncio.sleep(600)

    strict.service.base.related, before = slow, strict.service.base.related
    try:
        answer = strict.client(world.tokens["acme"]).post(f"{API}/related", json={"target": "ACME-1"})
    finally:
        strict.service.base.related = before
    refused(answer, 504, "ResponseTimeout")
    assert answer.headers["retry-after"]


def test_what_is_no_http_is_refused_and_others_are_answered(server):
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port)) as connection:
        connection.settimeout(120)
        connection.sendall(b"\x16\x03\x01 no http\r\n\r\n")
        assert connection.recv(1_000).startswith(b"HTTP/1.1 400")
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(server.url).port)
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()
