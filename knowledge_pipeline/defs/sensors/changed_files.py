"""The sensor that refreshes sources when their files change: it lists local folders, and reads no document.

The daemon has no file watcher: a tick compares a digest of each listing, and refreshes a source whose digest
differs. `knowledge watch` is quicker, and needs no daemon.
"""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence, Set
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

import dagster as dg

from knowledge_pipeline.config.connections.local import LocalConnection
from knowledge_pipeline.config.sources.source import SourceConfig, resolve_trigger
from knowledge_pipeline.defs.failures import skip_on_config_error
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.requests import build_refresh_requests
from knowledge_pipeline.defs.sensors.unfinished_runs import (
    READING_STATUSES,
    list_unfinished_sources,
    list_unpartitioned_sources,
)
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.records import Item
from knowledge_pipeline.sources.git.remote_heads import find_repository
from knowledge_pipeline.sources.registry import open_source
from knowledge_pipeline.stages.snapshot import is_up_to_date
from knowledge_pipeline.store.lake import Lake

BUDGET_S = 5.0
"""For the listings of one tick, of the ten seconds between two; the next tick begins with the rest."""


@dataclass(slots=True)
class FilesCursor:
    """What the sensor remembers from tick to tick, stored as JSON."""

    requests: int = 0  # ticks with requests; in run keys, so that files that come back are refreshed again
    next: str = ""  # the source to list first
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """Of the last requested listing of each source, or of the error that prevented it."""

    def to_json(self) -> str:
        """The cursor as Dagster stores it."""
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(slots=True)
class FolderScan:
    """What one tick found."""

    changed: list[SourceConfig] = field(default_factory=list[SourceConfig])
    failed: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])
    waiting: int = 0  # sources that there was no time for


@dataclass(frozen=True, slots=True)
class ExcludedSources:
    """Ids of sources that other runs refresh."""

    busy: Set[str] = frozenset()  # their run is unfinished: not listed
    new: Set[str] = frozenset()  # `sources_in_config` requests their first refresh: listed, not requested


def build_files_sensor(names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that lists folders."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("changed_files"),
        job_name=names.definition("refresh"),
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Lists the folders of sources that are refreshed as files change (trigger realtime, "
        "or on_commit where the folder is in no repository), and requests a run for those that changed.",
    )
    @names.bind
    @skip_on_config_error("no folder is listed")
    def changed_files(
        context: dg.SensorEvaluationContext, project: ProjectResource
    ) -> dg.SensorResult | dg.SkipReason:
        """Request one refresh of everything that changed; a busy source is listed when its run is over."""
        started_s = time.monotonic()
        settings = project.load_settings()
        try:
            cursor = FilesCursor(**json.loads(context.cursor or "{}"))
        except (TypeError, ValueError):  # of another version
            cursor = FilesCursor()
        sources = select_file_sources(settings.sources)
        excluded = ExcludedSources(
            busy=list_unfinished_sources(context.instance, names=names),
            new=list_unpartitioned_sources(context.instance, sources, names),
        )
        lake, until_s = Lake(settings.store), started_s + BUDGET_S
        scan = scan_folders(sources, cursor, lake, until_s=until_s, excluded=excluded)
        for source, error in scan.failed.items():
            context.log.warning(f"{source}: {error}")
        for source in excluded.new & list_unfinished_sources(context.instance, READING_STATUSES, names):
            cursor.digests.pop(source, None)  # its run may have read it before this listing
        requests: list[dg.RunRequest] = []
        if scan.changed:  # the run key contains the digests: a tick repeated after a crash may find more
            cursor.requests += 1
            digests = "".join(f"{source.id} {cursor.digests[source.id]} " for source in scan.changed)
            key = f"files {cursor.requests} {_short_digest(digests)}"
            requests = list(build_refresh_requests(scan.changed, names, trigger="files", run_key=key))
        skip = None if requests else dg.SkipReason(_explain_skip(sources, scan))
        return dg.SensorResult(run_requests=requests, cursor=cursor.to_json(), skip_reason=skip)

    return changed_files


def select_file_sources(sources: Sequence[SourceConfig]) -> list[SourceConfig]:
    """Local sources that are refreshed when their files change, not by commits or the clock."""
    return [
        source
        for source in sources
        if isinstance(source.connection, LocalConnection)
        and (
            resolve_trigger(source) == "realtime"
            or (resolve_trigger(source) == "on_commit" and find_repository(source.connection.path) is None)
        )
    ]


def scan_folders(
    sources: Sequence[SourceConfig],
    cursor: FilesCursor,
    lake: Lake,
    *,
    until_s: float,
    excluded: ExcludedSources,
) -> FolderScan:
    """List sources, beginning where the last tick ended, and record what is new in the cursor.

    At least one is listed, then others until `until_s` on the monotonic clock.
    """
    scan, ids = FolderScan(), [source.id for source in sources]
    cursor.digests = {id_: digest for id_, digest in cursor.digests.items() if id_ in set(ids)}
    start = ids.index(cursor.next) if cursor.next in set(ids) else 0
    cursor.next = ""
    for number, source in enumerate([*sources[start:], *sources[:start]]):
        if number and time.monotonic() >= until_s:
            cursor.next, scan.waiting = source.id, len(sources) - number
            break
        if source.id in excluded.busy:
            continue
        known, is_new = cursor.digests.get(source.id), source.id in excluded.new
        try:
            items = list_items(source, lake.cache)
            digest = compute_listing_digest(items)
            # Seen for the first time, it counts as changed only if its snapshot is out of date.
            if digest != known and not (known is None and (is_new or is_up_to_date(lake, source, items))):
                scan.changed.append(source)
        except KnowledgeError as error:
            digest = _short_digest(f"failed: {error}")
            if digest != known:  # reported once; when it can be listed again, it is refreshed
                scan.failed[source.id] = error
        cursor.digests[source.id] = digest
    return scan


def list_items(source: SourceConfig, cache: Path) -> list[Item]:
    """The files of a folder, by `stat` only. Raises `KnowledgeError` as `Source.discover` does."""
    with open_source(source, cache=cache) as opened:
        return list(opened.discover())


def compute_listing_digest(items: Iterable[Item]) -> str:
    """Equal for listings of equal uris and revisions, whatever their order."""
    lines = sorted(f"{item.uri}\0{item.revision}\0{item.skip or ''}" for item in items)
    return _short_digest("\0\0".join(lines))


def _short_digest(text: str) -> str:
    """48 bits in eight characters, because Dagster stores the cursor with every tick."""
    return urlsafe_b64encode(sha256(text.encode()).digest()[:6]).decode()


def _explain_skip(sources: Sequence[SourceConfig], scan: FolderScan) -> str:
    reasons = [f"no file changed in {len(sources)} sources"]
    if scan.failed:
        reasons.append(f"{len(scan.failed)} could not be listed: see the log of this tick")
    if scan.waiting:
        reasons.append(f"the next tick lists the other {scan.waiting} first")
    return "; ".join(reasons)
