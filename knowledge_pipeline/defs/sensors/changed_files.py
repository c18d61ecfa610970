"""The sensor that refreshes sources by their files: it lists folders of this machine, and reads no document.

The daemon has no file watcher: what a tick sees is a digest of each listing, and a source
whose digest is another one is refreshed. `knowledge watch` is quicker, and needs no daemon.
"""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

import dagster as dg

from knowledge_pipeline.config.settings import LocalConnection, SourceConfig, resolve_trigger
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.requests import build_refresh_requests
from knowledge_pipeline.defs.sensors.unfinished_runs import (
    READING_STATUSES,
    list_unfinished_sources,
    list_unpartitioned_sources,
)
from knowledge_pipeline.errors import ConfigError, KnowledgeError
from knowledge_pipeline.records import Item
from knowledge_pipeline.sources.git.remote_heads import find_repository
from knowledge_pipeline.sources.registry import open_source
from knowledge_pipeline.stages.snapshot import is_up_to_date
from knowledge_pipeline.store.lake import Lake

BUDGET_S = 5.0
"""For the listings of one tick, of the ten seconds between two: who had no turn is first at the next one."""

_TRIGGER = "files"


@dataclass(slots=True)
class FilesCursor:
    """What the sensor remembers from tick to tick, as JSON."""

    requests: int = 0
    """Ticks that requested runs: part of a run key, so that files that come back are refreshed again."""
    next: str = ""
    """The source that is listed first."""
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """The last requested listing of each source, or what kept it from being listed."""

    def to_json(self) -> str:
        """The cursor as Dagster keeps it."""
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(slots=True)
class FolderScan:
    """What one tick found."""

    changed: list[SourceConfig] = field(default_factory=list[SourceConfig])
    failed: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])
    waiting: int = 0
    """Sources that there was no time for."""


@dataclass(frozen=True, slots=True)
class ExcludedSources:
    """Sources that other runs are for."""

    busy: Set[str] = frozenset()
    """Ids of those whose run is not over: not listed."""
    new: Set[str] = frozenset()
    """Ids of those whose first refresh is requested by `sources_in_config`: listed, and not requested."""


@dg.sensor(
    name="changed_files",
    job_name="refresh",
    minimum_interval_seconds=10,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Lists the folders of sources that are refreshed as their files change (trigger realtime, or "
    "on_commit where the folder is in no repository), and requests a run for those that changed.",
)
def changed_files(
    context: dg.SensorEvaluationContext, project: ProjectResource
) -> dg.SensorResult | dg.SkipReason:
    """Request one refresh of all that changed; a source under way is looked at when its run is over."""
    began_s = time.monotonic()
    try:
        settings = project.load_settings()
    except ConfigError as error:
        return dg.SkipReason(f"no folder is listed: {error}")
    cursor = _load_cursor(context.cursor)
    sources = select_file_sources(settings.sources)
    lake = Lake(settings.store)
    left = ExcludedSources(
        busy=list_unfinished_sources(context.instance),
        new=list_unpartitioned_sources(context.instance, sources),
    )
    found = scan_folders(sources, cursor, lake, until_s=began_s + BUDGET_S, excluded=left)
    for source, error in found.failed.items():
        context.log.warning(f"{source}: {error}")
    for source in left.new & list_unfinished_sources(
        context.instance, READING_STATUSES
    ):  # read before it was listed, perhaps
        cursor.digests.pop(source, None)
    requests = list(_build_requests(found.changed, cursor))
    skip = None if requests else dg.SkipReason(_explain_skip(sources, found))
    return dg.SensorResult(run_requests=requests, cursor=cursor.to_json(), skip_reason=skip)


def select_file_sources(sources: Sequence[SourceConfig]) -> list[SourceConfig]:
    """Sources on this machine that are refreshed by their files, and not by commits or the clock."""
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
    """List sources, beginning where the last tick ended, and note in the cursor what is new.

    Args:
        sources: in their order.
        cursor: changed in place.
        lake: what is stored of them.
        until_s: on the monotonic clock; one source at least is listed.
        left: sources that other runs are for.
    """
    found = FolderScan()
    ids = [source.id for source in sources]
    cursor.digests = {id_: digest for id_, digest in cursor.digests.items() if id_ in set(ids)}
    start = ids.index(cursor.next) if cursor.next in set(ids) else 0
    turn = [*sources[start:], *sources[:start]]
    cursor.next = ""
    for number, source in enumerate(turn):
        if number and time.monotonic() >= until_s:
            cursor.next, found.waiting = source.id, len(turn) - number
            break
        if source.id not in excluded.busy:
            _scan_source(source, cursor, lake, found, is_new=source.id in excluded.new)
    return found


def _scan_source(
    source: SourceConfig, cursor: FilesCursor, lake: Lake, scan: FolderScan, *, is_new: bool
) -> None:
    """What is seen for the first time is refreshed only if its snapshot is not what it lists."""
    known = cursor.digests.get(source.id)
    try:
        items = list_items(source, lake.cache)
        digest = compute_listing_digest(items)
        if digest != known and not (known is None and (is_new or is_up_to_date(lake, source, items))):
            scan.changed.append(source)
    except KnowledgeError as error:
        digest = _short_digest(f"failed: {error}")
        if digest != known:  # told once; once it can be listed again, it is refreshed
            scan.failed[source.id] = error
    cursor.digests[source.id] = digest


def list_items(source: SourceConfig, cache: Path) -> list[Item]:
    """What a folder holds now, by stat alone. Raises `KnowledgeError` as `Source.discover` does."""
    with open_source(source, cache=cache) as opened:
        return list(opened.discover())


def compute_listing_digest(items: Iterable[Item]) -> str:
    """Equal for listings of equal uris and revisions, whatever their order."""
    return _short_digest(
        "\0\0".join(sorted(f"{item.uri}\0{item.revision}\0{item.skip or ''}" for item in items))
    )


def _short_digest(text: str) -> str:
    """48 bits in eight characters: Dagster keeps a copy of the cursor with every tick."""
    return urlsafe_b64encode(sha256(text.encode()).digest()[:6]).decode()


def _build_requests(changed: Sequence[SourceConfig], cursor: FilesCursor) -> Iterator[dg.RunRequest]:
    """The digests are part of the key: a tick that is repeated after a crash may have found more."""
    if changed:
        cursor.requests += 1
        digests = "".join(f"{source.id} {cursor.digests[source.id]} " for source in changed)
        key = f"files {cursor.requests} {_short_digest(digests)}"
        yield from build_refresh_requests(changed, trigger=_TRIGGER, run_key=key)


def _load_cursor(text: str | None) -> FilesCursor:
    """What was remembered; nothing where there was nothing, or something of another version."""
    try:
        return FilesCursor(**json.loads(text or "{}"))
    except (TypeError, ValueError):
        return FilesCursor()


def _explain_skip(sources: Sequence[SourceConfig], scan: FolderScan) -> str:
    """Why no run is requested."""
    said = [f"no file changed in {len(sources)} sources"]
    if scan.failed:
        said.append(f"{len(scan.failed)} could not be listed: see the log of this tick")
    if scan.waiting:
        said.append(f"{scan.waiting} are listed first at the next tick")
    return "; ".join(said)
