"""Asking GitHub: the one door to PyGithub.

Everything is asked by GraphQL (docs/decisions/0015-github-graphql.md) through PyGithub's requester,
which knows the address and who we are. How often is asked again is `politeness`'s alone: PyGithub's
own retries and pauses are off.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import requests

from knowledge_pipeline.config.connections import GithubApp, GithubConnection
from knowledge_pipeline.errors import KnowledgeError, SourceUnavailable
from knowledge_pipeline.sources.github.errors import GraphqlError, Sentences, is_limited
from knowledge_pipeline.sources.http_retry import TIMEOUT_S, TRIES, polite, seconds_until, unanswered, wait

if TYPE_CHECKING:
    import github
    from github.Requester import Requester

RATE_LIMIT = "rateLimit { cost remaining resetAt }"
"""Belongs into every query: the client looks ahead by it."""

_SECONDARY_WAIT_S = 60.0  # GitHub's advice where a limit comes without a time
_RENEWED_BEFORE_S = 300.0  # an installation's token, before its end


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question was answered with; `errors` concern parts of it, by their `path`."""

    data: dict[str, Any]
    errors: tuple[GraphqlError, ...] = ()


class GithubClient:
    """One repository's API. Nobody is contacted before the first question."""

    def __init__(self, connection: GithubConnection, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.sentences = Sentences(connection)
        self.owner, _, self.name = connection.repository.partition("/")
        self._connection = connection
        self._sleep = sleep
        self._requester: Requester | None = None
        self._opened: list[Requester] = []
        self._session = polite(requests.Session(), self.sentences.service, sleep=sleep)
        self._limit: Mapping[str, Any] | None = None  # as the last answer told

    def close(self) -> None:
        """Close the connections; a later question opens new ones."""
        for requester in self._opened:
            requester.close()
        self._opened.clear()
        self._requester = None

    def ask(self, query: str, variables: Mapping[str, Any], *, divisible: bool = False) -> Answer:
        """The answer to one question.

        Args:
            query: GraphQL, with `RATE_LIMIT` in it.
            variables: its variables.
            divisible: the caller can ask for less: where GitHub takes too long, it is told at once.

        Raises:
            AskedTooMuch: GitHub takes too long for it.
            SourceRefused, SourceUnavailable: there is no data in the answer, and why.
        """
        for _ in range(TRIES):
            self._look_ahead()
            answer = self._once(query, variables, divisible=divisible)
            if answer is not None:
                return answer
        raise SourceUnavailable(f"{self.sentences.service} limits our calls: refresh later")

    def _look_ahead(self) -> None:
        """Wait for the next hour's points rather than ask in vain: GitHub bans who goes on asking."""
        limit = self._limit
        if limit and int(limit["remaining"]) < int(limit["cost"]):
            self._limit = None
            wait(self.sentences.service, seconds_until(str(limit["resetAt"])) or 0.0, self._sleep)

    def _once(self, query: str, variables: Mapping[str, Any], *, divisible: bool) -> Answer | None:
        """None: a limit was waited for, ask again."""
        headers, body = self._post({"query": query, "variables": dict(variables)}, divisible=divisible)
        if not isinstance(body, dict) or not isinstance(body.get("data", {}), dict | None):
            raise self.sentences.no_api()  # a page for people
        errors = tuple(body.get("errors") or ())
        if is_limited(errors):
            spent = headers.get("x-ratelimit-remaining") == "0"  # else it is the secondary limit
            told = headers.get("retry-after") or (headers.get("x-ratelimit-reset") if spent else None)
            wait(self.sentences.service, seconds_until(told or "") or _SECONDARY_WAIT_S, self._sleep)
            return None
        if not body.get("data"):
            raise self.sentences.of_errors(errors) if errors else self.sentences.no_api()
        self._limit = body["data"].get("rateLimit")
        return Answer(body["data"], errors)

    def _post(self, question: dict[str, Any], *, divisible: bool) -> tuple[Mapping[str, str], Any]:
        """Headers (lower case) and body. A limit told in words alone comes as an error of GraphQL."""
        import github

        requester = self._open()
        adapter: Any = self._session.get_adapter(requester.graphql_url)
        adapter.untried = frozenset({502, 504}) if divisible else frozenset()
        try:
            return requester.requestJsonAndCheck("POST", requester.graphql_url, input=question)
        except github.GithubException as error:
            if error.status == 429 or isinstance(error, github.RateLimitExceededException):
                return error.headers or {}, {"errors": [{"type": "RATE_LIMITED"}]}
            raise self._refusal(error) from None
        except requests.RequestException as error:
            raise unanswered(self.sentences.service, error) from None
        except (ValueError, RuntimeError, AssertionError):  # no JSON, or led to another host
            raise self.sentences.no_api() from None

    def _refusal(self, error: github.GithubException) -> KnowledgeError:
        said = error.data.get("message") if isinstance(error.data, dict) else None
        return self.sentences.of_status(error.status, error.headers or {}, str(said or ""))

    def _open(self) -> Requester:
        if self._requester is None:
            import github

            # at DEBUG it would log the answer that holds an installation's token
            logging.getLogger("github.Requester").setLevel(logging.INFO)
            if self._connection.token:
                auth: github.Auth.Auth = github.Auth.Token(self._connection.token.get_secret_value())
            elif self._connection.app:
                auth = self._installation(self._connection.app)
            else:
                raise self.sentences.no_identity()
            self._requester = self._polite(github.Github(auth=auth, **self._options()).requester)
        return self._requester

    def _options(self) -> dict[str, Any]:
        return {
            "base_url": self._connection.url,
            "timeout": int(TIMEOUT_S),
            "retry": 0,
            "seconds_between_requests": None,
            "seconds_between_writes": None,  # a question is posted, yet writes nothing
            "lazy": True,
        }

    def _polite(self, requester: Requester) -> Requester:
        """The requester, sending through our session.

        PyGithub takes another connection class only for all its requesters at once, and opens a new
        connection for each call then; so the attribute that holds it is set on this one.
        """
        from github.Requester import HTTPSRequestsConnectionClass

        session, scheme = self._session, requester.scheme

        class PoliteConnection(HTTPSRequestsConnectionClass):
            def __init__(self, host: str, port: int | None = None, **options: Any) -> None:
                super().__init__(host, port or (443 if scheme == "https" else 80), **options)
                self.protocol = scheme
                self.session.close()
                session.auth = self.session.auth  # nobody's .netrc is read
                self.session = session

        requester._Requester__connectionClass = PoliteConnection  # type: ignore[attr-defined]
        self._opened.append(requester)
        return requester

    def _installation(self, app: GithubApp) -> github.Auth.Auth:
        """An App's identity where it is installed; its tokens last an hour and are renewed in time."""
        import github

        told = self._told_of_app
        signed = github.Auth.AppAuth(app.id, app.private_key.get_secret_value())
        integration = github.GithubIntegration(auth=signed, **self._options())
        self._polite(integration.requester)
        owner, name = self.owner, self.name

        class Installation(github.Auth.Auth):
            _granted: Any = None

            @property
            def token_type(self) -> str:
                return "token"

            @property
            def token(self) -> str:
                now = time.time()
                if self._granted is None or self._granted.expires_at.timestamp() < now + _RENEWED_BEFORE_S:
                    self._granted = told(self._grant)
                return self._granted.token

            def _grant(self) -> Any:
                installation_id = app.installation_id or integration.get_repo_installation(owner, name).id
                return integration.get_access_token(installation_id)

        return Installation()

    def _told_of_app(self, ask: Callable[[], Any]) -> Any:
        import github
        from jwt.exceptions import PyJWTError

        try:
            return ask()
        except github.GithubException as error:
            raise (self.sentences.of_app(error.status) or self._refusal(error)) from None
        except requests.RequestException as error:
            raise unanswered(self.sentences.service, error) from None
        except (PyJWTError, ValueError, TypeError):
            raise self.sentences.bad_key() from None
