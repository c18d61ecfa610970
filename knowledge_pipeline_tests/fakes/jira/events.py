"""What a fake Jira says of a change: https://developer.atlassian.com/cloud/jira/platform/webhooks/."""

from __future__ import annotations

from typing import Any


def ticket_event(url: str, key: str, uri: str, **more: Any) -> dict[str, Any]:
    """Of a ticket, its comments and attachments; the name of the event is the sender's."""
    id_ = uri.removeprefix("issue/")
    project = {"key": key.partition("-")[0], "id": "10000"}
    fields = {"project": project, "summary": "never indexed from an event"}
    return {"issue": {"id": id_, "key": key, "self": f"{url}/rest/api/2/{id_}", "fields": fields}, **more}


def moved_from(key: str, now: str) -> dict[str, Any]:
    """The change log of a ticket that was moved to another project."""
    return {"changelog": {"items": [{"field": "Key", "fromString": key, "toString": now}]}}
