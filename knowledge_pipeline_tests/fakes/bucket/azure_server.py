"""A small Azure Blob Storage that speaks its REST API, on a real socket, as sources and stores use it.

    with AzureServer() as server:
        uri = server.create("guide.md", "# Guide")
        tree = BucketTree(server.connection, selection)

It checks the signature of each request (an account's key, a SAS, a token of a managed identity), lists by
pages, and writes under conditions. obstore, which signs and reads on its own, is the oracle of its tests, and
Azurite of it, where one is installed.

API: https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from knowledge_pipeline.config.connections import AzureConnection
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served

ACCOUNT = "knowledgetests"
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_SIGNED = (
    *("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type", "Date"),
    *("If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """How one request goes wrong. Faults are used up in order, one a request."""

    status: int = 503
    code: str = "ServerBusy"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None  # this body, whatever was asked
    cut_off: bool = False  # half of the true answer, then the connection is closed
    only: str = ""  # the next request whose path holds this


@dataclass(slots=True)
class Stored:
    """One blob."""

    payload: bytes
    encoding: str | None = None
    kind: str | None = None  # "directory" in an account with folders
    etag: str = field(default_factory=lambda: f"0x{uuid.uuid4().hex[:15].upper()}")
    written: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def properties(self) -> dict[str, str]:
        found = {
            "Last-Modified": format_datetime(self.written, usegmt=True),
            "Etag": self.etag,
            "Content-Length": str(len(self.payload)),
            "Content-Type": "application/octet-stream",
            "Content-Encoding": self.encoding or "",
        }
        return found | ({"ResourceType": self.kind} if self.kind else {})


class AzureServer(Served):
    """A context manager with one account and one container."""

    def __init__(self, *, page_size: int = 5000) -> None:
        super().__init__()
        self.bucket = "the-container"
        self.page_size = page_size
        self.public = False  # whether nobody has to say who asks
        self.permitted = True  # whether the identity may read
        self.key = base64.b64encode(b"an account's key, for tests").decode()
        self.sas = f"sv=2022-11-02&sr=c&sp=rl&sig={quote(base64.b64encode(b'a signature').decode(), safe='')}"
        self.token = "-".join(("azure", "token", "canary"))
        self.containers: dict[str, dict[str, Stored]] = {self.bucket: {}}
        self.requests: list[Asked] = []
        self.before_page: Callable[[int], None] | None = None
        self.after_put: Callable[[str], None] | None = None  # called with the path, before the answer
        self.before_batch: Callable[[], None] | None = None  # called before blobs are deleted together
        self.faults: deque[Fault] = deque()
        self._pages = 0
        self._blocks: dict[tuple[str, str], dict[str, bytes]] = {}
        self._writing = threading.Lock()

    @property
    def url(self) -> str:
        """Of the account, which is a part of the path as it is Azurite's."""
        return f"{self.address}/{ACCOUNT}"

    @property
    def objects(self) -> dict[str, Stored]:
        return self.containers[self.bucket]

    @property
    def connection(self) -> AzureConnection:
        return self.connected(account_key=self.key)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a store at `az://` finds it."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_STORAGE_ENDPOINT": self.url,
        }

    @property
    def identity(self) -> dict[str, str]:
        """The variables by which a machine finds its managed identity."""
        return {"IDENTITY_ENDPOINT": f"{self.address}/identity", "IDENTITY_HEADER": "of-this-machine"}

    def connected(self, **more: Any) -> AzureConnection:
        given = {"account": ACCOUNT, "container": self.bucket, "endpoint_url": self.url, **more}
        return AzureConnection.model_validate({"type": "azure", **given})

    def create(
        self, title: str, text: str | bytes, *, encoding: str | None = None, kind: str | None = None
    ) -> str:
        """The name is the title."""
        self.objects[title] = Stored(text.encode() if isinstance(text, str) else text, encoding, kind)
        return title

    def create_many(self, *titles: str) -> None:
        for title in titles:
            self.create(title, "text")

    edit = create

    def delete(self, uri: str) -> None:
        del self.objects[uri]

    def reset(self, container: str) -> None:
        """As if no test had been before, with an empty container."""
        self.bucket = container
        self.containers = {container: {}}
        self.requests.clear()
        self.faults.clear()
        self.permitted, self.after_put = True, None

    def fail_next(self, *faults: Fault) -> None:
        self.faults.extend(faults)

    def send(self, asked: Asked) -> Sent:
        if asked.path == "/identity":
            return self._token(asked)
        self.requests.append(asked)
        query = dict(parse_qsl(urlsplit(asked.target).query, keep_blank_values=True))
        if query.get("comp") == "list" and self.before_page:
            self._pages += 1
            self.before_page(self._pages - 1)
        fault = self.faults.popleft() if self.faults and self.faults[0].only in asked.path else None
        if fault and not fault.cut_off:
            return _refused(fault.status, fault.code, fault.headers, fault.body)
        if code := self._refusal(asked, query):
            return _refused(401 if code == "NoAuthenticationInformation" else 403, code)
        sent = self._answer(asked, query)
        if asked.verb == "PUT" and self.after_put:
            self.after_put(asked.path)
        return replace(sent, cut_off=fault is not None)

    def _answer(self, asked: Asked, query: Mapping[str, str]) -> Sent:
        _, _, container, *rest = asked.path.split("/", 3)
        name = unquote(rest[0]) if rest else ""
        if container not in self.containers:
            return _refused(404, "ContainerNotFound")
        blobs = self.containers[container]
        if asked.verb == "POST" and query.get("comp") == "batch":
            if self.before_batch:
                self.before_batch()
            return self._delete_many(asked)
        if query.get("comp") == "list":
            return Sent(200, self._list(container, query).encode(), {"Content-Type": "application/xml"})
        if asked.verb == "PUT":
            with self._writing:
                return self._put(asked, query, container, name)
        if name not in blobs:
            return _refused(404, "BlobNotFound")
        if asked.verb == "DELETE":
            del blobs[name]
            return Sent(202, b"")
        return _get(asked, blobs[name])

    def _token(self, asked: Asked) -> Sent:
        """https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference"""
        known = asked.headers.get("X-IDENTITY-HEADER") == self.identity["IDENTITY_HEADER"]
        if not known or asked.query["resource"] != ["https://storage.azure.com"]:
            return Sent(400, b"{}")
        told = {
            "access_token": self.token,
            "expires_on": str(int(time.time()) + 3600),
            "token_type": "Bearer",
        }
        return Sent(200, json.dumps(told).encode())

    def _refusal(self, asked: Asked, query: Mapping[str, str]) -> str | None:
        """The code of what is wrong with the identity."""
        if asked.authorization.startswith("SharedKey "):
            if asked.authorization != f"SharedKey {ACCOUNT}:{_signature(asked, query, self.key)}":
                return "AuthenticationFailed"
        elif "sig" in query:
            if not dict(parse_qsl(self.sas)).items() <= query.items():
                return "AuthenticationFailed"
        elif asked.authorization:
            if asked.authorization != f"Bearer {self.token}":
                return "InvalidAuthenticationInfo"
        elif not self.public:
            return "NoAuthenticationInformation"
        return None if self.permitted else "AuthorizationPermissionMismatch"

    def _list(self, container: str, query: Mapping[str, str]) -> str:
        """One page; its marker is the last name of the page before."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        entries: dict[str, str] = {}
        for name, stored in sorted(self.containers[container].items()):
            if not name.startswith(prefix) or name <= query.get("marker", ""):
                continue
            group, cut, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            key = f"{prefix}{group}{cut}" if cut else name
            entries[key] = f"<BlobPrefix>{_named(key)}</BlobPrefix>" if cut else _described(key, stored)
        most = min(self.page_size, int(query.get("maxresults", "5000")))
        shown = list(entries)[:most]
        last = (
            max((n for n in self.containers[container] if n.startswith(shown[-1])), default="")
            if shown
            else ""
        )
        marker = (last if delimiter else shown[-1]) if len(entries) > most else ""
        return (
            '<?xml version="1.0" encoding="utf-8"?>'
            f'<EnumerationResults ServiceEndpoint="{self.url}/" ContainerName="{container}">'
            f"<Blobs>{''.join(entries[key] for key in shown)}</Blobs>"
            f"<NextMarker>{escape(marker)}</NextMarker></EnumerationResults>"
        )

    def _put(self, asked: Asked, query: Mapping[str, str], container: str, name: str) -> Sent:
        blobs, blocks = self.containers[container], self._blocks.setdefault((container, name), {})
        if query.get("comp") == "block":
            blocks[query["blockid"]] = asked.content
            return Sent(201, b"")
        held = blobs.get(name)
        if asked.headers.get("If-None-Match") == "*" and held:
            return _refused(409, "BlobAlreadyExists")
        wanted = asked.headers.get("If-Match")
        if wanted and (held is None or wanted.strip('"') != held.etag):
            return _refused(412, "ConditionNotMet")
        payload = asked.content
        if query.get("comp") == "blocklist":
            payload = b"".join(blocks[each] for each in re.findall(r"<\w+>([^<]+)</", payload.decode()))
        elif "x-ms-copy-source" in asked.headers:
            source = unquote(urlsplit(asked.headers["x-ms-copy-source"]).path).split("/", 3)
            payload = self.containers[source[2]][source[3]].payload
        blobs[name] = Stored(payload)
        del self._blocks[container, name]
        return Sent(201, b"", {"ETag": f'"{blobs[name].etag}"', **_headers(blobs[name])})

    def _delete_many(self, asked: Asked) -> Sent:
        """https://learn.microsoft.com/rest/api/storageservices/blob-batch"""
        boundary, parts = "batchresponse_1", list[str]()
        for number, path in enumerate(re.findall(rb"DELETE (\S+) HTTP", asked.content)):
            _, container, name = unquote(urlsplit(path.decode()).path.removeprefix(f"/{ACCOUNT}")).split(
                "/", 2
            )
            gone = self.containers[container].pop(name, None)
            status = "202 Accepted" if gone else "404 The specified blob does not exist."
            error = "" if gone else "x-ms-error-code: BlobNotFound\r\n"
            parts.append(
                f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
                f"HTTP/1.1 {status}\r\n{error}x-ms-version: 2023-11-03\r\n\r\n"
            )
        body = "".join([*parts, f"--{boundary}--\r\n"]).encode()
        return Sent(202, body, {"Content-Type": f"multipart/mixed; boundary={boundary}"})


