"""Pushes of commits that GitHub and GitLab report. GitHub's says when the repository was pushed to."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from knowledge_pipeline.config.connections.repositories import GitConnection
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.serve.webhooks.deliveries import MAX_AGE_S
from knowledge_pipeline.strings import matches_any

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
