"""The files of a ZIP or TAR archive as a tree, as if it had been unpacked.

An archive is a file of this machine or an object of a bucket, read by ranges. Its last listing is kept, so
that an archive which did not change is not read. A name in it is only a name: nothing is unpacked to disk,
and no name reaches the file system.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipInfo

from knowledge_pipeline.config.connections import ArchiveFileConnection
from knowledge_pipeline.connectors.base import format_too_large
from knowledge_pipeline.connectors.buckets import open_bucket
from knowledge_pipeline.connectors.files import NOT_REGULAR_REASON, SYMLINK_REASON, FileContent, FileEntry
from knowledge_pipeline.connectors.patterns import FileSelection
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.text import is_object

if TYPE_CHECKING:
    from knowledge_pipeline.connectors.bucket_client import Bucket

NESTED_REASON = "an archive inside of the archive, which is not unpacked"

_NESTED = re.compile(r"\.(?:zip|tar|tgz|tar\.\w+|7z|rar)$", re.IGNORECASE)


class ArchiveTree:
    """The files of the archive that a connection names, by their paths without a folder that holds them all.

    A file's revision is of its content alone, so that packing the same files again changes nothing; their
    times, which packing may set, are not told.
    """

    def __init__(self, connection: ArchiveFileConnection, selection: FileSelection, *, cache: Path) -> None:
        self._location = connection.location
        self._selection = selection
        if connection.object is None:
            assert connection.path is not None  # `ArchiveFileConnection` requires one
            self._origin: ArchiveOrigin = _File(connection.path.expanduser().absolute())
        else:
            bucket = open_bucket(connection.object)
            self._origin = _Object(bucket, connection.object.prefix, connection.location)
        self._kept = KeptListing(cache, connection)
        self._stamp = ""
        self._open_contents: ArchiveContents | None = None

    def list_entries(self) -> Iterator[FileEntry]:
        """Every wanted file, in the archive's order; it is read if it changed since it was listed last.

        SourceRefused: it is damaged, or unpacks to too much. SourceUnavailable: it changed meanwhile.
        """
        self._close_contents()
        self._stamp, _ = self._origin.read_stamp()
        files = self._kept.load(self._stamp)
        if files is None:
            with self._translate_errors():
                files = arrange_files(self._open_archive().list_files())
                if self._has_changed():
                    raise ChangedArchive
            self._kept.keep(files)
        for file in files:
            if entry := self._to_entry(file):
                yield entry
        self._kept.save(self._stamp)

    def read_head(self, entry: FileEntry, limit_bytes: int) -> bytes:
        """The first bytes of a file, kept as long as the archive has it."""
        size = min(limit_bytes, entry.size_bytes)
        return self._kept.read_head(entry.revision, size, lambda: self._read_member(entry.locator, size))

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """A whole file; neither its author nor its last change are known."""
        size = size_of(locator)
        if size > limit_bytes:
            raise DocumentSkipped(format_too_large(size, limit_bytes))
        return FileContent(self._read_member(locator, size), None, None)

    def close(self) -> None:
        """Close the archive, and free the connections."""
        self._close_contents()
        self._origin.close()

    def _to_entry(self, file: PackedFile) -> FileEntry | None:
        path, skip = file.path, file.skip
        if self._selection.is_pruned(path.rpartition("/")[0]):
            return self._selection.count_left_out(path)
        if skip is None and _NESTED.search(path):
            if self._selection.is_pruned(path):
                return None
            skip = NESTED_REASON
        elif not self._selection.accepts(path, executable=file.executable):
            return self._selection.count_left_out(path)
        return FileEntry(path, file.size_bytes, file.digest, f"{file.position}:{file.digest}", skip)

    def _read_member(self, locator: str, size: int) -> bytes:
        position, _, digest = locator.partition(":")
        with self._translate_errors():
            return self._open_archive().read(int(position), digest, size)

    def _open_archive(self) -> ArchiveContents:
        if self._open_contents is None:
            stamp, size_bytes = self._origin.read_stamp()
            self._stamp = self._stamp or stamp
            self._open_contents = _open_contents(self._origin.open(), size_bytes)
        return self._open_contents

    def _close_contents(self) -> None:
        if self._open_contents is not None:
            self._open_contents.close()
        self._open_contents = None

    def _has_changed(self) -> bool:
        return self._origin.read_stamp()[0] != self._stamp

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except (DamagedArchive, ChangedArchive) as error:
            if isinstance(error, DamagedArchive) and not self._has_changed():
                raise SourceRefused(
                    f"{self._location} is damaged, or no ZIP or TAR archive that "
                    f"can be read ({error}): replace it"
                ) from None
            raise SourceUnavailable(
                f"the archive {self._location} changed while it was read: refresh again"
            ) from None


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


ARCHIVE_LISTINGS = "archives"
"""The folder, below that of what can be made again."""

_VERSION = 1  # of what a listing has: one of another version is made again
_MAX_HEAD_CHARS = 32_000_000  # of all beginnings together; others are read each time


class KeptListing:
    """The last listing of one archive, a cache that the archive's stamp makes exact; read by `load`.

    It also has the beginnings of files that had to be looked into, by digest: they outlive a change of
    other files.
    """

    def __init__(self, cache: Path, connection: ArchiveFileConnection) -> None:
        self._file = cache / ARCHIVE_LISTINGS / build_listing_name(connection)
        self._files: Sequence[PackedFile] = ()
        self._heads: dict[str, str] = {}
        self._room = _MAX_HEAD_CHARS
        self._is_saved = True

    def load(self, stamp: str) -> Sequence[PackedFile] | None:
        """The files at a stamp; None where they are not known."""
        try:
            kept: Any = json.loads(self._file.read_bytes())
            if not is_object(kept) or kept.get("version") != _VERSION:
                return None
            self._heads = {str(digest): str(head) for digest, head in kept["heads"].items()}
            self._room = _MAX_HEAD_CHARS - sum(map(len, self._heads.values()))
            self._files = [PackedFile(*fields) for fields in kept["files"]]
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return self._files if kept["stamp"] == stamp else None

    def keep(self, files: Sequence[PackedFile]) -> None:
        """Take other files than those of `load`; the beginnings of files that are gone go."""
        digests = {file.digest for file in files}
        self._heads = {digest: head for digest, head in self._heads.items() if digest in digests}
        self._files, self._is_saved = files, False

    def read_head(self, digest: str, size: int, read: Callable[[], bytes]) -> bytes:
        """The first bytes of a file, which are kept as long as there is room."""
        kept = self._heads.get(digest)
        if kept is not None and len(head := zlib.decompress(b64decode(kept))) >= size:
            return head[:size]
        head = read()
        packed = b64encode(zlib.compress(head)).decode("ascii")
        if len(packed) <= self._room:
            self._heads[digest], self._room = packed, self._room - len(packed)
            self._is_saved = False
        return head

    def save(self, stamp: str) -> None:
        """Write what is new, in one step; without it, the archive is read again."""
        if self._is_saved:
            return
        kept = {"version": _VERSION, "stamp": stamp, "heads": self._heads}
        text = json.dumps({**kept, "files": [astuple(file) for file in self._files]})
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=self._file.parent, delete=False) as written:
                written.write(text)
            Path(written.name).replace(self._file)
        self._is_saved = True


def build_listing_name(connection: ArchiveFileConnection) -> str:
    """The name of the file that holds the listing of an archive."""
    location = f"{connection.host or ''} {connection.location}"
    if connection.object and connection.object.endpoint_url:
        location += f" {connection.object.endpoint_url}"
    return f"{sha256(location.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read_stamp(self) -> tuple[str, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise self._to_error(error) from None
        if not stat.S_ISREG(status.st_mode):
            raise SourceRefused(
                f"{self._path} is no file: correct connection.path, or set type local for a folder"
            )
        return f"{status.st_mtime_ns}-{status.st_size}-{status.st_ctime_ns}", status.st_size

    def open(self) -> io.RawIOBase:
        try:
            return io.FileIO(self._path)
        except OSError as error:
            raise self._to_error(error) from None

    def close(self) -> None:
        """Nothing is kept open."""

    def _to_error(self, error: OSError) -> SourceRefused:
        if isinstance(error, FileNotFoundError):
            return SourceRefused(f"the archive {self._path} does not exist: correct connection.path")
        return SourceRefused(f"the archive {self._path} cannot be read ({error.strerror}): make it readable")


class _Object:
    def __init__(self, bucket: Bucket, key: str, location: str) -> None:
        self._bucket, self._key, self._location = bucket, key, location
        self._locator, self._size_bytes = "", 0

    def read_stamp(self) -> tuple[str, int]:
        info = next(iter(self._bucket.list_objects(self._key)), None)  # keys come in order: itself first
        if info is None or info.key != self._key:
            raise SourceRefused(
                f"the archive {self._location} does not exist: correct connection.object.prefix"
            )
        self._locator, self._size_bytes = info.locator, info.size_bytes
        return info.revision, info.size_bytes

    def open(self) -> io.RawIOBase:
        if not self._size_bytes:
            self.read_stamp()
        return _ObjectBytes(self._size_bytes, self._read)

    def close(self) -> None:
        self._bucket.close()

    def _read(self, limit_bytes: int, start_byte: int) -> bytes:
        try:
            payload = self._bucket.read(self._key, self._locator, limit_bytes, start_byte).payload
        except DocumentSkipped as reason:
            raise SourceRefused(f"the archive {self._location} cannot be read: {reason}") from None
        if not payload:
            raise SourceUnavailable(f"the archive {self._location} changed while it was read: refresh again")
        return payload


ArchiveOrigin = _File | _Object
"""The file or object that an archive is: `read_stamp` gives what differs once it does, and its size in bytes,
`open` its bytes, from any position. Both raise SourceRefused or SourceUnavailable."""


class _ObjectBytes(io.RawIOBase):
    """The bytes of an object as a file that can be read from any position."""

    def __init__(self, size_bytes: int, read: Callable[[int, int], bytes]) -> None:
        self._size_bytes, self._read, self._position = size_bytes, read, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        if start + offset < 0:
            raise OSError("a position before the beginning")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        wanted = min(len(buffer), self._size_bytes - self._position)
        if wanted <= 0:
            return 0
        payload = self._read(wanted - 1, self._position)
        buffer[: len(payload)] = payload
        self._position += len(payload)
        return len(payload)


MAX_FILES = 500_000
MAX_UNPACKED_BYTES = 50_000_000_000
MAX_RATIO = 200  # of unpacked bytes to packed ones
_SMALL_BYTES = 100_000_000  # unpacked, of which no ratio does harm

OUTSIDE_REASON = "a path that leads out of the archive"
_DRIVE = re.compile(r"[A-Za-z]:")
_NOT_CONTENT = "__MACOSX"  # what the Finder packs beside the files


class DamagedArchive(Exception):
    """It cannot be read, or not be believed; `str(error)` says why."""


class ChangedArchive(Exception):
    """A file is no longer as it was listed."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One file of an archive."""

    path: str  # its name in the archive; by `arrange_files` POSIX, relative to the root; see `decode_path`
    digest: str  # of the content, then "-" and its size
    size_bytes: int
    position: int  # where its archive finds it
    executable: bool = False
    skip: str | None = None  # a reason not to read it


