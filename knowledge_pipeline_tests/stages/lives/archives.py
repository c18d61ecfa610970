"""Archives as places where files lie: after every change somebody packs all of them anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline_tests.fakes.archives import pack
from knowledge_pipeline_tests.stages.lives.buckets import S3Place
from knowledge_pipeline_tests.stages.lives.files import FilePlace, elsewhere

_KEY = "exports/engine.tar.gz"


class ZipPlace(FilePlace):
    """A ZIP file of this machine, all of it in a folder that is called after its version."""

    cannot = dict.fromkeys(
        ("denied", "forbidden", "unavailable", "unreachable", "busy"), "it is on this machine"
    )
    errors = {"partial": SourceRefused}  # noqa: RUF012 - as of every place

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._path = root / "engine.zip"
        self._files: dict[str, bytes] = {}
        self._version = 0
        self.names = [str(self._path)]
        self.faults = {"missing": lambda: elsewhere(self._path), "partial": self._truncate}

    @property
    def connection(self) -> dict[str, Any]:
        return {"type": "archive_file", "path": str(self._path)}

    def write(self, path: str, content: bytes) -> None:
        self._files[path] = content
        self._pack()

    def move(self, path: str, to: str) -> None:
        self._files[to] = self._files.pop(path)
        self._pack()

    def delete(self, path: str) -> None:
        del self._files[path]
        self._pack()

    def _pack(self) -> None:
        self._version += 1
        files = {f"engine-{self._version}/{path}": content for path, content in self._files.items()}
        self._path.write_bytes(pack("zip", files, mtime=self._version))

    @contextmanager
    def _truncate(self) -> Iterator[None]:
        whole = self._path.read_bytes()
        self._path.write_bytes(whole[: len(whole) // 2])
        yield
        self._path.write_bytes(whole)


class S3TarPlace(S3Place):
    """A TAR packed by gzip, in a bucket of S3."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._files: dict[str, bytes] = {}

    @property
    def connection(self) -> dict[str, Any]:
        return {"type": "archive_file", "object": {**super().connection, "prefix": _KEY}}

    def write(self, path: str, content: bytes) -> None:
        self._files[path] = content
        self._pack()

    def move(self, path: str, to: str) -> None:
        self._files[to] = self._files.pop(path)
        self._pack()

    def delete(self, path: str) -> None:
        del self._files[path]
        self._pack()

    def _pack(self) -> None:
        files = {f"./{path}": content for path, content in self._files.items()}
        self._bucket.create(_KEY, pack("tar.gz", files))
