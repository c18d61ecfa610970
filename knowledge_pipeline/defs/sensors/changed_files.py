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

from knowledge_pipeline.config.settings import LocalConnection, SourceConfig, trigger_of
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.requests import refresh_requests
from knowledge_pipeline.defs.sensors.unfinished_runs import READING, under_way, without_partition
from knowledge_pipeline.errors import ConfigError, KnowledgeError
from knowledge_pipeline.records import Item
from knowledge_pipeline.sources.git.remote_heads import enclosing
from knowledge_pipeline.sources.registry import open_source
from knowledge_pipeline.stages.snapshot import holds
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

    def written(self) -> str:
        """The cursor as Dagster keeps it."""
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(slots=True)
class Listings:
    """What one tick found."""

    changed: list[SourceConfig] = field(default_factory=list[SourceConfig])
    failed: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])
    waiting: int = 0
    """Sources that there was no time for."""


@dataclass(frozen=True, slots=True)
class Left:
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
        settings = project.settings()
    except ConfigError as error:
        return dg.SkipReason(f"no folder is listed: {error}")
    cursor = _cursor(context.cursor)
    sources = listed_by_files(settings.sources)
    lake = Lake(settings.store)
    left = Left(busy=under_way(context.instance), new=without_partition(context.instance, sources))
    found = look(sources, cursor, lake, until_s=began_s + BUDGET_S, left=left)
    for source, error in found.failed.items():
        context.log.warning(f"{source}: {error}")
    for source in left.new & under_way(context.instance, READING):  # read before it was listed, perhaps
        cursor.digests.pop(source, None)
    requests = list(_requests(found.changed, cursor))
    skip = None if requests else dg.SkipReason(_quiet(sources, found))
    return dg.SensorResult(run_requests=requests, cursor=cursor.written(), skip_reason=skip)


def listed_by_files(sources: Sequence[SourceConfig]) -> list[SourceConfig]:
    """Sources on this machine that are refreshed by their files, and not by commits or the clock."""
    return [
        source
        for source in sources
        if isinstance(source.connection, LocalConnection)
        and (
            trigger_of(source) == "realtime"
            or (trigger_of(source) == "on_commit" and enclosing(source.connection.path) is None)
        )
    ]


def look(
    sources: Sequence[SourceConfig], cursor: FilesCursor, lake: Lake, *, until_s: float, left: Left
) -> Listings:
    """List sources, beginning where the last tick ended, and note in the cursor what is new.

    Args:
        sources: in their order.
        cursor: changed in place.
        lake: what is stored of them.
        until_s: on the monotonic clock; one source at least is listed.
        left: sources that other runs are for.
    """
    found = Listings()
    ids = [source.id for source in sources]
    cursor.digests = {id_: digest for id_, digest in cursor.digests.items() if id_ in set(ids)}
    start = ids.index(cursor.next) if cursor.next in set(ids) else 0
    turn = [*sources[start:], *sources[:start]]
    cursor.next = ""
    for number, source in enumerate(turn):
        if number and time.monotonic() >= until_s:
            cursor.next, found.waiting = source.id, len(turn) - number
            break
        if source.id not in left.busy:
            _look_at(source, cursor, lake, found, is_new=source.id in left.new)
    return found


def _look_at(source: SourceConfig, cursor: FilesCursor, lake: Lake, found: Listings, *, is_new: bool) -> None:
    """What is seen for the first time is refreshed only if its snapshot is not what it lists."""
    known = cursor.digests.get(source.id)
    try:
        items = listing(source, lake.cache)
        digest = listing_digest(items)
        if digest != known and not (known is None and (is_new or holds(lake, source, items))):
            found.changed.append(source)
    except KnowledgeError as error:
        digest = _digest(f"failed: {error}")
        if digest != known:  # told once; once it can be listed again, it is refreshed
            found.failed[source.id] = error
    cursor.digests[source.id] = digest


def listing(source: SourceConfig, cache: Path) -> list[Item]:
    """What a folder holds now, by stat alone. Raises `KnowledgeError` as `Source.discover` does."""
    with open_source(source, cache=cache) as opened:
        return list(opened.discover())


def listing_digest(items: Iterable[Item]) -> str:
    """Equal for listings of equal uris and revisions, whatever their order."""
    return _digest("\0\0".join(sorted(f"{item.uri}\0{item.revision}\0{item.skip or ''}" for item in items)))


def _digest(text: str) -> str:
    """48 bits in eight characters: Dagster keeps a copy of the cursor with every tick."""
    return urlsafe_b64encode(sha256(text.encode()).digest()[:6]).decode()


def _requests(changed: Sequence[SourceConfig], cursor: FilesCursor) -> Iterator[dg.RunRequest]:
    """The digests are part of the key: a tick that is repeated after a crash may have found more."""
    if changed:
        cursor.requests += 1
        digests = "".join(f"{source.id} {cursor.digests[source.id]} " for source in changed)
        key = f"files {cursor.requests} {_digest(digests)}"
        yield from refresh_requests(changed, trigger=_TRIGGER, run_key=key)


def _cursor(written: str | None) -> FilesCursor:
    """What was remembered; nothing where there was nothing, or something of another version."""
    try:
        return FilesCursor(**json.loads(written or "{}"))
    except (TypeError, ValueError):
        return FilesCursor()


def _quiet(sources: Sequence[SourceConfig], found: Listings) -> str:
    """Why no run is requested."""
    said = [f"no file changed in {len(sources)} sources"]
    if found.failed:
        said.append(f"{len(found.failed)} could not be listed: see the log of this tick")
    if found.waiting:
        said.append(f"{found.waiting} are listed first at the next tick")
    return "; ".join(said)
