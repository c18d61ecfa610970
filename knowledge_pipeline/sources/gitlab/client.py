"""Asking GitLab: the one door to python-gitlab, and what GitLab says instead of an answer.

Everything is asked by GraphQL, posted through python-gitlab, which knows the address and who we are.
REST tells a merge request without its remarks and files, which are two more calls, and what it closes,
which is a third: 1,000 merge requests are 2,010 calls or more, against 60 by GraphQL (10 list a hundred
each, 50 read 20 each with all that belongs to them). Its listings go by offset, which GitLab refuses
above 50,000 and which shifts while documents change; a cursor of GraphQL holds a time and an id.
How often is asked again is `politeness`'s alone: python-gitlab's own retries are off.

API: https://docs.gitlab.com/api/graphql/
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from knowledge_pipeline.config.connections import GitlabConnection
from knowledge_pipeline.errors import KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.sources.code_host import AskedTooMuch
from knowledge_pipeline.sources.http_retry import polite, tried_in_vain, unanswered

if TYPE_CHECKING:
    from gitlab import Gitlab
    from gitlab.exceptions import GitlabError

_TOO_MUCH = frozenset(
    {500, 502, 503, 504}
)  # 500: one record that GitLab fails at fails all that come with it
_AT_ONCE = frozenset({500, 502, 504})  # told at once to a caller who can ask for less
_TIMED_OUT = ("timeout", "timed out")
_SHOWN = {
    "issues": "shown: issuesEnabled",
    "mergeRequests": "shown: mergeRequestsEnabled permitted: userPermissions { all: readMergeRequest }",
}
_UNKNOWN = ("undefinedField", "argumentNotAccepted", "undefinedType")


class GitlabClient:
    """One project's API. Nobody is contacted before the first question."""

    def __init__(
        self, connection: GitlabConnection, documents: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """`documents` are those that are read, "issues" or "mergeRequests"; each answer tells if we may."""
        self.sentences = Sentences(connection)
        self._connection = connection
        self._documents = documents
        self._url = f"{connection.url.rstrip('/')}/api/graphql"
        self._session = polite(requests.Session(), self.sentences.service, sleep=sleep)
        self._session.max_redirects = 0  # the token is for this address; one that leads elsewhere is wrong
        self._session.auth = _as_it_is  # nobody's .netrc is read
        self._gitlab: Gitlab | None = None

    def close(self) -> None:
        """Close the connections; a later question opens new ones."""
        self._session.close()

    def ask(
        self, declared: str, selection: str, variables: Mapping[str, Any], *, divisible: bool = False
    ) -> dict[str, Any]:
        """What the project answers.

        Args:
            declared: the variables, as GraphQL declares them: "$after: String".
            selection: fields of GraphQL's `Project`.
            variables: their values.
            divisible: the caller can ask for less: where GitLab fails, it is told at once.

        Raises:
            AskedTooMuch: GitLab fails at this question.
            SourceRefused, SourceUnavailable: there is no answer, and why; the project is not shown,
                or its documents are not, so that none of them may be taken for deleted.
        """
        selection = f"{_SHOWN[self._documents]} {selection}"
        query = f"query($path: ID!, {declared}) {{ project(fullPath: $path) {{ {selection} }} }}"
        body = self._post(query, {**variables, "path": self._connection.project}, divisible=divisible)
        errors = body.get("errors") if isinstance(body, dict) else None
        if errors:
            raise self.sentences.of_errors(errors)
        if not isinstance(body, dict) or not isinstance(body.get("data"), dict):
            raise self.sentences.no_api()  # a page for people
        project = body["data"].get("project")
        if project is None:
            raise self.sentences.no_project()
        if not project.get("shown") or not (project.get("permitted") or {"all": True})["all"]:
            raise self.sentences.not_shown(self._documents)
        return project

    def _post(self, query: str, variables: Mapping[str, Any], *, divisible: bool) -> Any:
        from gitlab.exceptions import GitlabError

        adapter: Any = self._session.get_adapter(self._url)
        adapter.untried = _AT_ONCE if divisible else frozenset()
        question = {"query": " ".join(query.split()), "variables": dict(variables)}
        try:
            return self._open().http_post(
                self._url, post_data=question, obey_rate_limit=False, retry_transient_errors=False
            )
        except GitlabError as error:
            raise self._refusal(error) from None
        except requests.TooManyRedirects:
            raise self.sentences.no_api() from None
        except requests.RequestException as error:
            raise unanswered(self.sentences.service, error) from None

    def _refusal(self, error: GitlabError) -> KnowledgeError:
        if error.response_code is None:  # no JSON where JSON was announced
            return self.sentences.no_api()
        return self.sentences.of_status(error.response_code, _said(error.response_body or b""))

    def _open(self) -> Gitlab:
        if self._gitlab is None:
            import gitlab

            token = self._connection.token
            # as a bearer's, which is taken for tokens of every kind
            told = token.get_secret_value() if token else None
            self._gitlab = gitlab.Gitlab(self._connection.url, oauth_token=told, session=self._session)
        return self._gitlab


class Sentences:
    """The errors of one connection. None of them holds a secret: GitLab does not say them back."""

    def __init__(self, connection: GitlabConnection) -> None:
        self.service = f"GitLab at {urlsplit(connection.url).hostname}"
        self._project = connection.project
        self._has_token = connection.token is not None

    def of_status(self, status: int, message: str) -> KnowledgeError:
        """From the status of an answer, and what its body says."""
        if status in _TOO_MUCH:
            return AskedTooMuch(tried_in_vain(self.service, status))
        if status == 429 or status > 500:
            return SourceUnavailable(tried_in_vain(self.service, status))
        if status == 401:
            return SourceRefused(
                f"{self.service} does not accept the token: it is wrong, expired or revoked, or it lacks "
                "the scope read_api: correct connection.token"
            )
        if status == 403:
            return SourceRefused(
                f"{self.service} forbids to read {self._project} ({_short(message)}): give connection.token "
                "the scope read_api, and its owner at least the role Reporter"
            )
        if status == 404:
            return self.no_api()
        return SourceRefused(
            f"{self.service} refused the question with {status} ({_short(message)}): "
            "correct connection.url, connection.project and connection.token"
        )

    def of_errors(self, errors: Sequence[Any]) -> KnowledgeError:
        """From the `errors` of an answer of status 200."""
        told = [error for error in errors if isinstance(error, dict)]
        said = _short("; ".join(str(error.get("message") or "") for error in told))
        codes = {(error.get("extensions") or {}).get("code") for error in told}
        if codes.intersection(_UNKNOWN):
            return SourceRefused(
                f"{self.service} does not know what it is asked for ({said}): GitLab 17 or later is needed"
            )
        if "complexity" in said:
            return SourceRefused(
                f"{self.service} allows less than it is asked for ({said}): set connection.token, "
                "which is allowed more, or have its administrator raise the limit"
            )
        if "don't have permission" in said:
            return self.no_project()
        if any(hint in said.lower() for hint in _TIMED_OUT):
            return AskedTooMuch(f"{self.service} gave up on a question about {self._project} ({said})")
        return SourceUnavailable(f"{self.service} could not answer for {self._project} ({said}): try later")

    def no_project(self) -> SourceRefused:
        """It does not exist, or is hidden from us, which GitLab tells alike."""
        way = "give the token's owner access to it" if self._has_token else "set connection.token"
        return SourceRefused(
            f"{self.service} shows no project {self._project}: correct connection.project, or {way} "
            "(nothing is deleted meanwhile)"
        )

    def not_shown(self, documents: str) -> SourceRefused:
        """The project is shown, its merge requests or issues are not: their list would be empty."""
        what = "issues" if documents == "issues" else "merge requests"
        way = "give the token's owner the role Reporter" if self._has_token else "set connection.token"
        return SourceRefused(
            f"{self.service} does not show the {what} of {self._project}: {way}, switch them on in the "
            "project's settings, or remove this source (nothing is deleted meanwhile)"
        )

    def no_api(self) -> SourceRefused:
        """The address leads elsewhere: to a sign-in page, another host, another scheme."""
        return SourceRefused(
            f"{self.service} has no API at connection.url: use the address that its start page has in a "
            "browser, such as https://gitlab.com, without the project"
        )

    def unsteady(self, what: str) -> SourceUnavailable:
        """A listing that cannot be trusted to be whole."""
        return SourceUnavailable(f"{self.service} {what}: nothing is deleted, try later")


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _said(body: bytes) -> str:
    """The reason within a refusal, which GitLab words in three ways; "" of a page for people."""
    try:
        told = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(told, dict):
        return ""
    errors = told.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return str(errors[0].get("message") or "")
    return str(told.get("error_description") or told.get("message") or told.get("error") or "")


def _short(message: str) -> str:
    return " ".join(message.split())[:200] or "it gave no reason"
