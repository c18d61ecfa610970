"""The sensor that refreshes sources by commits: it polls the heads of repositories, and fetches nothing.

Nothing is lost between a refresh and the first look at a repository: a repository that is seen for the first
time is refreshed, even if needlessly, unless a run that will read it is still waiting. After that, it is
refreshed once for each commit.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.defs.failures import skip_on_config_error
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.requests import build_refresh_requests
from knowledge_pipeline.defs.sensors.commit_cursor import CommitCursor, load_cursor
from knowledge_pipeline.defs.sensors.host_pace import TICK_S, update_hosts
from knowledge_pipeline.defs.sensors.unfinished_runs import (
    READING_STATUSES,
    WAITING_STATUSES,
    list_unfinished_sources,
    list_unpartitioned_sources,
)
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.sources.git import remote_heads
from knowledge_pipeline.sources.git.remote_heads import WatchedBranch
from knowledge_pipeline.stages.schedules import sort_by_repository

MAX_SEPARATE_REPOSITORIES = 25
"""Of one tick, each with runs of its own. The sources of more share runs: after a night without a daemon,
thousands of commits must not become thousands of runs."""

_MIN_BUDGET_S = 2.0  # for polling, even if a large knowledge.yaml took long to read


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


def build_commits_sensor(names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that polls repositories."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("new_commits"),
        job_name=names.definition("refresh"),
        minimum_interval_seconds=TICK_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Polls the repositories of sources that are refreshed by commits, and requests one run "
        "for each new commit, with all sources that read it.",
    )
    @names.bind
    @skip_on_config_error("no repository is polled")
    def new_commits(
        context: dg.SensorEvaluationContext, project: ProjectResource
    ) -> dg.SensorResult | dg.SkipReason:
        """Request runs for what is new, and remember the head of every branch."""
        started_s = time.monotonic()
        settings, cursor = project.load_settings(), load_cursor(context)
        watches = remote_heads.group_by_watched_branch(settings.sources)
        cursor.retain_only(watches)
        budget_s = max(_MIN_BUDGET_S, remote_heads.BUDGET_S - (time.monotonic() - started_s))
        scan = poll_repositories(watches, cursor, budget_s)
        scan.unseen = _select_first_refreshes(context.instance, watches, cursor, scan.unseen, names)
        for error in scan.failed.values():
            context.log.warning(str(error))
        requests = list(_build_requests(scan, cursor.tick, names))
        skip = None if requests else dg.SkipReason(_explain_skip(scan, watches))
        return dg.SensorResult(run_requests=requests, cursor=cursor.to_json(), skip_reason=skip)

    return new_commits


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
    for name, answer in answers.items():
        if isinstance(answer, KnowledgeError):
            scan.failed[name] = answer
            cursor.record_failure(name, time.time())
        else:
            cursor.record_answer(name, answer.head_branch)
    for watch, sources in watches.items():
        answer = answers.get(watch.repository)
        if isinstance(answer, remote_heads.RemoteHeads):
            commit = answer.commit_of(watch.branch, watch.further)
            if not cursor.has_seen(watch):
                scan.unseen.extend(sources)
            elif cursor.has_moved(watch, commit):
                scan.commits.setdefault((watch.repository, commit), []).extend(sources)
            cursor.record_commit(watch, commit)
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
        sources = sort_by_repository(source for found in scan.commits.values() for source in found)
        yield from build_refresh_requests(sources, names, trigger="commit", run_key=f"many commits {tick}")
        return
    for (repository, commit), sources in scan.commits.items():
        sources, state = sort_by_repository(sources), commit or "gone"
        key, tags = (
            f"{repository}@{state} {tick}",
            {"knowledge/repository": repository, "knowledge/commit": state},
        )
        yield from build_refresh_requests(sources, names, trigger="commit", run_key=key, tags=tags)


def _explain_skip(scan: CommitScan, watches: Mapping[WatchedBranch, object]) -> str:
    reasons = [f"no new commit in {len({watch.repository for watch in watches})} repositories"]
    if scan.failed:
        errors = "; ".join(map(str, scan.failed.values()))
        reasons.append(f"{len(scan.failed)} did not answer: {errors[:1000]}")
    if scan.waiting:
        reasons.append(f"the next tick polls the other {scan.waiting} first")
    return "; ".join(reasons)
