"""GitHub's GraphQL API (docs/decisions/connectors.md), through PyGithub, and the errors of its refusals.

PyGithub's requester knows the address and the identity. `http_retry` alone retries: PyGithub's own
retries and pauses are off. All sources of this process, and git, share the tokens of a GitHub App's
installations: one token lasts an hour and reads all repositories of its installation.

Source: https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from knowledge_pipeline.config.connections import GithubApp, GithubConnection, to_github_web_url
from knowledge_pipeline.config.organisations import GithubOrganisationConnection
from knowledge_pipeline.connectors.conversations import QueryTooLarge
from knowledge_pipeline.connectors.download import Downloader
from knowledge_pipeline.connectors.http_retry import (
    MAX_ATTEMPTS,
    TIMEOUT_S,
    format_retries_exhausted,
    mount_retries,
    shorten_reason,
    to_source_error,
    wait_or_raise,
)
from knowledge_pipeline.connectors.permissions import CodeHostClient
from knowledge_pipeline.errors import KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.text import is_object
from knowledge_pipeline.times import parse_retry_after

if TYPE_CHECKING:
    import github
    from github.Requester import Requester

RATE_LIMIT_FIELDS = "rateLimit { cost remaining resetAt }"
"""A part of every query: the client waits by it before the quota is spent."""

GraphqlError = Mapping[str, Any]  # `type`, `message`, `path`, `extensions`

_RATE_LIMIT_TYPES = frozenset({"RATE_LIMITED", "RATE_LIMIT"})
_TOO_LARGE_TYPES = frozenset({"MAX_NODE_LIMIT_EXCEEDED", "RESOURCE_LIMITS_EXCEEDED"})
_TIMEOUT_HINTS = ("something went wrong", "timeout", "timed out", "loading")  # without a type
_PERMISSIONS_REMEDY = "give it the permissions that docs/sources/github.md names"
_SECONDARY_LIMIT_WAIT_S = 60.0  # GitHub's advice where a limit comes without a time
_RENEW_BEFORE_S = 300.0
_RETRY_FAILED_S = 10.0  # until then, all who wait for the token get the same failure


@dataclass(frozen=True, slots=True)
class GraphqlResponse:
    """The response to a query; `errors` concern parts of it, by their `path`."""

    data: dict[str, Any]
    errors: tuple[GraphqlError, ...] = ()


class GithubClient(CodeHostClient):
    """The API of one repository, or of what an organisation lists.

    A refusal is an HTTP status, or the `errors` of a GraphQL response of status 200, which may come with all,
    some or none of the data. Its message holds no secret: GitHub does not repeat them.
    """

    def __init__(self, connection: GithubConnection | GithubOrganisationConnection) -> None:
        # Files without our token, which GitHub does not take there, and with which whoever writes in the
        # repository could have files of other repositories read.
        site = urlsplit(to_github_web_url(connection.url)).hostname
        downloader = Downloader(f"GitHub at {site}", ())
        super().__init__(f"GitHub at {urlsplit(connection.url).hostname}", downloader)
        is_repository = isinstance(connection, GithubConnection)
        repository = connection.repository if is_repository else connection.owner
        self.owner, _, self.name = (repository or "").partition("/")
        self._repository = connection.repository if is_repository else connection.location
        self._identity = "app" if connection.app else "token"
        self._connection = connection
        self._requester: Requester | None = None
        self._requesters: list[Requester] = []
        self._session = mount_retries(requests.Session(), self.service)
        self._limit: Mapping[str, Any] | None = None  # of the last response

    def close(self) -> None:
        """Close the connections; a later query opens new ones."""
        super().close()
        for requester in self._requesters:
            requester.close()
        self._requesters.clear()
        self._requester = None

    def execute(
        self, query: str, variables: Mapping[str, Any], *, can_split: bool = False
    ) -> GraphqlResponse:
        """The response to a query with `RATE_LIMIT_FIELDS` in it. Raises QueryTooLarge: it takes too long.

        With `can_split` the caller can send smaller queries, so that a timeout is not retried.
        """
        for _ in range(MAX_ATTEMPTS):
            # wait for the next hour's points: GitHub bans clients that go on without any
            if (limit := self._limit) and int(limit["remaining"]) < int(limit["cost"]):
                self._limit = None
                wait_s = parse_retry_after(str(limit["resetAt"])) or 0.0
                wait_or_raise(self.service, wait_s)
            if (answer := self._execute_once(query, variables, can_split=can_split)) is not None:
                return answer
        raise self.unavailable("limits our calls")

    def get_page(self, path: str, parameters: Mapping[str, Any] | None = None) -> tuple[Any, bool]:
        """The JSON at a path of the REST API, or 403 or 404; and whether another page follows."""
        import github

        for _ in range(MAX_ATTEMPTS):
            try:
                headers, body = self._request("GET", path, frozenset(), parameters=dict(parameters or {}))
                return body, 'rel="next"' in headers.get("link", "")
            except github.GithubException as error:
                headers = error.headers or {}
                if error.status == 429 or isinstance(error, github.RateLimitExceededException):
                    self._wait_for_limit(headers.get("retry-after") or headers.get("x-ratelimit-reset"))
                elif error.status in (403, 404):
                    return error.status, False
                else:
                    raise self._to_source_error(error) from None
        raise self.unavailable("limits our calls")

    def get_installation_token(self) -> str:
        """The token that the connection's App reads with now. Raises as `execute`."""
        return self._open_requester().auth.token  # pyright: ignore[reportOptionalMemberAccess]

    def _execute_once(
        self, query: str, variables: Mapping[str, Any], *, can_split: bool
    ) -> GraphqlResponse | None:
        """The response; None: a limit was waited for, try again."""
        import github

        payload = {"query": query, "variables": dict(variables)}
        no_retry_statuses = frozenset({502, 504}) if can_split else frozenset[int]()
        graphql_url = self._open_requester().graphql_url
        body: Any
        try:
            headers, body = self._request("POST", graphql_url, no_retry_statuses, input=payload)
        except github.GithubException as error:
            if error.status != 429 and not isinstance(error, github.RateLimitExceededException):
                raise self._to_source_error(error) from None
            # stated in words alone: becomes an error as GraphQL has it
            headers, body = error.headers or {}, {"errors": [{"type": "RATE_LIMITED"}]}
        if not is_object(body) or not isinstance(body.get("data", {}), dict | None):
            raise self._api_not_found()  # a web page
        errors = tuple(body.get("errors") or ())
        if any(error.get("type") in _RATE_LIMIT_TYPES for error in errors):
            spent = headers.get("x-ratelimit-remaining") == "0"  # else it is the secondary limit
            reset = headers.get("x-ratelimit-reset") if spent else None
            self._wait_for_limit(headers.get("retry-after") or reset)
            return None
        if not body.get("data"):
            raise self.from_graphql_errors(errors) if errors else self._api_not_found()
        self._limit = body["data"].get("rateLimit")
        return GraphqlResponse(body["data"], errors)

    def _request(
        self, method: str, path: str, no_retry_statuses: frozenset[int], **content: Any
    ) -> tuple[Mapping[str, str], Any]:
        """Headers (lower case) and body; tried again, but for these statuses. Raises GithubException, too."""
        try:
            requester = self._open_requester()
            adapter: Any = self._session.get_adapter(requester.graphql_url)
            adapter.no_retry_statuses = no_retry_statuses
            return requester.requestJsonAndCheck(method, path, **content)
        except requests.RequestException as error:
            raise to_source_error(self.service, error) from None
        except (ValueError, RuntimeError, AssertionError):  # no JSON, or led to another host
            raise self._api_not_found() from None

    def _wait_for_limit(self, wait: str | None) -> None:
        wait_or_raise(self.service, parse_retry_after(wait or "") or _SECONDARY_LIMIT_WAIT_S)

    def _open_requester(self) -> Requester:
        if self._requester is None:
            import github

            # at DEBUG it would log the answer that holds an installation's token
            logging.getLogger("github.Requester").setLevel(logging.INFO)
            if self._connection.token:
                auth: github.Auth.Auth = github.Auth.Token(self._connection.token.get_secret_value())
            elif self._connection.app:
                auth = self._build_installation_auth(self._connection.app)
            else:  # GraphQL answers no anonymous queries
                raise SourceRefused(
                    f"{self.service} answers these queries only from authenticated callers, for public "
                    "repositories too: set connection.token or connection.app"
                )
            self._requester = self._use_session(github.Github(auth=auth, **self._client_options()).requester)
        return self._requester

    def _client_options(self) -> dict[str, Any]:
        return {
            "base_url": self._connection.url,
            "timeout": int(TIMEOUT_S),
            "retry": 0,
            "seconds_between_requests": None,
            "seconds_between_writes": None,  # a query is posted, yet writes nothing
            "lazy": True,
        }

    def _use_session(self, requester: Requester) -> Requester:
        """The requester, sending through our session.

        PyGithub takes another connection class only for all its requesters at once, and opens a new
        connection for each call then; so the attribute that holds it is set on this one.
        """
        from github.Requester import HTTPSRequestsConnectionClass

        session, scheme = self._session, requester.scheme

        class SessionConnection(HTTPSRequestsConnectionClass):
            def __init__(self, host: str, port: int | None = None, **options: Any) -> None:
                super().__init__(host, port or (443 if scheme == "https" else 80), **options)
                self.protocol = scheme
                self.session.close()
                session.auth = self.session.auth  # no .netrc is read
                self.session = session

        requester._Requester__connectionClass = SessionConnection  # type: ignore[attr-defined]
        self._requesters.append(requester)
        return requester

    def _build_installation_auth(self, app: GithubApp) -> github.Auth.Auth:
        """An App's identity where it is installed; its tokens are renewed in time."""
        import github

        key = _build_installation_key(self._connection.url, app, self.owner)
        grant = partial(self._grant_token, app)

        class InstallationAuth(github.Auth.Auth):
            @property
            def token_type(self) -> str:
                return "token"

            @property
            def token(self) -> str:
                return get_installation_token(key, grant)

        return InstallationAuth()

    def _grant_token(self, app: GithubApp) -> tuple[str, float]:
        """A new token of the App's installation, and the time of its end."""
        import github
        from jwt.exceptions import PyJWTError

        try:
            signed = github.Auth.AppAuth(app.id, app.private_key.get_secret_value())
            integration = github.GithubIntegration(auth=signed, **self._client_options())
            self._use_session(integration.requester)
            if app.installation_id:
                installation_id = app.installation_id
            elif isinstance(self._connection, GithubConnection):
                installation_id = integration.get_repo_installation(self.owner, self.name).id
            elif self._connection.organisation:
                installation_id = integration.get_org_installation(self.owner).id
            else:
                installation_id = integration.get_user_installation(self.owner).id
            granted = integration.get_access_token(installation_id)
            return granted.token, granted.expires_at.timestamp()
        except github.GithubException as error:
            if error.status == 401:
                raise SourceRefused(
                    f"{self.service} does not accept the App: "
                    "connection.app.id and connection.app.private_key do not belong together"
                ) from None
            if error.status in (403, 404):
                raise SourceRefused(
                    f"{self.service} says that the App is not installed for {self._repository}, or "
                    "suspended: install it there, or correct connection.app.installation_id"
                ) from None
            raise self._to_source_error(error) from None
        except requests.RequestException as error:
            raise to_source_error(self.service, error) from None
        except (PyJWTError, ValueError, TypeError):
            raise SourceRefused(
                "connection.app.private_key is not a private key in PEM form: "
                "use the file that GitHub gave for the App, line breaks included"
            ) from None

    def _to_source_error(self, error: github.GithubException) -> KnowledgeError:
        status = error.status
        message = str((error.data.get("message") if is_object(error.data) else None) or "")
        if status in (502, 504):
            return QueryTooLarge(format_retries_exhausted(self.service, status))
        if status >= 500 or status == 429:
            return SourceUnavailable(format_retries_exhausted(self.service, status))
        if status == 401:
            if app := self._connection.app:
                forget_installation_token(self._connection.url, app, self.owner)
            return SourceRefused(
                f"{self.service} does not accept the {self._identity}: it is wrong, expired or revoked: "
                f"correct connection.{self._identity}"
            )
        if status == 403:
            return self._access_forbidden(message, single_sign_on="x-github-sso" in (error.headers or {}))
        if status == 404:
            return self._api_not_found()
        return SourceRefused(
            f"{self.service} refused the query with {status} ({shorten_reason(message)}): "
            f"correct connection.url and connection.{self._identity}"
        )

    def from_graphql_errors(self, errors: Sequence[GraphqlError]) -> KnowledgeError:
        """The error for those of a response that cannot be used, the gravest first; none: not found."""
        kinds = {str(error.get("type") or "") for error in errors}
        reason = shorten_reason("; ".join(str(error.get("message") or "") for error in errors))
        if any(map(is_single_sign_on, errors)) or kinds & {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
            return self._access_forbidden(reason, single_sign_on=any(map(is_single_sign_on, errors)))
        if "NOT_FOUND" in kinds or not errors:  # or it is hidden: GitHub does not say which
            return SourceRefused(
                f"{self.service} shows no repository {self._repository}: correct connection.repository, "
                f"or give the {self._identity} access to it (nothing is deleted meanwhile)"
            )
        if kinds & _TOO_LARGE_TYPES or any(hint in reason.lower() for hint in _TIMEOUT_HINTS):
            return QueryTooLarge(f"{self.service} gave up on a query about {self._repository} ({reason})")
        codes = ((error.get("extensions") or dict[str, Any]()).get("code") for error in errors)
        if "undefinedField" in codes:
            return SourceRefused(
                f"{self.service} does not know a field of the query ({reason}): "
                "GitHub Enterprise Server 3.14 or later is needed"
            )
        return self.unavailable(f"could not answer for {self._repository} ({reason})")

    def documents_disabled(self, documents: str) -> SourceRefused:
        """A repository whose issues or discussions are switched off shows none, though it may have many."""
        return SourceRefused(
            f"{self._repository} has its {documents} switched off: switch them on in its settings, "
            "or remove this source (nothing is deleted meanwhile)"
        )

    def format_not_permitted(self, error: GraphqlError) -> str:
        """Why one document cannot be read, where others can."""
        reason = shorten_reason(str(error.get("message") or ""))
        return f"the {self._identity} may not read it any more ({reason}): {_PERMISSIONS_REMEDY}"

    def _api_not_found(self) -> SourceRefused:
        return SourceRefused(
            f"{self.service} has no API at connection.url: "
            "use https://api.github.com, or https://HOST/api/v3 for GitHub Enterprise Server"
        )

    def _access_forbidden(self, message: str, *, single_sign_on: bool) -> SourceRefused:
        if single_sign_on or "saml" in message.lower():
            return SourceRefused(
                f"{self.service} requires the {self._identity} to be authorized for single sign-on (SAML) "
                f"of the organization of {self._repository}: authorize it in its owner's settings "
                "(Configure SSO)"
            )
        return SourceRefused(
            f"{self.service} forbids the {self._identity} to read this of {self._repository} "
            f"({shorten_reason(message)}): {_PERMISSIONS_REMEDY}"
        )


def is_single_sign_on(error: GraphqlError) -> bool:
    """Whether the organization requires single sign-on first."""
    extensions: Mapping[str, Any] = error.get("extensions") or {}
    return bool(extensions.get("saml_failure")) or "saml" in str(error.get("message") or "").lower()


_InstallationKey = tuple[str, int, str, str]
"""The API, the App, a hash of its key, and the installation or its owner."""


@dataclass(slots=True)
class _Grant:
    lock: threading.Lock = field(default_factory=threading.Lock)
    token: str = field(default="", repr=False)
    renew_at: float = 0.0  # seconds since 1970
    failure: KnowledgeError | None = None


_grants: defaultdict[_InstallationKey, _Grant] = defaultdict(_Grant)


def _build_installation_key(url: str, app: GithubApp, owner: str) -> _InstallationKey:
    secret = sha256(app.private_key.get_secret_value().encode()).hexdigest()
    return url, app.id, secret, str(app.installation_id or owner.lower())


def get_installation_token(key: _InstallationKey, grant: Callable[[], tuple[str, float]]) -> str:
    """The token of an installation; where it is due, `grant` gets a new one, with the time of its end."""
    cached = _grants[key]
    with cached.lock:
        if time.time() < cached.renew_at:
            if cached.failure:
                raise cached.failure
            return cached.token
        try:
            token, expires_at = grant()
        except KnowledgeError as error:
            cached.failure, cached.renew_at = error, time.time() + _RETRY_FAILED_S
            raise
        cached.token, cached.renew_at, cached.failure = token, expires_at - _RENEW_BEFORE_S, None
        return token


def forget_installation_token(url: str, app: GithubApp, owner: str) -> None:
    """Ask for a new token the next time: this one was refused before it expired."""
    _grants.pop(_build_installation_key(url, app, owner), None)
