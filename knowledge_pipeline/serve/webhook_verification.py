"""Deliveries of webhooks: whether they are genuine and new, and what events and pushes are.

Every comparison with a secret takes constant time.

Sources: https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries,
https://docs.slack.dev/authentication/verifying-requests-from-slack,
https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import SecretStr

from knowledge_pipeline.config.connections import GitConnection
from knowledge_pipeline.config.operation import GcsPushSettings, OidcSettings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import InvalidQuery, Unauthenticated
from knowledge_pipeline.store.local_state import SharedState
from knowledge_pipeline.text import is_list, is_object, matches_any

if TYPE_CHECKING:
    from knowledge_pipeline.serve.oidc import JwtVerifier


Headers = Mapping[str, str]  # by name in lower case

SLACK_TOLERANCE_S = 300.0


def require_signature(secret: SecretStr, key: str, body: bytes, signature: str | None) -> None:
    """Raise `Unauthenticated` unless a signature `sha256=...` is that of the body."""
    if not _equals("sha256=" + _sign(secret, body), signature):
        raise Unauthenticated(f"the signature is not that of serve.webhooks.{key} and this body")


def require_token(token: SecretStr, key: str, received: str | None) -> None:
    """Raise `Unauthenticated` unless a token is the one of the settings."""
    if not _equals(token.get_secret_value(), received):
        raise Unauthenticated(f"the token is not the one of serve.webhooks.{key}")


def require_bearer(token: SecretStr, key: str, headers: Headers) -> None:
    """Raise `Unauthenticated` unless `Authorization` has the token of the settings."""
    scheme, _, received = headers.get("authorization", "").partition(" ")
    require_token(token, key, received.strip() if scheme.lower() == "bearer" else None)


def require_signature_or_bearer(secret: SecretStr, key: str, body: bytes, headers: Headers) -> None:
    """Raise `Unauthenticated` unless the body is signed, as webhooks do, or the secret itself is sent.

    Rules of Atlassian's automation cannot sign what they send.
    """
    if "x-hub-signature" in headers:
        require_signature(secret, key, body, headers["x-hub-signature"])
    else:
        require_bearer(secret, key, headers)


def require_slack_signature(secret: SecretStr, body: bytes, headers: Headers) -> None:
    """Raise `Unauthenticated` unless Slack signed the body within the last five minutes."""
    stamp = headers.get("x-slack-request-timestamp", "")
    is_time = stamp.isascii() and stamp.isdecimal() and len(stamp) <= 12
    if not is_time or abs(time.time() - int(stamp)) > SLACK_TOLERANCE_S:
        raise Unauthenticated("the delivery has no time of the last five minutes: see this machine's clock")
    expected = "v0=" + _sign(secret, b"v0:" + stamp.encode() + b":" + body)
    if not _equals(expected, headers.get("x-slack-signature")):
        raise Unauthenticated("the signature is not that of serve.webhooks.slack_secret and this body")


def require_google_token(settings: GcsPushSettings, headers: Headers) -> None:
    """Raise `Unauthenticated` unless a token of Google names the audience and the service account.

    Waits for Google's keys, where they are not known yet.

    Raises:
        IdentityUnavailable: they cannot be had now.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    try:
        if scheme.lower() != "bearer":
            raise Unauthenticated("there is no token")
        claims = _build_verifier(settings.issuer, settings.audience).verify_access_token(token.strip())
    except Unauthenticated:
        raise Unauthenticated(
            "the delivery has no token of Google's for serve.webhooks.gcs.audience"
        ) from None
    is_account = _equals(settings.service_account, str(claims.get("email", "")))
    if not is_account or claims.get("email_verified") is not True:
        raise Unauthenticated("the token is not of the account in serve.webhooks.gcs.service_account")


@lru_cache(maxsize=4)
def _build_verifier(issuer: str, audience: str) -> JwtVerifier:
    from knowledge_pipeline.serve.oidc import IdentityProvider, JwtVerifier

    # nobody signs in here: only the keys of the issuer are asked for
    settings = OidcSettings(issuer=issuer, client_id=audience, public_url="https://localhost")
    return JwtVerifier(settings, IdentityProvider(settings))


def _sign(secret: SecretStr, content: bytes) -> str:
    return hmac.new(secret.get_secret_value().encode(), content, hashlib.sha256).hexdigest()


def _equals(expected: str, received: str | None) -> bool:
    return hmac.compare_digest(expected.encode(), (received or "").encode("utf-8", "replace"))


MAX_BODY_BYTES = 5_000_000  # of a body: a push of two thousand commits
MAX_AGE_S = 3 * 24 * 3600.0  # GitHub gives its own deliveries again for so long

_MAX_DELIVERIES = 10_000


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


def parse_payload(body: bytes, content_type: str) -> dict[str, Any]:
    """The payload of a delivery, sent as JSON or in a form.

    Raises:
        InvalidQuery: it is not a JSON object.
    """
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


CodeHost = Literal["github", "gitlab"]

_SCP_URL = re.compile(r"^(?:[^/@:\s]+@)?(?P<host>[^/:\s]+|\[[^\]]+\]):(?!//)(?P<path>.+)$")
_URL_FIELDS = {
    "github": ("repository", ("clone_url", "ssh_url", "html_url", "git_url")),
    "gitlab": ("project", ("git_http_url", "git_ssh_url", "web_url", "http_url", "ssh_url")),
}


