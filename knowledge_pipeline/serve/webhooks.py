"""What forges send when something was pushed: whether it is theirs, whether it is new, and what it means.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from knowledge_pipeline.config.connections import GitConnection
from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.errors import Forbidden, QuestionRefused

Forge = Literal["github", "gitlab"]

MAX_BYTES = 5_000_000  # of a body: a push of two thousand commits
MAX_AGE_S = 3 * 24 * 3600.0  # GitHub gives its own deliveries again for so long

_REMEMBERED = 10_000
_SCP = re.compile(r"^(?:[^/@:\s]+@)?(?P<host>[^/:\s]+|\[[^\]]+\]):(?!//)(?P<path>.+)$")
_ADDRESSES = {
    "github": ("repository", ("clone_url", "ssh_url", "html_url", "git_url")),
    "gitlab": ("project", ("git_http_url", "git_ssh_url", "web_url", "http_url", "ssh_url")),
}


@dataclass(frozen=True, slots=True)
class Push:
    """Commits that came to a branch, or a tag that was set."""

    repository: frozenset[str]  # its addresses, as `repository_key` writes them
    branch: str  # or the tag's name
    tag: bool
    default_branch: str | None
    gone: bool  # the branch was deleted
    pushed_at_s: float | None  # Unix time

    @property
    def too_old(self) -> bool:
        """Whether it is older than any forge would send it."""
        return self.pushed_at_s is not None and time.time() - self.pushed_at_s > MAX_AGE_S

    def read_by(self, source: SourceConfig) -> bool:
        """Whether a source reads what was pushed."""
        connection = source.connection
        if not self.of_repository(source) or not isinstance(connection, GitConnection):
            return False
        if connection.branch is not None:
            return connection.branch == self.branch
        return not self.tag and self.default_branch in (None, self.branch)

    def of_repository(self, source: SourceConfig) -> bool:
        """Whether a source reads the repository by git."""
        connection = source.connection
        return isinstance(connection, GitConnection) and repository_key(connection.url) in self.repository


class Deliveries:
    """The last ten thousand deliveries, by whatever tells them apart."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def known(self, names: Iterable[str]) -> bool:
        """Whether one of the names was seen."""
        return any(name in self._known for name in names)

    def remember(self, names: Iterable[str]) -> None:
        """Know them from now on."""
        self._known.update(dict.fromkeys(names))
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def names_of(forge: Forge, delivery: str | None, body: bytes) -> tuple[str, ...]:
    """What a delivery is known by."""
    digest = f"{forge} body {hashlib.sha256(body).hexdigest()}"
    return (digest, f"{forge} id {delivery[:200]}") if delivery else (digest,)


def require_signed(secret: str | None, body: bytes, signature: str | None) -> None:
    """Raise `Forbidden` unless GitHub's `X-Hub-Signature-256` is that of the body."""
    if secret is None:
        raise Forbidden("webhooks of GitHub are refused: set serve.webhooks.github_secret")
    made = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(made.encode(), (signature or "").encode("utf-8", "replace")):
        raise Forbidden("the signature is not that of serve.webhooks.github_secret and this body")


def require_token(token: str | None, given: str | None) -> None:
    """Raise `Forbidden` unless GitLab's `X-Gitlab-Token` is the one of the settings."""
    if token is None:
        raise Forbidden("webhooks of GitLab are refused: set serve.webhooks.gitlab_token")
    if not hmac.compare_digest(token.encode(), (given or "").encode("utf-8", "replace")):
        raise Forbidden("the token is not the one of serve.webhooks.gitlab_token")


def payload_of(body: bytes, content_type: str) -> dict[str, Any]:
    """What was sent, as JSON or in a form.

    Raises:
        QuestionRefused: it is no JSON object.
    """
    try:
        if content_type.startswith("application/x-www-form-urlencoded"):
            body = parse_qs(body.decode(), max_num_fields=10).get("payload", [""])[0].encode()
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise QuestionRefused("the body is no JSON object: let the webhook send application/json")
    return told


def push_of(forge: Forge, told: dict[str, Any]) -> Push:
    """The push that a payload tells of.

    Raises:
        QuestionRefused: it names no repository or nothing that was pushed.
    """
    within, names = _ADDRESSES[forge]
    places = [told.get(within), told.get("repository")]
    addresses = [place.get(name) for place in places if isinstance(place, dict) for name in names]
    keys = {repository_key(address) for address in addresses if isinstance(address, str)} - {None}
    ref = told.get("ref")
    kind = re.fullmatch(r"refs/(heads|tags)/(.+)", ref, re.DOTALL) if isinstance(ref, str) else None
    if not keys or not kind:
        raise QuestionRefused("the body tells of no push: it has no repository with an address, or no ref")
    about = next(place for place in places if isinstance(place, dict))
    default, pushed_at = about.get("default_branch"), about.get("pushed_at")
    after = told.get("after")
    return Push(
        repository=frozenset(key for key in keys if key),
        branch=kind[2],
        tag=kind[1] == "tags",
        default_branch=default if isinstance(default, str) else None,
        gone=told.get("deleted") is True
        or (isinstance(after, str) and bool(re.fullmatch("0{40,64}", after))),
        pushed_at_s=float(pushed_at) if isinstance(pushed_at, int) and abs(pushed_at) < 1e12 else None,
    )


def reading(push: Push, sources: Sequence[SourceConfig]) -> tuple[SourceConfig, ...]:
    """The sources that read what was pushed."""
    return tuple(source for source in sources if push.read_by(source))


def repository_key(url: str) -> str | None:
    """`host/path` in lower case, however a repository's address is written; None where it has no host."""
    url = url.strip()
    if scp := (None if "://" in url else _SCP.match(url)):
        host, path = scp["host"], scp["path"]
    else:
        try:
            parts = urlsplit(url)
        except ValueError:
            return None
        host, path = parts.hostname or "", unquote(parts.path)
    path = path.strip("/").casefold().removesuffix(".git").rstrip("/")
    return f"{host.strip('[]').casefold()}/{path}" if host and path else None
