"""How Lance opens a table, and LanceDB makes and indexes one, in a folder or in an object store."""

# Lance's signatures name types of pandas, which is not installed.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store.file_cache import FileCache, TableSession
from knowledge_pipeline.store.object_store import ObjectPath

if TYPE_CHECKING:
    import pyarrow as pa

StorePath = Path | ObjectPath
VersionStamp = tuple[int | str, ...]

MOST_INDEX_BYTES = 1 << 30
_MOST_METADATA_BYTES = 256 << 20
_FOLDER_BYTES = 16 << 20  # of tables without indexes in folders, whose metadata are read in no time
_LEAST_INDEX_BYTES = 64 << 20  # in memory, which is more than all indexes of a few rows take
_METADATA_SHARE = 8  # an eighth of what indexes may take: of a million rows metadata take 40 MB
_MAX_GONE_SEGMENTS = 4  # of indexes, whose files a session keeps open; or half as many as are left
_INDEXED_FOLDERS = ("index", "graph")  # of the store: their tables get indexes
_OUTGROWN = 1.25  # times as large as a cache: what has outgrown it
_MANIFEST, _MAX_VERSION = ".manifest", (1 << 64) - 1
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # options of glibc's `mallopt`
_OWN_MAPPING_BYTES = 1 << 20  # of a block that has a mapping of its own, which ends when the block is freed


def build_storage_options(path: StorePath) -> dict[str, str] | None:
    """Lance's options for a path, secrets in clear; None for a folder."""
    if isinstance(path, Path):
        return None
    keys = path.store.storage_options
    return {**keys, "allow_http": "true"} if keys.get("endpoint", "").startswith("http://") else keys


@cache
def _open_session(*, is_local: bool) -> Any:
    """The cache of files and indexes that all datasets of this process share whose tables have none."""
    if is_local:  # what it holds of former versions is dropped when it is full
        return _create_session(_FOLDER_BYTES, _FOLDER_BYTES)
    return _create_session(MOST_INDEX_BYTES, _MOST_METADATA_BYTES)


def _create_session(index_bytes: int, metadata_bytes: int) -> Any:
    import lance

    _return_freed_memory()
    return lance.Session(  # pyright: ignore[reportPrivateImportUsage]
        index_cache_size_bytes=index_bytes, metadata_cache_size_bytes=metadata_bytes
    )


