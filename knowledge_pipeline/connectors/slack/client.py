"""Slack's Web API, through slack_sdk. https://docs.slack.dev/apis/web-api

slack_sdk builds the requests and reads the responses. Our own session sends them, because `urllib`,
which slack_sdk uses, opens a connection for every request and follows redirects with the token.
`http_retry` alone retries.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from knowledge_pipeline.config.connections import SlackConnection
from knowledge_pipeline.connectors import http_retry
from knowledge_pipeline.connectors.base import pause
from knowledge_pipeline.connectors.download import Downloader, build_identity
from knowledge_pipeline.connectors.service import PageGuard, ServiceClient
from knowledge_pipeline.errors import KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.text import descend, is_list, is_object
from knowledge_pipeline.times import parse_retry_after

if TYPE_CHECKING:
    from slack_sdk import WebClient


Json = dict[str, Any]

_TOKEN_ERROR_CODES = {
    *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"),
    "user_removed_from_team",
}
_SERVER_ERROR_CODES = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})
_RATE_LIMIT_CODES = frozenset({"ratelimited", "rate_limited"})
_DEFAULT_LIMIT_WAIT_S = 60.0  # where a limit comes without a time: they are counted by the minute
_ERROR_CODE = re.compile(r"[a-z][a-z0-9_]*")


class SlackRefused(SourceRefused):
    """Slack refused one request; `code` is its reason: "not_in_channel"."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class SlackClient(ServiceClient):
    """One workspace's API."""

    def __init__(self, connection: SlackConnection) -> None:
        host = urlsplit(connection.url).hostname or ""
        service = "Slack" if host == "slack.com" else f"Slack at {host}"
        origins = [connection.url, f"https://files.{host}"]  # whose files take the same token
        identity = build_identity(connection.token)
        super().__init__(service, Downloader(service, origins, identity))
        self._connection = connection
        self._session: requests.Session | None = None
        self._client: WebClient | None = None

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        super().close()
        if self._session is not None:
            self._session.close()
        self._session = self._client = None

    def iter_pages(self, method: str, key: str, **parameters: Any) -> Iterator[list[Json]]:
        """The list `key` of every page, to the last one.

        A page may be empty and have another one after it. A cursor keeps its place, whatever is posted
        or deleted meanwhile.
        """
        guard = PageGuard(partial(self.listing_incomplete, f"does not end the list of {method}"))
        while True:
            answer = self.call(method, **parameters)
            page = answer.get(key)
            if not is_list(page) or not all(map(is_object, page)):
                raise self.listing_incomplete(f"answered {method} without {key}")
            yield page
            cursor = str(descend(answer, "response_metadata").get("next_cursor") or "")
            if not cursor and not answer.get("has_more"):
                return
            guard.advance(map(repr, page), cursor)
            parameters["cursor"] = cursor

    def call(self, method: str, **parameters: Any) -> Json:
        """The response to one request. Raises SlackRefused: it is refused for good."""
        for attempt in range(1, http_retry.MAX_ATTEMPTS):
            answer = self._call_once(method, parameters)
            code = str(answer.get("error") or "")
            if answer.get("ok"):
                return answer
            if code in _RATE_LIMIT_CODES:
                wait_s = parse_retry_after(str(answer["retry_after"])) or _DEFAULT_LIMIT_WAIT_S
                http_retry.wait_or_raise(self.service, wait_s)
            elif code in _SERVER_ERROR_CODES:
                pause(http_retry.compute_backoff_s(attempt))
            else:
                raise self._to_source_error(method, answer, code)
        raise self.unavailable(f"failed at {method} at every attempt")

    def find(self, method: str, key: str, missing_codes: Container[str], **parameters: Any) -> Any:
        """What a response has under a key; None where Slack refuses with such a code. Raises as `call`."""
        try:
            return self.call(method, **parameters).get(key)
        except SlackRefused as refusal:
            if refusal.code in missing_codes:
                return None
            raise

    def _call_once(self, method: str, parameters: Json) -> Json:
        from slack_sdk.errors import SlackApiError

        try:
            client: Any = self._open_client()  # slack_sdk leaves the keys of its responses without types
            answer = client.api_call(method, params=parameters)
            return answer.data if is_object(answer.data) else {}
        except KnowledgeError:
            raise
        except SlackApiError as error:
            response: Any = error.response  # pyright: ignore[reportUnknownMemberType]  # it has no type
            status, data = int(response.status_code), response.data
            headers = {str(name).lower(): str(value) for name, value in (response.headers or Json()).items()}
            if status == 429 or status >= 500:
                raise SourceUnavailable(http_retry.format_retries_exhausted(self.service, status)) from None
            if status != 200 or not is_object(data):
                raise self._build_no_api_error(status) from None
            return {**data, "retry_after": headers.get("retry-after", "")}
        except (requests.exceptions.InvalidHeader, UnicodeError):
            raise SourceRefused(
                "connection.token holds characters that cannot be sent, a line break perhaps: correct it"
            ) from None
        except requests.RequestException as error:
            raise http_retry.to_source_error(self.service, error) from None

    def _open_client(self) -> WebClient:
        if self._client is None:
            from slack_sdk import WebClient

            session = self._session = http_retry.mount_retries(requests.Session(), self.service)
            session.auth = lambda request: request  # no .netrc is read
            refuse = self._build_no_api_error
            silent = logging.getLogger(f"{__name__}.sdk")
            silent.setLevel(logging.CRITICAL)  # it would log responses

            class SessionWebClient(WebClient):
                def _perform_urllib_http_request_internal(self, url: str, req: Any) -> dict[str, Any]:
                    """Called by slack_sdk to send each request; returns what slack_sdk expects."""
                    headers = dict(req.header_items())
                    response = session.post(url, data=req.data, headers=headers, allow_redirects=False)
                    body = response.content.decode("utf-8", "replace")
                    if response.status_code == 200 and not body.lstrip().startswith("{"):
                        raise refuse(200)
                    return {"status": response.status_code, "headers": response.headers, "body": body}

            self._client = SessionWebClient(
                token=self._connection.token.get_secret_value(),
                base_url=self._connection.url,
                timeout=int(http_retry.TIMEOUT_S),
                logger=silent,
                retry_handlers=[],
            )
        return self._client

    def _to_source_error(self, method: str, response: Json, code: str) -> KnowledgeError:
        if not _ERROR_CODE.fullmatch(code):  # slack_sdk's words for anything but JSON
            return self.unavailable(f"answered {method} with something other than JSON")
        if code in _TOKEN_ERROR_CODES:
            return SlackRefused(
                f"{self.service} does not accept connection.token ({code}): install the app in the workspace "
                "again and give the bot's token, xoxb-…",
                code,
            )
        if code == "missing_scope":
            needed = ", ".join(re.findall(r"[a-z]+:[a-z.]+", str(response.get("needed")))) or f"for {method}"
            return SlackRefused(
                f"the app of connection.token lacks the scope {needed} in {self.service}: add it under "
                "OAuth & Permissions, and install the app again",
                code,
            )
        return SlackRefused(
            f"{self.service} refused {method} ({code}): give connection.token the scopes that "
            "docs/sources/slack.md names, of an app that the workspace allows",
            code,
        )

    def _build_no_api_error(self, status: int) -> SourceRefused:
        answer = {200: "a web page"}.get(status, f"status {status}")
        return SourceRefused(
            f"{self.service} has no API at connection.url (it answered with {answer}): leave connection.url "
            "out, or give the API's address, https://slack.com/api/"
        )
