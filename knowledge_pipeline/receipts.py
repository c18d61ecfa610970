"""A receipt of deletion: where a purged document stood, when each place was free of it, and a later look.

A receipt holds no content, and no name but the source's: what it looks for are hashes, salted by its id. So
the look that finds what a purge has to erase says at any later time whether something of it is there again.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import KnowledgeError, NotFound
from knowledge_pipeline.extensions.publish import DSN_VARIABLE, open_target
from knowledge_pipeline.maintenance import erase_rows, purge_documents, purge_source, select_documents
from knowledge_pipeline.pushed import PushInbox
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.filters import eq, one_of
from knowledge_pipeline.store.indexes import discard_path
from knowledge_pipeline.store.lake import Lake, lock_log
from knowledge_pipeline.store.lance_storage import list_versions, open_dataset
from knowledge_pipeline.store.local_state import ANSWERS, SharedState
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.release import list_releases
from knowledge_pipeline.store.tables import split_batches

Scope = Literal["source", "archived", "document"]

_TABLES = {
    **dict.fromkeys(("snapshot/*/{}", "facts/*/{}", "chunks/*/{}", "index/*", "graph/*"), "uri"),
    "embeddings/*/{}": "text_key",
    "audiences/*/{}": "audience",
}
"""Tables, of a source or of all, and the column that says what a row is of."""
_LOGS = {"queries": "text", "feedback": "result_id"}
_NAMES = ("id", "path", "text_key")  # columns of the index by which others name a document
_PUBLISHED = "publication in PostgreSQL"
_OUT_OF_REACH = (
    "exports, backups of the store, and versions that a bucket keeps",
    f"publications to a database that {DSN_VARIABLE} does not name",
    "questions and calls of models that quote it, in the logs (logs.keep_days, costs.keep_texts)",
    "what Dagster's own database says of runs, and what running servers have not logged yet",
    "the source itself, and clones and downloads of it in the store's cache/",
)


@dataclass(frozen=True, slots=True)
class ErasedPlace:
    """Where something of it stood, or stands."""

    place: str  # a table of the store, or what else it is
    rows: int  # of the newest version
    versions: int  # that had any
    erased_at: str | None = None  # when the place was found to be free of it; None: it is not


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a purge erased, and from where."""

    receipt: str
    at: str
    source: str
    scope: Scope
    documents: int
    releases: tuple[int, ...]  # that held it; they are gone
    places: tuple[ErasedPlace, ...]
    out_of_reach: tuple[str, ...]
    hashes: tuple[str, ...]  # what is looked for, besides all rows of a whole source

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(slots=True)
class _Search:
    """Looks for something in every place that this program can reach."""

    lake: Lake
    salt: str
    source: str
    is_whole: bool  # all that is of the source
    hashes: set[str] = field(default_factory=set[str])
    places: dict[str, ErasedPlace] = field(default_factory=dict[str, ErasedPlace])  # that have something
    hits: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # by which each was found
    releases: tuple[int, ...] = ()
    problems: tuple[str, ...] = ()  # what could not be looked into

    def add_names(self, values: Iterable[str]) -> None:
        self.hashes.update(hash_strings(self.salt, value) for value in values)

    def find(self, values: Iterable[str | None]) -> list[str]:
        """The hashes of those values that are looked for."""
        hashes = (hash_strings(self.salt, value) for value in values if value is not None)
        return [hash_ for hash_ in hashes if hash_ in self.hashes]

    def look(self) -> None:
        """Find the places, anew."""
        self.places, self.hits = {}, {}
        counts = {name: self._look_into_table(name, column) for name, column in _TABLES.items()}
        by_version = {key: count for of_tables in counts.values() for key, count in of_tables.items()}
        self.releases = tuple(
            release.release
            for release in list_releases(self.lake)
            if any(by_version.get((f"index/{space}", at)) for space, at in release.tables.items())
        )
        for name, column in _LOGS.items():
            self._note(f"logs/{name}", [self.find(self._read_log(name, column))])
        waiting = [document.uri for document in PushInbox(self.lake.folder).list_waiting(self.source)]
        self._note("pushed documents that wait", [waiting if self.is_whole else self.find(waiting)])
        if os.environ.get(DSN_VARIABLE):
            try:
                published = open_target().list_documents(self.source)
                self._note(_PUBLISHED, [published if self.is_whole else self.find(published)])
            except KnowledgeError as error:  # which must not keep anything from being erased
                self.problems = (f"{_PUBLISHED}: {error}",)

    def erase_from_logs(self) -> None:
        """Erase rows that name it."""
        for name, column in _LOGS.items():
            if values := {value for value in self._read_log(name, column) if self.find([value])}:
                with lock_log(self.lake, name):
                    filters = [one_of(column, batch) for batch in split_batches(sorted(values))]
                    erase_rows(self.lake.log_table(name), filters)

    def _read_log(self, name: str, column: str) -> list[str]:
        return open_log(self.lake, name).read_rows([column]).to_pydict()[column]

    def _look_into_table(self, name: str, column: str) -> dict[tuple[str, int], int]:
        """How many rows each version of the tables of a name has of it."""
        where = None if "{}" in name else eq("source", self.source).sql
        counts = dict[tuple[str, int], int]()
        for path in sorted(self.lake.root.glob(f"{name.format(self.source)}.lance")):
            table, hits = self.lake.relative_name(path).removesuffix(".lance"), list[list[str]]()
            for version in list_versions(path):
                rows = open_dataset(path, version).to_table(columns=[column], filter=where)
                values = rows[column].to_pylist()
                hits.append(values if self.is_whole else self.find(values))
                counts[table, version] = len(hits[-1])
            self._note(table, hits)
        return counts

    def _note(self, place: str, hits: list[list[str]]) -> None:
        """Hits in each version of a place, the newest last."""
        if any(hits):
            self.places[place] = ErasedPlace(place, len(hits[-1]), sum(map(bool, hits)))
            self.hits[place] = set[str]().union(*hits)


