"""The API of one Confluence site: identity, paging, and the errors of its refusals.

The client library provides the addresses and the identity. Its own lists are not used: they end
silently where a response has no results, and pages that are not listed are archived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests

from knowledge_pipeline.config.connections import ConfluenceConnection
from knowledge_pipeline.connectors.download import Downloader, build_identity
from knowledge_pipeline.connectors.http_retry import (
    TIMEOUT_S,
    format_retries_exhausted,
    mount_retries,
    shorten_reason,
    to_source_error,
)
from knowledge_pipeline.connectors.service import PageGuard, ServiceClient
from knowledge_pipeline.errors import KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.text import descend, is_list, is_object, list_objects

Json = dict[str, Any]
Parameters = Mapping[str, Any]  # a list is sent as one parameter for each of its values

MISSING_STATUSES = frozenset({403, 404, 410})
"""Statuses that concern one document rather than the site, where one document is requested."""

_OVERLAP = 10  # results that a page by offset repeats of the one before
_LOGIN_FAILED = frozenset({"AUTHENTICATED_FAILED", "AUTHENTICATION_DENIED"})


class ConfluenceClient(ServiceClient):
    """One Confluence site."""

    def __init__(self, connection: ConfluenceConnection) -> None:
        self.base_url = connection.url.rstrip("/")
        address = urlsplit(self.base_url)
        host = address.hostname or ""
        if host.endswith(".atlassian.net") and not address.path:
            self.base_url += "/wiki"
        service, identity = f"Confluence at {host}", build_identity(connection.token, connection.email)
        super().__init__(service, Downloader(service, [self.base_url], identity))
        self.public_url = self.base_url
        """Where people open the site, as its responses say: an API gateway has another address."""
        self.is_cloud = connection.email is not None or host.endswith((".atlassian.net", "api.atlassian.com"))
        self._connection = connection
        self._client: Any = None

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        super().close()
        if self._client is not None:
            self._client.close()
            self._client = None

    def build_file_address(self, page_id: str, file_id: str, path: str) -> str:
        """Where the bytes of a page's file are; `path` is where the site has them, below its address."""
        if self.is_cloud:  # where an API gateway has them, too
            id_ = file_id if file_id.startswith("att") else f"att{file_id}"
            path = f"/rest/api/content/{page_id}/child/attachment/{id_}/download"
        return f"{self.base_url}{path}"

    def get_or_status(self, path: str, parameters: Parameters) -> Json | int:
        """The JSON object at a path, or one of `MISSING_STATUSES`."""
        response = self._send(path, parameters)
        if response.status_code in MISSING_STATUSES:
            return response.status_code
        return self._parse_json(self._require_success(response))

    def list_or_status(self, path: str, refusals: frozenset[int]) -> list[Any] | int:
        """The JSON list at a path, which has no pages, or one of these statuses, without another attempt."""
        response = self._send(path, {}, refusals)
        if response.status_code in refusals:
            return response.status_code
        answer = _load_json(self._require_success(response))
        entries = answer.get("results") if is_object(answer) else answer
        if not is_list(entries):
            raise self.listing_incomplete(f"answered {path} without a list")
        return entries

    def call_or_status(self, method: str, parameter: str, refusals: frozenset[int]) -> Any:
        """The result of a call by JSON-RPC, None if it fails; or one of these statuses, not tried again."""
        call = {"jsonrpc": "2.0", "method": method, "params": [parameter], "id": 1}
        response = self._send("rpc/json-rpc/confluenceservice-v2", {}, refusals, call)
        if response.status_code in refusals:
            return response.status_code
        answer = _load_json(self._require_success(response))
        return answer.get("result") if is_object(answer) else None

    def iter_results(
        self, path: str, parameters: Parameters, to_refusal: Callable[[int], Exception] | None = None
    ) -> Iterator[Json]:
        """All results of a listing, each once. Raises `to_refusal` of one of `MISSING_STATUSES`, where given.

        A cursor keeps its place. An offset does not: where a result that was read is deleted, all later
        ones move up, and one is lost between two pages. So every page repeats the end of the one before;
        if it begins with something new all the same, it is read again from further back.
        """
        question = dict(parameters)
        seen: dict[str, None] = {}  # in order
        stepped_from: set[int] = set()
        offsets = _OffsetCursor()
        guard = PageGuard(partial(self.listing_incomplete, "does not end a listing"))
        while True:
            response = self._send(path, question)
            if to_refusal is not None and response.status_code in MISSING_STATUSES:
                raise to_refusal(response.status_code)
            results, following = self._parse_page(self._require_success(response), question)
            keys = [_key_of(result) for result in results]
            start = 0 if "cursor" in question else int(question.get("start", 0))
            moved = keys[0] not in seen if keys else not following
            if start > 0 and moved and start not in stepped_from:
                stepped_from.add(start)
                question["start"] = max(0, start - offsets.page_size)
                continue
            fresh = {key: result for key, result in zip(keys, results, strict=True) if key not in seen}
            seen.update(dict.fromkeys(fresh))
            yield from fresh.values()
            if not following:
                return
            query: Json = parse_qs(urlsplit(following).query)  # the host of the address is never used
            cursor, offset = query.get("cursor", [None])[0], query.pop("start", [""])[0]
            guard.advance(fresh, cursor)
            if cursor is not None:  # Cloud names an offset, too, and goes by the cursor
                question |= query
                continue
            if offsets.is_repeated(start, keys):
                if next(iter(seen)) in keys:  # the first records again
                    raise guard.error()
                return  # the last ones (CONFSERVER-95272)
            suggested = int(offset) if offset.isdecimal() else 0
            question["start"] = offsets.advance(start, keys, len(fresh), suggested)
            if question["start"] <= start:
                raise guard.error()

    def _parse_page(self, response: requests.Response, question: Json) -> tuple[list[Json], str]:
        answer = self._parse_json(response)
        results, links = answer.get("results"), descend(answer, "_links")
        if not is_list(results):
            raise self.listing_incomplete("answered a listing without results")
        if str(links.get("base") or "").startswith(("https://", "http://")):
            self.public_url = str(links["base"]).rstrip("/")
        following = str(links.get("next") or response.links.get("next", {}).get("url") or "")
        # some servers name no next page of a search: a full one has it; Cloud names all, and goes by cursors
        if not following and ("start" in question or not self.is_cloud):
            start, limit = answer.get("start"), answer.get("limit")
            if isinstance(start, int) and isinstance(limit, int) and 0 < limit <= len(results):
                following = f"?start={start + limit}"
        return list(filter(is_object, results)), following

    def _send(
        self,
        path: str,
        parameters: Parameters,
        no_retry_statuses: frozenset[int] = frozenset(),
        body: Json | None = None,
    ) -> requests.Response:
        """Send one request; a redirect is not followed, because it leads to a login page."""
        try:
            client = self._open_client()
            self._adapter.no_retry_statuses = no_retry_statuses
            return client.request(
                "GET" if body is None else "POST",
                path,
                data=body,
                params=dict(parameters),
                advanced_mode=True,
                allow_redirects=False,
            )
        except KnowledgeError:
            raise
        except (requests.exceptions.InvalidHeader, UnicodeError):
            raise SourceRefused(
                "connection.token or connection.email holds characters that cannot be sent, a line break "
                "perhaps: correct it"
            ) from None
        except requests.RequestException as error:
            raise to_source_error(self.service, error) from None

    def _open_client(self) -> Any:
        if self._client is None:
            from atlassian.confluence_base import ConfluenceBase

            token = self._connection.token
            secret = token.get_secret_value() if token else None
            identity: Json = {"token": secret}
            if self._connection.email is not None and secret:
                identity = {"username": self._connection.email, "password": secret}
            session = mount_retries(requests.Session(), self.service)
            self._adapter: Any = session.get_adapter(self.base_url)
            if not secret:
                session.auth = lambda request: request  # no identity of this machine's .netrc either
            self._client = ConfluenceBase(
                self.base_url, session=session, timeout=int(TIMEOUT_S), retry_with_header=False, **identity
            )
        return self._client

    def _require_success(self, response: requests.Response) -> requests.Response:
        status = response.status_code
        if response.headers.get("X-Seraph-LoginReason", "") in _LOGIN_FAILED:
            status = 401  # the response is one for anonymous callers
        if status == 200:
            return response
        if status == 401:
            if self._connection.token is None:
                raise SourceRefused(
                    f"{self.service} answers only authenticated callers: set connection.token"
                )
            email = self._connection.email
            who = "connection.email and connection.token" if email else "connection.token"
            hint = "" if email or not self.is_cloud else " (Cloud needs connection.email too)"
            raise SourceRefused(
                f"{self.service} does not accept the token: it is wrong, expired or revoked: "
                f"correct {who}{hint}"
            )
        if status == 429 or status >= 500:
            raise SourceUnavailable(format_retries_exhausted(self.service, status))
        reason = _parse_reason(response)
        if status == 403:
            raise SourceRefused(
                f"{self.service} forbids what the source reads ({reason}): let the owner of connection.token "
                "use Confluence, and give a token with scopes those that docs/sources/confluence.md names"
            )
        if 300 <= status < 400:
            raise SourceRefused(
                f"{self.service} redirects us, to a login page or from http to https: "
                "correct connection.url and connection.token"
            )
        if status in MISSING_STATUSES:
            raise SourceRefused(
                f"{self.service} has no API for us at connection.url: Cloud's address ends in /wiki, that of "
                "a server is where its start page is; without an e-mail it is taken for a server"
            )
        raise SourceRefused(
            f"{self.service} refused the query with {status} ({reason}): correct the source's spaces, "
            "or connection.url"
        )

    def _parse_json(self, response: requests.Response) -> Json:
        answer = _load_json(response)
        if not is_object(answer):
            raise SourceRefused(
                f"{self.service} answered with a web page, perhaps a login page, instead of data: "
                "correct connection.url"
            )
        return answer


