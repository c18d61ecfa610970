"""The last listing of an archive, kept so that one which did not change is not read again.

A cache that the archive's stamp makes exact, in the folder of what can be made again. Beside the files it has
the beginnings of those that had to be looked into, by their digests: they outlive a change of others.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from knowledge_pipeline.config.connections.archive_file import ArchiveFileConnection
from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.sources.archive_file.packed_files import PackedFile

ARCHIVE_LISTINGS = "archives"
"""The folder, below that of what can be made again."""

_VERSION = 1  # of what a listing has: one of another version is made again
_MAX_HEAD_CHARS = 32_000_000  # of all beginnings together; others are read each time


class KeptListing:
    """The listing of one archive; nothing is read before `load`."""

    def __init__(self, cache: Path, connection: ArchiveFileConnection) -> None:
        self._file = cache / ARCHIVE_LISTINGS / build_listing_name(connection)
        self._stamp = ""
        self._files: Sequence[PackedFile] = ()
        self._heads: dict[str, str] = {}
        self._room = _MAX_HEAD_CHARS
        self._is_saved = True

    def load(self, stamp: str) -> Sequence[PackedFile] | None:
        """The files at a stamp; None where they are not known."""
        self._stamp = stamp
        try:
            kept: Any = json.loads(self._file.read_bytes())
            if not is_object(kept) or kept.get("version") != _VERSION:
                return None
            self._heads = {str(digest): str(head) for digest, head in kept["heads"].items()}
            self._room = _MAX_HEAD_CHARS - sum(map(len, self._heads.values()))
            self._files = [PackedFile(*each) for each in kept["files"]]
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return self._files if kept["stamp"] == stamp else None

    def keep(self, files: Sequence[PackedFile]) -> None:
        """The files at the stamp that was asked for."""
        held = {each.digest for each in files}
        self._heads = {digest: head for digest, head in self._heads.items() if digest in held}
        self._files, self._is_saved = files, False

    def find_head(self, digest: str, size: int) -> bytes | None:
        """The first bytes of a file, if so many are kept."""
        head = self._heads.get(digest)
        if head is None:
            return None
        found = zlib.decompress(b64decode(head))
        return found[:size] if len(found) >= size else None

    def keep_head(self, digest: str, head: bytes) -> None:
        """Keep the first bytes of a file, as long as there is room."""
        packed = b64encode(zlib.compress(head)).decode("ascii")
        if len(packed) <= self._room:
            self._heads[digest], self._room = packed, self._room - len(packed)
            self._is_saved = False

    def save(self) -> None:
        """Write what is new, in one step; without it, the archive is read again."""
        if self._is_saved:
            return
        kept = {"version": _VERSION, "stamp": self._stamp, "heads": self._heads}
        text = json.dumps({**kept, "files": [astuple(each) for each in self._files]})
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=self._file.parent, delete=False) as written:
                written.write(text)
            Path(written.name).replace(self._file)
        self._is_saved = True


def build_listing_name(connection: ArchiveFileConnection) -> str:
    """The name of the file that holds the listing of an archive."""
    place = f"{connection.host or ''} {connection.location}"
    if connection.object and connection.object.endpoint_url:
        place += f" {connection.object.endpoint_url}"
    return f"{sha256(place.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"
