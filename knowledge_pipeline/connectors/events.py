"""Events that services send: what they are about, which are genuine, and what those of code hosts share.

Each service's own are in the `events` of its folder. This is all that a server knows of a service, so nothing
here or there opens a source. Every comparison with a secret takes constant time.

Source: https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from knowledge_pipeline.config.connections import GitConnection, GithubConnection, GitlabConnection
from knowledge_pipeline.config.operation import WebhookSettings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import Forbidden, InvalidQuery, Unauthenticated
from knowledge_pipeline.records import PULL_PREFIXES, select_pull_patterns
from knowledge_pipeline.text import list_objects, matches_any

Headers = Mapping[str, str]  # by name in lower case
Payload = dict[str, Any]
SourceTest = Callable[[SourceConfig], bool]

NOTHING_INDEXED = "nothing that is indexed changes by this event"
MAX_AGE_S = 3 * 24 * 3600.0  # GitHub gives its own deliveries again for so long

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


ServiceName = Literal["github", "gitlab", "jira", "confluence", "slack", "s3", "gcs"]


@dataclass(frozen=True, slots=True)
class WebhookService:
    """A service whose webhooks are accepted."""

    name: ServiceName
    title: str
    setting: str  # of `serve.webhooks`, what its deliveries are verified with
    headers: tuple[str, ...]  # that a delivery has, for the documentation
    verify: Callable[[Any, str, bytes, Headers], None]  # by the setting's value and name
    find_changes: Callable[[Payload, Headers], ServiceEvent | Iterable[Change]]
    id_headers: tuple[str, ...] = ()  # those that name a delivery, the best one first
    dated_by: tuple[str, ...] = ()  # one of these in a body makes it another than any before; none: it is

    def require_genuine(self, settings: WebhookSettings, body: bytes, headers: Headers) -> None:
        """Raise Forbidden without anything to verify it with, Unauthenticated unless it is genuine."""
        expected = getattr(settings, self.setting)
        if expected is None:
            raise Forbidden(f"webhooks of {self.title} are refused: set serve.webhooks.{self.setting}")
        self.verify(expected, self.setting, body, headers)

    def parse(self, payload: Payload, headers: Headers) -> ServiceEvent:
        """What an event is about. Raises InvalidQuery: it says that it is a push, and is not."""
        changes = self.find_changes(payload, headers)
        if isinstance(changes, ServiceEvent):
            return changes
        changes = tuple(changes)
        return ServiceEvent(changes, None if changes else NOTHING_INDEXED)

    def iter_delivery_keys(self, payload: Payload, body: bytes, headers: Headers) -> Iterator[str]:
        """What identifies a delivery: its id, which no signature covers, and its body.

        A body without a time of its own may be sent for two events, so it identifies nothing; that somebody
        sends it again under another id makes us look once more, and that is all.
        """
        if not self.dated_by or any(name in payload for name in self.dated_by):
            yield f"{self.name} body {hashlib.sha256(body).hexdigest()}"
        if id_ := next((headers[name] for name in self.id_headers if headers.get(name)), None):
            yield f"{self.name} id {id_[:200]}"


def require_signature(secret: SecretStr, key: str, body: bytes, signature: str | None) -> None:
    """Raise `Unauthenticated` unless a signature `sha256=...` is that of the body."""
    if not is_equal("sha256=" + sign(secret, body), signature):
        raise Unauthenticated(f"the signature is not that of serve.webhooks.{key} and this body")


def require_token(token: SecretStr, key: str, received: str | None) -> None:
    """Raise `Unauthenticated` unless a token is the one of the settings."""
    if not is_equal(token.get_secret_value(), received):
        raise Unauthenticated(f"the token is not the one of serve.webhooks.{key}")


def require_bearer(token: SecretStr, key: str, body: bytes, headers: Headers) -> None:
    """Raise `Unauthenticated` unless `Authorization` has the token of the settings."""
    scheme, _, received = headers.get("authorization", "").partition(" ")
    require_token(token, key, received.strip() if scheme.lower() == "bearer" else None)


def require_signature_or_bearer(secret: SecretStr, key: str, body: bytes, headers: Headers) -> None:
    """As `require_signature`, or the secret itself: rules of Atlassian's automation cannot sign."""
    if "x-hub-signature" in headers:
        require_signature(secret, key, body, headers["x-hub-signature"])
    else:
        require_bearer(secret, key, body, headers)


