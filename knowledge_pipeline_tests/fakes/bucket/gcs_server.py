"""A small Google Cloud Storage that speaks its JSON API, on a real socket.

    with GcsServer(tmp_path) as server:
        uri = server.create("guide.md", "# Guide")
        tree = BucketTree(server.connection, selection)

It lists by pages and gives media, ranges too; a service account's key file, made for it, is exchanged
for a token as Google's are. The fields are those that google-cloud-storage 3.17 reads (its `Blob`).

API: https://cloud.google.com/storage/docs/json_api/v1/objects
"""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from knowledge_pipeline.config_connections import GcsConnection

_LIST, _MEDIA = "/storage/v1/b/", "/download/storage/v1/b/"


@dataclass(frozen=True, slots=True)
class Fault:
    """How one request goes wrong. Faults are used up in order, one a request."""

    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None  # this body, whatever was asked
    cut_off: bool = False  # half of the true answer, then the connection is closed
    only: str = ""  # the next request whose path holds this


@dataclass(slots=True)
class Stored:
    """One object."""

    payload: bytes
    generation: int
    updated: datetime
    encoding: str | None = None
    metageneration: int = 1

    @property
    def etag(self) -> str:
        return b64encode(f"{self.generation}.{self.metageneration}".encode()).decode()


@cache
def _private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


class GcsServer:
    """A context manager with one bucket; `page_size` is the most that a page holds."""

    def __init__(self, folder: Path, *, page_size: int = 1000) -> None:
        self.bucket = "the-bucket"
        self.page_size = page_size
        self.public = False  # whether nobody has to say who asks
        self.permitted = True  # whether the account may do anything
        self.known = True  # whether the account is one
        self.token = "-".join(("gcs", "token", "canary"))
        self.objects: dict[str, Stored] = {}
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        self.before_page: Callable[[int], None] | None = None
        self.faults: deque[Fault] = deque()
        self._pages = 0
        self._generation = 1_700_000_000_000_000
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.key_file = folder / "service-account.json"

    def __enter__(self) -> GcsServer:
        self._thread.start()
        account = {"type": "service_account", "project_id": "p", "client_email": "reader@example.org"}
        account |= {"private_key": _private_key(), "private_key_id": "1", "token_uri": f"{self.url}/token"}
        self.key_file.write_text(json.dumps(account))
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def connection(self) -> GcsConnection:
        return self.connected(credentials=self.key_file)

    def connected(self, **more: Any) -> GcsConnection:
        given = {"bucket": self.bucket, "endpoint_url": self.url, **more}
        return GcsConnection.model_validate({"type": "gcs", **given})

    def create(self, title: str, text: str | bytes, *, encoding: str | None = None) -> str:
        """The name is the title."""
        self._generation += 1
        written = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=self._generation % 1_000_000)
        payload = text.encode() if isinstance(text, str) else text
        self.objects[title] = Stored(payload, self._generation, written, encoding)
        return title

    def create_many(self, *titles: str) -> None:
        for title in titles:
            self.create(title, "text")

    edit = create

    def delete(self, uri: str) -> None:
        del self.objects[uri]

    def fail_next(self, *faults: Fault) -> None:
        self.faults.extend(faults)

    def refusal(self, authorization: str) -> int | None:
        if self.public:
            return None
        if authorization != f"Bearer {self.token}":
            return 401
        return None if self.permitted else 403

    def listed(self, path: str) -> None:
        """What the test does before a page is answered."""
        if path.startswith(_LIST) and self.before_page:
            self._pages += 1
            self.before_page(self._pages - 1)

    def listing(self, query: dict[str, list[str]]) -> dict[str, Any]:
        """One page; its token is the last name of the page before."""
        prefix, behind = query.get("prefix", [""])[0], query.get("pageToken", [""])[0]
        names = sorted(name for name in self.objects if name.startswith(prefix) and name > behind)
        most = min(self.page_size, int(query.get("maxResults", ["1000"])[0]))
        answer: dict[str, Any] = {"kind": "storage#objects"}
        if items := [self._described(name) for name in names[:most]]:
            answer["items"] = items
        if len(names) > most:
            answer["nextPageToken"] = names[most - 1]
        return answer

    def _described(self, name: str) -> dict[str, Any]:
        stored = self.objects[name]
        told = {"kind": "storage#object", "name": name, "bucket": self.bucket, "etag": stored.etag}
        told |= {"size": str(len(stored.payload)), "generation": str(stored.generation)}
        told |= {"metageneration": str(stored.metageneration), "storageClass": "STANDARD"}
        told["updated"] = stored.updated.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return told | ({"contentEncoding": stored.encoding} if stored.encoding else {})


def _handler(server: GcsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if server.known:
                self._json(200, {"access_token": server.token, "expires_in": 3600, "token_type": "Bearer"})
            else:
                self._json(400, {"error": "invalid_grant", "error_description": "no such account"})

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            server.requests.append((parts.path, query))
            server.listed(parts.path)
            fault = server.faults.popleft() if server.faults and server.faults[0].only in parts.path else None
            if fault and not fault.cut_off:
                self._send(fault.status, fault.body or b"{}", headers=fault.headers)
                return
            if status := server.refusal(self.headers.get("Authorization", "")):
                self._json(status, {"error": {"code": status, "message": "on purpose"}})
            elif parts.path.startswith(_LIST):
                self._list(parts.path.removeprefix(_LIST), query, cut_off=fault is not None)
            else:
                self._media(parts.path.removeprefix(_MEDIA), cut_off=fault is not None)

        def _list(self, path: str, query: dict[str, list[str]], *, cut_off: bool) -> None:
            if path != f"{server.bucket}/o":
                self._json(404, {"error": {"code": 404, "message": "no such bucket"}})
                return
            self._send(200, json.dumps(server.listing(query)).encode(), cut_off=cut_off)

        def _media(self, path: str, *, cut_off: bool) -> None:
            bucket, _, name = path.partition("/o/")
            stored = server.objects.get(unquote(name)) if bucket == server.bucket else None
            if stored is None:
                self._send(404, b"No such object", kind="text/html")
                return
            first, last = _range(self.headers.get("Range"))
            if first >= len(stored.payload):
                self._send(416, b"not satisfiable", kind="text/html")
                return
            part, whole = stored.payload[first : last + 1], len(stored.payload)
            headers = {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{whole}"}
            headers |= {"ETag": stored.etag, "x-goog-generation": str(stored.generation)}
            if stored.encoding:
                headers["Content-Encoding"] = stored.encoding
            self._send(206, part, headers=headers, kind="application/octet-stream", cut_off=cut_off)

        def _json(self, status: int, value: Any) -> None:
            self._send(status, json.dumps(value).encode())

        def _send(
            self,
            status: int,
            body: bytes,
            *,
            headers: dict[str, str] | None = None,
            kind: str = "application/json",
            cut_off: bool = False,
        ) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut_off else body)
            self.close_connection = self.close_connection or cut_off

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _range(told: str | None) -> tuple[int, int]:
    first, _, last = (told or "bytes=0-").removeprefix("bytes=").partition("-")
    return int(first), int(last) if last else 1 << 60
