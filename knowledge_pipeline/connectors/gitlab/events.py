"""Events of GitLab, of projects and of the whole site.

Sources: https://docs.gitlab.com/user/project/integrations/webhook_events/,
https://docs.gitlab.com/administration/system_hooks/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    require_token,
    to_repository_keys,
)
from knowledge_pipeline.text import descend

_PROJECT_EVENTS = {
    *("project_destroy", "project_rename", "project_transfer", "project_update"),
    *("user_add_to_team", "user_update_for_team", "user_remove_from_team", "release", "milestone"),
}
_GROUP_EVENTS = {
    *("user_add_to_group", "user_update_for_group", "user_remove_from_group", "group_rename", "group_destroy")
}
_PATH_FIELDS = ("path_with_namespace", "old_path_with_namespace", "project_path_with_namespace")


def _find_changes(payload: Payload, headers: Headers) -> ServiceEvent | Iterable[Change]:
    kind = read_text(payload.get("object_kind")) or read_text(payload.get("event_name"))
    if kind in ("push", "tag_push"):
        return parse_push("gitlab", payload).to_event()
    if kind in _GROUP_EVENTS:  # whose full path not all events have
        group = read_text(payload.get("full_path")) or read_text(payload.get("group_path"))
        part = f"/{group.casefold()}/"
        return [Change(lambda source: bool(group) and part in find_repository_key(source))]
    if kind in _PROJECT_EVENTS:
        names = [payload.get(name) for name in _PATH_FIELDS]
        names.append(descend(payload, "project").get("path_with_namespace"))
        paths = {path.casefold() for path in map(read_text, names) if path}
        keys = {f"{path}{suffix}" for path in paths for suffix in ("", ".wiki")}
        return [Change(lambda source: find_repository_key(source).partition("/")[2] in keys)]
    addresses = [descend(payload, "project").get("web_url")]
    if kind == "wiki_page":
        return [reads_repository(to_repository_keys(addresses, wiki=True))]
    return _iter_named_changes(kind, to_repository_keys(addresses), payload)


def _iter_named_changes(kind: str, keys: frozenset[str], payload: Payload) -> Iterator[Change]:
    """The issue or merge request that an event is about, also by a comment on it."""
    facts = descend(payload, "object_attributes")
    if kind in ("issue", "work_item"):
        yield from iter_document_changes(keys, "issue", "github_issues", facts)
    elif kind == "merge_request":
        yield from iter_document_changes(keys, kind, "github_pr", facts)
        yield from iter_head_changes(keys, "gitlab", facts)
    elif kind == "note":
        for name, source_type in (("issue", "github_issues"), ("merge_request", "github_pr")):
            yield from iter_document_changes(keys, name, source_type, descend(payload, name))


SERVICE = WebhookService(
    "gitlab",
    "GitLab",
    "gitlab_token",
    ("X-Gitlab-Token", "X-Gitlab-Event", "X-Gitlab-Event-UUID", "Idempotency-Key"),
    lambda token, key, body, headers: require_token(token, key, headers.get("x-gitlab-token")),
    _find_changes,
    ("idempotency-key", "x-gitlab-event-uuid"),
    ("ref",),
)
