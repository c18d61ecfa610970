"""The sensor that refreshes sources by commits: it asks repositories where they stand, and fetches nothing.

Nothing is lost between a refresh and the first look at a repository: what is seen for the
first time is refreshed, be it once too often, unless a run that will read it is still to
begin. What was seen is refreshed once a commit.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.requests import build_refresh_requests
from knowledge_pipeline.defs.sensors.commit_cursor import CommitCursor, load_cursor
from knowledge_pipeline.defs.sensors.unfinished_runs import (
    READING_STATUSES,
    WAITING_STATUSES,
    list_unfinished_sources,
    list_unpartitioned_sources,
)
from knowledge_pipeline.errors import ConfigError, KnowledgeError
from knowledge_pipeline.sources.git import remote_heads
from knowledge_pipeline.sources.git.remote_heads import WatchedBranch
from knowledge_pipeline.stages.schedules import sort_by_repository

MAX_SEPARATE_REPOSITORIES = 25
"""Repositories with news in one tick, above which their sources share runs: after a night without a
daemon, thousands of commits shall not be thousands of runs."""

_MIN_BUDGET_S = 2.0  # for asking, even where reading a large knowledge.yaml took long


@dataclass(slots=True)
class CommitScan:
    """What one tick found."""

    unseen: list[SourceConfig] = field(default_factory=list[SourceConfig])
    """Sources of branches that were never looked at before."""
    commits: dict[tuple[str, str | None], list[SourceConfig]] = field(
        default_factory=dict[tuple[str, str | None], list[SourceConfig]]
    )
    """Sources by repository and the commit that is new there; None: the branch is gone."""
    failed: dict[str, KnowledgeError] = field(default_factory=dict[str, KnowledgeError])
    waiting: int = 0
    """Repositories that there was no time for."""


@dg.sensor(
    name="new_commits",
    job_name="refresh",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Asks the repositories of sources that are refreshed by commits where they stand, and "
    "requests one run for each new commit, with all sources that read it.",
)
def new_commits(
    context: dg.SensorEvaluationContext, project: ProjectResource
) -> dg.SensorResult | dg.SkipReason:
    """Request runs for what is new; remember where every repository stands."""
    began_s = time.monotonic()
    try:
        settings = project.load_settings()
    except ConfigError as error:
        return dg.SkipReason(f"no repository is asked: {error}")
    cursor = load_cursor(context)
    watches = remote_heads.group_by_watched_branch(settings.sources)
    cursor.retain_only(watches)
    budget_s = max(_MIN_BUDGET_S, remote_heads.BUDGET_S - (time.monotonic() - began_s))
    news = poll_repositories(watches, cursor, budget_s)
    news.unseen = _select_first_refreshes(context.instance, watches, cursor, news.unseen)
    for error in news.failed.values():
        context.log.warning(str(error))
    requests = list(_build_requests(news, cursor.tick))
    reason = None if requests else dg.SkipReason(_explain_skip(news, watches))
    return dg.SensorResult(run_requests=requests, cursor=cursor.to_json(), skip_reason=reason)


def _select_first_refreshes(
    instance: dg.DagsterInstance,
    watches: Mapping[WatchedBranch, Sequence[SourceConfig]],
    cursor: CommitCursor,
    unseen: Collection[SourceConfig],
) -> list[SourceConfig]:
    """Of what was never looked at, that which no other run will read from where it stands now.

    What is being read meanwhile may have been read as it stood before: it stays unseen.
    """
    if not unseen:
        return []
    ids = {source.id for source in unseen}
    reading = list_unfinished_sources(instance, READING_STATUSES)
    left = list_unfinished_sources(instance, WAITING_STATUSES) | list_unpartitioned_sources(instance, unseen)
    for what, sources in watches.items():
        mine = {source.id for source in sources}
        if mine & ids and mine & reading:
            cursor.forget(what)
            left |= mine
    return [source for source in unseen if source.id not in left]


def poll_repositories(
    watches: Mapping[WatchedBranch, Sequence[SourceConfig]], cursor: CommitCursor, budget_s: float
) -> CommitScan:
    """Ask those whose turn it is, and note in the cursor what they said."""
    news, repositories = CommitScan(), remote_heads.build_queries(watches)
    turn = cursor.list_due_repositories(repositories, time.time())
    for name in turn:
        repositories[name].head_branch = cursor.known_head(name)
    answers = remote_heads.poll_remote_heads([repositories[name] for name in turn], budget_s=budget_s)
    for name, said in answers.items():
        if isinstance(said, KnowledgeError):
            news.failed[name] = said
            cursor.record_failure(name, time.time())
        else:
            cursor.record_answer(name, said.head_branch)
    for what, sources in watches.items():
        said = answers.get(what.repository)
        if isinstance(said, remote_heads.RemoteHeads):
            _record_position(news, cursor, what, said.commit_of(what.branch), sources)
    waiting = [name for name in turn if name not in answers]
    cursor.next, news.waiting = (waiting[0] if waiting else ""), len(waiting)
    return news


def _record_position(
    scan: CommitScan,
    cursor: CommitCursor,
    watched_branch: WatchedBranch,
    commit: str | None,
    sources: Sequence[SourceConfig],
) -> None:
    if not cursor.has_seen(watched_branch):
        scan.unseen.extend(sources)
    elif cursor.has_moved(watched_branch, commit):
        scan.commits.setdefault((watched_branch.repository, commit), []).extend(sources)
    cursor.record_commit(watched_branch, commit)


def _build_requests(scan: CommitScan, tick: int) -> Iterator[dg.RunRequest]:
    """One run for each new commit of a repository; shared ones for what is seen for the first time.

    The number of the tick is part of a run key, so that a commit that a force push brings
    back is refreshed again.
    """
    if scan.unseen:
        yield from build_refresh_requests(
            sort_by_repository(scan.unseen), trigger="first_sight", run_key=f"first sight {tick}"
        )
    if len({repository for repository, _ in scan.commits}) > MAX_SEPARATE_REPOSITORIES:
        sources = sort_by_repository(source for found in scan.commits.values() for source in found)
        yield from build_refresh_requests(sources, trigger="commit", run_key=f"many commits {tick}")
        return
    for (repository, commit), sources in scan.commits.items():
        stands_at = commit or "gone"
        yield from build_refresh_requests(
            sort_by_repository(sources),
            trigger="commit",
            run_key=f"{repository}@{stands_at} {tick}",
            tags={"knowledge/repository": repository, "knowledge/commit": stands_at},
        )


def _explain_skip(scan: CommitScan, watches: Mapping[WatchedBranch, object]) -> str:
    """Why no run is requested."""
    said = [f"no new commit in {len({what.repository for what in watches})} repositories"]
    if scan.failed:
        said.append(f"{len(scan.failed)} did not answer: {'; '.join(map(str, scan.failed.values()))[:1000]}")
    if scan.waiting:
        said.append(f"{scan.waiting} are asked first at the next tick")
    return "; ".join(said)