@contextmanager
def translate_damage(*errors: type[Exception]) -> Generator[None]:
    """Raise `DamagedArchive` for what a library raises of bytes that it cannot read."""
    try:
        yield
    except errors as error:
        raise DamagedArchive(str(error)[:200] or type(error).__name__) from None


def size_of(digest: str) -> int:
    """The size in bytes of a file with a digest."""
    return int(digest.rpartition("-")[2])


def require_bounded(files: int, unpacked_bytes: int, packed_bytes: int) -> None:
    """Raise DamagedArchive for what unpacks to far more than it has."""
    if files > MAX_FILES:
        raise DamagedArchive(f"it holds more than {MAX_FILES:,} files")
    if unpacked_bytes > MAX_UNPACKED_BYTES:
        raise DamagedArchive(f"it unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
    if unpacked_bytes > max(_SMALL_BYTES, packed_bytes * MAX_RATIO):
        raise DamagedArchive(f"it unpacks to more than {MAX_RATIO} times its size")


def arrange_files(listed: Iterable[PackedFile]) -> Sequence[PackedFile]:
    """Each path once, the last that has it; without the folder that all of them are in.

    That folder's name tells a version or a day.
    """
    clean = map(_clean_file, listed)
    files = {file.path: file for file in clean if file.path.partition("/")[0] != _NOT_CONTENT}
    inside = [path for path, file in files.items() if file.skip != OUTSIDE_REASON]
    tops = {path.partition("/")[0] if "/" in path else "" for path in inside}
    if len(tops) != 1 or "" in tops:
        return list(files.values())
    top = f"{tops.pop()}/"
    return [
        file if file.skip == OUTSIDE_REASON else replace(file, path=file.path.removeprefix(top))
        for file in files.values()
    ]


def _clean_file(file: PackedFile) -> PackedFile:
    """The file with its path, or with its name and the reason that it is none."""
    if path := _clean_path(file.path):
        return file if path == file.path else replace(file, path=path)
    return replace(file, path=file.path.replace("\0", "\ufffd") or "(no name)", skip=OUTSIDE_REASON)


def _clean_path(name: str) -> str:
    """Empty for a name that leads out of the archive, or to no file."""
    if "/" not in name:
        name = name.replace("\\", "/")  # as some programs of Windows write it
    steps = name.split("/")
    if "\0" in name or steps[0] == "" or ".." in re.split(r"[/\\]", name) or _DRIVE.match(name):
        return ""
    return "/".join(step for step in steps if step not in ("", "."))


ZIP_BLOCK_BYTES = 1 << 20  # read at once
ENCRYPTED_REASON = "encrypted in its archive"

_MAX_DIRECTORY_BYTES = 100_000_000  # which is read into memory
_BOUNDED_METHODS = frozenset({ZIP_STORED, ZIP_DEFLATED})  # the others unpack to any size at once
_ENCRYPTED, _STRONGLY_ENCRYPTED, _UTF8 = 0x1, 0x40, 0x800  # flags
_UNIX = 3  # a system whose files have modes
_BROKEN_ZIP = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError),
    *(NotImplementedError, RuntimeError),  # of a packing that is not known
)


