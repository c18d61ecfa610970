"""The layout of the store: one folder or object store, one Lance dataset per stage and source.

<root>/snapshot/<type>/<source>.lance
<root>/chunks/<type>/<source>.lance
<root>/embeddings/<space>/<source>.lance
<root>/facts/<type>/<source>.lance
<root>/audiences/<type>/<source>.lance
<root>/index/<space>.lance                 one table per space, all sources
<root>/graph/symbols.lance  edges.lance    the code graph, all sources
<root>/releases.lance
<root>/tokens.lance
<root>/receipts.lance
<root>/logs/<name>.lance
<root>/freshness/<source>.json             how current it is: `knowledge_pipeline.freshness`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.store.file_cache import FileCache, Kind, open_file_cache
from knowledge_pipeline.store.lance_storage import (
    StorePath,
    VersionStamp,
    has_version,
    open_dataset,
    read_version_stamp,
)
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.object_store import ObjectPath

if TYPE_CHECKING:
    import pyarrow as pa

    from knowledge_pipeline.store.tables import Table


LOCK_TIMEOUT_S = 600.0
_DIMENSIONS = Kind[tuple[VersionStamp, int]](lambda _: 0)
_SOURCE_STAGES = ("snapshot", "chunks", "embeddings", "facts", "audiences")


@dataclass(frozen=True, slots=True, init=False)
class Lake:
    """The store and the tables in it."""

    root: StorePath
    folder: Path  # on this machine; the root itself where that is a folder
    files: FileCache = field(compare=False, repr=False)  # shared by all lakes of the store

    def __init__(self, store: Path | ObjectStore) -> None:
        remote = isinstance(store, ObjectStore)
        object.__setattr__(self, "root", ObjectPath("", store) if remote else store)
        object.__setattr__(self, "folder", store.folder if remote else store)
        object.__setattr__(self, "files", open_file_cache(self.root))

    def _open_table(
        self, name: str, choose: Callable[[Any], pa.Schema], former_names: Mapping[str, str] | None = None
    ) -> Table:
        """The schema is chosen of their module, which takes long to import for who opens no table."""
        from knowledge_pipeline.store import schemas
        from knowledge_pipeline.store.tables import Table

        path = self.root / f"{name}.lance"
        return Table(path, choose(schemas), former_names=former_names, files=self.files)

    @property
    def is_local(self) -> bool:
        """Whether the tables lie in a folder of this machine."""
        return isinstance(self.root, Path)

    @property
    def cache(self) -> Path:
        """Folder of what can be derived again: git mirrors, joined models."""
        return self.folder / "cache"

    @property
    def overlays(self) -> Path:
        """Folder of what differs in working trees; see `stages.overlay`."""
        return self.cache / "overlays"

    def relative_name(self, path: StorePath) -> str:
        """The name of a table, folder or file within the store: "index/small.lance"."""
        return path.key if isinstance(path, ObjectPath) else path.relative_to(self.folder).as_posix()

    def snapshot(self, source_type: str, source: str) -> Table:
        """Raw documents of a source, as read."""
        return self._open_table(f"snapshot/{source_type}/{source}", lambda schemas: schemas.SNAPSHOT)

    def chunks(self, source_type: str, source: str) -> Table:
        """Chunks of a source."""
        return self._open_table(f"chunks/{source_type}/{source}", lambda schemas: schemas.CHUNKS)

    def embeddings(self, space: str, source: str, dimensions: int) -> Table:
        """Vectors of a source's texts in one space."""
        return self._open_table(
            f"embeddings/{space}/{source}", lambda schemas: schemas.build_embeddings_schema(dimensions)
        )

    def index(self, space: str, dimensions: int) -> Table:
        """Retrievable chunks of all sources of one space."""
        return self._open_table(f"index/{space}", lambda schemas: schemas.build_index_schema(dimensions))

    def facts(self, source_type: str, source: str) -> Table:
        """What each file of a code source says by itself, for the code graph."""
        return self._open_table(f"facts/{source_type}/{source}", lambda schemas: schemas.FACTS)

    def audiences(self, source_type: str, source: str) -> Table:
        """Who may read documents of a source, by its own permissions."""
        return self._open_table(f"audiences/{source_type}/{source}", lambda schemas: schemas.AUDIENCES)

    def list_audience_stamps(self) -> dict[tuple[str, str], tuple[VersionStamp, VersionStamp]]:
        """Stamps of the tables of audiences, and of the snapshots beside them, by type and source."""
        folder, snapshots = self.root / "audiences", self.root / "snapshot"
        if isinstance(folder, Path) and not folder.is_dir():  # a look before each question, which most need
            return {}
        return {
            (type_ := path.parent.name, path.stem): (
                read_version_stamp(path),
                read_version_stamp(snapshots / type_ / path.name),
            )
            for path in sorted(folder.glob("*/*.lance"))
        }

    def graph_table(self, name: str) -> Table:
        """One of `schemas.GRAPH`: the symbols, or the edges, of all sources."""
        return self._open_table(f"graph/{name}", lambda schemas: schemas.GRAPH[name])

    def graph_tables(self) -> dict[str, Table]:
        """The tables of the code graph that exist, by name."""
        from knowledge_pipeline.store.schemas import GRAPH

        tables = {name: self.graph_table(name) for name in GRAPH}
        return {name: table for name, table in tables.items() if table.exists}

    def releases(self) -> Table:
        """The releases; the newest row is live."""
        return self._open_table("releases", lambda schemas: schemas.RELEASES)

    def receipts(self) -> Table:
        """Receipts of purges, which stay."""
        return self._open_table("receipts", lambda schemas: schemas.RECEIPTS)

    def tokens(self) -> Table:
        """The tokens of a server's callers."""
        return self._open_table("tokens", lambda schemas: schemas.TOKENS)

    def log_table(self, name: str) -> Table:
        """One of `schemas.LOGS`, for people to read."""
        from knowledge_pipeline.store.schemas import FORMER_COLUMN_NAMES

        former_names = FORMER_COLUMN_NAMES.get(name)
        return self._open_table(f"logs/{name}", lambda schemas: schemas.LOGS[name], former_names)

    def list_spaces(self) -> dict[str, int]:
        """Every space that has an index table, with its dimensions."""
        paths = sorted((self.root / "index").glob("*.lance"))
        return {path.stem: self.read_dimensions(path) for path in paths if has_version(path)}

    def read_dimensions(self, path: StorePath) -> int:
        """The length of the vectors of a table; read once, in a folder once for each version."""
        # In an object store a space's name stands for its dimensions.
        stamp = () if isinstance(path, ObjectPath) else read_version_stamp(path)

        def read() -> int:
            return open_dataset(path).schema.field("vector").type.list_size

        return self.files.load(_DIMENSIONS, str(path), None, stamp, read)

    def list_stored_sources(self) -> dict[str, str]:
        """Every source that has a snapshot, with its type, configured or not."""
        return {path.stem: path.parent.name for path in sorted((self.root / "snapshot").glob("*/*.lance"))}

    def list_stored_types(self, source: str) -> list[str]:
        """The types as which a source has a snapshot; several where its type was changed."""
        return [path.parent.name for path in sorted((self.root / "snapshot").glob(f"*/{source}.lance"))]

    def version_stamps(self, source: str) -> dict[str, VersionStamp]:
        """Stamps of the newest versions of all tables that may hold rows of a source, by name."""
        own = [f"{stage}/*/{source}.lance" for stage in _SOURCE_STAGES]
        patterns = (*own, "index/*.lance", "graph/*.lance")
        paths = [path for pattern in patterns for path in self.root.glob(pattern)]
        return {self.relative_name(path): read_version_stamp(path) for path in paths}

    def all_version_stamps(self) -> dict[str, VersionStamp]:
        """Stamps of the newest versions of all tables that a refresh reads or writes, logs aside, by name."""
        releases = {"releases.lance": read_version_stamp(self.root / "releases.lance")}
        return self.version_stamps("*") | releases

    def lock_source(self, source: str, *, timeout_s: float = LOCK_TIMEOUT_S) -> AbstractContextManager[None]:
        """Two refreshes of one source never overlap. Raises `Busy`."""
        about = f"source {source!r}"
        return acquire_lock(self.root / "locks", f"source-{source}", timeout_s=timeout_s, description=about)

    def lock_index(self, *, timeout_s: float = LOCK_TIMEOUT_S) -> AbstractContextManager[None]:
        """The index tables and the releases have one writer at a time. Raises `Busy`."""
        return acquire_lock(self.root / "locks", "index", timeout_s=timeout_s, description="the index")


LOG_TIMEOUT_S = 30.0


def lock_log(lake: Lake, name: str) -> AbstractContextManager[None]:
    """A log has one writer at a time. Raises `Busy`."""
    return acquire_lock(lake.root / "locks", f"log-{name}", timeout_s=LOG_TIMEOUT_S)
