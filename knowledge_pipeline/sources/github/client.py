"""GitHub's GraphQL API (docs/decisions/connectors.md), through PyGithub.

PyGithub's requester knows the address and the identity. `http_retry` alone retries: PyGithub's own
retries and pauses are off.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import requests

from knowledge_pipeline.config.connections.repositories import GithubApp, GithubConnection
from knowledge_pipeline.config.organisations.connections import GithubOrganisationConnection
from knowledge_pipeline.errors import KnowledgeError, SourceUnavailable
from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.github.errors import GithubErrors, GraphqlError, is_rate_limited
from knowledge_pipeline.sources.github.installation_tokens import (
    build_installation_key,
    forget_installation_token,
    get_installation_token,
)
from knowledge_pipeline.sources.http_retry import (
    MAX_ATTEMPTS,
    TIMEOUT_S,
    mount_retries,
    parse_retry_after,
    to_source_error,
    wait_or_raise,
)

if TYPE_CHECKING:
    import github
    from github.Requester import Requester

RATE_LIMIT_FIELDS = "rateLimit { cost remaining resetAt }"
"""A part of every query: the client waits by it before the quota is spent."""

_SECONDARY_LIMIT_WAIT_S = 60.0  # GitHub's advice where a limit comes without a time


@dataclass(frozen=True, slots=True)
class GraphqlResponse:
    """The response to a query; `errors` concern parts of it, by their `path`."""

    data: dict[str, Any]
    errors: tuple[GraphqlError, ...] = ()


class GithubClient:
    """The API of one repository, or of what an organisation lists. Nothing is sent before the first query."""

    def __init__(
        self, connection: GithubConnection | GithubOrganisationConnection, *, sleep: Sleep = time.sleep
    ) -> None:
        self.errors = GithubErrors(connection)
        repository = connection.repository if isinstance(connection, GithubConnection) else connection.owner
        self.owner, _, self.name = (repository or "").partition("/")
        self._connection = connection
        self._sleep = sleep
        self._requester: Requester | None = None
        self._requesters: list[Requester] = []
        self._session = mount_retries(requests.Session(), self.errors.service, sleep=sleep)
        self._limit: Mapping[str, Any] | None = None  # of the last response

    def close(self) -> None:
        """Close the connections; a later query opens new ones."""
        for requester in self._requesters:
            requester.close()
        self._requesters.clear()
        self._requester = None

    def execute(
        self, query: str, variables: Mapping[str, Any], *, can_split: bool = False
    ) -> GraphqlResponse:
        """The response to one query.

        Args:
            query: GraphQL, with `RATE_LIMIT_FIELDS` in it.
            variables: its variables.
            can_split: the caller can send smaller queries, so that a timeout is not retried.

        Raises:
            QueryTooLarge: GitHub takes too long for it.
            SourceRefused, SourceUnavailable: the response has no data.
        """
        for _ in range(MAX_ATTEMPTS):
            # wait for the next hour's points: GitHub bans clients that go on without any
            if (limit := self._limit) and int(limit["remaining"]) < int(limit["cost"]):
                self._limit = None
                wait_s = parse_retry_after(str(limit["resetAt"])) or 0.0
                wait_or_raise(self.errors.service, wait_s, self._sleep)
            if (answer := self._execute_once(query, variables, can_split=can_split)) is not None:
                return answer
        raise SourceUnavailable(f"{self.errors.service} limits our calls: try again later")

    def get_or_status(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """The JSON at a path of the REST API; a status of 403 or 404 is returned instead.

        Raises:
            SourceRefused, SourceUnavailable: there is neither.
        """
        import github

        for _ in range(MAX_ATTEMPTS):
            try:
                _, body = self._open_retrying(frozenset()).requestJsonAndCheck(
                    "GET", path, parameters=dict(parameters or {})
                )
            except github.GithubException as error:
                headers = error.headers or {}
                if error.status == 429 or isinstance(error, github.RateLimitExceededException):
                    wait = headers.get("retry-after") or headers.get("x-ratelimit-reset")
                    wait_s = parse_retry_after(wait or "") or _SECONDARY_LIMIT_WAIT_S
                    wait_or_raise(self.errors.service, wait_s, self._sleep)
                elif error.status in (403, 404):
                    return error.status
                else:
                    raise self._to_source_error(error) from None
            except requests.RequestException as error:
                raise to_source_error(self.errors.service, error) from None
            except (ValueError, RuntimeError, AssertionError):  # no JSON, or led to another host
                raise self.errors.api_not_found() from None
            else:
                return body
        raise SourceUnavailable(f"{self.errors.service} limits our calls: try again later")

    def get_installation_token(self) -> str:
        """The token that the connection's App reads with now. Raises as `execute`."""
        return self._open_requester().auth.token  # pyright: ignore[reportOptionalMemberAccess]

    def _execute_once(
        self, query: str, variables: Mapping[str, Any], *, can_split: bool
    ) -> GraphqlResponse | None:
        """The response; None: a limit was waited for, try again."""
        headers, body = self._post({"query": query, "variables": dict(variables)}, can_split=can_split)
        if not is_object(body) or not isinstance(body.get("data", {}), dict | None):
            raise self.errors.api_not_found()  # a web page
        errors = tuple(body.get("errors") or ())
        if is_rate_limited(errors):
            spent = headers.get("x-ratelimit-remaining") == "0"  # else it is the secondary limit
            wait = headers.get("retry-after") or (headers.get("x-ratelimit-reset") if spent else None)
            wait_s = parse_retry_after(wait or "") or _SECONDARY_LIMIT_WAIT_S
            wait_or_raise(self.errors.service, wait_s, self._sleep)
            return None
        if not body.get("data"):
            raise self.errors.from_graphql_errors(errors) if errors else self.errors.api_not_found()
        self._limit = body["data"].get("rateLimit")
        return GraphqlResponse(body["data"], errors)

    def _post(self, body: dict[str, Any], *, can_split: bool) -> tuple[Mapping[str, str], Any]:
        """Headers (lower case) and body. A limit stated in words alone becomes a GraphQL error."""
        import github

        requester = self._open_retrying(frozenset({502, 504}) if can_split else frozenset())
        try:
            return requester.requestJsonAndCheck("POST", requester.graphql_url, input=body)
        except github.GithubException as error:
            if error.status == 429 or isinstance(error, github.RateLimitExceededException):
                return error.headers or {}, {"errors": [{"type": "RATE_LIMITED"}]}
            raise self._to_source_error(error) from None
        except requests.RequestException as error:
            raise to_source_error(self.errors.service, error) from None
        except (ValueError, RuntimeError, AssertionError):  # no JSON, or led to another host
            raise self.errors.api_not_found() from None

    def _open_retrying(self, except_statuses: frozenset[int]) -> Requester:
        """The requester, whose calls are tried again, but for these statuses."""
        requester = self._open_requester()
        adapter: Any = self._session.get_adapter(requester.graphql_url)
        adapter.no_retry_statuses = except_statuses
        return requester

    def _to_source_error(self, error: github.GithubException) -> KnowledgeError:
        message = error.data.get("message") if is_object(error.data) else None
        if error.status == 401 and (app := self._connection.app):
            forget_installation_token(build_installation_key(self._connection.url, app, self.owner))
        return self.errors.from_status(error.status, error.headers or {}, str(message or ""))

    def _open_requester(self) -> Requester:
        if self._requester is None:
            import github

            # at DEBUG it would log the answer that holds an installation's token
            logging.getLogger("github.Requester").setLevel(logging.INFO)
            if self._connection.token:
                auth: github.Auth.Auth = github.Auth.Token(self._connection.token.get_secret_value())
            elif self._connection.app:
                auth = self._build_installation_auth(self._connection.app)
            else:
                raise self.errors.identity_missing()
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
        """An App's identity where it is installed; its tokens last an hour and are renewed in time."""
        import github

        key = build_installation_key(self._connection.url, app, self.owner)
        grant = lambda: self._call_as_app(lambda: self._grant_token(app))  # noqa: E731

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

    def _call_as_app(self, call: Callable[[], Any]) -> Any:
        import github
        from jwt.exceptions import PyJWTError

        try:
            return call()
        except github.GithubException as error:
            raise (self.errors.from_app_status(error.status) or self._to_source_error(error)) from None
        except requests.RequestException as error:
            raise to_source_error(self.errors.service, error) from None
        except (PyJWTError, ValueError, TypeError):
            raise self.errors.private_key_invalid() from None
