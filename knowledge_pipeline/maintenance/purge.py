"""Purge: erase for good, from every table, every kept version and every index.

Earlier releases go too, because they hold what is to be erased.
"""

from __future__ import annotations

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.stages.pipeline import chosen, stages_of
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.code_graph import indexes as graph_indexes
from knowledge_pipeline.store.filters import Filter, eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import remove
from knowledge_pipeline.store.release import forget, live, publish
from knowledge_pipeline.store.tables import Table, portions

_STAGES = ("facts", "chunks", "snapshot")  # the snapshot last: it says that the source is stored


def purge_source(lake: Lake, settings: Settings, source: str) -> int:
    """Erase everything of one source, configured or not, and return its number of documents.

    Raises:
        NotFound: nothing of such a source is stored.
        Busy: it is being refreshed.
    """
    source_type = _stored_type(lake, source)
    with lake.source_lock(source), lake.index_lock():
        documents = lake.snapshot(source_type, source).count()
        _erase_shared_rows(lake, settings, [eq("source", source)])
        for folder in (lake.root / "embeddings").glob(f"*/{source}.lance"):
            remove(folder)
        for stage in _STAGES:
            remove(lake.root / stage / source_type / f"{source}.lance")
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
        former_types = [former for former in lake.stored_types(source) if former != found.type]
        if former_types and "graph" not in stages_of(found.type) and _has_graph(lake, source):
            with lake.index_lock():
                _erase_graph_rows(lake, [eq("source", source)])
                _release_erased(lake, settings, list(lake.graphs().values()))
        for former in former_types:
            documents += lake.snapshot(former, source).count()
            for stage in _STAGES:
                remove(lake.root / stage / former / f"{source}.lance")
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
            _cut_loose(lake, source_type, source, wheres)
            _erase_shared_rows(lake, settings, [eq("source", source) & where for where in wheres])
            _erase_rows(lake.facts(source_type, source), wheres)
            _erase_rows(chunks, wheres)
            _erase_unused_vectors(lake, chunks, source)
            _erase_rows(snapshot, wheres)
    return len(uris)


def _stored_type(lake: Lake, source: str) -> str:
    stored = lake.stored_sources()
    if source not in stored:
        raise NotFound(f"nothing of a source {source!r} is stored; stored: {', '.join(stored) or 'none'}")
    return stored[source]


def _erase_shared_rows(lake: Lake, settings: Settings, wheres: list[Filter]) -> None:
    """From the index and the code graph, and from all releases."""
    tables = [lake.index(space, dimensions) for space, dimensions in lake.spaces().items()]
    for table in tables:
        for where in wheres:
            table.delete_where(where)
        table.erase_deleted()
        indexes.rebuild(table)
    _release_erased(lake, settings, [*tables, *_erase_graph_rows(lake, wheres)])


def _cut_loose(lake: Lake, source_type: str, source: str, wheres: list[Filter]) -> None:
    """Delete the edges that lead into some documents, and let the next refresh resolve the others anew."""
    mine, facts = eq("source", source), lake.facts(source_type, source)
    for where in wheres if lake.graphs() else ():
        paths = facts.rows(["path"], where)["path"].to_pylist()
        lake.graph("edges").delete_where(mine & one_of("target_path", paths))
    if lake.graphs():
        lake.graph("symbols").set_where(mine & eq("kind", "file"), made_of="", fingerprint="")


def _erase_graph_rows(lake: Lake, wheres: list[Filter]) -> list[Table]:
    tables = list(lake.graphs().values())
    for table in tables:
        for where in wheres:
            table.delete_where(where)
        table.erase_deleted()
        graph_indexes.rebuild(table)
    return tables


def _has_graph(lake: Lake, source: str) -> bool:
    return any(table.count(eq("source", source)) for table in lake.graphs().values())


def _release_erased(lake: Lake, settings: Settings, tables: list[Table]) -> None:
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
