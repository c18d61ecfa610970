"""What the fakes of services send to webhooks: a body, signed as each service signs it.

The bodies are in `events.py` beside each fake; a delivery is posted as it is, or changed by a test before.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request to a webhook."""

    service: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def with_headers(self, **headers: str) -> Delivery:
        """With other headers; underscores stand for hyphens."""
        return replace(self, headers={**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}})

    def post(self, url: str, client: Any = httpx2) -> Any:
        """The answer of a server at an address."""
        headers = {"Content-Type": "application/json", **self.headers}
        return client.post(f"{url}/webhooks/{self.service}", content=self.body, headers=headers)


def hex_signature(secret: str, content: bytes) -> str:
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def sign_github(secret: str, event: str, payload: Json) -> Delivery:
    """https://docs.github.com/webhooks/webhook-events-and-payloads#delivery-headers."""
    body = json.dumps(payload).encode()
    names = {"X-GitHub-Event": event, "X-GitHub-Delivery": str(uuid.uuid4())}
    return Delivery("github", body, names | {"X-Hub-Signature-256": f"sha256={hex_signature(secret, body)}"})


def sign_gitlab(secret: str, event: str, payload: Json) -> Delivery:
    """https://docs.gitlab.com/user/project/integrations/webhooks/#delivery-headers."""
    names = {"X-Gitlab-Token": secret, "X-Gitlab-Event": event, "Idempotency-Key": str(uuid.uuid4())}
    return Delivery("gitlab", json.dumps(payload).encode(), names)


def sign_jira(secret: str, event: str, payload: Json) -> Delivery:
    """https://developer.atlassian.com/cloud/jira/platform/webhooks/#secure-admin-webhooks."""
    body = json.dumps({"timestamp": _now_ms(), "webhookEvent": event, **payload}).encode()
    names = {"X-Atlassian-Webhook-Identifier": str(uuid.uuid4())}
    return Delivery("jira", body, names | {"X-Hub-Signature": f"sha256={hex_signature(secret, body)}"})


def sign_confluence(secret: str, event: str, payload: Json) -> Delivery:
    """https://confluence.atlassian.com/doc/managing-webhooks-1021225606.html."""
    body = json.dumps({"timestamp": _now_ms(), "event": event, **payload}).encode()
    return Delivery("confluence", body, {"X-Hub-Signature": f"sha256={hex_signature(secret, body)}"})


def sign_slack(secret: str, event: str, payload: Json, *, at_s: float | None = None) -> Delivery:
    """https://docs.slack.dev/authentication/verifying-requests-from-slack."""
    envelope = {"type": "event_callback", "team_id": "T1", "event_id": f"Ev{uuid.uuid4().hex[:9].upper()}"}
    told = payload if payload.get("type") == "url_verification" else {**envelope, "event": payload}
    told = {**told, "authorizations": [{"team_id": "T1", "user_id": "UBOT", "is_bot": True}]}
    body, stamp = json.dumps(told).encode(), str(int(at_s or time.time()))
    signature = hex_signature(secret, b"v0:" + stamp.encode() + b":" + body)
    names = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={signature}"}
    return Delivery("slack", body, names)


def sign_s3(secret: str, event: str, payload: Json) -> Delivery:
    """As MinIO's webhook target sends it with `auth_token`, and EventBridge with a header of its own."""
    return Delivery("s3", json.dumps(payload).encode(), {"Authorization": f"Bearer {secret}"})


def sign_gcs(token: str, event: str, payload: Json) -> Delivery:
    """https://cloud.google.com/pubsub/docs/push#receive_push; the token is the account's."""
    return Delivery("gcs", json.dumps(payload).encode(), {"Authorization": f"Bearer {token}"})


SIGN: Mapping[str, Callable[[str, str, Json], Delivery]] = {
    "github": sign_github,
    "gitlab": sign_gitlab,
    "jira": sign_jira,
    "confluence": sign_confluence,
    "slack": sign_slack,
    "s3": sign_s3,
    "gcs": sign_gcs,
}
"""By service: a delivery from its secret, the event's name and the body."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
