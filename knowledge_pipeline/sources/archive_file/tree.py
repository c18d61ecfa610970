"""The files of an archive as a tree, as if it had been unpacked; one that did not change is not read."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from knowledge_pipeline.config.connections.archive_file import ArchiveFileConnection
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.sources.archive_file.kept_listing import KeptListing
from knowledge_pipeline.sources.archive_file.packed_files import (
    ArchiveContents,
    ChangedArchive,
    DamagedArchive,
    PackedFile,
    arrange_files,
    size_of,
)
from knowledge_pipeline.sources.archive_file.place import open_place
from knowledge_pipeline.sources.archive_file.tar_contents import TarContents
from knowledge_pipeline.sources.archive_file.zip_contents import ZipContents
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.files.trees import FileContent, FileEntry, format_too_large
from knowledge_pipeline.sources.patterns import FileSelection

NESTED_REASON = "an archive inside of the archive, which is not unpacked"

_NESTED = re.compile(r"\.(?:zip|tar|tgz|tar\.\w+|7z|rar)$", re.IGNORECASE)


class ArchiveTree:
    """The files of the archive that a connection names, by their paths without a folder that holds them all.

    A file's revision is of its content alone, so that packing the same files again changes nothing; their
    times, which packing may set, are not told.
    """

    def __init__(
        self,
        connection: ArchiveFileConnection,
        selection: FileSelection,
        *,
        cache: Path,
        sleep: Sleep = time.sleep,
    ) -> None:
        """`cache`: a folder for the listing."""
        self._location = connection.location
        self._selection = selection
        self._place = open_place(connection, sleep=sleep)
        self._kept = KeptListing(cache, connection)
        self._stamp = ""
        self._open_contents: ArchiveContents | None = None

    def list_entries(self) -> Iterator[FileEntry]:
        """Every wanted file, in the archive's order; it is read if it changed since it was listed last.

        Raises:
            SourceRefused: the archive does not exist, refuses us, is damaged, or unpacks to too much.
            SourceUnavailable: its place did not answer, or it changed meanwhile.
        """
        self._close_contents()
        self._stamp, _ = self._place.read_stamp()
        files = self._kept.load(self._stamp)
        if files is None:
            files = self._list_files()
            self._kept.keep(files)
        for each in files:
            if entry := self._to_entry(each):
                yield entry
        self._kept.save()

    def read_head(self, entry: FileEntry, limit_bytes: int) -> bytes:
        """The first bytes of a file, kept as long as the archive has it."""
        size = min(limit_bytes, entry.size_bytes)
        head = self._kept.find_head(entry.revision, size)
        if head is None:
            head = self._read_member(entry.locator, size)
            self._kept.keep_head(entry.revision, head)
        return head

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """A whole file; neither its author nor its last change are known.

        Raises:
            DocumentSkipped: it is too large.
            SourceRefused, SourceUnavailable: as `list_entries`.
        """
        del path  # the position says it all
        size = size_of(locator)
        if size > limit_bytes:
            raise DocumentSkipped(format_too_large(size, limit_bytes))
        return FileContent(self._read_member(locator, size), None, None)

    def close(self) -> None:
        """Close the archive, and free the connections."""
        self._close_contents()
        self._place.close()

    def _list_files(self) -> Sequence[PackedFile]:
        with self._translate_errors():
            files = arrange_files(self._open_archive().list_files())
            if self._has_changed():
                raise ChangedArchive
            return files

    def _to_entry(self, file: PackedFile) -> FileEntry | None:
        path, skip = file.path, file.skip
        if self._selection.is_pruned(path.rpartition("/")[0]):
            return None
        if skip is None and _NESTED.search(path):
            if self._selection.is_pruned(path):
                return None
            skip = NESTED_REASON
        elif not self._selection.accepts(path, executable=file.executable):
            return None
        return FileEntry(path, file.size_bytes, file.digest, f"{file.position}:{file.digest}", skip)

    def _read_member(self, locator: str, size: int) -> bytes:
        position, _, digest = locator.partition(":")
        with self._translate_errors():
            return self._open_archive().read(int(position), digest, size)

    def _open_archive(self) -> ArchiveContents:
        if self._open_contents is None:
            stamp, size_bytes = self._place.read_stamp()
            self._stamp = self._stamp or stamp
            self._open_contents = _open_contents(self._place.open(), size_bytes)
        return self._open_contents

    def _close_contents(self) -> None:
        if self._open_contents is not None:
            self._open_contents.close()
        self._open_contents = None

    def _has_changed(self) -> bool:
        return self._place.read_stamp()[0] != self._stamp

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except DamagedArchive as error:
            if not self._has_changed():
                raise SourceRefused(
                    f"{self._location} is damaged, or no ZIP or TAR archive that "
                    f"can be read ({error}): replace it"
                ) from None
            raise self._build_changed_error() from None
        except ChangedArchive:
            raise self._build_changed_error() from None

    def _build_changed_error(self) -> SourceUnavailable:
        return SourceUnavailable(f"the archive {self._location} changed while it was read: refresh again")


def _open_contents(raw: io.RawIOBase, size_bytes: int) -> ArchiveContents:
    """What an archive holds, by its first bytes; closed where it is none."""
    try:
        start = raw.read(2)
        raw.seek(0)
        if start == b"PK":
            return ZipContents(raw, size_bytes)
        return TarContents(raw, size_bytes, is_gzip=start == b"\x1f\x8b")
    except BaseException:
        raw.close()
        raise
