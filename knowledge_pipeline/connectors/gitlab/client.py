"""GitLab's GraphQL API, and the errors of its refusals.

By REST, comments, files and closed issues of a merge request are three more calls: 1,000 merge requests
cost 2,010 calls or more, against 60 by GraphQL (10 list a hundred each, 50 read 20 each with all that
belongs to them). REST pages by offset, which GitLab refuses above 50,000 and which shifts while
documents change; a GraphQL cursor holds a time and an id.

API: https://docs.gitlab.com/api/graphql/
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import requests

from knowledge_pipeline.config.connections import GitlabConnection
from knowledge_pipeline.config.organisations import GitlabGroupConnection
from knowledge_pipeline.connectors.conversations import QueryTooLarge
from knowledge_pipeline.connectors.download import Downloader, build_identity
from knowledge_pipeline.connectors.http_retry import (
    format_retries_exhausted,
    mount_retries,
    shorten_reason,
    to_source_error,
)
from knowledge_pipeline.connectors.permissions import CodeHostClient
from knowledge_pipeline.connectors.service import PageGuard
from knowledge_pipeline.errors import KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.text import is_list, is_object

# 500: one record that GitLab fails at fails the whole batch
_TOO_LARGE_STATUSES = frozenset({500, 502, 503, 504})
_NO_RETRY_STATUSES = frozenset({500, 502, 504})  # returned at once to a caller that can send smaller queries
_TIMEOUT_HINTS = ("timeout", "timed out")
_ACCESS_FIELDS = {
    "issues": "shown: issuesEnabled",
    "mergeRequests": "shown: mergeRequestsEnabled permitted: userPermissions { all: readMergeRequest }",
    "releases": "shown: id",  # GraphQL does not say
    "snippets": "shown: snippetsEnabled",
}
_UNKNOWN_FIELD_CODES = ("undefinedField", "argumentNotAccepted", "undefinedType")


class GitlabClient(CodeHostClient):
    """The API of one project, or of a group. No error holds a secret: GitLab does not repeat them."""

    def __init__(
        self,
        connection: GitlabConnection | GitlabGroupConnection,
        documents: Literal["issues", "mergeRequests", "releases", "snippets"],
    ) -> None:
        """Each response says whether the token may read the documents."""
        service = f"GitLab at {urlsplit(connection.url).hostname}"
        identity = build_identity(connection.token)
        super().__init__(service, Downloader(service, [connection.url], identity))
        self._connection = connection
        is_project = isinstance(connection, GitlabConnection)
        self._project = connection.project if is_project else connection.group
        self._documents = documents
        self._site = connection.url.rstrip("/")
        self._session = mount_retries(requests.Session(), service)
        self._session.max_redirects = 0  # the token is for this address; one that leads elsewhere is wrong
        self._session.auth = lambda request: request  # no .netrc is read
        self._session.headers.update(identity)  # as a bearer's, which is taken for tokens of every kind

    def close(self) -> None:
        """Close the connections; a later query opens new ones."""
        super().close()
        self._session.close()

    def build_upload_address(self, secret: str, name: str) -> str:
        """Where an upload is by the API, which takes our token; its page takes a browser's session alone.

        Source: https://docs.gitlab.com/api/project_markdown_uploads/
        """
        project = quote(self._project, safe="")
        return f"{self._site}/api/v4/projects/{project}/uploads/{secret}/{quote(name, safe='')}"

    def execute(
        self, definitions: str, selection: str, variables: Mapping[str, Any], *, can_split: bool = False
    ) -> dict[str, Any]:
        """Fields of GraphQL's `Project`; definitions of variables as "$after: String".

        A project or documents that are hidden are refused: they must not count as deleted. With `can_split`
        the caller can send smaller queries, so that a failure is not retried: QueryTooLarge.
        """
        selection = f"{_ACCESS_FIELDS[self._documents]} {selection}"
        query = f"query($path: ID!, {definitions}) {{ project(fullPath: $path) {{ {selection} }} }}"
        payload = {"query": " ".join(query.split()), "variables": {**variables, "path": self._project}}
        no_retry_statuses = _NO_RETRY_STATUSES if can_split else frozenset[int]()
        body = self._parse_json(self._send("POST", "graphql", no_retry_statuses, json=payload))
        if is_object(body) and body.get("errors"):
            raise self._from_graphql_errors(body["errors"])
        if not is_object(body) or not is_object(body.get("data")):
            raise self._api_not_found()  # a web page
        project = body["data"].get("project")
        if project is None:
            raise self.project_not_found()
        if not project.get("shown") or not (project.get("permitted") or {"all": True})["all"]:
            raise self.documents_hidden()
        return project

    def iter_pages(
        self, definitions: str, selection: str, variables: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """Every page, selected as `listed`; `$after` and `$first` (the first page) are set."""
        after, more, guard = None, True, self.build_page_guard()
        while more:
            cursor = {"after": after} | ({"first": after is None} if "$first" in definitions else {})
            project = self.execute(f"$after: String, {definitions}", selection, {**variables, **cursor})
            page = project["listed"]
            if page is None:
                raise self.listing_incomplete(f"does not list the {self._documents}")
            yield page
            more, after = page["pageInfo"]["hasNextPage"], page["pageInfo"]["endCursor"]
            if more:
                guard.advance(map(repr, page["nodes"]), after or "")

    def build_page_guard(self) -> PageGuard:
        """For one listing, or one list of a document."""
        return PageGuard(partial(self.listing_incomplete, "repeats a page of a listing"))

    def get_page(self, path: str, parameters: Mapping[str, Any] | None = None) -> tuple[Any, bool]:
        """The JSON at a path of the REST API, or 403 or 404; and whether another page follows."""
        response = self._send("GET", f"v4/{path}", frozenset(), params=dict(parameters or {}))
        if response.status_code in (403, 404):
            return response.status_code, False
        return self._parse_json(response), "next" in response.links

    def _send(
        self, method: str, path: str, no_retry_statuses: frozenset[int], **content: Any
    ) -> requests.Response:
        """The response, tried again after errors that may pass, but for these statuses."""
        adapter: Any = self._session.get_adapter(self._site)
        adapter.no_retry_statuses = no_retry_statuses
        try:
            return self._session.request(method, f"{self._site}/api/{path}", **content)
        except requests.TooManyRedirects:
            raise self._api_not_found() from None
        except requests.RequestException as error:
            raise to_source_error(self.service, error) from None

    def _parse_json(self, response: requests.Response) -> Any:
        if not response.ok:
            raise self._from_status(response.status_code, _parse_error_message(response.content))
        try:
            return response.json()
        except ValueError:  # a web page
            raise self._api_not_found() from None

    def _from_status(self, status: int, message: str) -> KnowledgeError:
        if status in _TOO_LARGE_STATUSES:
            return QueryTooLarge(format_retries_exhausted(self.service, status))
        if status == 429 or status > 500:
            return SourceUnavailable(format_retries_exhausted(self.service, status))
        if status == 401:
            return SourceRefused(
                f"{self.service} does not accept the token: it is wrong, expired or revoked, or it lacks "
                "the scope read_api: correct connection.token"
            )
        if status == 403:
            return SourceRefused(
                f"{self.service} does not let us read {self._project} ({shorten_reason(message)}): give "
                "connection.token the scope read_api, and its owner at least the role Reporter"
            )
        if status == 404:
            return self._api_not_found()
        return SourceRefused(
            f"{self.service} refused the query with {status} ({shorten_reason(message)}): "
            "correct connection.url, connection.project and connection.token"
        )

    def _from_graphql_errors(self, errors: Sequence[Any]) -> KnowledgeError:
        valid = [error for error in errors if is_object(error)]
        reason = shorten_reason("; ".join(str(error.get("message") or "") for error in valid))
        codes = {(error.get("extensions") or dict[str, Any]()).get("code") for error in valid}
        if codes.intersection(_UNKNOWN_FIELD_CODES):
            return SourceRefused(
                f"{self.service} does not know a field of the query ({reason}): GitLab 17 or later is needed"
            )
        if "complexity" in reason:
            return SourceRefused(
                f"{self.service} allows only smaller queries ({reason}): set connection.token, "
                "which is allowed more, or have its administrator raise the limit"
            )
        if "don't have permission" in reason:
            return self.project_not_found()
        if any(hint in reason.lower() for hint in _TIMEOUT_HINTS):
            return QueryTooLarge(f"{self.service} gave up on a query about {self._project} ({reason})")
        return self.unavailable(f"could not answer for {self._project} ({reason})")

    def project_not_found(self) -> SourceRefused:
        """The project does not exist or is hidden: GitLab does not say which."""
        way = "give the token's owner access to it" if self._connection.token else "set connection.token"
        return SourceRefused(
            f"{self.service} shows no project {self._project}: correct connection.project, or {way} "
            "(nothing is deleted meanwhile)"
        )

    def documents_hidden(self) -> SourceRefused:
        """The project is shown, but not its merge requests or issues, whose list would be empty."""
        what = "merge requests" if self._documents == "mergeRequests" else self._documents
        way = "give the token's owner the role Reporter" if self._connection.token else "set connection.token"
        return SourceRefused(
            f"{self.service} does not show the {what} of {self._project}: {way}, switch them on in the "
            "project's settings, or remove this source (nothing is deleted meanwhile)"
        )

    def _api_not_found(self) -> SourceRefused:
        """The address leads elsewhere: to a sign-in page, another host, another scheme."""
        return SourceRefused(
            f"{self.service} has no API at connection.url: use the address that its start page has in a "
            "browser, such as https://gitlab.com, without the project"
        )


def _parse_error_message(body: bytes) -> str:
    """The reason within a refusal, which GitLab words in three ways; "" of a web page."""
    try:
        answer = json.loads(body)
    except ValueError:
        return ""
    if not is_object(answer):
        return ""
    errors = answer.get("errors")
    if is_list(errors) and errors and is_object(errors[0]):
        return str(errors[0].get("message") or "")
    return str(answer.get("error_description") or answer.get("message") or answer.get("error") or "")
