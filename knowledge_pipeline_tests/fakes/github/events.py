"""What a fake GitHub says of a change: https://docs.github.com/webhooks/webhook-events-and-payloads."""

from __future__ import annotations

from typing import Any


def repository(url: str, full_name: str) -> dict[str, Any]:
    """As every event of a repository has it."""
    return {"repository": {"full_name": full_name, "html_url": f"{url}/{full_name}", "id": 1}}


def conversation_event(url: str, full_name: str, uri: str, event: str, action: str) -> dict[str, Any]:
    """Of an issue or a pull request, its comments and reviews."""
    kind, _, number = uri.partition("/")
    facts: dict[str, Any] = {"number": int(number), "title": "never indexed from an event"}
    name = "issue"
    if kind == "pull" and event == "issue_comment":
        facts["pull_request"] = {"html_url": f"{url}/{full_name}/{uri}"}
    elif kind == "pull":
        name = "pull_request"
    return {"action": action, name: facts, **repository(url, full_name)}


def renamed(url: str, full_name: str, former: str) -> dict[str, Any]:
    """Of a repository that had another name."""
    changes = {"repository": {"name": {"from": former}}}
    return {"action": "renamed", "changes": changes, **repository(url, full_name)}
