"""Events of GitHub and GitLab: pushes, conversations, wikis, and what happens to a repository.

Sources: https://docs.github.com/webhooks/webhook-events-and-payloads,
https://docs.gitlab.com/user/project/integrations/webhook_events/,
https://docs.gitlab.com/administration/system_hooks/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from knowledge_pipeline.branch_names import PULL_PREFIXES, select_pull_patterns
from knowledge_pipeline.config.connections.repositories import (
    GitConnection,
    GithubConnection,
    GitlabConnection,
)
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.serve.webhooks.events import (
    Change,
    Payload,
    ServiceEvent,
    descend,
    read_number,
    read_text,
)
from knowledge_pipeline.serve.webhooks.pushes import Push, parse_push, repository_key
from knowledge_pipeline.serve.webhooks.verification import Headers
from knowledge_pipeline.strings import matches_any

_PING_REASON = "a ping: the webhook works"

_PULL_REQUEST_EVENTS = frozenset(
    {
        *("pull_request", "pull_request_review", "pull_request_review_comment"),
        "pull_request_review_thread",
    }
)
_REPOSITORY_EVENTS = frozenset(
    {
        *("repository", "public", "member", "team_add", "team", "label", "milestone"),
        *("discussion", "discussion_comment", "release"),
    }
)
"""Events after which sources of the repository are looked at as a whole: updates and permissions."""
_ORGANIZATION_EVENTS = frozenset({"membership", "organization"})

_HEAD_ACTIONS = frozenset({"opened", "reopened", "synchronize", "closed"})
"""Of events of pull requests, those after which another head is read, or another commit of it."""

_GITLAB_PUSHES = frozenset({"push", "tag_push"})
_GITLAB_PROJECT_EVENTS = frozenset(
    {
        *("project_destroy", "project_rename", "project_transfer", "project_update"),
        *("user_add_to_team", "user_update_for_team", "user_remove_from_team", "release", "milestone"),
    }
)
_GITLAB_GROUP_EVENTS = frozenset(
    {"user_add_to_group", "user_update_for_group", "user_remove_from_group", "group_rename", "group_destroy"}
)


def parse_github_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """What an event of GitHub is about.

    Raises:
        InvalidQuery: it says that it is a push, and is not.
    """
    event = headers.get("x-github-event", "")
    if event == "ping":
        return ServiceEvent(ignored_reason=_PING_REASON)
    if event == "push":
        return _to_event(parse_push("github", payload))
    if event in _ORGANIZATION_EVENTS:
        owner = read_text(descend(payload, "organization").get("login")).casefold()
        return ServiceEvent.of([Change(lambda source: bool(owner) and _has_owner(source, owner))])
    keys = _list_github_keys(payload)
    if event in _PULL_REQUEST_EVENTS:
        pull = descend(payload, "pull_request")
        moved = _name_head(keys, "github", pull) if read_text(payload.get("action")) in _HEAD_ACTIONS else ()
        return ServiceEvent.of([*_name_document(keys, "pull", "github_pr", pull), *moved])
    if event in ("issues", "issue_comment"):
        issue = descend(payload, "issue")
        if "pull_request" in issue:
            return ServiceEvent.of(_name_document(keys, "pull", "github_pr", issue))
        return ServiceEvent.of(_name_document(keys, "issue", "github_issues", issue))
    if event == "gollum":
        return ServiceEvent.of([Change(_Reads(_to_wiki_keys(keys)))])
    if event in _REPOSITORY_EVENTS:
        return ServiceEvent.of([Change(_Reads(keys | _to_wiki_keys(keys)))])
    return ServiceEvent.of([])


def parse_gitlab_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """What an event of GitLab is about; raises as `parse_github_event`."""
    kind = read_text(payload.get("object_kind")) or read_text(payload.get("event_name"))
    if kind in _GITLAB_PUSHES:
        return _to_event(parse_push("gitlab", payload))
    if kind in _GITLAB_GROUP_EVENTS:
        group = read_text(payload.get("full_path")) or read_text(payload.get("group_path"))
        return ServiceEvent.of([Change(lambda source: bool(group) and _has_group(source, group.casefold()))])
    if kind in _GITLAB_PROJECT_EVENTS:
        paths = _list_gitlab_paths(payload)
        return ServiceEvent.of([Change(lambda source: _has_project(source, paths))])
    keys = _to_keys([descend(payload, "project").get("web_url")])
    if kind == "wiki_page":
        return ServiceEvent.of([Change(_Reads(_to_wiki_keys(keys)))])
    return ServiceEvent.of(_name_gitlab_document(kind, keys, payload))


def _to_event(push: Push) -> ServiceEvent:
    if push.is_deleted:
        return ServiceEvent(ignored_reason="the branch was deleted")
    if push.is_too_old:
        return ServiceEvent(ignored_reason="the push is older than three days")
    return ServiceEvent.of([Change(push.is_read_by)])


def _name_gitlab_document(kind: str, keys: frozenset[str], payload: Payload) -> Iterator[Change]:
    """The issue or merge request that an event is about, also by a comment on it."""
    for name, source_type in (("issue", "github_issues"), ("merge_request", "github_pr")):
        if kind in (name, "work_item" if name == "issue" else name):
            facts = descend(payload, "object_attributes")
            yield from _name_document(keys, name, source_type, facts)
            if name == "merge_request":
                yield from _name_head(keys, "gitlab", facts)
        elif kind == "note" and name in payload:
            yield from _name_document(keys, name, source_type, descend(payload, name))


def _name_document(keys: frozenset[str], kind: str, source_type: str, facts: Payload) -> Iterator[Change]:
    """A change of one document, by its number in the repository."""
    reads = _Reads(keys)
    if number := read_number(facts.get("iid") or facts.get("number")):
        yield Change(lambda source: source.type == source_type and reads(source), (f"{kind}/{number}",))


def _name_head(keys: frozenset[str], service: str, facts: Payload) -> Iterator[Change]:
    """A change of the sources that read the head of a pull request as a branch."""
    reads, prefix = _Reads(keys), PULL_PREFIXES[service]
    if number := read_number(facts.get("iid") or facts.get("number")):
        yield Change(
            lambda source: (
                reads(source) and matches_any(prefix + number, select_pull_patterns(source.branches))
            )
        )


def _list_github_keys(payload: Payload) -> frozenset[str]:
    """The repository's addresses, also the one from before it was renamed or given away."""
    repository, changes = descend(payload, "repository"), descend(payload, "changes")
    address, name = read_text(repository.get("html_url")), read_text(repository.get("full_name"))
    before = read_text(descend(changes, "repository", "name").get("from"))
    former = descend(changes, "owner", "from")
    owner = read_text((descend(former, "user") or descend(former, "organization")).get("login"))
    host = address.removesuffix(name) if name and address.endswith(name) else ""
    parts = name.split("/")
    names = [f"{parts[0]}/{before}" if before else "", f"{owner}/{parts[-1]}" if owner else ""]
    return _to_keys([address, *(f"{host}{each}" for each in names if each and host)])


