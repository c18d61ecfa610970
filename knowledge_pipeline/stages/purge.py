"""Purge: erase for good, from every table, every kept version and every index.

Earlier releases go too, because they hold what is to be erased.
"""

from __future__ import annotations

from shutil import rmtree

from knowledge_pipeline.config import Settings
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.stages.pipeline import chosen
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.filters import Filter, eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import forget, live, publish
from knowledge_pipeline.store.tables import Table, portions


def purge_source(lake: Lake, settings: Settings, source: str) -> int:
    """Erase everything of one source, configured or not, and return its number of documents.

    Raises:
        NotFound: nothing of such a source is stored.
        Busy: it is being refreshed.
    """
    source_type = _stored_type(lake, source)
    with lake.source_lock(source), lake.index_lock():
        documents = lake.snapshot(source_type, source).count()
        _erase_index_rows(lake, settings, [eq("source", source)])
        for folder in (lake.root / "embeddings").glob(f"*/{source}.lance"):
            rmtree(folder)
        for stage in ("chunks", "snapshot"):  # the snapshot last: it says that the source is stored
            rmtree(lake.root / stage / source_type / f"{source}.lance", ignore_errors=True)
    return documents


def purge_former_types(lake: Lake, settings: Settings, source: str) -> int:
    """Erase what a source left that is now of another type, and return its number of documents.

    Its rows in the index are those of its present type, and stay.

    Raises:
        NotFound: there is no such source.
        Busy: it is being refreshed.
    """
    (found,) = chosen(settings, [source])
    documents = 0
    with lake.source_lock(source):
        for former in lake.stored_types(source):
            if former != found.type:
                documents += lake.snapshot(former, source).count()
                for stage in ("chunks", "snapshot"):
                    rmtree(lake.root / stage / former / f"{source}.lance", ignore_errors=True)
    return documents


def purge_documents(lake: Lake, settings: Settings, source: str, *, uri: str | None = None) -> int:
    """Erase one document of a source, or all its archived ones; return how many documents.

    A document that the source still has comes back with the next refresh, unless it is
    excluded there.

    Raises:
        NotFound: no such source or document is stored.
        Busy: the source is being refreshed.
    """
    source_type = _stored_type(lake, source)
    with lake.source_lock(source), lake.index_lock():
        snapshot, chunks = lake.snapshot(source_type, source), lake.chunks(source_type, source)
        which = eq("uri", uri) if uri is not None else ~is_null("archived_at")
        uris = snapshot.rows(["uri"], which)["uri"].to_pylist()
        if not uris and uri is not None:
            raise NotFound(f"source {source!r} holds no document {uri!r}")
        wheres = [one_of("uri", portion) for portion in portions(uris)]
        if uris:
            _erase_index_rows(lake, settings, [eq("source", source) & where for where in wheres])
            _erase_rows(chunks, wheres)
            _erase_unused_vectors(lake, chunks, source)
            _erase_rows(snapshot, wheres)
    return len(uris)


def _stored_type(lake: Lake, source: str) -> str:
    stored = lake.stored_sources()
    if source not in stored:
        raise NotFound(f"nothing of a source {source!r} is stored; stored: {', '.join(stored) or 'none'}")
    return stored[source]


def _erase_index_rows(lake: Lake, settings: Settings, wheres: list[Filter]) -> None:
    tables = [lake.index(space, dimensions) for space, dimensions in lake.spaces().items()]
    for table in tables:
        for where in wheres:
            table.delete_where(where)
        table.erase_deleted()
        indexes.rebuild(table)
    if live(lake):
        publish(lake, keep=settings.releases.keep)
        forget(lake, keep=1)
    for table in tables:
        table.forget_versions(keep=1)


def _erase_rows(table: Table, wheres: list[Filter]) -> None:
    for where in wheres:
        table.delete_where(where)
    if table.exists:
        table.erase_deleted()
        table.forget_versions(keep=1)


def _erase_unused_vectors(lake: Lake, chunks: Table, source: str) -> None:
    used = set(chunks.rows(["text_key"])["text_key"].to_pylist())
    for space, dimensions in lake.spaces().items():
        vectors = lake.embeddings(space, source, dimensions)
        unused = [key for key in vectors.rows(["text_key"])["text_key"].to_pylist() if key not in used]
        _erase_rows(vectors, [one_of("text_key", portion) for portion in portions(unused)])
