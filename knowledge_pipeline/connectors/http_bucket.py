"""What buckets of Google Cloud Storage and Azure have in common: both are read over a retrying session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import requests

from knowledge_pipeline.connectors.base import Sleep
from knowledge_pipeline.connectors.http_retry import (
    MAX_ATTEMPTS,
    compute_backoff_s,
    read_complete,
    to_source_error,
)
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable


class HttpBucket(ABC):
    """One bucket, named by a connection; nothing is sent before the first call."""

    def __init__(self, service: str, setting: str, *, sleep: Sleep) -> None:
        self.service = service  # as a person knows it
        self._setting = setting  # the key to correct where no response came
        self._sleep = sleep
        self._session: requests.Session | None = None

    def close(self) -> None:
        """Free the connections."""
        if self._session is not None:
            self._session.close()
        self._session = None

    @abstractmethod
    def _open_session(self) -> requests.Session: ...

    @abstractmethod
    def _fetch_page(self, parameters: Mapping[str, Any]) -> tuple[Any, str | None]:
        """One page of a listing, and the token of the next one; None: it is the last."""

    @abstractmethod
    def _require_readable(self, response: requests.Response) -> None:
        """Raise DocumentSkipped, SourceRefused or SourceUnavailable for the status of a read."""

    def _iter_pages(self, token_key: str, **parameters: Any) -> Iterator[Any]:
        tokens: set[str] = set()
        while True:
            page, token = self._fetch_page(parameters)
            yield page
            if token is None:
                return
            if token in tokens:
                raise SourceUnavailable(f"{self.service} repeats a page of a listing: try again later")
            parameters[token_key] = token
            tokens.add(token)

    def _read_range(self, address: str, limit_bytes: int, start_byte: int) -> tuple[bytes, Mapping[str, str]]:
        """The bytes of one object from one on, as they are stored, and the headers of the response."""
        wanted = f"bytes={start_byte}-{start_byte + limit_bytes}"
        headers = {"Range": wanted, "Accept-Encoding": "gzip"}  # gzip: unpacked by us
        for attempt in range(1, MAX_ATTEMPTS + 1):
            with self._request(address, headers=headers, stream=True) as response:
                self._require_readable(response)
                if (payload := read_complete(response, limit_bytes)) is not None:
                    return payload, response.headers
            self._sleep(compute_backoff_s(attempt))
        raise SourceUnavailable(f"{self.service} cuts off its responses: try again later")

    def _request(self, address: str, **options: Any) -> requests.Response:
        try:
            if self._session is None:
                self._session = self._open_session()
            return self._session.get(address, **options)
        except requests.RequestException as error:
            raise to_source_error(self.service, error, setting=self._setting) from None

    def _build_listing_error(self) -> SourceRefused:
        """The error for any other JSON or XML than a listing, which would look like an empty bucket."""
        return SourceRefused(
            f"{self.service} answered with something other than a listing, as a login page or a proxy does: "
            "correct connection.endpoint_url"
        )
