"""The sensor that refreshes sources when their files change, or the heads of their repositories.

It reads no document. The daemon has no file watcher: a tick compares a digest of each folder's listing,
and refreshes a source whose digest differs. `knowledge watch` is quicker, and needs no daemon. Repositories
are polled, host by host, and nothing is fetched. Dagster stores the cursor with every tick: it is small.

One sensor does both, because a tick costs Dagster more than it costs here.
"""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any
from zlib import crc32

import dagster as dg

from knowledge_pipeline.config.connections import GitConnection, LocalConnection
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig, resolve_trigger
from knowledge_pipeline.connectors.git import remote_heads
from knowledge_pipeline.connectors.git.command import find_checkout
from knowledge_pipeline.connectors.git.remote_heads import WatchedBranch
from knowledge_pipeline.defs.define import sensor
from knowledge_pipeline.defs.names import Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs import build_refresh_requests
from knowledge_pipeline.defs.sensors import (
    READING_STATUSES,
    WAITING_STATUSES,
    list_unfinished_sources,
    list_unpartitioned_sources,
)
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.freshness import CHANGED, write_looks
from knowledge_pipeline.stages.context import open_listed_source, sort_by_repository
from knowledge_pipeline.stages.freshness import record_heads
from knowledge_pipeline.stages.snapshot import is_up_to_date
from knowledge_pipeline.store.lake import Lake

BUDGET_S = 5.0
"""For the listings of one tick, of the ten seconds between two; the next tick begins with the rest."""

Look = tuple[list[dg.RunRequest], str]
"""What a tick requests, or why it requests nothing."""


@dataclass(slots=True)
class FilesCursor:
    """What the sensor remembers of folders from tick to tick."""

    requests: int = 0  # ticks with requests; in run keys, so that files that come back are refreshed again
    next: str = ""  # the source to list first
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """Of the last requested listing of each source, or of the error that prevented it."""


@dataclass(slots=True)
class FolderScan:
    """What one tick found."""

    changed: list[SourceConfig] = field(default_factory=list[SourceConfig])
    looks: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """What `write_looks` takes, of all that were listed."""
    failed: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])
    waiting: int = 0  # sources that there was no time for


@dataclass(frozen=True, slots=True)
class ExcludedSources:
    """Ids of sources that other runs refresh."""

    busy: Set[str] = frozenset()  # their run is unfinished: not listed
    new: Set[str] = frozenset()  # `sources_in_config` requests their first refresh: listed, not requested


def list_changed_folders(
    context: dg.SensorEvaluationContext, settings: Settings, cursor: FilesCursor, names: Names
) -> Look:
    """List the folders of sources that are refreshed as files change (trigger realtime, or on_commit where
    the folder is in no repository), and request a run for those that changed.

    A busy source is listed when its run is over.
    """
    started_s, instance = time.monotonic(), context.instance
    if not (sources := select_file_sources(settings.sources)):
        cursor.digests.clear()
        return [], "no folder to list"
    unseen = [source for source in sources if source.id not in cursor.digests]
    new = list_unpartitioned_sources(instance, unseen, names)
    excluded = ExcludedSources(busy=list_unfinished_sources(instance, names=names), new=new)
    until_s, lake = started_s + BUDGET_S, Lake(settings.store)
    scan = scan_folders(sources, cursor, lake, until_s=until_s, excluded=excluded)
    write_looks(lake, scan.looks)
    for source, error in scan.failed.items():
        context.log.warning(f"{source}: {error}")
    for source in new & list_unfinished_sources(instance, READING_STATUSES, names) if new else ():
        cursor.digests.pop(source, None)  # its run may have read it before this listing
    if scan.changed:  # the run key contains the digests: a tick repeated after a crash may find more
        cursor.requests += 1
        digests = "".join(f"{source.id} {cursor.digests[source.id]} " for source in scan.changed)
        key = f"files {cursor.requests} {_short_digest(digests)}"
        return list(build_refresh_requests(scan.changed, names, trigger="files", run_key=key)), ""
    reasons = [f"no file changed in {len(sources)} sources"]
    if scan.failed:
        reasons.append(f"{len(scan.failed)} could not be listed: see the log of this tick")
    if scan.waiting:
        reasons.append(f"the next tick lists the other {scan.waiting} first")
    return [], "; ".join(reasons)


