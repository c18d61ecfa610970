"""What GitHub says instead of an answer: limits, refusals, other addresses; and what is never told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.conversations import ConversationFilters
from knowledge_pipeline.connectors.git.command import build_remote
from knowledge_pipeline.connectors.git.remote_heads import (
    RemoteHeads,
    build_queries,
    group_by_watched_branch,
    poll_remote_heads,
)
from knowledge_pipeline.connectors.github.documents import GithubPullRequests
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.connectors.forge_sources import Open, opened, read, text_of
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.github.server import GithubServer


@pytest.fixture
def server() -> Iterator[GithubServer]:
    with GithubServer() as server:
        yield server


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def pulls(server: GithubServer, waits: list[float]) -> Iterator[Open]:
    yield from opened(GithubPullRequests, server, waits)


# limits


def test_a_spent_limit_is_waited_for(server: GithubServer, pulls: Open, waits: list[float]) -> None:
    for _ in range(150):
        server.repository.pull("x")
    waited = iter([lambda: server.limit(after=5000, reset_s=3600)] * 9)
    server.limit(after=1, reset_s=60)
    wait = pausing_by(lambda wait_s: (waits.append(wait_s), next(waited)())[0])
    with GithubPullRequests(server.connection(), ConversationFilters()) as source, wait:
        assert len(list(source.discover())) == 150
    assert len(waits) == 1 and 55 <= waits[0] <= 62
    assert all(request.status == 200 for request in server.requests)  # it was not asked in vain
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [200, 403])
def test_a_limit_that_is_told_is_waited_for(server: GithubServer, waits: list[float], status: int) -> None:
    server.repository.pull("x")
    server.limited_status = status
    server.limit(after=0, reset_s=1)
    started = time.monotonic()
    with GithubPullRequests(server.connection(), ConversationFilters()) as source:
        assert len(list(source.discover())) == 1
    assert time.monotonic() - started >= 0.9 and len(server.requests) <= 3


@pytest.mark.parametrize("status", [200, 403])
def test_a_limit_that_lasts_is_told_with_its_end(server: GithubServer, pulls: Open, status: int) -> None:
    server.limited_status = status
    server.limit(after=0, reset_s=1800)
    with pytest.raises(SourceUnavailable, match=r"GitHub at 127\.0\.0\.1 limits our calls until \d{4}-.*UTC"):
        list(pulls().discover())
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [403, 429])
def test_the_secondary_limit_is_waited_for_a_minute(
    server: GithubServer, pulls: Open, waits: list[float], status: int
) -> None:
    """Told in words alone, while the headers tell of the limit that is not spent."""
    server.repository.pull("x")
    words = {
        "message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    }
    far = {"X-RateLimit-Remaining": "4000", "X-RateLimit-Reset": str(int(time.time()) + 3000)}
    server.fail_next(1 if status == 403 else 6, status=status, body=words, headers=far)
    assert len(list(pulls().discover())) == 1
    assert waits[-1] == 60.0


def test_a_secondary_limit_without_end_ends_in_a_sentence(server: GithubServer, pulls: Open) -> None:
    words = {
        "message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    }
    server.fail_next(100, status=403, body=words)
    with pytest.raises(SourceUnavailable, match="limits our calls: try again later"):
        list(pulls().discover())
    assert len(server.requests) < 10


# refusals


def refused(source: Any) -> str:
    with pytest.raises(SourceRefused) as told:
        list(source.discover())
    assert told.value.__cause__ is None
    return str(told.value)


def test_a_refusal_says_what_to_correct(server: GithubServer, pulls: Open) -> None:
    server.repository.pull("x")
    assert "correct connection.token" in refused(pulls(server.connection(token="wrong")))
    assert "set connection.token or connection.app" in refused(pulls(server.connection(token=None)))
    other = pulls(server.connection(repository="octo/other"))
    assert "shows no repository octo/other: correct connection.repository" in refused(other)
    server.answerer.single_sign_on = True
    assert "single sign-on (SAML)" in refused(pulls())
    server.answerer.single_sign_on = False
    sso = {"X-GitHub-SSO": "required; url=https://github.test/sso"}
    server.fail_next(status=403, body={"message": "Resource protected"}, headers=sso)
    assert "Configure SSO" in refused(pulls())
    server.fail_next(status=403, body={"message": "Although you appear to have the correct\n IP allow list"})
    assert "(Although you appear to have the correct IP allow list)" in refused(pulls())
    server.fail_next(status=400, body={"message": "Problems parsing JSON"})
    assert "with 400 (Problems parsing JSON)" in refused(pulls())
    server.answerer.unreadable = {"Repository.pullRequests"}
    assert "docs/sources/github.md" in refused(pulls())
    missing = {
        "type": "INSUFFICIENT_SCOPES",
        "message": "Your token has not been granted the required scopes",
    }
    server.fail_next(body={"errors": [missing]})
    assert "required scopes" in refused(pulls())


def test_an_older_server_is_told(server: GithubServer, pulls: Open) -> None:
    unknown = {
        "message": "Field 'x' doesn't exist on type 'PullRequest'",
        "extensions": {"code": "undefinedField"},
    }
    server.fail_next(body={"errors": [unknown]})
    assert "GitHub Enterprise Server 3.14 or later" in refused(pulls())


def test_enterprise_is_found_by_its_address(waits: list[float]) -> None:
    with GithubServer(enterprise=True) as server:
        uri = server.repository.pull("x", "of the enterprise")
        for url in (server.url, f"{server.url}/"):
            with GithubPullRequests(server.connection(url=url), ConversationFilters()) as source:
                assert text_of(source, uri).endswith("of the enterprise")
        assert {request.path for request in server.requests} == {"/api/graphql"}


# apps


@pytest.fixture(scope="module")
def keys() -> tuple[str, str]:
    """PEM: private, public."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()


