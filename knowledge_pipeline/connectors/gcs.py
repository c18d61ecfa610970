"""One bucket of Google Cloud Storage, by its JSON API over a retrying session with Google's identity.

API: https://cloud.google.com/storage/docs/json_api/v1/objects
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

import requests

from knowledge_pipeline.config.connections import GcsConnection
from knowledge_pipeline.connectors.base import DELETED_REASON, Sleep
from knowledge_pipeline.connectors.bucket_objects import FetchResult, ObjectInfo
from knowledge_pipeline.connectors.http_bucket import HttpBucket
from knowledge_pipeline.connectors.http_retry import mount_retries, to_source_error
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.text import is_object
from knowledge_pipeline.times import parse_time

_API = "https://storage.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_LISTING_FIELDS = "kind,nextPageToken,items(name,size,etag,updated,contentEncoding)"
_FOLDER_FIELDS = "kind,nextPageToken,prefixes"
_SKIP_REASONS = {403: "the service forbids us to read it (403)", 404: DELETED_REASON, 416: "empty"}


class GcsBucket(HttpBucket):
    """The bucket that a connection names; nothing is sent before the first call."""

    def __init__(self, connection: GcsConnection, *, sleep: Sleep = time.sleep) -> None:
        endpoint = connection.endpoint_url
        service = f"Cloud Storage at {urlsplit(endpoint).netloc}" if endpoint else "Google Cloud Storage"
        super().__init__(service, "connection.endpoint_url", sleep=sleep)
        self._connection = connection
        self._base = (endpoint or _API).rstrip("/")
        self._objects = f"storage/v1/b/{quote(connection.bucket, safe='')}/o"

    def list_objects(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object below a prefix, a thousand a call; names come in order, so that none is lost.

        Raises:
            ConfigError: Google's identity library is not installed.
            SourceRefused: the bucket does not exist or refuses us, or the endpoint is not Cloud Storage.
            SourceUnavailable: it did not answer, or limits us.
        """
        for page in self._iter_pages("pageToken", prefix=prefix, fields=_LISTING_FIELDS):
            for listed in page.get("items", ()):
                try:  # the ETag changes with the object's content and with its metadata
                    size = int(listed["size"])
                    info = ObjectInfo(listed["name"], size, f"{listed['etag']}-{size}", listed["updated"])
                except (KeyError, TypeError, ValueError):
                    raise self._build_listing_error() from None
                yield info

    def list_folders(self, prefix: str) -> Iterator[str]:
        """What names below a prefix begin with, up to the next slash. Errors as `list_objects`."""
        for page in self._iter_pages("pageToken", prefix=prefix, fields=_FOLDER_FIELDS, delimiter="/"):
            yield from page.get("prefixes", ())

    def read(self, key: str, locator: str, limit_bytes: int, start_byte: int = 0) -> FetchResult:
        """The bytes of one object from one on, as they are stored.

        Raises:
            DocumentSkipped: it is gone, or not for us to read.
            SourceRefused, SourceUnavailable: as `list_objects`.
        """
        address = f"{self._base}/download/{self._objects}/{quote(key, safe='')}?alt=media"
        payload, headers = self._read_range(address, limit_bytes, start_byte)
        written = parse_time(locator) if locator else None
        return FetchResult(payload, headers.get("Content-Encoding", ""), written)

    def _fetch_page(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        answer = self._request(f"{self._base}/{self._objects}", params={"maxResults": 1000, **parameters})
        self._require_success(answer.status_code)
        try:
            page = answer.json()
        except requests.JSONDecodeError:
            raise self._build_listing_error() from None
        if not is_object(page) or page.get("kind") != "storage#objects":
            raise self._build_listing_error()
        return page, page.get("nextPageToken")

    def _require_readable(self, response: requests.Response) -> None:
        if response.status_code in _SKIP_REASONS:
            raise DocumentSkipped(_SKIP_REASONS[response.status_code])
        self._require_success(response.status_code)

    def _request(self, address: str, **options: Any) -> requests.Response:
        try:
            from google.auth import exceptions as identity
        except ImportError:
            raise ConfigError(describe_missing("reading a bucket of Google Cloud Storage", "gcs")) from None
        try:
            return super()._request(address, **options)
        except identity.GoogleAuthError as error:
            if isinstance(error, identity.TransportError) or error.retryable:  # pyright: ignore[reportUnknownMemberType]  # google-auth leaves it untyped
                raise to_source_error(self.service, error, setting=self._setting) from None
            raise SourceRefused(
                f"{self.service} does not accept the identity ({type(error).__name__}): {self._identity_hint}"
            ) from None

    def _open_session(self) -> requests.Session:
        session = requests.Session()
        if not self._connection.anonymous:
            from google.auth.transport.requests import AuthorizedSession, Request

            identity_service = f"{self.service}'s identity service"
            asking = Request(mount_retries(requests.Session(), identity_service, sleep=self._sleep))
            session = AuthorizedSession(_load_credentials(self._connection), auth_request=asking)
        return mount_retries(session, self.service, sleep=self._sleep)

    def _require_success(self, status: int) -> None:
        bucket = repr(self._connection.bucket)
        if status in (200, 206):
            return
        if status in (408, 429) or status >= 500:
            limits = "limits our calls" if status == 429 else "failed"
            raise SourceUnavailable(f"{self.service} {limits} ({status}): try again later")
        if status in (401, 403) and self._connection.anonymous:
            raise SourceRefused(
                f"{self.service} does not let anonymous callers read the bucket {bucket}: "
                "leave out connection.anonymous and give connection.credentials"
            )
        if status == 401:
            raise SourceRefused(f"{self.service} does not accept the identity: {self._identity_hint}")
        if status == 403:
            raise SourceRefused(
                f"{self.service} does not let us list the bucket {bucket}: give the identity the role "
                "Storage Object Viewer on it (storage.objects.list, storage.objects.get), or correct "
                "connection.credentials"
            )
        if status == 404:
            raise SourceRefused(f"{self.service} has no bucket {bucket}: correct connection.bucket")
        raise SourceRefused(
            f"{self.service} refuses to answer ({status}): correct connection.bucket or "
            "connection.endpoint_url"
        )

    @property
    def _identity_hint(self) -> str:
        if self._connection.credentials:
            return "make a new key of the service account and name its file in connection.credentials"
        return "log in with `gcloud auth application-default login`, or set connection.credentials"


def _load_credentials(connection: GcsConnection) -> Any:
    """A service account by its key file, or the identity of this machine; SourceRefused without either."""
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError
    from google.oauth2.service_account import Credentials

    if connection.credentials is None:
        with suppress(DefaultCredentialsError):
            return google.auth.default(scopes=[_SCOPE])[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # google-auth leaves it untyped
        raise SourceRefused(
            "Google Cloud Storage needs an identity: set connection.credentials, log in with `gcloud "
            "auth application-default login`, or set connection.anonymous for a public bucket"
        )
    path = connection.credentials.expanduser()
    try:
        return Credentials.from_service_account_file(str(path), scopes=[_SCOPE])  # pyright: ignore[reportUnknownMemberType]  # google-auth leaves it untyped
    except OSError as error:
        why = error.strerror or "it cannot be read"
    except ValueError:
        why = "it is not the key of a service account"
    raise SourceRefused(f"connection.credentials names {path}, and {why}: correct it") from None