def _signature(asked: Asked, query: Mapping[str, str], key: str) -> str:
    """https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key"""
    signed = {name: asked.headers.get(name) or "" for name in _SIGNED}
    signed["Content-Length"] = signed["Content-Length"].removeprefix("0")
    own = sorted((name.lower(), value) for name, value in asked.headers.items())
    lines = [asked.verb, *signed.values(), *(f"{n}:{value}" for n, value in own if n.startswith("x-ms-"))]
    lines += [f"/{ACCOUNT}{asked.path}", *(f"{name}:{query[name]}" for name in sorted(query))]
    digest = hmac.digest(base64.b64decode(key), "\n".join(lines).encode(), hashlib.sha256)
    return base64.b64encode(digest).decode()


def _get(asked: Asked, stored: Stored) -> Sent:
    told = asked.headers.get("x-ms-range") or asked.headers.get("Range")
    headers = {"ETag": f'"{stored.etag}"', **_headers(stored)}
    if asked.verb == "HEAD":
        return Sent(200, b"", headers | {"Content-Length": str(len(stored.payload))})
    if not told:
        return Sent(200, stored.payload, headers)
    whole, (first, _, last) = len(stored.payload), told.removeprefix("bytes=").partition("-")
    start = int(first) if first else max(0, whole - int(last))
    part = stored.payload[start : int(last) + 1 if first and last else whole]
    if start >= whole:
        return _refused(416, "InvalidRange")
    return Sent(206, part, headers | {"Content-Range": f"bytes {start}-{start + len(part) - 1}/{whole}"})


def _headers(stored: Stored) -> dict[str, str]:
    kept = ("Last-Modified", "Content-Type", "Content-Encoding")
    return {name: stored.properties[name] for name in kept if stored.properties[name]}


def _described(name: str, stored: Stored) -> str:
    properties = "".join(f"<{each}>{value}</{each}>" for each, value in stored.properties.items())
    return f"<Blob>{_named(name)}<Properties>{properties}</Properties></Blob>"


def _named(name: str) -> str:
    if _ILLEGAL.search(name):
        return f'<Name Encoded="true">{quote(name)}</Name>'
    return f"<Name>{escape(name)}</Name>"


def _refused(
    status: int, code: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Sent:
    told = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>-</Message></Error>'
    own = {} if body is not None else {"x-ms-error-code": code, "Content-Type": "application/xml"}
    return Sent(status, told.encode() if body is None else body, own | dict(headers or {}))
