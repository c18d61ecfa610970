"""The services whose webhooks are accepted, and deliveries: how they are read, and told from repetitions.

Events of buckets are here: those of a service are in `connectors/SERVICE/events.py`. The token of Pub/Sub is
verified as https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions says.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote_plus

from knowledge_pipeline.config.connections import (
    ArchiveFileConnection,
    BucketConnection,
    GcsConnection,
    S3Connection,
)
from knowledge_pipeline.config.operation import GcsPushSettings, OidcSettings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.confluence.events import SERVICE as CONFLUENCE
from knowledge_pipeline.connectors.events import (
    MAX_AGE_S,
    Change,
    Headers,
    Payload,
    WebhookService,
    is_equal,
    read_text,
    require_bearer,
)
from knowledge_pipeline.connectors.github.events import SERVICE as GITHUB
from knowledge_pipeline.connectors.gitlab.events import SERVICE as GITLAB
from knowledge_pipeline.connectors.jira.events import SERVICE as JIRA
from knowledge_pipeline.connectors.slack.events import SERVICE as SLACK
from knowledge_pipeline.errors import InvalidQuery, Unauthenticated
from knowledge_pipeline.store.local_state import SharedState
from knowledge_pipeline.text import descend, is_object, list_objects

if TYPE_CHECKING:
    from knowledge_pipeline.serve.oidc import JwtVerifier

MAX_BODY_BYTES = 5_000_000  # of a body: a push of two thousand commits

_MAX_DELIVERIES = 10_000
_NOT_OF_KINDS = re.compile(r"[^A-Za-z0-9_:. -]")
_MAX_KIND_CHARS = 60
_S3_EVENTS = ("ObjectCreated:", "ObjectRemoved:", "ObjectRestore:", "LifecycleExpiration:")
_GCS_EVENTS = ("OBJECT_FINALIZE", "OBJECT_DELETE", "OBJECT_ARCHIVE")


class SeenDeliveries:
    """The keys of the last ten thousand deliveries."""

    def __init__(self, state: SharedState | None = None) -> None:
        """Remember none; with a `state`, those of all workers count."""
        self._state = state
        self._seen: OrderedDict[str, None] = OrderedDict()

    def has_seen(self, keys: Iterable[str]) -> bool:
        """Whether one of the keys was seen."""
        if self._state:
            return any(self._state.get("delivery", name) is not None for name in keys)
        return any(name in self._seen for name in keys)

    def remember(self, keys: Iterable[str]) -> None:
        """Remember the keys, and forget the oldest ones."""
        if self._state:
            for name in keys:
                self._state.put("delivery", name, b"", ttl_s=MAX_AGE_S)
            return
        self._seen.update(dict.fromkeys(keys))
        while len(self._seen) > _MAX_DELIVERIES:
            self._seen.popitem(last=False)


def parse_payload(body: bytes, content_type: str) -> Payload:
    """The payload of a delivery, sent as JSON or in a form. Raises InvalidQuery: it is not a JSON object."""
    try:
        if content_type.startswith("application/x-www-form-urlencoded"):
            body = parse_qs(body.decode(), max_num_fields=10).get("payload", [""])[0].encode()
        payload = json.loads(body)
    except (ValueError, RecursionError):
        payload = None
    if not is_object(payload):
        raise InvalidQuery(
            "the body is not a JSON object: set the webhook's content type to application/json"
        )
    return payload


def find_kind(payload: Payload, headers: Headers) -> str:
    """What the service calls the kind of an event: `push`, `jira:issue_updated`; "" where it says nothing."""
    keys = ("object_kind", "event_name", "webhookEvent", "event", "detail-type")
    names: list[Any] = [
        headers.get("x-github-event"),
        *map(payload.get, keys),
        descend(payload, "event").get("type"),
        *(record.get("eventName") for record in list_objects(payload.get("Records"))[:1]),
        descend(payload, "message", "attributes").get("eventType"),
    ]
    kind = next((name for name in map(read_text, names) if name), "")
    return _NOT_OF_KINDS.sub("", kind)[:_MAX_KIND_CHARS]


def _find_s3_changes(payload: Payload, headers: Headers) -> Iterator[Change]:
    """The objects of a notification of S3 or MinIO, or of an event that EventBridge passes on.

    Their source is refreshed as a whole: one call lists a thousand objects of a bucket.

    Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html,
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html,
    https://min.io/docs/minio/linux/administration/monitoring/publish-events-to-webhook.html
    """
    for record in list_objects(payload.get("Records")):
        if read_text(record.get("eventName")).removeprefix("s3:").startswith(_S3_EVENTS):
            facts = descend(record, "s3")
            key = unquote_plus(read_text(descend(facts, "object").get("key")))
            yield from _iter_object_changes(S3Connection, descend(facts, "bucket").get("name"), key)
    if payload.get("source") == "aws.s3":
        facts = descend(payload, "detail")
        key = read_text(descend(facts, "object").get("key"))
        yield from _iter_object_changes(S3Connection, descend(facts, "bucket").get("name"), key)


def _find_gcs_changes(payload: Payload, headers: Headers) -> Iterator[Change]:
    """The object of a message of Pub/Sub: https://cloud.google.com/storage/docs/pubsub-notifications."""
    facts = descend(payload, "message", "attributes")
    if facts.get("eventType") in _GCS_EVENTS:
        key = read_text(facts.get("objectId"))
        yield from _iter_object_changes(GcsConnection, facts.get("bucketId"), key)


