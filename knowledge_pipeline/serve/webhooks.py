"""The services whose webhooks are accepted: how each is verified, told from a repetition, and read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import unquote_plus, urlsplit

from knowledge_pipeline.config.connections import (
    ArchiveFileConnection,
    BucketConnection,
    ConfluenceConnection,
    GcsConnection,
    GitConnection,
    GithubConnection,
    GitlabConnection,
    JiraConnection,
    S3Connection,
    SlackConnection,
)
from knowledge_pipeline.config.operation import WebhookSettings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import Forbidden
from knowledge_pipeline.records import PULL_PREFIXES, select_pull_patterns
from knowledge_pipeline.serve.webhook_verification import (
    Change,
    Headers,
    Payload,
    Push,
    ServiceEvent,
    SourceTest,
    descend,
    list_objects,
    parse_push,
    read_number,
    read_text,
    repository_key,
    require_bearer,
    require_google_token,
    require_signature,
    require_signature_or_bearer,
    require_slack_signature,
    require_token,
)
from knowledge_pipeline.text import matches_any

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
    """What an event of GitHub is about: https://docs.github.com/webhooks/webhook-events-and-payloads.

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
        return ServiceEvent.of([Change(_reads_repository(_to_wiki_keys(keys)))])
    if event in _REPOSITORY_EVENTS:
        return ServiceEvent.of([Change(_reads_repository(keys | _to_wiki_keys(keys)))])
    return ServiceEvent.of([])


def parse_gitlab_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """What an event of GitLab is about; raises as `parse_github_event`.

    Sources: https://docs.gitlab.com/user/project/integrations/webhook_events/,
    https://docs.gitlab.com/administration/system_hooks/
    """
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
        return ServiceEvent.of([Change(_reads_repository(_to_wiki_keys(keys)))])
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
    reads = _reads_repository(keys)
    if number := read_number(facts.get("iid") or facts.get("number")):
        yield Change(lambda source: source.type == source_type and reads(source), (f"{kind}/{number}",))


def _name_head(keys: frozenset[str], service: str, facts: Payload) -> Iterator[Change]:
    """A change of the sources that read the head of a pull request as a branch."""
    reads, prefix = _reads_repository(keys), PULL_PREFIXES[service]
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
    return _to_keys([address, *(f"{host}{name}" for name in names if name and host)])


def _to_keys(addresses: Iterable[object]) -> frozenset[str]:
    keys = (repository_key(address) for address in addresses if isinstance(address, str))
    return frozenset(key for key in keys if key)


def _to_wiki_keys(keys: frozenset[str]) -> frozenset[str]:
    return frozenset(f"{key}.wiki" for key in keys)


def _list_gitlab_paths(payload: Payload) -> frozenset[str]:
    names = ("path_with_namespace", "old_path_with_namespace", "project_path_with_namespace")
    paths = [read_text(payload.get(name)) for name in names]
    paths.append(read_text(descend(payload, "project").get("path_with_namespace")))
    return frozenset(path.casefold() for path in paths if path)


def _reads_repository(keys: frozenset[str]) -> SourceTest:
    """Whether a source reads a repository, over git or an API."""
    return lambda source: find_repository_key(source) in keys


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
    return f"/{group}/" in (find_repository_key(source) or "")


_GATEWAY = "api.atlassian.com"  # the host of connections with scoped tokens, which no event names
_KEY = re.compile(r"(?P<project>[A-Za-z][A-Za-z0-9_]{0,99})-\d{1,12}", re.ASCII)
_TICKET_EVENTS = re.compile(r"(jira:)?(issue|comment|worklog|issuelink|attachment|sprint|version)_?[a-z_]*")

_KINDS = {
    "page": "page",
    "blog": "blogpost",
    **{kind: kind for kind in ("blogpost", "whiteboard", "database")},
}
_PAGE_HOLDERS = (*_KINDS, "attachedTo", "labeled", "content")
_RELISTED = ("space_", "content_permissions_", "page_children_")
"""Beginnings of events that concern more pages than they name: access, and what is deleted with a space."""