def purge_with_receipt(
    lake: Lake, settings: Settings, source: str, *, scope: Scope, uri: str | None = None
) -> Receipt:
    """Erase a source, its archived documents or one document, and store what was erased from where.

    Rows of logs that name it go as well, and the results of SQL models, which their next run makes anew.
    Raises as `purge_source` and `purge_documents` do; nothing is erased then.
    """
    search = _Search(lake, uuid.uuid4().hex[:12], source, scope == "source")
    _add_names(search, scope, uri)
    search.look()
    before, releases = search.places, search.releases
    with SharedState(lake.folder) as state:
        derived = {"answers in the local state": len(state.list_items(ANSWERS))}
    if search.is_whole:
        documents = purge_source(lake, settings, source)
        search.hashes = set[str]().union(*(search.hits.get(f"logs/{name}", ()) for name in _LOGS))
    else:
        documents = purge_documents(lake, settings, source, uri=uri)
    search.erase_from_logs()
    marts = [*(lake.folder / "marts").glob("*.parquet")]
    for mart in marts:
        discard_path(lake, mart)
    derived["results of SQL models"] = len(marts)
    search.look()
    for place in [place for place in search.places if place.startswith("embeddings/")]:
        search.hashes -= search.hits[place]  # texts that other documents have too
        del search.places[place]
    now = datetime.now(UTC)
    at = now.isoformat(timespec="seconds")
    stood = [*before.values(), *(ErasedPlace(name, count, 1) for name, count in derived.items() if count)]
    places = tuple(replace(it, erased_at=None if it.place in search.places else at) for it in stood)
    what = search.salt, at, source, scope, documents, releases, places
    receipt = Receipt(*what, (*_OUT_OF_REACH, *search.problems), tuple(sorted(search.hashes)))
    row = {"receipt": search.salt, "at": now, "source": source, "content": json.dumps(receipt.as_json())}
    table = lake.receipts()
    with acquire_lock(lake.root / "locks", "receipts", timeout_s=30.0, description="the receipts"):
        table.append([pa.RecordBatch.from_pylist([row], schema=table.schema)])
    return receipt


def check_receipt(lake: Lake, id: str) -> tuple[Receipt, tuple[ErasedPlace, ...], tuple[str, ...]]:
    """A receipt, the places that have something of it now, and what could not be looked into.

    Raises `NotFound`: there is no such receipt.
    """
    stored = dict(zip(*lake.receipts().read_rows(["receipt", "content"]).to_pydict().values(), strict=True))
    if id not in stored:
        raise NotFound(f"there is no receipt {id!r}; stored: {', '.join(sorted(stored)) or 'none'}")
    values: dict[str, Any] = json.loads(stored[id])
    values |= {name: tuple(values[name]) for name in ("releases", "out_of_reach", "hashes")}
    values["places"] = tuple(ErasedPlace(**place) for place in values["places"])
    receipt = Receipt(**values)
    search = _Search(lake, id, receipt.source, receipt.scope == "source", set(receipt.hashes))
    search.look()
    return receipt, tuple(search.places.values()), search.problems


def _add_names(search: _Search, scope: Scope, uri: str | None) -> None:
    """Names of the documents, ids of their chunks, and keys of their texts, of all versions."""
    wanted = [eq("source", search.source)]
    if scope != "source":
        lake, types = search.lake, search.lake.list_stored_types(search.source)
        uris = [it for type_ in types for it in select_documents(lake.snapshot(type_, search.source), uri)]
        search.add_names([*uris, *(f"{search.source}:{it}" for it in uris)])
        wanted = [wanted[0] & one_of("uri", batch) for batch in split_batches(uris)]
    for path in search.lake.root.glob("index/*.lance") if wanted else ():
        for dataset in (open_dataset(path, version) for version in list_versions(path)):
            for where in wanted:
                for values in dataset.to_table(columns=[*_NAMES], filter=where.sql).to_pydict().values():
                    search.add_names(values)