class ZipContents:
    """A ZIP archive that is open; only its directory and the requested files are read.

    Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
    """

    def __init__(self, raw: io.RawIOBase, packed_bytes: int) -> None:
        self._packed_bytes = packed_bytes
        self._bytes = _DirectoryGuard(raw, ZIP_BLOCK_BYTES)
        with translate_damage(*_BROKEN_ZIP):
            self._zip = zipfile.ZipFile(self._bytes)

    def list_files(self) -> Iterator[PackedFile]:
        """Every file and link, by the directory alone."""
        infos = self._zip.infolist()
        require_bounded(len(infos), sum(info.file_size for info in infos), self._packed_bytes)
        for position, info in enumerate(infos):
            name = _decode_name(info)
            if not name.endswith("/"):
                mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
                skip = _find_zip_reason(info, stat.S_IFMT(mode))
                yield PackedFile(name, _digest(info), info.file_size, position, bool(mode & 0o111), skip)

    def read(self, position: int, digest: str, limit_bytes: int) -> bytes:
        """The first bytes of a file; all of them are compared with the directory's checksum."""
        infos = self._zip.infolist()
        if position >= len(infos) or _digest(infos[position]) != digest:
            raise ChangedArchive
        with translate_damage(*_BROKEN_ZIP), self._zip.open(infos[position]) as file:
            return file.read(limit_bytes)

    def close(self) -> None:
        """Free the directory and the archive's bytes."""
        self._zip.close()
        self._bytes.close()


