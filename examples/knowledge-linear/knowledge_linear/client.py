"""Linear's GraphQL API: identity, whole lists page by page, and its errors as those of a source.

API: https://linear.app/developers/graphql
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import requests

from knowledge_pipeline.extending import SourceRefused, SourceUnavailable, mount_retries, to_source_error

Json = Mapping[str, Any]


class LinearClient:
    """The API of one workspace; nothing is sent before the first list is read."""

    def __init__(self, url: str, api_key: str) -> None:
        self.service = f"Linear at {urlsplit(url).hostname}"
        self._url, self._api_key = url, api_key
        self._session: requests.Session | None = None

    def iter_nodes(self, query: str, filters: Json) -> Iterator[Json]:
        """Every node of the one list that a query asks for, with `$filter` and `$after`, each once.

        Raises:
            SourceRefused, SourceUnavailable: Linear refuses us; it did not answer, or not to the end.
        """
        after: str | None = None
        cursors: set[str] = set()
        seen: set[str] = set()
        while True:
            (page,) = self._send(query, {"filter": filters, "after": after}).values()
            for node in page["nodes"]:
                if node["id"] not in seen:  # one that moved while the list was read
                    seen.add(node["id"])
                    yield node
            if not page["pageInfo"]["hasNextPage"]:
                return
            after = page["pageInfo"]["endCursor"]
            if not after or after in cursors:
                raise SourceUnavailable(f"{self.service} does not end a list: try again later")
            cursors.add(after)

    def close(self) -> None:
        """Free the connections; a later call opens them again."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _send(self, query: str, variables: Json) -> Json:
        """The data of an answer; 429 and failures of the server are waited out as long as Linear asks."""
        if self._session is None:
            self._session = mount_retries(requests.Session(), self.service)
            self._session.headers["Authorization"] = self._api_key  # a personal key goes without "Bearer"
        try:
            response = self._session.post(self._url, json={"query": query, "variables": variables})
        except requests.RequestException as error:
            raise to_source_error(self.service, error, setting="connection.settings.url") from None
        answer = _parse_object(response)
        if errors := answer.get("errors"):
            raise self._to_source_error(errors[0], response)
        if response.status_code in (429, *range(500, 600)):
            raise SourceUnavailable(f"{self.service} answers {response.status_code}: try again later")
        if response.status_code == 401:
            raise self._build_key_error()
        if response.status_code != 200 or not isinstance(answer.get("data"), dict):
            raise SourceRefused(
                f"{self.service} answers {response.status_code} without data: correct connection.settings.url"
            )
        return answer["data"]

    def _to_source_error(self, error: Json, response: requests.Response) -> SourceRefused | SourceUnavailable:
        """By the code of the first error. Source: https://linear.app/developers/rate-limiting"""
        code = str((error.get("extensions") or {}).get("code") or "")
        message = " ".join(str(error.get("message")).split())[:200]
        if code == "RATELIMITED":
            reset = response.headers.get("X-RateLimit-Requests-Reset", "")
            at = datetime.fromtimestamp(int(reset) / 1000, UTC) if reset.isdecimal() else None
            until = f" until {at:%Y-%m-%d %H:%M} UTC" if at else ""
            return SourceUnavailable(f"{self.service} limits our calls{until}: try again after that")
        if code == "AUTHENTICATION_ERROR" or response.status_code == 401:
            return self._build_key_error()
        if code == "FORBIDDEN" or response.status_code == 403:
            return SourceRefused(f"{self.service} forbids it ({message}): give the key the permission Read")
        if response.status_code >= 500:
            return SourceUnavailable(f"{self.service} failed ({message}): try again later")
        return SourceRefused(f"{self.service} refuses the query ({message}): update knowledge-linear")

    def _build_key_error(self) -> SourceRefused:
        return SourceRefused(
            f"{self.service} does not accept the key: correct connection.settings.api_key, it may be revoked"
        )


def _parse_object(response: requests.Response) -> Json:
    try:
        answer = response.json()
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
