"""What every stage receives and returns, and the sources that a schedule refreshes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from knowledge_pipeline.config.connections import GitConnection
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig, Trigger, resolve_trigger
from knowledge_pipeline.connectors.base import Source
from knowledge_pipeline.connectors.files import ListingMemory
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.errors import KnowledgeError, ReleaseRefused, SourceRefused, TransientError
from knowledge_pipeline.records import Item
from knowledge_pipeline.stages.progress import ProgressCallback, ignore_progress
from knowledge_pipeline.stages.upkeep import AT_ONCE, Upkeep
from knowledge_pipeline.store.damage import explain_damage
from knowledge_pipeline.store.file_cache import Kind
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import VersionStamp
from knowledge_pipeline.text import is_object

if TYPE_CHECKING:
    from knowledge_pipeline.store.reconcile import ReconcilePlan


SlotClaim = Callable[[str], AbstractContextManager[None]]
"""Waits for a slot of a limited pool: `embedder`, `index`, or the host that a source is read from.

The store's locks keep the tables correct without it; pools protect a shared machine or API. Claiming a
slot costs a few commits to an event log, 0.1 s or more, so short work does without.
"""


def claim_immediately(pool: str) -> AbstractContextManager[None]:
    """Wait for nothing."""
    del pool
    return nullcontext()


@dataclass(frozen=True, slots=True)
class RefreshOptions:
    """How sources are refreshed; the defaults are an ordinary refresh."""

    full: bool = False  # ignore what is stored and rebuild every row
    reembed: bool = False  # embed texts again, even those with a vector
    allow_empty: bool = False  # accept an empty listing of a source that had documents
    relist: bool = False  # list services in full now, to detect deletions
    documents: Sequence[str] = ()  # "SOURCE/URI": of their sources, these are read and no others

    def select_uris(self, source: str) -> tuple[str, ...]:
        """The uris of `documents` in a source; none: it is refreshed as a whole."""
        pairs = (document.partition("/") for document in self.documents)
        return tuple(dict.fromkeys(uri for id_, _, uri in pairs if id_ == source))

    def as_config(self) -> dict[str, Any]:
        """What is set, as JSON values, which Dagster's configuration takes."""
        values = {**asdict(self), "documents": list(self.documents)}
        return {name: value for name, value in values.items() if value}


ORDINARY_REFRESH = RefreshOptions()


@dataclass(frozen=True, slots=True)
class Listing:
    """What a source listed, and the stamps that its tables had before: it holds while they have them."""

    items: Mapping[str, Item]  # by uri
    version_stamps: Mapping[str, VersionStamp]
    error: KnowledgeError | None = None  # that ended the listing: the stage raises it, and does not try again
    branches: tuple[str, ...] = ()  # further ones of a repository that it covers
    notes: Counter[str] = field(default_factory=Counter[str])  # what it left out
    revision: str | None = None  # the commit that it is of


def item_fingerprint(item: Item) -> str:
    """What the snapshot compares: another revision, or another reason to skip it, is a change."""
    return item_fingerprints([item])[item.uri]


def item_fingerprints(items: Iterable[Item]) -> dict[str, str]:
    """The `item_fingerprint` of items by their uris."""
    return {item.uri: f"{item.revision} skip: {item.skip}" if item.skip else item.revision for item in items}


_LISTINGS = Kind[tuple[SourceConfig, ListingMemory]](lambda entry: entry[1].count_bytes())


@contextmanager
def open_listed_source(lake: Lake, source: SourceConfig) -> Generator[Source]:
    """A source whose listing goes on from the last one in this process, if its configuration is the same."""
    former = lake.files.take(_LISTINGS, source.id, None)
    memory = former[1] if former and former[0] == source else ListingMemory()
    with open_source(source, cache=lake.cache, memory=memory) as opened:
        yield opened
    lake.files.put(_LISTINGS, source.id, None, (source, memory))


@dataclass(frozen=True, slots=True)
class RefreshContext:
    """One source on its way through the stages."""

    lake: Lake
    settings: Settings
    source: SourceConfig
    options: RefreshOptions = ORDINARY_REFRESH
    report: ProgressCallback = ignore_progress
    claim_slot: SlotClaim = claim_immediately
    after_vectors: Callable[[], None] = lambda: None  # called now and then while a source is embedded
    listing: Listing | None = None  # of this refresh, where the source is listed already
    upkeep: Upkeep = AT_ONCE  # of the tables that stages write
    max_documents: int | None = None  # that a stage may read; more are refused before the first

    def require_few(self, documents: int) -> None:
        """Raise `SourceRefused` where a stage has more to do than what waits for it allows."""
        if self.max_documents is not None and documents > self.max_documents:
            raise SourceRefused(
                f"{documents:,} documents of source {self.source.id!r} are not indexed as they are now, and "
                f"a question waits for {self.max_documents:,} at most: run `knowledge refresh`"
            )


