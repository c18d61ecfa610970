"""The services whose webhooks are accepted: how each is verified, told apart from a repetition, and read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from knowledge_pipeline.config.operation import WebhookSettings
from knowledge_pipeline.errors import Forbidden
from knowledge_pipeline.serve.webhooks import verification
from knowledge_pipeline.serve.webhooks.atlassian import parse_confluence_event, parse_jira_event
from knowledge_pipeline.serve.webhooks.buckets import parse_gcs_event, parse_s3_event
from knowledge_pipeline.serve.webhooks.code_hosts import parse_github_event, parse_gitlab_event
from knowledge_pipeline.serve.webhooks.events import Payload, ServiceEvent
from knowledge_pipeline.serve.webhooks.slack import parse_slack_event
from knowledge_pipeline.serve.webhooks.verification import Headers

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

        A body without a moment of its own may be sent for two events, so it says nothing; that somebody
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
        lambda secret, body, headers: verification.require_signature(
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
        lambda token, body, headers: verification.require_token(
            token, "gitlab_token", headers.get("x-gitlab-token")
        ),
        parse_gitlab_event,
        ("idempotency-key", "x-gitlab-event-uuid"),
        ("ref",),
    ),
    WebhookService(
        "jira",
        "Jira",
        "jira_secret",
        ("X-Hub-Signature", "Authorization", "X-Atlassian-Webhook-Identifier"),
        lambda secret, body, headers: verification.require_signature_or_bearer(
            secret, "jira_secret", body, headers
        ),
        parse_jira_event,
        ("x-atlassian-webhook-identifier",),
        ("timestamp",),
    ),
    WebhookService(
        "confluence",
        "Confluence",
        "confluence_secret",
        ("X-Hub-Signature", "Authorization"),
        lambda secret, body, headers: verification.require_signature_or_bearer(
            secret, "confluence_secret", body, headers
        ),
        parse_confluence_event,
        (),
        ("timestamp",),
    ),
    WebhookService(
        "slack",
        "Slack",
        "slack_secret",
        ("X-Slack-Signature", "X-Slack-Request-Timestamp"),
        verification.require_slack_signature,
        parse_slack_event,
    ),
    WebhookService(
        "s3",
        "S3",
        "s3_token",
        ("Authorization",),
        lambda token, body, headers: verification.require_bearer(token, "s3_token", headers),
        parse_s3_event,
    ),
    WebhookService(
        "gcs",
        "Google Cloud Storage",
        "gcs",
        ("Authorization",),
        lambda settings, body, headers: verification.require_google_token(settings, headers),
        parse_gcs_event,
    ),
)
