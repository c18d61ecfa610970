"""The fake Vertex AI gives tokens to who signs for them, and embeds within the documented limits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx2
import jwt
import pytest

from knowledge_pipeline_tests.fakes.google.service_account import AUDIENCE, GRANT
from knowledge_pipeline_tests.fakes.google.vertex_server import SCOPE, VertexServer
from knowledge_pipeline_tests.fakes.openai_server import word_vector


class Asking(VertexServer):
    """The server with a client of its own, and a token that is valid."""

    client: httpx2.Client
    token = ""


@pytest.fixture(scope="module")
def server() -> Iterator[Asking]:
    with Asking() as running, httpx2.Client(verify=False) as running.client:
        running.token = get_token(running).json()["access_token"]
        yield running


def get_token(server: Asking, *, key: str | None = None, **changes: object) -> httpx2.Response:
    account, now = server.key, int(time.time())
    claims = {"iss": account["client_email"], "scope": SCOPE, "aud": AUDIENCE}
    claims |= {"iat": now, "exp": now + 3600, **changes}
    assertion = jwt.encode(claims, key or account["private_key"], algorithm="HS256" if key else "RS256")
    return server.client.post(account["token_uri"], data={"grant_type": GRANT, "assertion": assertion})


def predict(server: Asking, texts: list[str], *, token: str = "", **changes: object) -> httpx2.Response:
    place = {"project": server.project, "location": server.location, "model": "text-embedding-005", **changes}
    path = "projects/{project}/locations/{location}/publishers/google/models/{model}:predict".format(**place)
    body = {
        "instances": [{"content": text, "task_type": changes.get("task", "CLUSTERING")} for text in texts]
    }
    body |= {"parameters": changes.get("parameters", {})}
    headers = {"Authorization": f"Bearer {token or server.token}"}
    return server.client.post(f"{server.url}/{path}", json=body, headers=headers)


def test_a_token_is_given_for_a_signature_with_the_right_claims_alone(server: Asking):
    assert get_token(server).json()["expires_in"] == 3600
    wrong = [
        *({"iss": "other@example.org"}, {"aud": "https://example.org/token"}, {"scope": "openid"}),
        *({"exp": int(time.time()) - 90}, {"exp": int(time.time()) + 9999}, {"key": "k" * 32}),
    ]
    assert [get_token(server, **each).status_code for each in wrong] == [400] * len(wrong)


def test_predictions_have_vectors_and_statistics_and_refusals_are_google_s(server: Asking):
    payload = predict(server, ["one two", "three"], parameters={"outputDimensionality": 8}).json()
    embeddings = [prediction["embeddings"] for prediction in payload["predictions"]]
    assert embeddings[1]["values"] == word_vector("three", 8)
    assert embeddings[0]["statistics"] == {"token_count": 2, "truncated": False}
    cases = [
        (401, "UNAUTHENTICATED", predict(server, ["a"], token="other")),
        (403, "PERMISSION_DENIED", predict(server, ["a"], project="other")),
        (404, "NOT_FOUND", predict(server, ["a"], location="us-east1")),
        (404, "NOT_FOUND", predict(server, ["a"], model="text-embedding-9")),
        (400, "INVALID_ARGUMENT", predict(server, ["a"], task="SEARCH")),
        (400, "INVALID_ARGUMENT", predict(server, [""])),
        (400, "INVALID_ARGUMENT", predict(server, ["a"] * 251)),
        (400, "INVALID_ARGUMENT", predict(server, ["a", "b"], model="gemini-embedding-001")),
        (400, "INVALID_ARGUMENT", predict(server, ["a " * 2001] * 10)),
        (400, "INVALID_ARGUMENT", predict(server, ["a " * 2049], parameters={"autoTruncate": False})),
        (400, "INVALID_ARGUMENT", predict(server, ["a"], parameters={"outputDimensionality": 769})),
    ]
    for status, reason, response in cases:
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["status"]) == (status, status, reason)
    cut = predict(server, ["a " * 2049]).json()["predictions"][0]["embeddings"]["statistics"]
    assert cut == {"token_count": 2048, "truncated": True}
    assert json.dumps(server.key).count("private_key")
