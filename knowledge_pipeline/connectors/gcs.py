"""One bucket of Google Cloud Storage, by its JSON API over a retrying session with Google's identity.

API: https://cloud.google.com/storage/docs/json_api/v1/objects
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import requests

from knowledge_pipeline.config.connections import GcsConnection
from knowledge_pipeline.connectors.base import DELETED_REASON
from knowledge_pipeline.connectors.bucket_client import FetchResult, HttpBucket, ObjectInfo
from knowledge_pipeline.connectors.http_retry import mount_retries, to_source_error
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.text import is_object
from knowledge_pipeline.times import parse_time

_API = "https://storage.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_LISTING_FIELDS = "kind,nextPageToken,prefixes,items(name,size,etag,updated,contentEncoding)"
_SKIP_REASONS = {403: "the service forbids us to read it (403)", 404: DELETED_REASON, 416: "empty"}


class GcsBucket(HttpBucket):
    """A bucket of Google Cloud Storage."""

    setting = "connection.endpoint_url"

    def __init__(self, connection: GcsConnection) -> None:
        super().__init__("Google", "Cloud Storage", connection.endpoint_url)
        self._connection = connection
        self._base = (connection.endpoint_url or _API).rstrip("/")
        self._objects = f"storage/v1/b/{quote(connection.bucket, safe='')}/o"

    def read(self, key: str, locator: str, limit_bytes: int, start_byte: int = 0) -> FetchResult:
        """The bytes of one object from one on, as they are stored."""
        address = f"{self._base}/download/{self._objects}/{quote(key, safe='')}?alt=media"
        payload, headers = self._read_range(address, limit_bytes, start_byte)
        written = parse_time(locator) if locator else None
        return FetchResult(payload, headers.get("Content-Encoding", ""), written)

    def _fetch_page(
        self, prefix: str, delimiter: str | None, token: str | None
    ) -> tuple[dict[str, Any], str | None]:
        parameters = {"maxResults": 1000, "prefix": prefix, "delimiter": delimiter, "pageToken": token}
        parameters["fields"] = _LISTING_FIELDS
        answer = self._request(f"{self._base}/{self._objects}", params=parameters)
        if answer.status_code != 200:
            raise self._to_error(answer, reading=False)
        try:
            page = answer.json()
        except requests.JSONDecodeError:
            raise self._build_foreign_error() from None
        if not is_object(page) or page.get("kind") != "storage#objects":
            raise self._build_foreign_error()
        return page, page.get("nextPageToken")

    def _iter_objects(self, page: dict[str, Any]) -> Iterator[ObjectInfo]:
        for listed in page.get("items", ()):
            try:  # the ETag changes with the object's content and with its metadata
                size = int(listed["size"])
                info = ObjectInfo(listed["name"], size, f"{listed['etag']}-{size}", listed["updated"])
            except (KeyError, TypeError, ValueError):
                raise self._build_foreign_error() from None
            yield info

    def _iter_folders(self, page: dict[str, Any]) -> Iterator[str]:
        return iter(page.get("prefixes", ()))

    def _request(self, address: str, **options: Any) -> requests.Response:
        try:
            from google.auth import exceptions as identity
        except ImportError:
            raise ConfigError(describe_missing("reading a bucket of Google Cloud Storage", "gcs")) from None
        try:
            return super()._request(address, **options)
        except identity.GoogleAuthError as error:
            if isinstance(error, identity.TransportError) or error.retryable:  # pyright: ignore[reportUnknownMemberType]  # google-auth leaves it untyped
                raise to_source_error(self.service, error, setting=self.setting) from None
            raise SourceRefused(
                f"{self.service} does not accept the identity ({type(error).__name__}): {self._identity_hint}"
            ) from None

    def _open_session(self) -> requests.Session:
        session = requests.Session()
        if not self._connection.anonymous:
            from google.auth.transport.requests import AuthorizedSession, Request

            identity_service = f"{self.service}'s identity service"
            asking = Request(mount_retries(requests.Session(), identity_service))
            session = AuthorizedSession(_load_credentials(self._connection), auth_request=asking)
        return mount_retries(session, self.service)

    def _to_error(self, response: requests.Response, *, reading: bool) -> Exception:
        status, bucket = response.status_code, repr(self._connection.bucket)
        if reading and status in _SKIP_REASONS:
            return DocumentSkipped(_SKIP_REASONS[status])
        if status in (408, 429) or status >= 500:
            return self._build_overload_error(status, is_limit=status == 429)
        if status in (401, 403) and self._connection.anonymous:
            return SourceRefused(
                f"{self.service} does not let anonymous callers read the bucket {bucket}: "
                "leave out connection.anonymous and give connection.credentials"
            )
        if status == 401:
            return SourceRefused(f"{self.service} does not accept the identity: {self._identity_hint}")
        if status == 403:
            return SourceRefused(
                f"{self.service} does not let us list the bucket {bucket}: give the identity the role "
                "Storage Object Viewer on it (storage.objects.list, storage.objects.get), or correct "
                "connection.credentials"
            )
        if status == 404:
            return SourceRefused(f"{self.service} has no bucket {bucket}: correct connection.bucket")
        return SourceRefused(
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