def _load_json(response: requests.Response) -> Any:
    """None of what is not JSON."""
    try:
        return response.json()
    except ValueError:
        return None


class _OffsetCursor:
    """Where a listing by offset goes on.

    A server may give fewer results than were asked for, and name the offset after as many as were asked
    for. Or it leaves out of a page what may not be seen, which looks the same. So the next page begins
    where the results end, as long as there are new ones.
    """

    def __init__(self) -> None:
        self.page_size = 1  # results that one page had at most
        self._read_to = 0
        self._last: tuple[list[str], int] = ([], 0)  # keys of the page before, and the next offset it named

    def is_repeated(self, start: int, keys: list[str]) -> bool:
        """Whether a page is the one before again, though it begins after it."""
        return bool(keys) and keys == self._last[0] and start >= self._last[1]

    def advance(self, start: int, keys: list[str], fresh_count: int, suggested: int) -> int:
        """The offset of the next page, after one at `start`; `suggested` is what the server calls it."""
        self._last = keys, suggested
        self.page_size = max(self.page_size, len(keys))
        end = start + len(keys)
        is_passed = fresh_count == 0 and end > self._read_to  # all that it shows was read
        self._read_to = max(self._read_to, end)
        if not keys or is_passed:
            return suggested
        return min(suggested, end) - min(_OVERLAP, len(keys) // 2)


def _key_of(result: Json) -> str:
    """What tells results apart; people and groups have no id everywhere."""
    names = ("id", "accountId", "userKey", "username", "name")
    return next((str(result[name]) for name in names if result.get(name)), repr(result))


def _parse_reason(response: requests.Response) -> str:
    answer = _load_json(response)
    reason = answer.get("message") or answer.get("errors") if is_object(answer) else None
    for error in list_objects(reason)[:1]:
        reason = error.get("title") or error.get("message")
    return shorten_reason(str(reason or ""))
