"""Events of GitHub: https://docs.github.com/webhooks/webhook-events-and-payloads."""

from __future__ import annotations

from collections.abc import Iterable

from knowledge_pipeline.connectors.events import (
    Change,
    Headers,
    Payload,
    ServiceEvent,
    WebhookService,
    find_repository_key,
    iter_document_changes,
    iter_head_changes,
    parse_push,
    read_text,
    reads_repository,
    require_signature,
    to_repository_keys,
)
from knowledge_pipeline.text import descend

_REPOSITORY_EVENTS = {
    *("repository", "public", "member", "team_add", "team", "label", "milestone"),
    *("discussion", "discussion_comment", "release"),
}
"""Events after which sources of the repository are looked at as a whole: updates and permissions."""

_HEAD_ACTIONS = {"opened", "reopened", "synchronize", "closed"}
"""Of events of pull requests, those after which another head is read, or another commit of it."""


def _find_changes(payload: Payload, headers: Headers) -> ServiceEvent | Iterable[Change]:
    event = headers.get("x-github-event", "")
    if event == "ping":
        return ServiceEvent(ignored_reason="a ping: the webhook works")
    if event == "push":
        return parse_push("github", payload).to_event()
    if event in ("membership", "organization"):
        owner = read_text(descend(payload, "organization").get("login")).casefold()
        # the key of a repository here is host/owner/name
        return [
            Change(lambda source: bool(owner) and find_repository_key(source).split("/")[1:-1] == [owner])
        ]
    addresses = _list_addresses(payload)
    keys, wiki_keys = to_repository_keys(addresses), to_repository_keys(addresses, wiki=True)
    if event.startswith("pull_request"):  # and of its reviews
        pull, action = descend(payload, "pull_request"), read_text(payload.get("action"))
        moved = iter_head_changes(keys, "github", pull) if action in _HEAD_ACTIONS else ()
        return [*iter_document_changes(keys, "pull", "github_pr", pull), *moved]
    if event in ("issues", "issue_comment"):
        issue = descend(payload, "issue")
        if "pull_request" in issue:
            return iter_document_changes(keys, "pull", "github_pr", issue)
        return iter_document_changes(keys, "issue", "github_issues", issue)
    if event == "gollum":
        return [reads_repository(wiki_keys)]
    return [reads_repository(keys | wiki_keys)] if event in _REPOSITORY_EVENTS else []


def _list_addresses(payload: Payload) -> list[str]:
    """The repository's addresses, also the one from before it was renamed or given away."""
    repository, changes = descend(payload, "repository"), descend(payload, "changes")
    address, name = read_text(repository.get("html_url")), read_text(repository.get("full_name"))
    before = read_text(descend(changes, "repository", "name").get("from"))
    former = descend(changes, "owner", "from")
    owner = read_text((descend(former, "user") or descend(former, "organization")).get("login"))
    host = address.removesuffix(name) if name and address.endswith(name) else ""
    parts = name.split("/")
    names = [f"{parts[0]}/{before}" if before else "", f"{owner}/{parts[-1]}" if owner else ""]
    return [address, *(f"{host}{name}" for name in names if name and host)]


SERVICE = WebhookService(
    "github",
    "GitHub",
    "github_secret",
    ("X-Hub-Signature-256", "X-GitHub-Event", "X-GitHub-Delivery"),
    lambda secret, key, body, headers: require_signature(
        secret, key, body, headers.get("x-hub-signature-256")
    ),
    _find_changes,
    ("x-github-delivery",),
    ("ref",),
)