@dataclass(frozen=True, slots=True)
class Push:
    """A push of commits to a branch, or of a tag."""

    repository_keys: frozenset[str]  # its addresses, as `repository_key` writes them
    branch: str  # or the tag's name
    is_tag: bool
    default_branch: str | None
    is_deleted: bool  # the branch was deleted
    pushed_at_s: float | None  # Unix time; GitHub alone says it

    @property
    def is_too_old(self) -> bool:
        """Whether it is older than any code host would send it."""
        return self.pushed_at_s is not None and time.time() - self.pushed_at_s > MAX_AGE_S

    def is_read_by(self, source: SourceConfig) -> bool:
        """Whether a source reads what was pushed."""
        connection = source.connection
        if not self.matches_repository(source) or not isinstance(connection, GitConnection):
            return False
        if not self.is_tag and matches_any(self.branch, source.branches):
            return True
        if connection.branch is not None:
            return connection.branch == self.branch
        return not self.is_tag and self.default_branch in (None, self.branch)

    def matches_repository(self, source: SourceConfig) -> bool:
        """Whether a source reads the repository by git."""
        connection = source.connection
        return (
            isinstance(connection, GitConnection) and repository_key(connection.url) in self.repository_keys
        )


def parse_push(code_host: CodeHost, payload: dict[str, Any]) -> Push:
    """The push that a payload describes.

    Raises:
        InvalidQuery: it names no repository, or nothing that was pushed.
    """
    within, names = _URL_FIELDS[code_host]
    holders = [payload.get(within), payload.get("repository")]
    addresses = [holder.get(name) for holder in holders if is_object(holder) for name in names]
    keys = {repository_key(address) for address in addresses if isinstance(address, str)} - {None}
    ref = payload.get("ref")
    kind = re.fullmatch(r"refs/(heads|tags)/(.+)", ref, re.DOTALL) if isinstance(ref, str) else None
    if not keys or not kind:
        raise InvalidQuery("the body does not describe a push: it has no repository address, or no ref")
    about = next(holder for holder in holders if is_object(holder))
    default, pushed_at = about.get("default_branch"), about.get("pushed_at")
    after = payload.get("after")
    return Push(
        repository_keys=frozenset(key for key in keys if key),
        branch=kind[2],
        is_tag=kind[1] == "tags",
        default_branch=default if isinstance(default, str) else None,
        is_deleted=payload.get("deleted") is True
        or (isinstance(after, str) and bool(re.fullmatch("0{40,64}", after))),
        pushed_at_s=float(pushed_at) if isinstance(pushed_at, int) and abs(pushed_at) < 1e12 else None,
    )


def repository_key(url: str) -> str | None:
    """`host/path` in lower case, however a repository's address is written; None where it has no host."""
    url = url.strip()
    if scp := (None if "://" in url else _SCP_URL.match(url)):
        host, path = scp["host"], scp["path"]
    else:
        try:
            parts = urlsplit(url)
        except ValueError:
            return None
        host, path = parts.hostname or "", unquote(parts.path)
    path = path.strip("/").casefold().removesuffix(".git").rstrip("/")
    return f"{host.strip('[]').casefold()}/{path}" if host and path else None


Payload = dict[str, Any]
SourceTest = Callable[[SourceConfig], bool]

NOTHING_INDEXED = "nothing that is indexed changes by this event"

_NOT_OF_KINDS = re.compile(r"[^A-Za-z0-9_:. -]")
_MAX_KIND_CHARS = 60
_MAX_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Change:
    """Documents of some sources that may be new, changed, hidden or gone."""

    is_of: SourceTest
    documents: tuple[str, ...] = ()  # uris, or "FOLDER/*"; none: the source as a whole
    relist: bool = False  # a whole source whose deletions have to be seen


@dataclass(frozen=True, slots=True)
class ServiceEvent:
    """One event, after its signature was checked: which sources it is about, and which of their documents.

    It is a reason to look, nothing more: no word of it is indexed, and what it names is read from the
    service. So it does not matter in which order events arrive, whether one comes twice, or whether it lies.
    """

    changes: tuple[Change, ...] = ()
    ignored_reason: str | None = None  # why it changes nothing
    challenge: str | None = None  # what the service wants to read in the answer

    @classmethod
    def of(cls, changes: Iterable[Change]) -> ServiceEvent:
        """An event of some changes, which are none for an event that does not matter."""
        changes = tuple(changes)
        return cls(changes, None if changes else NOTHING_INDEXED)


def find_kind(payload: Payload, headers: Headers) -> str:
    """What the service calls the kind of an event: `push`, `jira:issue_updated`; "" where it says nothing."""
    records = list_objects(payload.get("Records"))[:1]
    names: list[Any] = [
        headers.get("x-github-event"),
        *(
            payload.get(name)
            for name in ("object_kind", "event_name", "webhookEvent", "event", "detail-type")
        ),
        descend(payload, "event").get("type"),
        *(record.get("eventName") for record in records),
        descend(payload, "message", "attributes").get("eventType"),
    ]
    kind = next((name for name in map(read_text, names) if name), "")
    return _NOT_OF_KINDS.sub("", kind)[:_MAX_KIND_CHARS]


def descend(value: Any, *names: str) -> Payload:
    """The object within objects at these names; an empty one where there is none."""
    for name in names:
        value = value.get(name) if is_object(value) else None
    return value if is_object(value) else {}


def list_objects(value: Any) -> list[Payload]:
    """The objects of a list; none where there is no list."""
    return [item for item in value if is_object(item)] if is_list(value) else []


def read_text(value: Any) -> str:
    """A text, or a number as text; "" for anything else."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def read_number(value: Any) -> str:
    """A number that is an id, as text; "" for anything else."""
    text = read_text(value)
    return text if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else ""