class _DirectoryGuard(io.BufferedReader):
    """Refuses to read a directory that would fill the memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MAX_DIRECTORY_BYTES:
            raise DamagedArchive(f"its directory has {size:,} bytes")
        return super().read(size)


def _find_zip_reason(info: ZipInfo, kind: int) -> str | None:
    if kind == stat.S_IFLNK:
        return SYMLINK_REASON
    if kind not in (0, stat.S_IFREG):
        return NOT_REGULAR_REASON
    if info.flag_bits & (_ENCRYPTED | _STRONGLY_ENCRYPTED):
        return ENCRYPTED_REASON
    if info.compress_type not in _BOUNDED_METHODS:
        return f"packed by method {info.compress_type} of ZIP, which is not read; known are store and deflate"
    return None


def _decode_name(info: ZipInfo) -> str:
    """As the flag says; many programs write UTF-8 without it, and others an encoding that nobody tells."""
    if not info.flag_bits & _UTF8:
        with suppress(UnicodeError):
            return info.orig_filename.encode("cp437").decode("utf-8")
    return info.orig_filename


def _digest(info: ZipInfo) -> str:
    return f"{info.CRC:08x}-{info.file_size}"


TAR_BLOCK_BYTES = 8 << 20  # read at once
HARD_LINK_REASON = "hard link, not followed"
SPARSE_REASON = "packed with its holes left out (tar --sparse), which is not read"

_HASHED_BYTES = 1 << 20  # at once
_MAX_HEADER_BYTES = 1 << 20  # which is read into memory
_EXTENSIONS = frozenset(
    (
        *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
        *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    )
)
_BROKEN_TAR = (tarfile.TarError, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError)


class TarContents:
    """A TAR archive that is open, as it is or packed by gzip.

    TAR has no checksums of contents, so that listing reads all of them. A listing that ends without the
    end's mark is an error: the rest is missing.
    """

    def __init__(self, raw: io.RawIOBase, packed_bytes: int, *, is_gzip: bool) -> None:
        self._packed_bytes = packed_bytes
        self._bytes = io.BufferedReader(raw, TAR_BLOCK_BYTES)
        # a position behind the last one is reached by reading on: documents are read in their order
        self._unpacked = gzip.GzipFile(fileobj=self._bytes) if is_gzip else self._bytes

    def list_files(self) -> Iterator[PackedFile]:
        """Every file and link; each file is read, and the archive up to its end."""
        count = total = 0
        with translate_damage(*_BROKEN_TAR):
            self._unpacked.seek(0)
            stream = cast(BinaryIO, self._unpacked)
            with tarfile.TarFile(
                fileobj=stream, tarinfo=_Header, encoding="utf-8", errors="surrogateescape"
            ) as opened:
                kept: list[tarfile.TarInfo] = vars(opened)["members"]
                while (header := opened.next()) is not None:
                    kept.clear()  # which has every header
                    count, total = count + 1, total + header.size
                    require_bounded(count, total, self._packed_bytes)
                    if not header.isdir():
                        size, skip = header.size, _find_tar_reason(header)
                        digest = _format_digest("0" if skip else self._hash_content(size), size)
                        yield PackedFile(
                            header.name, digest, size, header.offset_data, bool(header.mode & 0o111), skip
                        )
            while block := self._unpacked.read(_HASHED_BYTES):  # gzip's checksum follows the end's mark
                total += len(block)
                require_bounded(0, total, self._packed_bytes)

    def read(self, position: int, digest: str, limit_bytes: int) -> bytes:
        """The first bytes of a file; all of them are compared with its digest."""
        size = min(size_of(digest), limit_bytes)
        with translate_damage(*_BROKEN_TAR):
            self._unpacked.seek(position)
            content = self._unpacked.read(size)
        is_whole = size == size_of(digest)
        if len(content) < size or (is_whole and _format_digest(sha256(content).hexdigest(), size) != digest):
            raise ChangedArchive
        return content

    def close(self) -> None:
        """Free the archive's bytes."""
        self._unpacked.close()
        self._bytes.close()

    def _hash_content(self, size: int) -> str:
        """The digest of what follows."""
        hashed, left = sha256(), size
        while left:
            block = self._unpacked.read(min(left, _HASHED_BYTES))
            if not block:
                raise EOFError("it breaks off within a file")
            hashed.update(block)
            left -= len(block)
        return hashed.hexdigest()


class _Header(tarfile.TarInfo):
    """A header that is whole and of a sensible size, or an error: tarfile takes others for the end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]  # typeshed lacks it
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"it breaks off, or is no TAR file: {error}") from None
        if header.size < 0 or (header.type in _EXTENSIONS and header.size > _MAX_HEADER_BYTES):
            raise tarfile.ReadError(f"a header of {header.size} bytes")
        return header


def _find_tar_reason(header: tarfile.TarInfo) -> str | None:
    if header.issym():
        return SYMLINK_REASON
    if header.islnk():
        return HARD_LINK_REASON
    if header.issparse():
        return SPARSE_REASON
    return None if header.isreg() else NOT_REGULAR_REASON


def _format_digest(hashed: str, size: int) -> str:
    return f"{hashed[:32]}-{size}"


ArchiveContents = ZipContents | TarContents
"""An archive that is open. Methods raise DamagedArchive, and what reading its bytes raises."""