def parse_jira_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """What an event of Jira is about: a ticket, its tickets where it is not named, or a project.

    Source: https://developer.atlassian.com/cloud/jira/platform/webhooks/
    """
    del headers
    name = read_text(payload.get("webhookEvent"))
    issue = descend(payload, "issue")
    if number := read_number(issue.get("id")):
        projects = frozenset(_list_projects(payload))
        is_of = _is_of_jira(_find_host(issue), projects)
        return ServiceEvent.of([Change(is_of, (f"issue/{number}",))])
    if name.startswith("issuelink_"):
        link = descend(payload, "issueLink")
        ids = (read_number(link.get(end)) for end in ("sourceIssueId", "destinationIssueId"))
        documents = tuple(f"issue/{id_}" for id_ in ids if id_)
        return ServiceEvent.of([Change(_is_of_jira(""), documents)] if documents else [])
    if name.startswith("project_"):
        key = read_text(descend(payload, "project").get("key")).upper()
        return ServiceEvent.of([Change(_is_of_jira("", frozenset({key} if key else ())), relist=True)])
    if name.startswith("worklog_") and (number := read_number(descend(payload, "worklog").get("issueId"))):
        return ServiceEvent.of([Change(_is_of_jira(""), (f"issue/{number}",))])
    return ServiceEvent.of([Change(_is_of_jira(""))] if _TICKET_EVENTS.fullmatch(name) else [])


def parse_confluence_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """What an event of Confluence is about: pages, or everything where it says what may be seen.

    Source: https://confluence.atlassian.com/doc/managing-webhooks-1021225606.html
    """
    del headers
    name = read_text(payload.get("event")) or read_text(payload.get("webhookEvent"))
    if name.startswith(_RELISTED):
        space = descend(payload, "space") or descend(payload, "content", "space")
        key = read_text(space.get("key")) or read_text(payload.get("spaceKey"))
        return ServiceEvent.of([Change(_is_of_confluence(_find_host(space), key), relist=True)])
    pages = [(_KINDS.get(holder, ""), descend(payload, holder)) for holder in _PAGE_HOLDERS]
    pages += [("", descend(payload, "comment", holder)) for holder in ("parent", "container")]
    moved = name.startswith(("page_moved", "blog_moved"))
    return ServiceEvent.of(_name_pages(pages, moved=moved))


def _name_pages(pages: list[tuple[str, Payload]], *, moved: bool) -> Iterator[Change]:
    """The pages by their ids; as both kinds where it is not said which a page is."""
    for kind, page in pages:
        if number := read_number(page.get("id")):
            said = kind or _KINDS.get(read_text(page.get("contentType")) or read_text(page.get("type")), "")
            kinds = (said,) if said else ("page", "blogpost")
            key = read_text(page.get("spaceKey")) or read_text(descend(page, "space").get("key"))
            is_of = _is_of_confluence(_find_host(page), "" if moved else key)
            yield Change(is_of, tuple(f"{kind}/{number}" for kind in kinds))


def _list_projects(payload: Payload) -> Iterator[str]:
    """The keys of the ticket's project, and of the one that it was moved out of."""
    issue = descend(payload, "issue")
    yield read_text(descend(issue, "fields", "project").get("key")).upper()
    keys = [read_text(issue.get("key"))]
    for item in list_objects(descend(payload, "changelog").get("items")):
        if read_text(item.get("field")).lower() == "key":
            keys += [read_text(item.get("fromString")), read_text(item.get("toString"))]
    for key in keys:
        if match := _KEY.fullmatch(key):
            yield match["project"].upper()


def _find_host(thing: Payload) -> str:
    """The host of the site, from the address of something on it; "": not said."""
    try:
        return urlsplit(read_text(thing.get("self"))).hostname or ""
    except ValueError:
        return ""


def _is_of_jira(host: str, projects: frozenset[str] = frozenset()) -> SourceTest:
    """Whether a source reads a site, and may read one of some projects."""

    def is_of(source: SourceConfig) -> bool:
        own = {project.upper() for project in source.projects}
        has_project = not own or not projects - {""} or not own.isdisjoint(projects)
        return isinstance(source.connection, JiraConnection) and _is_on(source, host) and has_project

    return is_of


def _is_of_confluence(host: str, space: str) -> SourceTest:
    def is_of(source: SourceConfig) -> bool:
        own = {key.casefold() for key in source.spaces}
        has_space = not own or not space or space.casefold() in own
        return isinstance(source.connection, ConfluenceConnection) and _is_on(source, host) and has_space

    return is_of


def _is_on(source: SourceConfig, host: str) -> bool:
    return not host or source.connection.host in (host, _GATEWAY)


_TIMESTAMP = re.compile(r"\d{1,10}\.\d{1,9}", re.ASCII)
_CHANNEL_ID = re.compile(r"[CG][A-Z0-9]{4,20}", re.ASCII)
_MAX_CHALLENGE_CHARS = 500

_LOST_OR_RENAMED = re.compile(r"(channel|group)_(deleted|archive|left|rename|unarchive|id_changed)")
_MEMBERSHIP_EVENTS = ("member_joined_channel", "member_left_channel")
_PEOPLE_EVENTS = ("team_join", "user_change", "user_profile_changed")


