"""Webhook deliveries of code hosts: whether they are genuine and new, and which push they report.

GitHub signs the body, but not the delivery's id; GitLab sends a token and signs nothing. So a delivery
counts as known by its id or by its body. Neither says when it was sent: a push of GitHub says when the
repository was pushed to.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from knowledge_pipeline.config.connections import GitConnection
from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.errors import Forbidden, InvalidQuery
from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.store.shared_state import SharedState

CodeHost = Literal["github", "gitlab"]

MAX_BODY_BYTES = 5_000_000  # of a body: a push of two thousand commits
MAX_AGE_S = 3 * 24 * 3600.0  # GitHub gives its own deliveries again for so long

_MAX_DELIVERIES = 10_000
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
    pushed_at_s: float | None  # Unix time

    @property
    def is_too_old(self) -> bool:
        """Whether it is older than any code host would send it."""
        return self.pushed_at_s is not None and time.time() - self.pushed_at_s > MAX_AGE_S

    def is_read_by(self, source: SourceConfig) -> bool:
        """Whether a source reads what was pushed."""
        connection = source.connection
        if not self.matches_repository(source) or not isinstance(connection, GitConnection):
            return False
        if connection.branch is not None:
            return connection.branch == self.branch
        return not self.is_tag and self.default_branch in (None, self.branch)

    def matches_repository(self, source: SourceConfig) -> bool:
        """Whether a source reads the repository by git."""
        connection = source.connection
        return (
            isinstance(connection, GitConnection) and repository_key(connection.url) in self.repository_keys
        )


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


def delivery_keys(code_host: CodeHost, delivery: str | None, body: bytes) -> tuple[str, ...]:
    """The keys that identify a delivery."""
    digest = f"{code_host} body {hashlib.sha256(body).hexdigest()}"
    return (digest, f"{code_host} id {delivery[:200]}") if delivery else (digest,)


def require_signature(secret: str | None, body: bytes, signature: str | None) -> None:
    """Raise `Forbidden` unless GitHub's `X-Hub-Signature-256` is that of the body."""
    if secret is None:
        raise Forbidden("webhooks of GitHub are refused: set serve.webhooks.github_secret")
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), (signature or "").encode("utf-8", "replace")):
        raise Forbidden("the signature is not that of serve.webhooks.github_secret and this body")


def require_token(token: str | None, received: str | None) -> None:
    """Raise `Forbidden` unless GitLab's `X-Gitlab-Token` is the one of the settings."""
    if token is None:
        raise Forbidden("webhooks of GitLab are refused: set serve.webhooks.gitlab_token")
    if not hmac.compare_digest(token.encode(), (received or "").encode("utf-8", "replace")):
        raise Forbidden("the token is not the one of serve.webhooks.gitlab_token")


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


def parse_push(code_host: CodeHost, payload: dict[str, Any]) -> Push:
    """The push that a payload describes.

    Raises:
        InvalidQuery: it names no repository, or nothing that was pushed.
    """
    within, names = _URL_FIELDS[code_host]
    places = [payload.get(within), payload.get("repository")]
    addresses = [place.get(name) for place in places if is_object(place) for name in names]
    keys = {repository_key(address) for address in addresses if isinstance(address, str)} - {None}
    ref = payload.get("ref")
    kind = re.fullmatch(r"refs/(heads|tags)/(.+)", ref, re.DOTALL) if isinstance(ref, str) else None
    if not keys or not kind:
        raise InvalidQuery("the body does not describe a push: it has no repository address, or no ref")
    about = next(place for place in places if is_object(place))
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
