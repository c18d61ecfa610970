"""Records how current sources are: what refreshes read, and what looks at origins see. Nothing here fails."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.git.command import GitError, git_folder_of, run_git
from knowledge_pipeline.connectors.git.remote_heads import (
    RemoteHeadResults,
    RemoteHeads,
    WatchedBranch,
    find_local_repository,
)
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.freshness import (
    IndexedRevision,
    SourceRecord,
    update_record,
    write_looks,
)
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.store.lake import Lake

_COUNT_TIMEOUT_S = 2.0
_MAX_SKIP_REASONS = 5


def record_indexed(lake: Lake, source: str, stages: Sequence[Stats], space: str | None = None) -> None:
    """Record what a source was read at, and which version of a space's index has it.

    Without a space it is the one of before: nothing has changed. A part of a refresh records nothing.
    """
    by_stage = {stage.stage: stage for stage in stages}
    snapshot, index = by_stage.get("snapshot"), by_stage.get("index")
    if snapshot is None or index is None:
        return
    skipped = dict(snapshot.skipped.most_common(_MAX_SKIP_REASONS))
    if others := snapshot.skipped.total() - sum(skipped.values()):
        skipped["for other reasons"] = others
    listed_at = snapshot.at.timestamp()
    read = snapshot.revision, listed_at - snapshot.seconds, listed_at, skipped, index.embedded_share

    def change(record: SourceRecord) -> SourceRecord:
        name = space or (record.indexed[-1].space if record.indexed else "")
        indexed = IndexedRevision(name, index.version, *read)
        return record.add_indexed(indexed, has_changes=index.has_changes)

    update_record(lake, source, change)


def record_failed(ctx: RefreshContext, problem: str) -> None:
    """Record why a refresh failed; one of named documents says nothing of the source as a whole."""
    if not ctx.options.documents:
        update_record(
            ctx.lake,
            ctx.source.id,
            lambda it: replace(it, failed_since=it.failed_since or time.time(), problem=problem),
        )


def record_heads(
    lake: Lake, watched: Mapping[WatchedBranch, Sequence[SourceConfig]], heads: RemoteHeadResults
) -> None:
    """Record what a look at repositories saw; see `poll_remote_heads`, which fetches nothing.

    Of a source of several branches nothing is recorded: it has not one commit.
    """
    watches = {it.id: watch for watch, sources in watched.items() for it in sources if not watch.further}
    commits: dict[str, str | None] = {}
    for source, watch in watches.items():
        seen = heads.get(watch.repository)
        if isinstance(seen, RemoteHeads) and (commit := seen.commit_of(watch.branch)):
            commits[source] = commit
    if commits:
        write_looks(lake, commits, lambda id_, first, last: _count_commits(watches[id_], first, last))


def _count_commits(watch: WatchedBranch, indexed: str | None, commit: str) -> int | None:
    """How many commits there are from one to another, where this machine has the repository."""
    repository = find_local_repository(watch)
    if repository is None or indexed in (None, commit):
        return None
    with suppress(GitError, KnowledgeError):  # a commit that is gone, or no time
        arguments, folder = ["rev-list", "--count", f"{indexed}..{commit}", "--"], git_folder_of(repository)
        return int(run_git(arguments, repository=folder, timeout_s=_COUNT_TIMEOUT_S))
    return None