def parse_slack_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """What an event of Slack is about: a thread, a day of a channel, a channel, or who sees it.

    Source: https://docs.slack.dev/apis/events-api/
    """
    del headers
    if payload.get("type") == "url_verification":
        return ServiceEvent(challenge=read_text(payload.get("challenge"))[:_MAX_CHALLENGE_CHARS])
    event = descend(payload, "event")
    kind, channel = read_text(event.get("type")), _find_channel(event)
    if kind == "message" and channel:
        documents = tuple(dict.fromkeys(_name_documents(channel, event)))
        return ServiceEvent.of([Change(_reads_channel(channel), documents)] if documents else [])
    if channel and _LOST_OR_RENAMED.fullmatch(kind):
        return ServiceEvent.of([Change(_reads_channel(channel), (f"thread/{channel}/*", f"day/{channel}/*"))])
    if kind in _MEMBERSHIP_EVENTS and channel:
        bots = {read_text(grant.get("user_id")) for grant in list_objects(payload.get("authorizations"))}
        if read_text(event.get("user")) not in bots - {""}:
            return ServiceEvent.of([Change(_reads_channel(channel))])
        # the bot itself: the channel is new, or lost
        return ServiceEvent.of([Change(_reads_channel(channel), relist=True)])
    return ServiceEvent.of([Change(_reads_channel(""))] if kind in _PEOPLE_EVENTS else [])


def _find_channel(event: Payload) -> str:
    """The id of the channel, which some events have within an object; "" where there is none."""
    channel = event.get("channel")
    id_ = read_text(channel) or read_text(descend(event, "channel").get("id"))
    return id_ if _CHANNEL_ID.fullmatch(id_) else ""


def _name_documents(channel: str, event: Payload) -> Iterator[str]:
    """The threads and days that a message may be in, or was in before.

    The first reply takes a message out of its day, and the deletion of the last one puts it back.
    """
    messages = [event, descend(event, "message"), descend(event, "previous_message")]
    roots = [read_text(message.get("thread_ts")) for message in messages]
    names = [read_text(message.get("ts")) for message in messages[1:]] + [read_text(event.get("deleted_ts"))]
    if not any(names):  # of an edit, the event's own time is that of the edit
        names.append(read_text(event.get("ts")))
    for ts in (*roots, *names):
        if _TIMESTAMP.fullmatch(ts):
            yield f"thread/{channel}/{ts}"
            yield f"day/{channel}/{datetime.fromtimestamp(float(ts), UTC).date().isoformat()}"


def _reads_channel(channel: str) -> SourceTest:
    """Whether a source may read a channel; a name in its settings may be that of any."""

    def reads(source: SourceConfig) -> bool:
        are_ids = all(map(_CHANNEL_ID.fullmatch, source.channels))
        has_channel = not source.channels or not channel or not are_ids or channel in source.channels
        return isinstance(source.connection, SlackConnection) and has_channel

    return reads


_S3_EVENTS = ("ObjectCreated:", "ObjectRemoved:", "ObjectRestore:", "LifecycleExpiration:")
_GCS_EVENTS = ("OBJECT_FINALIZE", "OBJECT_DELETE", "OBJECT_ARCHIVE")


def parse_s3_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """The objects of a notification of S3 or MinIO, or of an event that EventBridge passes on.

    Their source is refreshed as a whole: one call lists a thousand objects of a bucket.

    Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html,
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html,
    https://min.io/docs/minio/linux/administration/monitoring/publish-events-to-webhook.html
    """
    del headers
    return ServiceEvent.of(
        Change(_reads_object(S3Connection, bucket, key))
        for bucket, key in _iter_s3_objects(payload)
        if bucket
    )


def parse_gcs_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """The object of a message of Pub/Sub: https://cloud.google.com/storage/docs/pubsub-notifications."""
    del headers
    facts = descend(payload, "message", "attributes")
    bucket, key = read_text(facts.get("bucketId")), read_text(facts.get("objectId"))
    if not bucket or facts.get("eventType") not in _GCS_EVENTS:
        return ServiceEvent.of([])
    return ServiceEvent.of([Change(_reads_object(GcsConnection, bucket, key))])


def _iter_s3_objects(payload: Payload) -> Iterator[tuple[str, str]]:
    for record in list_objects(payload.get("Records")):
        bucket, key = descend(record, "s3", "bucket"), descend(record, "s3", "object")
        if read_text(record.get("eventName")).removeprefix("s3:").startswith(_S3_EVENTS):
            yield read_text(bucket.get("name")), unquote_plus(read_text(key.get("key")))
    if payload.get("source") == "aws.s3":
        detail = descend(payload, "detail")
        bucket, key = descend(detail, "bucket"), descend(detail, "object")
        yield read_text(bucket.get("name")), read_text(key.get("key"))