def _to_keys(addresses: Iterable[object]) -> frozenset[str]:
    keys = (repository_key(each) for each in addresses if isinstance(each, str))
    return frozenset(key for key in keys if key)


def _to_wiki_keys(keys: frozenset[str]) -> frozenset[str]:
    return frozenset(f"{key}.wiki" for key in keys)


def _list_gitlab_paths(payload: Payload) -> frozenset[str]:
    names = ("path_with_namespace", "old_path_with_namespace", "project_path_with_namespace")
    paths = [read_text(payload.get(name)) for name in names]
    paths.append(read_text(descend(payload, "project").get("path_with_namespace")))
    return frozenset(path.casefold() for path in paths if path)


class _Reads:
    """Whether a source reads a repository, over git or an API."""

    def __init__(self, keys: frozenset[str]) -> None:
        self._keys = keys

    def __call__(self, source: SourceConfig) -> bool:
        return find_repository_key(source) in self._keys


def find_repository_key(source: SourceConfig) -> str | None:
    """The repository that a source reads, as `repository_key` writes it; None for other sources."""
    match source.connection:
        case GitConnection() as connection:
            return repository_key(connection.url)
        case GithubConnection() | GitlabConnection() as connection:
            return repository_key(connection.location)
        case _:
            return None


def _has_owner(source: SourceConfig, owner: str) -> bool:
    parts = (find_repository_key(source) or "").split("/")
    return len(parts) == 3 and parts[1] == owner


def _has_project(source: SourceConfig, paths: frozenset[str]) -> bool:
    _, _, path = (find_repository_key(source) or "").partition("/")
    return path.removesuffix(".wiki") in paths


def _has_group(source: SourceConfig, group: str) -> bool:
    """Whether a project is in a group, whose full path not all events have."""
    key = find_repository_key(source) or ""
    return f"/{group}/" in key