@dataclass(slots=True)
class Stats:
    """What one stage did for one source; each stage defines its keys and rows."""

    stage: str
    source: str
    seen: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    rows: int = 0  # of the source in the stage's table, afterwards
    unembedded: int = 0  # of those, in the index or a release, how many have no vector yet
    skipped: Counter[str] = field(default_factory=Counter[str])  # by reason
    found: Counter[str] = field(default_factory=Counter[str])  # secrets and personal data, by kind
    notes: Counter[str] = field(default_factory=Counter[str])  # what went otherwise than usual
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    version: int = 0
    revision: str | None = None  # the commit that a listing was of
    at: datetime = field(default_factory=lambda: datetime.now(UTC))  # when the stage finished

    def add_plan(self, plan: ReconcilePlan) -> None:
        """Take over the sizes of a plan."""
        self.added, self.changed = len(plan.added), len(plan.changed)
        self.removed, self.unchanged = len(plan.removed), plan.unchanged

    @property
    def embedded_share(self) -> float:
        """The share of the rows that have a vector, in [0, 1]."""
        return 1.0 - self.unembedded / self.rows if self.unembedded else 1.0

    @property
    def has_changes(self) -> bool:
        """Whether the stage wrote anything."""
        return bool(self.added or self.changed or self.removed)

    def as_metadata(self) -> dict[str, Any]:
        """Plain values for logs, JSON and Dagster metadata."""
        # `asdict` counts counters anew
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        return {name: dict(value) if is_object(value) else value for name, value in values.items()}


@dataclass(slots=True)
class RefreshOutcome:
    """What a refresh of some sources did; a source that failed keeps what it had."""

    stats: list[Stats] = field(default_factory=list[Stats])
    failures: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])
    release: Stats | None = None


def describe_failures(failures: Mapping[str, KnowledgeError]) -> list[dict[str, Any]]:
    """What failed, by source, as programs read it; of a release, the sources that it is about, if it says."""
    return [
        {
            "source": source,
            "error": str(error),
            "kind": type(error).__name__,
            "temporary": isinstance(error, TransientError),
            **({"about": list(error.sources)} if isinstance(error, ReleaseRefused) else {}),
        }
        for source, error in failures.items()
    ]


def sum_stats(parts: Sequence[Stats]) -> Stats:
    """Several runs of one stage as one: a row that was added and later changed counts as added."""
    *former, last = parts
    if not former:
        return last
    added = sum(part.added for part in parts)
    changed = min(sum(part.changed for part in parts), last.seen - min(added, last.seen))
    return replace(
        last,
        added=added,
        changed=changed,
        removed=sum(part.removed for part in parts),
        unchanged=max(0, last.seen - added - changed),
        seconds=round(sum(part.seconds for part in parts), 4),
    )


@contextmanager
def measure_stage(stage: str, source: str) -> Generator[Stats]:
    """Yield the statistics of a stage, and set the time it took at the end.

    Raises `StoreError`: a file of a table is damaged.
    """
    stats, started = Stats(stage, source), time.perf_counter()
    with explain_damage(f"source {source!r}" if source else "the index"):
        yield stats
    stats.seconds, stats.at = round(time.perf_counter() - started, 4), datetime.now(UTC)


Schedule = Literal["hourly", "daily", "weekly", "weekly_reindex", "monthly_reindex"]

_TRIGGERS: dict[Schedule, frozenset[Trigger]] = {
    "hourly": frozenset({"hourly"}),
    # The last three catch up on an overlooked commit, or a file that changed while nothing watched.
    "daily": frozenset({"daily", "on_commit", "realtime", "hourly"}),
    "weekly": frozenset({"weekly"}),
}
_REINDEX_INTERVALS: dict[Schedule, str] = {"weekly_reindex": "weekly", "monthly_reindex": "monthly"}


def list_scheduled_sources(settings: Settings, schedule: Schedule) -> list[SourceConfig]:
    """The sources that a schedule refreshes, those of one repository together."""
    if interval := _REINDEX_INTERVALS.get(schedule):
        sources = [source for source in settings.sources if source.refresh.full_reindex == interval]
    else:
        sources = [source for source in settings.sources if resolve_trigger(source) in _TRIGGERS[schedule]]
    return sort_by_repository(sources)


def sort_by_repository(sources: Iterable[SourceConfig]) -> list[SourceConfig]:
    """Sort sources by address and branch, or by folder, so that those of one repository are adjacent."""

    def key(source: SourceConfig) -> tuple[str, str]:
        connection = source.connection
        if isinstance(connection, GitConnection):
            return connection.url.removesuffix("/").removesuffix(".git"), connection.branch or ""
        return connection.location, ""

    return sorted(sources, key=key)