def sign(secret: SecretStr, content: bytes) -> str:
    """The signature of some content, as hexadecimal digits."""
    return hmac.new(secret.get_secret_value().encode(), content, hashlib.sha256).hexdigest()


def is_equal(expected: str, received: str | None) -> bool:
    """Whether both are the same, in constant time."""
    return hmac.compare_digest(expected.encode(), (received or "").encode("utf-8", "replace"))


def read_text(value: Any) -> str:
    """A text, or a number as text; "" for anything else."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def read_number(value: Any) -> str:
    """A number that is an id, as text; "" for anything else."""
    text = read_text(value)
    return text if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else ""


def is_on_site(source: SourceConfig, facts: Payload) -> bool:
    """Whether a source of Atlassian reads the site that something with an address in `self` is on."""
    try:
        host = urlsplit(read_text(facts.get("self"))).hostname or ""
    except ValueError:
        host = ""
    # the gateway of connections with scoped tokens, which no event names
    return not host or source.connection.host in (host, "api.atlassian.com")


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
        if not isinstance(connection, GitConnection):
            return False
        if repository_key(connection.url) not in self.repository_keys:
            return False
        if not self.is_tag and matches_any(self.branch, source.branches):
            return True
        if connection.branch is not None:
            return connection.branch == self.branch
        return not self.is_tag and self.default_branch in (None, self.branch)

    def to_event(self) -> ServiceEvent | list[Change]:
        """What it changes, or why nothing."""
        if self.is_deleted:
            return ServiceEvent(ignored_reason="the branch was deleted")
        if self.is_too_old:
            return ServiceEvent(ignored_reason="the push is older than three days")
        return [Change(self.is_read_by)]


def parse_push(code_host: CodeHost, payload: Payload) -> Push:
    """The push that a payload describes. Raises InvalidQuery: it names no repository, or nothing pushed."""
    within, names = _URL_FIELDS[code_host]
    holders = list_objects([payload.get(within), payload.get("repository")])
    keys = to_repository_keys(holder.get(name) for holder in holders for name in names)
    ref = payload.get("ref")
    kind = re.fullmatch(r"refs/(heads|tags)/(.+)", ref, re.DOTALL) if isinstance(ref, str) else None
    if not keys or not kind:
        raise InvalidQuery("the body does not describe a push: it has no repository address, or no ref")
    default, pushed_at = holders[0].get("default_branch"), holders[0].get("pushed_at")
    after = payload.get("after")
    return Push(
        repository_keys=keys,
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


def to_repository_keys(addresses: Iterable[object], *, wiki: bool = False) -> frozenset[str]:
    """The keys of addresses, or those of the wikis of their repositories."""
    keys = (repository_key(address) for address in addresses if isinstance(address, str))
    return frozenset(f"{key}.wiki" if wiki else key for key in keys if key)


def find_repository_key(source: SourceConfig) -> str:
    """The repository that a source reads, over git or an API; "" for other sources."""
    match source.connection:
        case GitConnection() as connection:
            return repository_key(connection.url) or ""
        case GithubConnection() | GitlabConnection() as connection:
            return repository_key(connection.location) or ""
        case _:
            return ""


def reads_repository(keys: frozenset[str]) -> Change:
    """A change of every source that reads a repository."""
    return Change(lambda source: find_repository_key(source) in keys)


def iter_document_changes(
    keys: frozenset[str], kind: str, source_type: str, facts: Payload
) -> Iterator[Change]:
    """A change of one document, by its number in the repository."""
    if number := read_number(facts.get("iid") or facts.get("number")):
        yield Change(
            lambda source: source.type == source_type and find_repository_key(source) in keys,
            (f"{kind}/{number}",),
        )


def iter_head_changes(keys: frozenset[str], code_host: CodeHost, facts: Payload) -> Iterator[Change]:
    """A change of the sources that read the head of a pull request as a branch."""
    if number := read_number(facts.get("iid") or facts.get("number")):
        head = PULL_PREFIXES[code_host] + number
        yield Change(
            lambda source: (
                find_repository_key(source) in keys
                and matches_any(head, select_pull_patterns(source.branches))
            )
        )
