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
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from knowledge_pipeline.config.connections import GcsConnection
from knowledge_pipeline_tests.fakes.google.service_account import build_key
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served

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


class GcsServer(Served):
    """A context manager with one bucket; `page_size` is the most that a page holds."""

    def __init__(self, folder: Path, *, page_size: int = 1000) -> None:
        super().__init__()
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
        self.key_file = folder / "service-account.json"

    def __enter__(self) -> GcsServer:
        super().__enter__()
        self.key_file.write_text(json.dumps(build_key(f"{self.url}/token")))
        return self

    @property
    def url(self) -> str:
        return self.address

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

    def send(self, asked: Asked) -> Sent:
        if asked.verb == "POST":
            return self._token()
        self.requests.append((asked.path, asked.query))
        self.listed(asked.path)
        fault = self.faults.popleft() if self.faults and self.faults[0].only in asked.path else None
        if fault and not fault.cut_off:
            return Sent(fault.status, fault.body or b"{}", fault.headers)
        if status := self.refusal(asked.authorization):
            return _refused(status, "on purpose")
        sent = self._page(asked) if asked.path.startswith(_LIST) else self._media(asked)
        return replace(sent, cut_off=fault is not None)

    def _token(self) -> Sent:
        if self.known:
            return _told(200, {"access_token": self.token, "expires_in": 3600, "token_type": "Bearer"})
        return _told(400, {"error": "invalid_grant", "error_description": "no such account"})

    def _page(self, asked: Asked) -> Sent:
        if asked.path.removeprefix(_LIST) != f"{self.bucket}/o":
            return _refused(404, "no such bucket")
        return _told(200, self.listing(asked.query))

    def _media(self, asked: Asked) -> Sent:
        bucket, _, name = asked.path.removeprefix(_MEDIA).partition("/o/")
        stored = self.objects.get(unquote(name)) if bucket == self.bucket else None
        if stored is None:
            return Sent(404, b"No such object")
        first, last = _range(asked.headers.get("Range"))
        part, whole = stored.payload[first : last + 1], len(stored.payload)
        if first >= whole:
            return Sent(416, b"not satisfiable")
        headers = {"Content-Type": "application/octet-stream", "ETag": stored.etag}
        headers |= {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{whole}"}
        headers |= {"x-goog-generation": str(stored.generation)}
        return Sent(206, part, headers | ({"Content-Encoding": stored.encoding} if stored.encoding else {}))

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
        names = sorted(name for name in self.objects if name.startswith(prefix))
        if delimiter := query.get("delimiter", [""])[0]:
            names = sorted({_folded(name, prefix, delimiter) for name in names})
        names = [name for name in names if name > behind]
        most = min(self.page_size, int(query.get("maxResults", ["1000"])[0]))
        answer: dict[str, Any] = {"kind": "storage#objects"}
        folders = [name for name in names[:most] if delimiter and name[len(prefix) :].endswith(delimiter)]
        if items := [self._described(name) for name in names[:most] if name not in folders]:
            answer["items"] = items
        if folders:
            answer["prefixes"] = folders
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


def _folded(name: str, prefix: str, delimiter: str) -> str:
    """The name up to the first delimiter after the prefix."""
    first, found, _ = name[len(prefix) :].partition(delimiter)
    return prefix + first + found


def _range(told: str | None) -> tuple[int, int]:
    first, _, last = (told or "bytes=0-").removeprefix("bytes=").partition("-")
    return int(first), int(last) if last else 1 << 60


def _told(status: int, value: Any) -> Sent:
    return Sent(status, json.dumps(value).encode())


def _refused(status: int, message: str) -> Sent:
    return _told(status, {"error": {"code": status, "message": message}})