def _reads_object(connection_type: type[BucketConnection], bucket: str, key: str) -> SourceTest:
    def reads(source: SourceConfig) -> bool:
        connection = source.connection
        if isinstance(connection, ArchiveFileConnection):
            connection = connection.object
        return (
            isinstance(connection, connection_type)
            and connection.bucket == bucket
            and key.startswith(connection.prefix)
        )

    return reads


ServiceName = Literal["github", "gitlab", "jira", "confluence", "slack", "s3", "gcs"]


@dataclass(frozen=True, slots=True)
class WebhookService:
    """One service."""

    name: ServiceName
    title: str
    setting: str  # of `serve.webhooks`, what its deliveries are verified with
    headers: tuple[str, ...]  # that a delivery has, for the documentation
    verify: Callable[[Any, bytes, Headers], None]  # raises `Unauthenticated`
    parse: Callable[[Payload, Headers], ServiceEvent]
    id_headers: tuple[str, ...] = ()  # those that name a delivery, the best one first
    dated_by: tuple[str, ...] = ()  # one of these in a body makes it another than any before; none: it is

    def require_genuine(self, settings: WebhookSettings, body: bytes, headers: Headers) -> None:
        """Raise unless a delivery is one of the service's.

        Raises:
            Forbidden: the settings have nothing to verify it with.
            Unauthenticated: it is not.
        """
        expected = getattr(settings, self.setting)
        if expected is None:
            raise Forbidden(f"webhooks of {self.title} are refused: set serve.webhooks.{self.setting}")
        self.verify(expected, body, headers)

    def iter_delivery_keys(self, payload: Payload, body: bytes, headers: Headers) -> Iterator[str]:
        """What identifies a delivery: its id, which no signature covers, and its body.

        A body without a time of its own may be sent for two events, so it identifies nothing; that somebody
        sends it again under another id makes us look once more, and that is all.
        """
        if not self.dated_by or any(name in payload for name in self.dated_by):
            yield f"{self.name} body {hashlib.sha256(body).hexdigest()}"
        if id_ := next((headers[name] for name in self.id_headers if headers.get(name)), None):
            yield f"{self.name} id {id_[:200]}"


SERVICES: tuple[WebhookService, ...] = (
    WebhookService(
        "github",
        "GitHub",
        "github_secret",
        ("X-Hub-Signature-256", "X-GitHub-Event", "X-GitHub-Delivery"),
        lambda secret, body, headers: require_signature(
            secret, "github_secret", body, headers.get("x-hub-signature-256")
        ),
        parse_github_event,
        ("x-github-delivery",),
        ("ref",),
    ),
    WebhookService(
        "gitlab",
        "GitLab",
        "gitlab_token",
        ("X-Gitlab-Token", "X-Gitlab-Event", "X-Gitlab-Event-UUID", "Idempotency-Key"),
        lambda token, body, headers: require_token(token, "gitlab_token", headers.get("x-gitlab-token")),
        parse_gitlab_event,
        ("idempotency-key", "x-gitlab-event-uuid"),
        ("ref",),
    ),
    WebhookService(
        "jira",
        "Jira",
        "jira_secret",
        ("X-Hub-Signature", "Authorization", "X-Atlassian-Webhook-Identifier"),
        lambda secret, body, headers: require_signature_or_bearer(secret, "jira_secret", body, headers),
        parse_jira_event,
        ("x-atlassian-webhook-identifier",),
        ("timestamp",),
    ),
    WebhookService(
        "confluence",
        "Confluence",
        "confluence_secret",
        ("X-Hub-Signature", "Authorization"),
        lambda secret, body, headers: require_signature_or_bearer(secret, "confluence_secret", body, headers),
        parse_confluence_event,
        (),
        ("timestamp",),
    ),
    WebhookService(
        "slack",
        "Slack",
        "slack_secret",
        ("X-Slack-Signature", "X-Slack-Request-Timestamp"),
        require_slack_signature,
        parse_slack_event,
    ),
    WebhookService(
        "s3",
        "S3",
        "s3_token",
        ("Authorization",),
        lambda token, body, headers: require_bearer(token, "s3_token", headers),
        parse_s3_event,
    ),
    WebhookService(
        "gcs",
        "Google Cloud Storage",
        "gcs",
        ("Authorization",),
        lambda settings, body, headers: require_google_token(settings, headers),
        parse_gcs_event,
    ),
)
