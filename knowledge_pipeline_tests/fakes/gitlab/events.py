"""What a fake GitLab says of a change: https://docs.gitlab.com/user/project/integrations/webhook_events/."""

from __future__ import annotations

from typing import Any


def conversation_event(url: str, path: str, uri: str, *, note: bool = False) -> dict[str, Any]:
    """Of an issue or a merge request, or of a comment on one."""
    kind, _, iid = uri.partition("/")
    facts = {"iid": int(iid), "title": "never indexed from an event", "updated_at": "2026-01-01 00:00:00 UTC"}
    if note:
        return {"object_kind": "note", "object_attributes": {"id": 9}, kind: facts, **_project(url, path)}
    return {"object_kind": kind, "object_attributes": facts, **_project(url, path)}


def wiki_event(url: str, path: str) -> dict[str, Any]:
    """Of a page of the project's wiki."""
    return {"object_kind": "wiki_page", "object_attributes": {"slug": "home"}, **_project(url, path)}


def project_event(event: str, path: str, **more: Any) -> dict[str, Any]:
    """Of a project as a system hook has it: `project_destroy`, `project_rename`."""
    return {"event_name": event, "path_with_namespace": path, "project_visibility": "private", **more}


def _project(url: str, path: str) -> dict[str, Any]:
    return {"project": {"web_url": f"{url}/{path}", "path_with_namespace": path}}
