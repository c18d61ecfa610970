"""The checked address of a git repository, with its credentials apart."""

from __future__ import annotations

import re
import time
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from knowledge_pipeline.config.connections.repositories import (
    SCP_ADDRESS,
    GitConnection,
    GithubConnection,
    WikiConnection,
    strip_credentials,
)
from knowledge_pipeline.errors import ConfigError, KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.git.command import GitError

FETCH_TIMEOUT_S = 3600.0
_ALLOWED_PROTOCOLS = "file:git:http:https:ssh"
_WIKI_REMEDY = (
    "a wiki is there once its first page is written: write one, correct the connection and its token, or "
    "remove connection.wiki (nothing is deleted meanwhile)"
)
_TRANSPORT_HELPER = re.compile(r"^[A-Za-z0-9+.-]+::")
_HTTP_STATUS = re.compile(r"returned error: (\d{3})")
_TRANSIENT_CLIENT_ERRORS = frozenset({"408", "425", "429"})
_TRANSIENT_FAILURE = re.compile(
    r"could not resolve|temporary failure|connection (?:refused|reset|timed out|closed)|timed out|"
    r"(?:couldn't|failed to|unable to) connect|network is unreachable|no route to host|early eof|rpc failed|"
    r"unexpected disconnect|hung up|too slow|transfer closed|empty reply|broken pipe|no space left|"
    r"cannot lock ref|unable to create .*\.lock",
    re.IGNORECASE,
)
_REFUSED_CREDENTIALS = re.compile(
    r"authentication failed|could not read (?:username|password)", re.IGNORECASE
)
_PERMANENT_FAILURE = re.compile(
    r"authentication failed|could not read (?:username|password)|permission denied|access denied|denied to|"
    r"not found|does not appear to be a git repository|does not exist|not a git repository|no such file|"
    r"host key verification failed|certificate|dubious ownership|not allowed|unable to find remote helper|"
    r"is this a git repository|protocol .* is not supported|invalid|bad port|not exported",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Remote:
    """An address that git understands, free of passwords, and who reads it."""

    url: str
    credentials: str | None = field(default=None, repr=False)  # "user:password", for HTTP
    app: GithubConnection | None = field(default=None, repr=False)  # whose App reads it, in their place
    is_wiki: bool = False

    def build_environment(self, *, sleep: Sleep = time.sleep) -> dict[str, str]:
        """What git is given for one command: the token of an App lasts an hour.

        Raises:
            SourceRefused, SourceUnavailable: GitHub gives no token for the App.
        """
        credentials = self.credentials
        if self.app:
            # Imported here: it brings `requests`, which git does without.
            from knowledge_pipeline.sources.github.client import GithubClient

            client = GithubClient(self.app, sleep=sleep)
            try:
                credentials = f"x-access-token:{client.get_installation_token()}"
            finally:
                client.close()
        return _build_environment(self.url, credentials)

    def forget_credentials(self) -> None:
        """Ask for a new token of an App the next time: git was refused with the one it had."""
        if self.app and self.app.app:
            from knowledge_pipeline.sources.github import installation_tokens as tokens

            owner = self.app.repository.partition("/")[0]
            tokens.forget_installation_token(tokens.build_installation_key(self.app.url, self.app.app, owner))


def build_remote(connection: GitConnection) -> Remote:
    """The checked address of a connection.

    Raises:
        ConfigError: the url would run a program or an option of git, or send a token unencrypted.
    """
    url = connection.url
    if url.startswith("-") or _TRANSPORT_HELPER.match(url) or any(ord(character) < 32 for character in url):
        raise ConfigError(
            f"connection.url {strip_credentials(url)!r} is not allowed: "
            "use https://, ssh://, git://, file://, user@host:path or a path"
        )
    parts = urlsplit(url) if "://" in url else None
    if parts is None:
        if SCP_ADDRESS.match(url) and not Path(url).exists():
            return Remote(url)
        return Remote(str(Path(url).expanduser().absolute()))
    clean, secret = _split_credentials(parts)
    token = connection.token.get_secret_value() if connection.token else None
    secret = f"x-access-token:{token}" if token else secret
    if (secret or connection.app) and not (
        parts.scheme == "https" or parts.hostname in {"localhost", "127.0.0.1", "::1"}
    ):
        raise ConfigError(
            f"connection.url {clean!r} is not https, so that its token would be sent unencrypted: use https"
        )
    app = connection.to_github() if connection.app else None
    return Remote(clean, secret, app, is_wiki=isinstance(connection, WikiConnection))


def to_source_error(remote: Remote, failure: GitError) -> KnowledgeError:
    """The error for a failed fetch: whether a retry may help, and what git reported."""
    message = strip_credentials(failure.stderr.replace(remote.url, "the repository"))
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(?:fatal|error|remote|ssh):", line, re.I)] or lines
    repository, reason = f"git repository {remote.url}", "; ".join(errors[:3])[:500] or "git said nothing"
    if _is_permanent(message, timed_out=failure.timed_out):
        identity = "that connection.app is installed for it" if remote.app else "token"
        if _REFUSED_CREDENTIALS.search(message):
            remote.forget_credentials()
        remedy = _WIKI_REMEDY if remote.is_wiki else f"check connection.url and {identity}"
        return SourceRefused(f"{repository} refuses us or does not exist ({reason}): {remedy}")
    return SourceUnavailable(f"{repository} did not answer as it should ({reason}): try again later")


def may_pass(failure: GitError) -> bool:
    """Whether the same fetch may succeed a moment later: the server is busy or down, or the network is."""
    if failure.timed_out:
        return False  # after an hour
    status = _HTTP_STATUS.search(failure.stderr)
    if status:
        return status[1] in _TRANSIENT_CLIENT_ERRORS or status[1].startswith("5")
    return _TRANSIENT_FAILURE.search(failure.stderr) is not None


def _is_permanent(message: str, *, timed_out: bool) -> bool:
    status = _HTTP_STATUS.search(message)
    if timed_out or status:
        return status is not None and status[1].startswith("4") and status[1] not in _TRANSIENT_CLIENT_ERRORS
    return _TRANSIENT_FAILURE.search(message) is None and _PERMANENT_FAILURE.search(message) is not None


def _split_credentials(url_parts: SplitResult) -> tuple[str, str | None]:
    """The address without its password, and "user:password" if it had one that HTTP would send."""
    if url_parts.scheme not in {"http", "https"} or "@" not in url_parts.netloc:
        return url_parts.geturl(), None
    userinfo, _, host = url_parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    return url_parts._replace(netloc=host).geturl(), f"{unquote(user)}:{unquote(password)}"


def _build_environment(url: str, secret: str | None) -> dict[str, str]:
    allowed = {"GIT_ALLOW_PROTOCOL": _ALLOWED_PROTOCOLS}
    if secret is None:
        return allowed
    parts = urlsplit(url)
    credentials = b64encode(secret.encode()).decode("ascii")
    return allowed | {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{parts.scheme}://{parts.netloc}/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {credentials}",
    }
