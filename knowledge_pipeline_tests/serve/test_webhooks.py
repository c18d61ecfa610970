"""Pushes of code hosts: what they mean, and whose they are."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

import pytest

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.events import MAX_AGE_S, parse_push, repository_key
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.serve.webhooks import SeenDeliveries, parse_payload


def github(**changes: Any) -> dict[str, Any]:
    """A push as GitHub tells it: https://docs.github.com/webhooks/webhook-events-and-payloads#push."""
    repository = {
        "full_name": "acme/shop",
        "html_url": "https://github.com/acme/shop",
        "clone_url": "https://github.com/acme/shop.git",
        "ssh_url": "git@github.com:acme/shop.git",
        "git_url": "git://github.com/acme/shop.git",
        "default_branch": "main",
        "pushed_at": int(time.time()),
    }
    return {
        "ref": "refs/heads/main",
        "after": "a" * 40,
        "deleted": False,
        "repository": repository,
        **changes,
    }


def gitlab(**changes: Any) -> dict[str, Any]:
    """A push as GitLab tells it: https://docs.gitlab.com/user/project/integrations/webhook_events."""
    project = {
        "web_url": "https://gitlab.example/acme/web/shop",
        "git_http_url": "https://gitlab.example/acme/web/shop.git",
        "git_ssh_url": "ssh://git@gitlab.example:2222/acme/web/shop.git",
        "default_branch": "main",
    }
    return {"object_kind": "push", "ref": "refs/heads/main", "after": "a" * 40, "project": project, **changes}


def source(id_: str, url: str, branch: str | None = None, type_: str = "code") -> SourceConfig:
    connection = {"type": "git", "url": url, "branch": branch}
    return SourceConfig.model_validate({"id": id_, "type": type_, "connection": connection})


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/shop",
        "https://github.com/acme/shop.git",
        "https://GitHub.com/Acme/Shop/",
        "https://reader@github.com/acme/shop.git",
        "http://github.com:8080/acme/shop",
        "ssh://git@github.com:2222/acme/shop.git",
        "git@github.com:acme/shop.git",
        "github.com:acme/shop",
        "git://github.com/acme/shop.git/",
        "https://github.com/acme%2Fshop",
    ],
)
def test_every_spelling_of_an_address_is_the_same_repository(url):
    assert repository_key(url) == "github.com/acme/shop"


@pytest.mark.parametrize(
    "url",
    ["https://github.com/acme/shop2", "https://github.com/acme", "https://evil.example/github.com/acme/shop"],
)
def test_other_addresses_are_other_repositories(url):
    assert repository_key(url) != "github.com/acme/shop"


@pytest.mark.parametrize(
    "url", ["", "/srv/shop.git", "../shop", "file:///srv/shop.git", "http://[", "https://"]
)
def test_a_path_of_a_machine_is_no_repository_of_a_forge(url):
    assert repository_key(url) is None


def test_a_push_is_read_by_the_sources_of_its_repository_and_branch():
    sources = [
        source("by-https", "https://github.com/acme/shop"),
        source("by-ssh", "git@github.com:Acme/Shop.git", type_="git_history"),
        source("main", "https://github.com/acme/shop", "main"),
        source("release", "https://github.com/acme/shop", "release/2"),
        source("v1", "https://github.com/acme/shop", "v1"),
        source("other", "https://github.com/acme/other"),
    ]

    def read(**changes: Any) -> list[str]:
        return [each.id for each in sources if parse_push("github", github(**changes)).is_read_by(each)]

    assert read() == ["by-https", "by-ssh", "main"]
    assert read(ref="refs/heads/release/2") == ["release"]
    assert read(ref="refs/tags/v1") == ["v1"]
    assert read(ref="refs/heads/feature") == []
    further = sources[0].model_copy(update={"branches": ("release/*",)})
    for ref, is_read in (("heads/release/3", True), ("tags/release/3", False), ("heads/feature", False)):
        assert parse_push("github", github(ref=f"refs/{ref}")).is_read_by(further) is is_read


def test_pushes_of_gitlab_are_read_alike():
    sources = [
        source("by-https", "https://gitlab.example/acme/web/shop.git"),
        source("by-ssh", "git@gitlab.example:acme/web/shop.git", "main"),
        source("other", "https://gitlab.example/acme/shop.git"),
    ]
    assert [each.id for each in sources if parse_push("gitlab", gitlab()).is_read_by(each)] == [
        "by-https",
        "by-ssh",
    ]


def test_sources_that_read_by_an_api_are_not_meant():
    told = {"id": "prs", "type": "github_pr", "connection": {"type": "github", "repository": "acme/shop"}}
    assert not parse_push("github", github()).is_read_by(SourceConfig.model_validate(told))


@pytest.mark.parametrize("changes", [{"deleted": True}, {"after": "0" * 40}])
def test_a_branch_that_is_deleted_is_gone(changes):
    assert parse_push("github", github(**changes)).is_deleted


def test_a_push_is_too_old_after_three_days():
    repository = github()["repository"]
    old = repository | {"pushed_at": int(time.time() - MAX_AGE_S - 60)}
    assert parse_push("github", github(repository=old)).is_too_old
    assert not parse_push("github", github()).is_too_old
    for strange in ("2020-01-01T00:00:00Z", None, True, 10**40):
        assert not parse_push("github", github(repository=repository | {"pushed_at": strange})).is_deleted


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"ref": "refs/heads/main"},
        {"ref": 7, "repository": {"clone_url": "https://github.com/a/b"}},
        {"ref": "refs/heads/main", "repository": []},
        {"ref": "refs/heads/main", "repository": {"clone_url": 5}},
        {"ref": "refs/notes/x", "repository": {"clone_url": "https://github.com/a/b"}},
    ],
)
def test_what_tells_of_no_push_is_refused(told):
    for forge in ("github", "gitlab"):
        with pytest.raises(InvalidQuery, match="does not describe a push"):
            parse_push(forge, told)


def test_the_last_ten_thousand_deliveries_are_known():
    deliveries = SeenDeliveries()
    deliveries.remember(["github id 1", "github body 1"])
    assert deliveries.has_seen(["github id 2", "github body 1"]) and not deliveries.has_seen(["gitlab id 1"])
    for number in range(10_000):
        deliveries.remember([str(number)])
    assert not deliveries.has_seen(["github id 1", "github body 1"])


def test_a_payload_is_json_or_a_form_with_json():
    told = github()
    form = urlencode({"payload": json.dumps(told)}).encode()
    assert parse_payload(form, "application/x-www-form-urlencoded") == told
    assert parse_payload(json.dumps(told).encode(), "application/json") == told
    strange = (b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"7")
    for body in strange:
        for kind in ("application/json", "application/x-www-form-urlencoded", ""):
            with pytest.raises(InvalidQuery):
                parse_payload(body, kind)