def test_an_app_reads_with_a_token_of_its_installation(
    server: GithubServer, pulls: Open, keys: tuple[str, str], waits: list[float]
) -> None:
    server.app_key, uri = keys[1], server.repository.pull("x", "by an app")
    server.fail_next(status=503)
    assert text_of(pulls(server.app_connection(keys[0])), uri).endswith("by an app")
    assert [request.path for request in server.requests] == [
        *(["/repos/octo/engine/installation"] * 2),
        "/app/installations/77/access_tokens",
        *(["/graphql"] * 2),
    ]
    assert len(waits) == 1
    server.requests.clear()
    assert len(list(pulls(server.app_connection(keys[0], installation_id=77)).discover())) == 1
    assert len(server.requests) == 2


def test_a_token_of_an_installation_is_renewed_in_time(
    server: GithubServer, pulls: Open, keys: tuple[str, str]
) -> None:
    server.app_key, server.token_lasts_s = keys[1], 100.0
    source = pulls(server.app_connection(keys[0], installation_id=77))
    assert list(source.discover()) == list(source.discover()) == []
    assert sum(request.path.endswith("access_tokens") for request in server.requests) == 2


def test_an_app_that_is_refused_says_what_to_correct(
    server: GithubServer, pulls: Open, keys: tuple[str, str]
) -> None:
    server.app_key = keys[1]
    assert "app.private_key do not belong together" in refused(pulls(server.app_connection(keys[0], id=1)))
    assert "installation_id" in refused(pulls(server.app_connection(keys[0], installation_id=5)))
    server.installed = False
    assert "the App is not installed for octo/engine" in refused(pulls(server.app_connection(keys[0])))
    assert "not a private key in PEM form" in refused(pulls(server.app_connection("no key at all")))


def test_git_reads_with_a_token_of_the_installation(
    keys: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Repository(tmp_path / "served/octo/engine.git").write({"a.py": "x = 1"}).commit()
    with GithubServer(enterprise=True, app_key=keys[1]) as server:
        server.repositories, server.token_lasts_s = tmp_path / "served", 310.0  # renewed 300 s before its end
        connection = server.app_connection(keys[0])
        source = SourceConfig.model_validate({"id": "engine", "type": "code", "connection": connection})
        with open_source(source, cache=tmp_path / "cache") as code:
            assert [item.uri for item in code.discover()] == ["a.py"]
        queries = list(build_queries(group_by_watched_branch([source])).values())
        server.revoke_tokens()
        [refused_once] = poll_remote_heads(queries).values()  # the token of the mirror, which ended
        assert isinstance(refused_once, SourceRefused) and "connection.app" in str(refused_once)
        assert [type(each) for each in poll_remote_heads(queries).values()] == [RemoteHeads]
        assert sum(each.path.endswith("access_tokens") for each in server.requests) == 2
    kept = [path.read_text("latin-1") for path in tmp_path.glob("cache/**/*") if path.is_file()]
    told = " ".join([caplog.text, str(refused_once), repr(build_remote(source.connection)), *kept])
    assert server.token not in told and keys[0][30:60] not in told
    with pytest.raises(ValueError, match="not both"):
        SourceConfig.model_validate(
            {**dict(source), "connection": dict(source.connection) | {"token": "x"}, "type": "code"}
        )


# secrets


def test_no_secret_is_told_anywhere(
    server: GithubServer, pulls: Open, keys: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    # A client of Kubernetes that another test made would have silenced it.
    caplog.set_level("DEBUG", logger="urllib3.connectionpool")
    server.token = "-".join(("canary", "token"))
    server.app_key, uri = keys[1], server.repository.pull("x", "y")
    said: list[str] = []
    sources = [
        pulls(),
        pulls(server.app_connection(keys[0])),
        pulls(server.connection(token="canary-token-wrong")),
    ]
    for source in sources:
        said.append(repr(source) + repr(vars(source)) + repr(source._client.__dict__))
        try:
            said.append(repr(read(source)[uri]))
        except SourceRefused as error:
            said.append(repr(error) + repr(error.__cause__))
    whole = "".join(said) + caplog.text
    assert "canary-token" not in whole and keys[0][40:80] not in whole
    assert whole.count("does not accept the token") == 1 and caplog.text.count("/graphql") == 5
