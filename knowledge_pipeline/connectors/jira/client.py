"""Jira's REST API: identity, requests, and the errors of its refusals.

The client library provides the session, the identity and the addresses. All requests go through its
`_get_json`: its own `search_issues` reads the names of all fields first, its paging stops at a short
page, and it has no bulk read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from knowledge_pipeline.config.connections import JiraConnection
from knowledge_pipeline.connectors.download import Downloader, build_identity
from knowledge_pipeline.connectors.http_retry import mount_retries, to_source_error
from knowledge_pipeline.connectors.service import ServiceClient
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Attachment
from knowledge_pipeline.text import is_list, is_object

if TYPE_CHECKING:
    from jira import JIRA


class JiraRefused(SourceRefused):
    """Jira answered with a refusal; `status` is HTTP's."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class JiraClient(ServiceClient):
    """The Jira site of a connection.

    API: https://developer.atlassian.com/cloud/jira/platform/rest/v3/ (Cloud),
    https://developer.atlassian.com/server/jira/platform/rest/ (Server, Data Center)
    """

    def __init__(self, connection: JiraConnection) -> None:
        self.url = connection.url.rstrip("/")
        service = f"Jira at {urlsplit(self.url).netloc}"
        identity = build_identity(connection.token, connection.email)
        super().__init__(service, Downloader(service, [self.url], identity))
        self.is_authenticated = connection.token is not None
        self._connection = connection
        self._jira: JIRA | None = None

    @cached_property
    def is_cloud(self) -> bool:
        """Whether it is Cloud, as an e-mail says; without a token, Jira itself says so."""
        if self.is_authenticated or self._connection.email:
            return self._connection.email is not None
        return bool(self.get("serverInfo", version="2").get("deploymentType") == "Cloud")

    def get(self, path: str, version: str | None = None, **parameters: Any) -> Any:
        """The JSON at a path of the API. Raises JiraRefused: it is refused for good."""
        return self._request(path, parameters, version, post=False)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that a query posted to a path returns. Raises as `get`."""
        return self._request(path, dict(body), None, post=True)

    def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """The bytes of a ticket's file; raises as `Downloader.read`."""
        if self.is_cloud:  # by the address that a scoped token's gateway has, too
            address = f"{self.url}/rest/api/3/attachment/content/{attachment.id}"
            attachment = replace(attachment, address=address)
        return super().download(attachment, max_bytes)

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        super().close()
        if self._jira is not None:
            self._jira.close()
        self._jira = None

    def _request(self, path: str, params: dict[str, Any], version: str | None, *, post: bool) -> Any:
        from jira import JIRAError

        base = f"{{server}}/rest/api/{version or ('3' if self.is_cloud else '2')}/{{path}}"
        try:
            get_json = self._open_client()._get_json  # pyright: ignore[reportPrivateUsage]  # none is public
            answer = get_json(path, params=params, base=base, use_post=post)
        except JIRAError as error:  # it holds our headers, so that it must not be the cause of ours
            raise self._to_source_error(error.status_code or 0, error.text or "", path) from None
        except requests.exceptions.JSONDecodeError:
            raise JiraRefused(
                f"{self.service} answered with a web page instead of JSON, as a login page or a proxy does: "
                "correct connection.url and connection.token"
            ) from None
        except requests.RequestException as error:
            raise to_source_error(self.service, error) from None
        if not is_list(answer) and not (answer and is_object(answer)):
            raise self.unavailable(f"returned nothing for {path}")
        return answer

    def _open_client(self) -> JIRA:
        if self._jira is None:
            from jira import JIRA

            token = self._connection.token.get_secret_value() if self._connection.token else None
            email = self._connection.email
            self._jira = JIRA(
                options={"server": self.url},
                basic_auth=(email, token) if email and token else None,
                token_auth=None if email else token,
                get_server_info=False,
                max_retries=0,  # `http_retry` retries; both together would multiply
                logging=False,  # the client logs bodies and headers of failed answers
            )
            session = self._jira._session  # pyright: ignore[reportPrivateUsage]  # none is public
            assert session is not None
            mount_retries(session, self.service)
            session.hooks["response"].append(self._check_identity)
        return self._jira

    def _check_identity(self, response: requests.Response, *_: Any, **__: Any) -> None:
        """Refuse a response for a guest, as whom Jira may treat a wrong token: a guest sees less."""
        if response.is_redirect:
            location = response.headers.get("Location", "")
            to = urlsplit(location)
            if "login" in location.lower() or to.netloc.startswith("id."):
                raise JiraRefused(
                    f"{self.service} redirects us to its login page: correct connection.token", 401
                )
            where = f"{to.scheme}://{to.hostname}" if to.scheme and to.hostname else "another address"
            raise JiraRefused(f"{self.service} redirects us to {where}: correct connection.url")
        reason = response.headers.get("X-Seraph-LoginReason", "")
        if self.is_authenticated and "AUTHENTICATED_FAILED" in reason:
            raise self._to_source_error(401, "", "")

    def _to_source_error(self, status: int, detail: str, path: str) -> SourceRefused | SourceUnavailable:
        if status == 429:
            return self.unavailable("limits our calls")
        if status >= 500:
            return self.unavailable(f"failed ({status})")
        if self._connection.token is not None:
            detail = detail.replace(self._connection.token.get_secret_value(), "***")
        detail = "" if "<" in detail[:200] else " ".join(detail.split())[:200]  # only if it is a sentence
        which = "connection.email and connection.token" if self._connection.email else "connection.token"
        sentence = {
            400: f"does not understand the query ({detail}): correct jql, projects, issue_types, statuses "
            "or labels",
            401: f"does not accept our token (401): it is wrong or has expired, correct {which}"
            if self.is_authenticated
            else "answers only authenticated callers (401): set connection.token, "
            "and on Cloud connection.email",
            403: f"refuses our account{f' ({detail})' if detail else ''}: give it the permission Browse "
            "Projects, and a scoped connection.token the scope read:jira-work",
            404: f"has nothing at {path} (404): correct connection.url, which ends where /rest begins, "
            "and projects",
        }.get(status, f"refuses {path} ({status}{f': {detail}' if detail else ''}): correct connection.url")
        return JiraRefused(f"{self.service} {sentence}", status)
