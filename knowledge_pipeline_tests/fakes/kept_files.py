"""Files that a fake service keeps, and a store of another company that its downloads may lead to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served

SIGN_IN_PAGE = b'<!DOCTYPE html><html><form action="/login"><input type="password"></form></html>'


@dataclass(frozen=True, slots=True)
class KeptFile:
    """What a download is answered with."""

    payload: bytes
    kind: str = "application/octet-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_off: bool = False

    @property
    def sent(self) -> Sent:
        return Sent(
            self.status, self.payload, {"Content-Type": self.kind, **self.headers}, cut_off=self.cut_off
        )


class FileStore(Served):
    """A store on another host, where an address is a permission in itself: an identity is a leak."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, KeptFile] = {}  # by path
        self.identities: list[str] = []  # what was sent with requests

    def send(self, asked: Asked) -> Sent:
        self.identities += [
            asked.headers[name] for name in ("Authorization", "Cookie") if asked.headers.get(name)
        ]
        found = self.files.get(asked.path)
        return found.sent if found else Sent(404, b"")


class KeptFiles:
    """Files by the path that a service gives them to whom it knows."""

    def __init__(self) -> None:
        self.by_path: dict[str, KeptFile] = {}
        self.store: FileStore | None = None  # where downloads lead to; None: the service sends them itself
        self.downloads: list[str] = []  # paths, in the order of their requests

    def send(self, asked: Asked, identity: str | None) -> Sent | None:
        """The answer; None: it is no file. `identity`: what callers must send; None: nobody need be known."""
        found = self.by_path.get(unquote(asked.path))
        if found is None:
            return None
        self.downloads.append(asked.path)
        if identity is not None and asked.authorization != identity:
            return Sent(401, b"{}")
        if self.store is None or found.status != 200:
            return found.sent
        path = f"/media/{len(self.store.files)}"
        self.store.files[path] = found
        return Sent(302, b"", {"Location": f"{self.store.address}{path}?token=once", "Set-Cookie": "sid=1"})
