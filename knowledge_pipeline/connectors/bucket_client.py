"""One bucket as a tree of files needs it, and what the clients of three services have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Any
from urllib.parse import urlsplit

import requests

from knowledge_pipeline.connectors.base import pause
from knowledge_pipeline.connectors.http_retry import (
    MAX_ATTEMPTS,
    compute_backoff_s,
    read_complete,
    to_source_error,
)
from knowledge_pipeline.connectors.service import PageGuard
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as its bucket lists it."""

    key: str  # bytes that are not UTF-8 as in `decode_path`
    size_bytes: int
    revision: str
    locator: str = ""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The bytes of one object, or the first of them, as they are stored."""

    payload: bytes
    encoding: str = ""  # the Content-Encoding that it was stored with
    last_modified: datetime | None = None


class Bucket(ABC):
    """One bucket, named by a connection; nothing is sent before the first call. Errors as `Source`.

    ConfigError where the service's client is not installed. Calls are retried. Keys come in order and a page
    begins after the last key of the one before, so that writes during a listing hide no other object.
    """

    def __init__(self, company: str, name: str, endpoint_url: str | None) -> None:
        """`company` and `name`: of the service, as a person knows it."""
        self.service = f"{name} at {urlsplit(endpoint_url).netloc}" if endpoint_url else f"{company} {name}"
        self._session: Any = None  # opened by the first call

    def list_objects(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object whose key begins with a prefix, in few calls; complete, or an exception."""
        for page in self._iter_pages(prefix, None):
            yield from self._iter_objects(page)

    def list_folders(self, prefix: str) -> Iterator[str]:
        """The prefixes of what is below a prefix, each up to the next slash; complete, or an exception."""
        for page in self._iter_pages(prefix, "/"):
            yield from self._iter_folders(page)

    @abstractmethod
    def read(self, key: str, locator: str, limit_bytes: int, start_byte: int = 0) -> FetchResult:
        """The bytes of one object from one on, one more than `limit_bytes` at most.

        Raises DocumentSkipped where it has none there, or cannot be read.
        """

    def close(self) -> None:
        """Free the connections."""
        if self._session is not None:
            self._session.close()
        self._session = None

    @abstractmethod
    def _fetch_page(self, prefix: str, delimiter: str | None, token: str | None) -> tuple[Any, str | None]:
        """One page of a listing, and the token of the next one; None: it is the last."""

    @abstractmethod
    def _iter_objects(self, page: Any) -> Iterator[ObjectInfo]: ...

    @abstractmethod
    def _iter_folders(self, page: Any) -> Iterator[str]: ...

    def _iter_pages(self, prefix: str, delimiter: str | None) -> Iterator[Any]:
        token, guard = None, PageGuard(self._build_repetition_error)
        while True:
            page, token = self._fetch_page(prefix, delimiter, token)
            if token is not None:
                # keys come in order, so that the first one tells pages apart
                keys = chain((info.key for info in self._iter_objects(page)), self._iter_folders(page))
                guard.advance(islice(keys, 1), token)
            yield page
            if token is None:
                return

    def _build_repetition_error(self) -> SourceUnavailable:
        return SourceUnavailable(f"{self.service} repeats a page of a listing: try again later")

    def _build_overload_error(self, code: str | int, *, is_limit: bool) -> SourceUnavailable:
        limits = "limits our calls" if is_limit else "failed"
        return SourceUnavailable(f"{self.service} {limits} ({code}): try again later")

    def _build_foreign_error(self, expected: str = "a listing") -> SourceRefused:
        """The error for any other JSON or XML, which would look like an empty bucket."""
        return SourceRefused(
            f"{self.service} answered with something other than {expected}, as a login page or a proxy does: "
            "correct connection.endpoint_url"
        )


class HttpBucket(Bucket):
    """A bucket that is read over a retrying session."""

    setting: str  # the key to correct where no response came

    @abstractmethod
    def _open_session(self) -> requests.Session: ...

    @abstractmethod
    def _to_error(self, response: requests.Response, *, reading: bool) -> Exception:
        """The error for a status; `reading`: one object was read, which the service may refuse alone."""

    def _read_range(self, address: str, limit_bytes: int, start_byte: int) -> tuple[bytes, Mapping[str, str]]:
        """The bytes of one object from one on, as they are stored, and the headers of the response."""
        wanted = f"bytes={start_byte}-{start_byte + limit_bytes}"
        headers = {"Range": wanted, "Accept-Encoding": "gzip"}  # gzip: unpacked by us
        for attempt in range(1, MAX_ATTEMPTS + 1):
            with self._request(address, headers=headers, stream=True) as response:
                if response.status_code not in (200, 206):
                    raise self._to_error(response, reading=True)
                if (payload := read_complete(response, limit_bytes)) is not None:
                    return payload, response.headers
            pause(compute_backoff_s(attempt))
        raise SourceUnavailable(f"{self.service} cuts off its responses: try again later")

    def _request(self, address: str, **options: Any) -> requests.Response:
        try:
            if self._session is None:
                self._session = self._open_session()
            return self._session.get(address, **options)
        except requests.RequestException as error:
            raise to_source_error(self.service, error, setting=self.setting) from None