def _iter_object_changes(
    connection_type: type[BucketConnection], bucket_name: Any, key: str
) -> Iterator[Change]:
    """A change of the sources that read an object; none without the name of its bucket."""
    bucket = read_text(bucket_name)

    def reads(source: SourceConfig) -> bool:
        connection = source.connection
        if isinstance(connection, ArchiveFileConnection):
            connection = connection.object
        if not isinstance(connection, connection_type) or connection.bucket != bucket:
            return False
        return key.startswith(connection.prefix)

    if bucket:
        yield Change(reads)


def _require_google_token(settings: GcsPushSettings, key: str, body: bytes, headers: Headers) -> None:
    """Raise `Unauthenticated` unless a token of Google names the audience and the service account.

    Waits for Google's keys, where they are not known yet; IdentityUnavailable: they cannot be had now.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    try:
        if scheme.lower() != "bearer":
            raise Unauthenticated("there is no token")
        claims = _build_verifier(settings.issuer, settings.audience).verify_bearer_token(token.strip())
    except Unauthenticated:
        raise Unauthenticated(
            f"the delivery has no token of Google's for serve.webhooks.{key}.audience"
        ) from None
    is_account = is_equal(settings.service_account, str(claims.get("email", "")))
    if not is_account or claims.get("email_verified") is not True:
        raise Unauthenticated(f"the token is not of the account in serve.webhooks.{key}.service_account")


@lru_cache(maxsize=4)
def _build_verifier(issuer: str, audience: str) -> JwtVerifier:
    from knowledge_pipeline.serve.oidc import IdentityProvider, JwtVerifier

    # nobody signs in here: only the keys of the issuer are asked for
    settings = OidcSettings(issuer=issuer, client_id=audience, public_url="https://localhost")
    return JwtVerifier(settings, IdentityProvider(settings))


_S3 = WebhookService("s3", "S3", "s3_token", ("Authorization",), require_bearer, _find_s3_changes)
_GCS = WebhookService(
    "gcs", "Google Cloud Storage", "gcs", ("Authorization",), _require_google_token, _find_gcs_changes
)
SERVICES: tuple[WebhookService, ...] = (GITHUB, GITLAB, JIRA, CONFLUENCE, SLACK, _S3, _GCS)