def select_file_sources(sources: Sequence[SourceConfig]) -> list[SourceConfig]:
    """Local sources that are refreshed when their files change, not by commits or the clock."""
    return [
        source
        for source in sources
        if isinstance(source.connection, LocalConnection)
        and (
            resolve_trigger(source) == "realtime"
            or (resolve_trigger(source) == "on_commit" and find_checkout(source.connection.path) is None)
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
        former, is_new = cursor.digests.get(source.id), source.id in excluded.new
        try:
            with open_listed_source(lake, source) as opened:
                items = list(opened.discover())
            lines = sorted(f"{item.uri}\0{item.revision}\0{item.skip or ''}" for item in items)
            digest = _short_digest("\0\0".join(lines))
            # Seen for the first time, it counts as changed only if its snapshot is out of date.
            scan.looks[source.id] = None
            if digest != former and not (former is None and (is_new or is_up_to_date(lake, source, items))):
                scan.changed.append(source)
                scan.looks[source.id] = CHANGED + digest
        except KnowledgeError as error:
            digest = _short_digest(f"failed: {error}")
            if digest != former:  # reported once; when it can be listed again, it is refreshed
                scan.failed[source.id] = error
        cursor.digests[source.id] = digest
    return scan


def _short_digest(text: str) -> str:
    """48 bits in eight characters, because Dagster stores the cursor with every tick."""
    return urlsafe_b64encode(sha256(text.encode()).digest()[:6]).decode()


TICK_S = 9
"""Dagster's daemon looks every five seconds which intervals are over: so every other time."""

MAX_INTERVAL_S = 30.0
_MAX_HOST_PAUSE_S = 600.0
_S_PER_REPOSITORY = 0.3  # a host sees at most some three requests a second
_S_PER_LOCAL_REPOSITORY = 0.02  # two processes of git for a few milliseconds

HostState = tuple[float, int]
"""When a host was last asked, in seconds since 1970, and how many times in a row it gave no answer at all."""


def find_host(repository: str) -> str:
    """The host of a repository by its name; "" for this machine."""
    return GitConnection(type="git", url=repository).host or ""


def group_by_host(repositories: Iterable[str]) -> dict[str, list[str]]:
    """Repositories by their host, in their order."""
    by_host: dict[str, list[str]] = {}
    for name in repositories:
        by_host.setdefault(find_host(name), []).append(name)
    return by_host


def is_due(host: str, repositories: int, state: HostState | None, now_s: float) -> bool:
    """Whether to ask a host now; one that is silent is asked half as often after each time."""
    if state is None:
        return True
    asked_at_s, silences = state
    each_s = _S_PER_REPOSITORY if host else _S_PER_LOCAL_REPOSITORY
    interval_s = min(MAX_INTERVAL_S, each_s * repositories)
    if host and silences > 1:
        interval_s = min(_MAX_HOST_PAUSE_S, max(interval_s, 5.0) * 2.0 ** min(silences - 1, 10))
    is_waiting = 0 <= now_s - asked_at_s < interval_s  # a clock that was set back delays nothing
    return interval_s <= TICK_S or not is_waiting


def update_hosts(
    hosts: dict[str, HostState], answers: Mapping[str, bool], waiting: Collection[str], now_s: float
) -> None:
    """Remember which hosts were asked: `asked` says of each repository whether it answered.

    A host with `waiting` repositories is due again at the next tick.
    """
    unfinished = {find_host(name) for name in waiting}
    for host, names in group_by_host(answers).items():
        silences = 0 if any(answers[name] for name in names) else hosts.get(host, (0.0, 0))[1] + 1
        if host not in unfinished:
            hosts[host] = (round(now_s, 1), silences)


_COMMIT_CHARS = 16  # of a commit's hash
_FAILURES_BEFORE_PAUSE = 2  # in a row; after more, a repository is polled less often
_FIRST_PAUSE_S = 60
_MAX_PAUSE_S = 600
_LISTING_INTERVAL_S = 600
HEAD = "HEAD"


@dataclass(slots=True)
class CommitCursor:
    """The heads of repositories at the last tick, by their names; a person can read and correct its JSON."""

    tick: int = 0
    stood: dict[str, dict[str, str | None]] = field(default_factory=dict[str, dict[str, str | None]])
    """Commit of each branch, by `_format_branches`; null: the branch was gone."""
    heads: dict[str, str] = field(default_factory=dict[str, str])
    """The branch that HEAD names."""
    failing: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Failures in a row, and when to poll again, in seconds since 1970."""
    next: str = ""
    """The repository to begin with, where there was no time for all."""
    hosts: dict[str, HostState] = field(default_factory=dict[str, HostState])
    """When each host was last asked."""

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> "CommitCursor":
        """The cursor that JSON held; raises what a lookup raises if this sensor did not write it."""
        return cls(
            tick=int(stored["tick"]),
            stood={str(name): dict(branches) for name, branches in stored["stood"].items()},
            heads=dict(stored["heads"]),
            failing={str(name): (int(count), int(at)) for name, (count, at) in stored["failing"].items()},
            next=str(stored["next"]),
            hosts={str(host): (at, int(count)) for host, (at, count) in stored["hosts"].items()},
        )

    def retain_only(self, watches: Iterable[WatchedBranch]) -> None:
        """Drop what is no longer configured."""
        kept: dict[str, set[str]] = {}
        for watch in watches:
            kept.setdefault(watch.repository, set()).add(_format_branches(watch))
        self.stood = {
            name: {branch: commit for branch, commit in branches.items() if branch in kept[name]}
            for name, branches in self.stood.items()
            if name in kept
        }
        self.heads = {name: branch for name, branch in self.heads.items() if name in kept}
        self.failing = {name: failed for name, failed in self.failing.items() if name in kept}
        hosts = group_by_host(kept)
        self.hosts = {host: state for host, state in self.hosts.items() if host in hosts}

    def record_commit(self, watch: WatchedBranch, commit: str | None) -> bool | None:
        """Remember the commit of a branch; whether it has moved, None at the first look."""
        branches, branch = self.stood.setdefault(watch.repository, {}), _format_branches(watch)
        short = commit[:_COMMIT_CHARS] if commit else None
        moved = branches[branch] != short if branch in branches else None
        branches[branch] = short
        return moved

    def forget(self, watch: WatchedBranch) -> None:
        """Treat a branch as never polled."""
        branches = self.stood.get(watch.repository, {})
        branches.pop(_format_branches(watch), None)
        if not branches:
            self.stood.pop(watch.repository, None)

    def record_failure(self, name: str, now_s: float) -> None:
        """Remember that a repository did not answer; each further failure doubles the pause."""
        count = self.failing.get(name, (0, 0))[0] + 1
        beyond = count - _FAILURES_BEFORE_PAUSE - 1
        pause_s = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(beyond, 10)) if beyond >= 0 else 0
        self.failing[name] = (count, int(now_s + pause_s))

    def list_due_repositories(self, names: Iterable[str], now_s: float) -> list[str]:
        """The repositories to poll now, first those that the last tick had no time for."""
        due = sorted(
            name
            for host, mine in group_by_host(names).items()
            if is_due(host, len(mine), self.hosts.get(host), now_s)
            for name in mine
            if self.failing.get(name, (0, 0))[1] <= now_s
        )
        return [name for name in due if name >= self.next] + [name for name in due if name < self.next]

    def known_head(self, name: str, now_s: float) -> str | None:
        """The branch that HEAD names; None every ten minutes, at its own moment, to look it up again."""
        moment = crc32(name.encode()) % _LISTING_INTERVAL_S
        asked_at_s, _ = self.hosts.get(find_host(name), (now_s, 0))
        periods = [int(at_s + moment) // _LISTING_INTERVAL_S for at_s in (asked_at_s, now_s)]
        return self.heads.get(name) if periods[0] == periods[1] else None


def _format_branches(watch: WatchedBranch) -> str:
    """The branch, HEAD for the default one; then patterns of further ones, which have a space in no name."""
    return " ".join((watch.branch or HEAD, *watch.further))


MAX_SEPARATE_REPOSITORIES = 25
"""Of one tick, each with runs of its own. The sources of more share runs: after a night without a daemon,
thousands of commits must not become thousands of runs."""


@dataclass(slots=True)
class CommitScan:
    """What one tick found."""

    unseen: list[SourceConfig] = field(default_factory=list[SourceConfig])
    """Sources of branches that were never polled before."""
    commits: dict[tuple[str, str | None], list[SourceConfig]] = field(
        default_factory=dict[tuple[str, str | None], list[SourceConfig]]
    )
    """Sources by repository and its new commit; None: the branch is gone."""
    failed: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])
    waiting: int = 0  # repositories that there was no time for
    heads: remote_heads.RemoteHeadResults = field(default_factory=remote_heads.RemoteHeadResults)


@sensor(job="refresh", interval_s=TICK_S, consequence="no repository is polled, and no folder is listed")
def changed_sources(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
    """Polls the repositories of sources that are refreshed by commits, lists the folders of those that are
    refreshed as files change, and requests one run for each new commit, and one for all changed folders.
    """
    settings, names = project.load_settings(), project.names
    try:
        commits, files = parse_cursor(context.cursor)
    except ValueError as error:
        context.log.warning(f"the cursor is dropped, and every repository and folder counts as new: {error}")
        commits, files = CommitCursor(), FilesCursor()
    looks = (
        poll_commits(context, settings, commits, names),
        list_changed_folders(context, settings, files, names),
    )
    requests = [request for requested, _ in looks for request in requested]
    cursor = json.dumps({"commits": asdict(commits), "files": asdict(files)}, separators=(",", ":"))
    skip = None if requests else "; ".join(reason for _, reason in looks)
    return dg.SensorResult(run_requests=requests, cursor=cursor, skip_reason=skip)


def parse_cursor(text: str | None) -> tuple[CommitCursor, FilesCursor]:
    """The cursor of the last tick, or an empty one; raises ValueError if this sensor did not write it."""
    if not text:
        return CommitCursor(), FilesCursor()
    try:
        stored = json.loads(text)
        return CommitCursor.from_stored(stored["commits"]), FilesCursor(**stored["files"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a cursor of this sensor: {error!r}") from error


def poll_commits(
    context: dg.SensorEvaluationContext, settings: Settings, cursor: CommitCursor, names: Names
) -> Look:
    """Poll the repositories of sources that are refreshed by commits, and request one run for each new
    commit, with all sources that read it.

    Nothing is lost between a refresh and the first look at a repository: a repository that is seen for the
    first time is refreshed, even if needlessly, unless a run that will read it is still waiting. After that,
    it is refreshed once for each commit.
    """
    cursor.tick += 1
    watches = remote_heads.group_by_watched_branch(settings.sources)
    cursor.retain_only(watches)
    scan = poll_repositories(watches, cursor, remote_heads.BUDGET_S)
    record_heads(Lake(settings.store), watches, scan.heads)
    scan.unseen = _select_first_refreshes(context.instance, watches, cursor, scan.unseen, names)
    for error in scan.failed.values():
        context.log.warning(str(error))
    if requests := list(_build_requests(scan, cursor.tick, names)):
        return requests, ""
    reasons = [f"no new commit in {len({watch.repository for watch in watches})} repositories"]
    if scan.failed:
        errors = "; ".join(map(str, scan.failed.values()))
        reasons.append(f"{len(scan.failed)} did not answer: {errors[:1000]}")
    if scan.waiting:
        reasons.append(f"the next tick polls the other {scan.waiting} first")
    return [], "; ".join(reasons)


def _select_first_refreshes(
    instance: dg.DagsterInstance,
    watches: Mapping[WatchedBranch, Sequence[SourceConfig]],
    cursor: CommitCursor,
    unseen: Collection[SourceConfig],
    names: Names,
) -> list[SourceConfig]:
    """The unseen sources that no other run will read at the present commit.

    A run that is reading may have read an earlier commit: such branches stay unseen.
    """
    if not unseen:
        return []
    unseen_ids = {source.id for source in unseen}
    reading = list_unfinished_sources(instance, READING_STATUSES, names)
    excluded = list_unfinished_sources(instance, WAITING_STATUSES, names)
    excluded |= list_unpartitioned_sources(instance, unseen, names)
    for watch, sources in watches.items():
        ids = {source.id for source in sources}
        if ids & unseen_ids and ids & reading:
            cursor.forget(watch)
            excluded |= ids
    return [source for source in unseen if source.id not in excluded]


def poll_repositories(
    watches: Mapping[WatchedBranch, Sequence[SourceConfig]], cursor: CommitCursor, budget_s: float
) -> CommitScan:
    """Poll the repositories that are due, and record their answers in the cursor."""
    scan, queries = CommitScan(), remote_heads.build_queries(watches)
    now_s = time.time()
    due = cursor.list_due_repositories(queries, now_s)
    for name in due:
        queries[name].head_branch = cursor.known_head(name, now_s)
    answers = remote_heads.poll_remote_heads([queries[name] for name in due], budget_s=budget_s)
    scan.heads = answers
    for name, answer in answers.items():
        if isinstance(answer, KnowledgeError):
            scan.failed[name] = answer
            cursor.record_failure(name, time.time())
        else:
            cursor.failing.pop(name, None)
            if answer.head_branch is not None:
                cursor.heads[name] = answer.head_branch
    for watch, sources in watches.items():
        answer = answers.get(watch.repository)
        if isinstance(answer, remote_heads.RemoteHeads):
            commit = answer.commit_of(watch.branch, watch.further)
            moved = cursor.record_commit(watch, commit)
            if moved is None:
                scan.unseen.extend(sources)
            elif moved:
                scan.commits.setdefault((watch.repository, commit), []).extend(sources)
    waiting = [name for name in due if name not in answers]
    answered = {name: not isinstance(answer, KnowledgeError) for name, answer in answers.items()}
    update_hosts(cursor.hosts, answered, waiting, now_s)
    cursor.next, scan.waiting = (waiting[0] if waiting else ""), len(waiting)
    return scan


def _build_requests(scan: CommitScan, tick: int, names: Names) -> Iterator[dg.RunRequest]:
    """One run for each new commit of a repository; shared runs for sources seen for the first time.

    The run keys contain the tick, so that a commit that a force push brings back is refreshed again.
    """
    if scan.unseen:
        sources, key = sort_by_repository(scan.unseen), f"first sight {tick}"
        yield from build_refresh_requests(sources, names, trigger="first_sight", run_key=key)
    if len({repository for repository, _ in scan.commits}) > MAX_SEPARATE_REPOSITORIES:
        sources = sort_by_repository(source for group in scan.commits.values() for source in group)
        yield from build_refresh_requests(sources, names, trigger="commit", run_key=f"many commits {tick}")
        return
    for (repository, commit), sources in scan.commits.items():
        sources, state = sort_by_repository(sources), commit or "gone"
        key = f"{repository}@{state} {tick}"
        tags = {"knowledge/repository": repository, "knowledge/commit": state}
        yield from build_refresh_requests(sources, names, trigger="commit", run_key=key, tags=tags)
