"""Purge: erases for good, from every table, every kept version and every index.

Earlier releases go too, because they hold what is to be erased. The rows of the live release are made the
newest first: what stays live, and pinned if it was, is its content without what is erased, and nothing that
no check has seen. What refreshes wrote since is indexed again by the next one, from the chunks. A migration
becomes final, because its way back is made of earlier versions.
"""

from __future__ import annotations

from collections.abc import Iterable

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.records import is_variant_uri
from knowledge_pipeline.stages.pipeline import select_stages
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.filters import Filter, eq, is_null, one_of
from knowledge_pipeline.store.index.locations import SourceLocation, write_location
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import remove_path
from knowledge_pipeline.store.migration.migrate import commit_migration
from knowledge_pipeline.store.release import (
    delete_old_releases,
    find_live_release,
    publish_release,
    restore_released_rows,
)
from knowledge_pipeline.store.shared_state import ANSWERS, SERVERS_FOLDER, erase_entries
from knowledge_pipeline.store.tables import Table, split_batches

_STAGES = ("facts", "audiences", "chunks", "snapshot")  # the snapshot last: it says that the source is stored


def purge_source(lake: Lake, settings: Settings, source: str) -> int:
    """Erase everything of one source, configured or not, and return its number of documents.

    Raises:
        NotFound: nothing of such a source is stored.
        Busy: it is being refreshed.
    """
    source_type = _find_stored_type(lake, source)
    commit_migration(lake)
    with lake.lock_source(source), lake.lock_index():
        documents = lake.snapshot(source_type, source).count_rows()
        restore_released_rows(lake)
        _erase_location(_list_index_tables(lake), source)
        _erase_location(lake.graph_tables().values(), source)
        _erase_shared_rows(lake, settings, [eq("source", source)])
        for folder in (lake.root / "embeddings").glob(f"*/{source}.lance"):
            remove_path(folder)
        for stage in _STAGES:
            remove_path(lake.root / stage / source_type / f"{source}.lance")
    return documents


def purge_former_types(lake: Lake, settings: Settings, source: str) -> int:
    """Erase what is left of the former types of a source, and return the number of documents.

    Its rows in the index are those of its present type, and stay.

    Raises:
        NotFound: there is no such source.
        Busy: it is being refreshed.
    """
    (found,) = settings.select_sources([source])
    documents = 0
    commit_migration(lake)
    with lake.lock_source(source):
        former_types = [former for former in lake.list_stored_types(source) if former != found.type]
        graph, mine = list(lake.graph_tables().values()), eq("source", source)
        has_graph = any(table.count_rows(mine) for table in graph)
        if former_types and "graph" not in select_stages(found.type) and has_graph:
            with lake.lock_index():
                restore_released_rows(lake)
                _erase_location(graph, source)
                _erase_graph_rows(lake, [mine])
                _drop_old_releases(lake, settings, graph)
        for former in former_types:
            documents += lake.snapshot(former, source).count_rows()
            for stage in _STAGES:
                remove_path(lake.root / stage / former / f"{source}.lance")
    return documents


def purge_documents(lake: Lake, settings: Settings, source: str, *, uri: str | None = None) -> int:
    """Erase one document of a source, or all its archived ones, and return their number.

    A document that the source still has comes back with the next refresh, unless it is excluded there.

    Raises:
        NotFound: no such source or document is stored.
        Busy: the source is being refreshed.
    """
    source_type = _find_stored_type(lake, source)
    commit_migration(lake)
    with lake.lock_source(source), lake.lock_index():
        snapshot, chunks = lake.snapshot(source_type, source), lake.chunks(source_type, source)
        selected = eq("uri", uri) if uri is not None else ~is_null("archived_at")
        uris: list[str] = snapshot.read_rows(["uri"], selected).to_pydict()["uri"]
        if uri is None:
            uris = [each for each in uris if not is_variant_uri(each)]  # which branches still have
        if not uris and uri is not None:
            raise NotFound(f"source {source!r} holds no document {uri!r}")
        filters = [one_of("uri", batch) for batch in split_batches(uris)]
        if uris:
            restore_released_rows(lake)
            _detach_graph_edges(lake, source_type, source, filters)
            _erase_shared_rows(lake, settings, [eq("source", source) & where for where in filters])
            _erase_rows(lake.facts(source_type, source), filters)
            _erase_rows(chunks, filters)
            used = set(chunks.read_rows(["text_key"]).to_pydict()["text_key"])
            for space, dimensions in lake.list_spaces().items():
                vectors = lake.embeddings(space, source, dimensions)
                stored = vectors.read_rows(["text_key"]).to_pydict()["text_key"]
                unused = split_batches(key for key in stored if key not in used)
                _erase_rows(vectors, [one_of("text_key", batch) for batch in unused])
            _erase_rows(snapshot, filters)
    return len(uris)


def _find_stored_type(lake: Lake, source: str) -> str:
    stored = lake.list_stored_sources()
    if source not in stored:
        raise NotFound(f"nothing of a source {source!r} is stored; stored: {', '.join(stored) or 'none'}")
    return stored[source]


def _erase_shared_rows(lake: Lake, settings: Settings, filters: list[Filter]) -> None:
    """Erase rows from the index, the code graph and all releases."""
    tables = _list_index_tables(lake)
    for table in tables:
        _delete_rows(table, filters)
        indexes.rebuild_indexes(table)
    _drop_old_releases(lake, settings, [*tables, *_erase_graph_rows(lake, filters)])
    erase_entries(lake.folder / SERVERS_FOLDER, ANSWERS)


def _list_index_tables(lake: Lake) -> list[Table]:
    return [lake.index(space, dimensions) for space, dimensions in lake.list_spaces().items()]


def _erase_location(tables: Iterable[Table], source: str) -> None:
    for table in tables:
        write_location(table, source, SourceLocation())


def _detach_graph_edges(lake: Lake, source_type: str, source: str, filters: list[Filter]) -> None:
    """Delete the edges that lead into some documents, and let the next refresh resolve the others again."""
    mine, facts = eq("source", source), lake.facts(source_type, source)
    for where in filters if lake.graph_tables() else ():
        paths = facts.read_rows(["path"], where).to_pydict()["path"]
        lake.graph_table("edges").delete_where(mine & one_of("target_path", paths))
    if lake.graph_tables():
        lake.graph_table("symbols").update_where(mine & eq("kind", "file"), made_of="", fingerprint="")


def _erase_graph_rows(lake: Lake, filters: list[Filter]) -> list[Table]:
    tables = list(lake.graph_tables().values())
    for table in tables:
        _delete_rows(table, filters)
        indexes.rebuild_indexes(table)
    return tables


def _delete_rows(table: Table, filters: list[Filter]) -> None:
    for where in filters:
        table.delete_where(where)
    table.purge_deleted_rows()


def _drop_old_releases(lake: Lake, settings: Settings, tables: list[Table]) -> None:
    if live := find_live_release(lake):
        publish_release(lake, keep=settings.releases.keep, pinned_since=live.pinned_since)
        delete_old_releases(lake, keep=1)
    for table in tables:
        table.delete_old_versions(keep=1)


def _erase_rows(table: Table, filters: list[Filter]) -> None:
    if table.exists:
        _delete_rows(table, filters)
        table.delete_old_versions(keep=1)
