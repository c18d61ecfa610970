"""One container of Azure Blob Storage, by its REST API over a retrying session.

API: https://learn.microsoft.com/rest/api/storageservices/list-blobs,
https://learn.microsoft.com/rest/api/storageservices/get-blob
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterator
from email.utils import formatdate, parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import requests
from lxml import etree

from knowledge_pipeline.config.connections import AzureConnection
from knowledge_pipeline.connectors.base import DELETED_REASON
from knowledge_pipeline.connectors.bucket_client import FetchResult, HttpBucket, ObjectInfo
from knowledge_pipeline.connectors.http_retry import mount_retries
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused
from knowledge_pipeline.extras import describe_missing

_VERSION = "2021-12-02"  # of the protocol; the first ones list no name with U+FFFF
_LISTING = {"restype": "container", "comp": "list", "maxresults": "5000"}  # the most that a page holds
_SKIP_REASONS = {
    "BlobArchived": "archived in a tier that has to be rehydrated before it can be read",
    "BlobNotFound": DELETED_REASON,
    "BlobUsesCustomerSpecifiedEncryption": "encrypted with a key that each request must carry",
    "InvalidRange": "empty",
}
_PRIVATE_CODES = {"NoAuthenticationInformation", "PublicAccessNotPermitted", "ResourceNotFound"}


class AzureContainer(HttpBucket):
    """A container of Azure Blob Storage."""

    setting = "connection.account and connection.endpoint_url"

    def __init__(self, connection: AzureConnection) -> None:
        super().__init__("Azure", "Blob Storage", connection.endpoint_url)
        self._connection = connection
        self._address = f"{connection.account_url}/{connection.container}"

    def read(self, key: str, locator: str, limit_bytes: int, start_byte: int = 0) -> FetchResult:
        """The bytes of one blob from one on, as they are stored."""
        payload, headers = self._read_range(f"{self._address}/{quote(key, safe='')}", limit_bytes, start_byte)
        written = parsedate_to_datetime(headers["Last-Modified"])
        return FetchResult(payload, headers.get("Content-Encoding", ""), written)

    def _fetch_page(self, prefix: str, delimiter: str | None, token: str | None) -> tuple[Any, str | None]:
        parameters = {"prefix": prefix or None, "delimiter": delimiter, "marker": token}
        answer = self._request(self._address, params={**_LISTING, **parameters})
        if answer.status_code != 200:
            raise self._to_error(answer, reading=False)
        try:
            page: Any = etree.fromstring(answer.content, etree.XMLParser(resolve_entities=False))
        except etree.XMLSyntaxError:
            raise self._build_foreign_error() from None
        container, marker = page.get("ContainerName"), page.find("NextMarker")
        if page.tag != "EnumerationResults" or container != self._connection.container or marker is None:
            raise self._build_foreign_error()
        return page, marker.text or None

    def _iter_objects(self, page: Any) -> Iterator[ObjectInfo]:
        for blob in page.findall("Blobs/Blob"):
            if blob.findtext("Properties/ResourceType") == "directory":
                continue
            etag, size = map(blob.findtext, ("Properties/Etag", "Properties/Content-Length"))
            if not etag or not (size or "").isdecimal():
                raise self._build_foreign_error()
            # the ETag changes with each write
            yield ObjectInfo(self._name_of(blob), int(size), f"{etag}-{size}")

    def _iter_folders(self, page: Any) -> Iterator[str]:
        return map(self._name_of, page.findall("Blobs/BlobPrefix"))

    def _name_of(self, listed: Any) -> str:
        name = listed.find("Name")
        if name is None:
            raise self._build_foreign_error()
        return unquote(name.text or "") if name.get("Encoded") == "true" else name.text or ""

    def _request(self, address: str, **options: Any) -> requests.Response:
        return super()._request(address, allow_redirects=False, **options)

    def _open_session(self) -> requests.Session:
        session = mount_retries(requests.Session(), self.service)
        session.headers["x-ms-version"] = _VERSION
        session.auth = build_auth(self._connection, self.service)
        if self._connection.sas_token:
            signed = self._connection.sas_token.get_secret_value().removeprefix("?")
            session.params = dict(parse_qsl(signed))
        return session

    def _to_error(self, response: requests.Response, *, reading: bool) -> Exception:
        status, container = response.status_code, repr(self._connection.container)
        # what went wrong, in the service's own words for programs
        code = response.headers.get("x-ms-error-code") or str(status)
        if reading and code in _SKIP_REASONS:
            return DocumentSkipped(_SKIP_REASONS[code])
        if reading and status == 403 and code.startswith("Authorization"):
            return DocumentSkipped(f"the service forbids us to read it ({code})")
        if status in (408, 429) or status >= 500:
            return self._build_overload_error(code, is_limit=status in (429, 503))
        if self._connection.anonymous and (status in (401, 403) or code in _PRIVATE_CODES):
            return SourceRefused(
                f"{self.service} does not let anonymous callers list the container {container}: "
                "leave out connection.anonymous and give connection.account_key or connection.sas_token"
            )
        if code == "KeyBasedAuthenticationNotPermitted":
            return SourceRefused(
                f"{self.service} takes no account keys: leave out connection.account_key and "
                "connection.sas_token, and log in with `az login` or use the machine's identity"
            )
        if status == 401 or code == "AuthenticationFailed":
            return SourceRefused(f"{self.service} does not accept the identity ({code}): {self._remedy}")
        if status == 403:
            return SourceRefused(
                f"{self.service} does not let us list the container {container} ({code}): give the identity "
                "the role Storage Blob Data Reader on it, a SAS the permissions read and list, and let "
                "this machine through the account's firewall"
            )
        if status == 404:
            return SourceRefused(f"{self.service} has no container {container}: correct connection.container")
        return SourceRefused(
            f"{self.service} refuses to answer ({code}): correct connection.container or {self.setting}"
        )

    @property
    def _remedy(self) -> str:
        if self._connection.account_key:
            return "correct connection.account and connection.account_key, and the clock of this machine"
        if self._connection.sas_token:
            return (
                "make a new SAS for connection.sas_token: it may have expired, or belong to another container"
            )
        return "log in with `az login`, or set connection.account_key or connection.sas_token"


_SCOPE = "https://storage.azure.com/.default"
_SIGNED_HEADERS = (
    *("content-encoding", "content-language", "content-length", "content-md5", "content-type", "date"),
    *("if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"),
)

Auth = Callable[[requests.PreparedRequest], requests.PreparedRequest]


def build_auth(connection: AzureConnection, service: str) -> Auth:
    """What signs each request of a session; a SAS is part of the address, and signs nothing.

    Raises:
        ConfigError: the machine's identity is needed, and its library is not installed.
        SourceRefused: the key is not one.
    """
    if connection.account_key:
        try:
            key = base64.b64decode(connection.account_key.get_secret_value(), validate=True)
        except binascii.Error:
            raise SourceRefused(
                "connection.account_key is not the key of an account: copy it again"
            ) from None
        return lambda request: _sign(request, connection.account, key)
    if connection.anonymous or connection.sas_token:
        return lambda request: request  # given, so that no other login of this machine is sent
    return _IdentityAuth(service)


class _IdentityAuth:
    """Signs in as this machine: by variables, a managed or workload identity, or the command line."""

    def __init__(self, service: str) -> None:
        try:
            from azure.identity import DefaultAzureCredential
        except ImportError:
            raise ConfigError(describe_missing("the identity of this machine at Azure", "azure")) from None
        self._service = service
        self._credential: Any = DefaultAzureCredential()

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        from azure.core.exceptions import AzureError

        try:
            token = self._credential.get_token(_SCOPE).token  # kept until it expires
        except AzureError as error:
            raise SourceRefused(
                f"{self._service} needs an identity, and this machine has none ({type(error).__name__}): set "
                "connection.account_key or connection.sas_token, log in with `az login`, or set "
                "connection.anonymous for a public container"
            ) from None
        request.headers["Authorization"] = f"Bearer {token}"
        return request


def _sign(request: requests.PreparedRequest, account: str, key: bytes) -> requests.PreparedRequest:
    """Add the signature of a request that has no content.

    API: https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
    """
    request.headers["x-ms-date"] = formatdate(usegmt=True)
    address = urlsplit(str(request.url))
    headers = {name.lower(): str(value) for name, value in request.headers.items()}
    query = sorted(parse_qsl(address.query, keep_blank_values=True))
    lines = [
        str(request.method),
        *("" if name == "content-length" else headers.get(name, "") for name in _SIGNED_HEADERS),
        *(f"{name}:{value}" for name, value in sorted(headers.items()) if name.startswith("x-ms-")),
        f"/{account}{address.path}",
        *(f"{name}:{value}" for name, value in query),
    ]
    signature = base64.b64encode(hmac.digest(key, "\n".join(lines).encode(), hashlib.sha256)).decode()
    request.headers["Authorization"] = f"SharedKey {account}:{signature}"
    return request