@cache
def _return_freed_memory() -> None:
    """Have Arrow take memory from the C library, and glibc give back what Arrow's and Lance's threads free.

    By default both keep most of it, which in a server of 100,000 chunks is more than what is in use.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(AttributeError, OSError, TypeError):  # other C libraries
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        set_option(_M_ARENA_MAX, os.cpu_count() or 1)


def open_dataset(path: StorePath, version: int | None = None, files: FileCache | None = None) -> Any:
    """Lance's dataset, without LanceDB: a third of the cost of opening.

    With the cache of its store, a table in a folder that has indexes has a session of its own.
    """
    # With Arrow, which a command may not need.
    from knowledge_pipeline.store.lance_internals import describe_version

    dataset = _open_in_session(path, version, files)
    if files and isinstance(path, Path) and _renew_session(files, path, dataset):
        dataset = _open_in_session(path, version, files)
    describe_version(dataset, files)
    return dataset


def _open_in_session(path: StorePath, version: int | None, files: FileCache | None) -> Any:
    import lance

    options, own = build_storage_options(path), files.sessions.get(str(path)) if files else None
    session = own.session if own else _open_session(is_local=isinstance(path, Path))
    dataset = lance.dataset(str(path), version, storage_options=options, session=session)
    if not dataset.version:  # as Lance reads a manifest of zeros: a table without rows and columns
        raise OSError(f"LanceError: the manifest of {path} is empty")
    return dataset


def _renew_session(files: FileCache, path: Path, dataset: Any) -> bool:
    """Give a table with indexes a session that has room for them, and another one in time.

    A session keeps a file of each segment of an index open, long after the segment was merged into another
    and its file removed. As in a copying collector, a new one is due when many are gone for what is left, so
    that what is left is opened again seldom.

    Returns:
        Whether it is new, so that the dataset does not have it.
    """
    indexes: list[Any] = dataset.describe_indices()
    if not indexes:
        return False
    segments = frozenset(str(segment.uuid) for index in indexes for segment in index.segments)
    own = files.sessions.get(str(path))
    sizes = (index.total_size_bytes or MOST_INDEX_BYTES for index in indexes)
    index_bytes = min(max(sum(sizes), _LEAST_INDEX_BYTES), MOST_INDEX_BYTES)
    if own and index_bytes <= own.index_bytes * _OUTGROWN:
        seen = own.segments | segments
        if len(seen) - len(segments) <= max(_MAX_GONE_SEGMENTS, len(segments) // 2):
            files.sessions[str(path)] = own._replace(segments=seen)
            return False
    session = _create_session(index_bytes, index_bytes // _METADATA_SHARE)
    files.sessions[str(path)] = TableSession(session, index_bytes, segments)
    return True


def bound_cache(files: FileCache, path: StorePath, *, index_bytes: int, metadata_bytes: int) -> bool:
    """Give a table a cache of its own, of some size, unless it has one whose indexes have about as much room.

    Lance keeps what it read of former versions until its cache is full: one that is larger than what is
    needed grows with each version.

    Returns:
        Whether it is new, so that datasets opened before do not have it.
    """
    own = files.sessions.get(str(path))
    if own and index_bytes <= own.index_bytes * _OUTGROWN:
        return False
    files.sessions[str(path)] = TableSession(_create_session(index_bytes, metadata_bytes), index_bytes)
    return True


def create_dataset(path: StorePath, schema: pa.Schema) -> None:
    """Create an empty table, unless it exists: by LanceDB where it gets indexes, which LanceDB builds.

    The first write of a new source, or of a log, which a search may cause, does not wait for that import.
    """
    try:
        if path.parent.name in _INDEXED_FOLDERS:
            with _open_database(path) as database:
                database.create_table(path.stem, schema=schema)
        else:
            import lance

            lance.write_dataset(
                schema.empty_table(),
                str(path),
                mode="create",
                storage_options=build_storage_options(path),
                session=_open_session(is_local=isinstance(path, Path)),
            )
    except (OSError, ValueError) as error:
        if "already exists" not in str(error):
            raise


def build_index(path: StorePath, column: str, config: Any) -> None:
    """Build an index of `lancedb.index` anew, in one commit."""
    with _open_database(path) as database:
        database.open_table(path.stem).create_index(column, config=config)


@contextmanager
def _open_database(path: StorePath) -> Generator[Any]:
    """LanceDB's database of the folder that contains a table.

    Its import takes 2 s, and it shares no cache with Lance, so only writers of new tables and indexes use it.
    """
    import lancedb

    try:
        yield lancedb.connect(str(path.parent), storage_options=build_storage_options(path))
    except RuntimeError as error:  # of a disk or a bucket: Lance's own interface raises another type
        raise OSError(str(error).removeprefix("lance error: ")) from error


def create_in_memory(rows: pa.Table) -> Any:
    """A dataset of these rows that no other one shares, for as long as it is held."""
    import lance

    return lance.write_dataset(rows, "memory://rows", mode="create")


def append_to_dataset(reader: pa.RecordBatchReader, dataset: Any, path: StorePath) -> None:
    """Add rows to the dataset at a path, in one commit."""
    import lance

    lance.write_dataset(reader, dataset, mode="append", storage_options=build_storage_options(path))


def stage_append(reader: pa.RecordBatchReader, dataset: Any, path: StorePath) -> Any:
    """Upload rows, and return the transaction that adds them."""
    from lance import fragment

    write: Any = fragment.write_fragments  # pyright: ignore[reportUnknownVariableType]
    return write(
        reader, dataset, return_transaction=True, mode="append", storage_options=build_storage_options(path)
    )


def write_fragments(reader: pa.RecordBatchReader, dataset: Any, path: StorePath) -> list[Any]:
    """Upload rows, and return the fragments that hold them: they are in no version yet."""
    from lance import fragment

    write: Any = fragment.write_fragments  # pyright: ignore[reportUnknownVariableType]
    return write(reader, dataset, mode="append", storage_options=build_storage_options(path))


def commit_transaction(path: StorePath, transaction: Any) -> None:
    """Commit what was uploaded."""
    from lance import LanceDataset

    LanceDataset.commit(str(path), transaction, storage_options=build_storage_options(path))


def commit_operation(path: StorePath, dataset: Any, operation: Any) -> None:
    """Commit what was uploaded for a version that still is the newest.

    Raises `Busy`: another process has written the table since; Lance would let both add one key.
    """
    from lance import LanceDataset

    if dataset.latest_version != dataset.version:
        raise Busy(f"another process wrote the table {path.name} at the same time: try again")
    options, version = build_storage_options(path), dataset.version
    LanceDataset.commit(dataset, operation, read_version=version, storage_options=options)


def read_version_stamp(table: StorePath) -> VersionStamp:
    """Identifies a table's newest version among all others, and those of a table created anew or restored.

    Made of the file names in the table's folder, the time of the last write, and what the system says of the
    newest manifest, without opening the table: 0.05 ms instead of 2; on an object store one listing.
    """
    if isinstance(table, ObjectPath):
        tags = [(path.name, path.stat().tag) for path in (table / "_versions").iter_objects()]
        return (tags[-1][1], *(f"{name} {tag}" for name, tag in tags)) if tags else (0,)
    try:
        versions = f"{table}/_versions"  # without a path for each of a thousand tables
        # Before the names: a commit in between gives another stamp.
        written_ns = os.stat(versions).st_mtime_ns  # noqa: PTH116
        names = sorted(os.listdir(versions))  # noqa: PTH208
        newest = _stamp_file(f"{versions}/{_find_newest(names)}")
        return written_ns, *newest, *names
    except (FileNotFoundError, NotADirectoryError):
        return (0,)


def _find_newest(manifests: list[str]) -> str:
    """The name of the newest manifest of some, in the order of their names."""
    first = next((name for name in manifests if name.endswith(_MANIFEST)), "")
    if len(first) == len(name_manifest(0)):
        return first
    names = (name for name in manifests if name.endswith(_MANIFEST))  # of a table of an early Lance
    return max(names, key=lambda name: (len(name), name), default="")


def name_manifest(version: int) -> str:
    """The file that makes a version. The newest is the first in the order of names."""
    return f"{_MAX_VERSION - version:020}{_MANIFEST}"


def _stamp_file(path: str) -> VersionStamp:
    """What no other content has: whoever restores a file sets its time of writing, and not that of change."""
    stat = os.stat(path)  # noqa: PTH116
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def stamp_version(table: StorePath, version: int) -> VersionStamp:
    """Identifies what has a version's number: another history of the table has another stamp for it.

    In a folder that takes some µs, and on an object store a listing.
    """
    name = name_manifest(version)
    if isinstance(table, ObjectPath):
        names = name, f"{version}{_MANIFEST}"
        paths = (table / "_versions").iter_objects()
        return tuple(path.stat().tag for path in paths if path.name in names)
    for manifest in (name, f"{version}{_MANIFEST}"):
        with suppress(FileNotFoundError, NotADirectoryError):
            return _stamp_file(f"{table}/_versions/{manifest}")
    return ()


def is_written(stamp: VersionStamp) -> bool:
    """Whether a table with this stamp has been committed; see `has_version`."""
    return any(str(part).partition(" ")[0].endswith(_MANIFEST) for part in stamp)


def has_version(table: StorePath) -> bool:
    """Whether a table has been committed, not only its folder made, as a kill may leave it."""
    return _has_file(table / "_versions", _MANIFEST)


def has_data(table: StorePath) -> bool:
    """Whether rows were written to a table, whatever is left of it."""
    return _has_file(table / "data")


def _has_file(folder: StorePath, suffix: str = "") -> bool:
    if isinstance(folder, ObjectPath):
        return folder.is_dir()
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return any(entry.name.endswith(suffix) for entry in entries)
    return False


def list_versions(table: StorePath) -> list[int]:
    """The versions that a table has a manifest of, ascending."""
    folder = table / "_versions"
    if isinstance(folder, ObjectPath):
        names = [path.name for path in folder.iter_objects()]
    else:
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    stems = (name.removesuffix(_MANIFEST) for name in names if name.endswith(_MANIFEST))
    numbers = (int(stem) for stem in stems if stem.isdecimal())
    return sorted(number if number < _MAX_VERSION // 2 else _MAX_VERSION - number for number in numbers)


def remove_version(table: StorePath, version: int) -> None:
    """Remove the manifest of a version: what only that version has is left to a cleanup."""
    for name in (name_manifest(version), f"{version}{_MANIFEST}"):
        remove_path(table / "_versions" / name)


def compute_size(path: StorePath) -> int:
    """Bytes of a file, or of all files in a folder, each once; 0 where there is none.

    Symbolic links are not followed.
    """
    if isinstance(path, ObjectPath):
        return sum(file.stat().st_size for file in path.iter_objects())
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size if path.is_symlink() or path.is_file() else 0
    sizes = dict[tuple[int, int], int]()  # overlays have files of the store under another name
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # removed meanwhile by a writer or a cleanup
            stat = file.lstat()
            sizes[stat.st_dev, stat.st_ino] = 0 if file.is_dir() else stat.st_size
    return sum(sizes.values())


def remove_path(path: StorePath) -> None:
    """Remove a table, or a file, if it is there."""
    if isinstance(path, ObjectPath):
        path.remove()
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
