"""The current commits of repositories: one cheap request each, for any number of sources and branches.

Nothing is fetched. A repository that does not answer is an error in the result, not an
exception, so that it does not hide the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import repeat
from pathlib import Path

from knowledge_pipeline.config.addresses import parse_git_address
from knowledge_pipeline.config.connections import GitConnection, LocalConnection, strip_credentials
from knowledge_pipeline.config.sources import SourceConfig, resolve_trigger
from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.git.command import (
    GitError,
    Remote,
    build_remote,
    find_checkout,
    find_git_folder,
    git_folder_of,
    read_head,
    run_git,
    to_source_error,
)
from knowledge_pipeline.errors import ConfigError, KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.text import matches_any

BUDGET_S = 8.0
TIMEOUT_S = 6.0  # less than the budget: the first repositories always have all of it
THREADS = 16
_MIN_TIMEOUT_S = 0.05


@dataclass(frozen=True, slots=True)
class WatchedBranch:
    """The branch whose commits refresh a source; None: the one that HEAD names."""

    repository: str  # an address without credentials, or a folder of this machine
    branch: str | None
    further: tuple[str, ...] = ()  # patterns of other branches, whose commits refresh it too


@dataclass(frozen=True, slots=True)
class RemoteHeads:
    """The newest commits of a repository's branches; a branch that does not exist is missing."""

    head: str | None  # None: nothing was ever committed, or HEAD names a branch that is gone
    branches: Mapping[str, str]
    head_branch: str | None = None  # what HEAD names, as far as the repository says

    def commit_of(self, branch: str | None, further: Sequence[str] = ()) -> str | None:
        """The commit of a branch, or of HEAD; with patterns of further branches, a hash of all commits."""
        commit = self.head if branch is None else self.branches.get(branch)
        if commit is None or not further:
            return commit
        names = sorted(name for name in self.branches if matches_any(name, further))
        return hash_strings(commit, *(part for name in names for part in (name, self.branches[name])))


@dataclass(slots=True)
class RemoteHeadQuery:
    """One repository to ask, over one of several connections: sources may have different tokens.

    A known `head_branch` limits the listing to branches: a host may list every pull request too.
    """

    repository: str
    connections: list[GitConnection | Path] = field(default_factory=list[GitConnection | Path])
    branches: set[str | None] = field(default_factory=set[str | None])
    patterns: set[str] = field(default_factory=set[str])  # of further branches
    head_branch: str | None = None


RemoteHeadResults = dict[str, RemoteHeads | KnowledgeError]
"""The result of each repository by its name; one that there was no time for is missing."""


def find_watched_branch(source: SourceConfig) -> WatchedBranch | None:
    """The branch that a source waits for; None if no commit refreshes it, or no repository has its folder."""
    trigger, connection = resolve_trigger(source), source.connection
    if isinstance(connection, GitConnection) and trigger in {"on_commit", "realtime"}:
        return WatchedBranch(_repository_name(connection), connection.branch, source.branches)
    if isinstance(connection, LocalConnection) and trigger == "on_commit":
        repository = find_checkout(connection.path)
        return WatchedBranch(str(repository), None) if repository is not None else None
    return None


def find_local_repository(watch: WatchedBranch) -> Path | None:
    """The folder of a watched repository on this machine; None for one on another."""
    try:
        address = parse_git_address(watch.repository)
    except ValueError:
        return None
    return Path(address.path).resolve() if address.is_local and Path(address.path).exists() else None


def find_hooks_folder(repository: Path) -> tuple[Path, Path]:
    """Where git looks for the hooks of a repository, and where they are kept. As `find_git_folder` raises.

    Husky makes the first anew, whose hooks start those in the folder around it.
    """
    folder = find_git_folder(repository)
    listed = run_git(["config", "--get-all", "core.hooksPath"], repository=git_folder_of(repository))
    configured = listed.decode("utf-8", "surrogateescape").splitlines()[:-1]  # the last one is ours
    hooks = repository / Path(configured[-1]).expanduser() if configured else folder / "hooks"
    is_husky = hooks.name == "_" and hooks.parent.name == ".husky"
    return hooks, hooks.parent if is_husky else hooks


def group_by_watched_branch(sources: Iterable[SourceConfig]) -> dict[WatchedBranch, list[SourceConfig]]:
    """The sources that wait for commits, by their branch."""
    groups: dict[WatchedBranch, list[SourceConfig]] = {}
    for source in sources:
        if (watch := find_watched_branch(source)) is not None:
            groups.setdefault(watch, []).append(source)
    return groups


def build_queries(watched: Mapping[WatchedBranch, Sequence[SourceConfig]]) -> dict[str, RemoteHeadQuery]:
    """The repositories to ask for what is watched, by name."""
    queries: dict[str, RemoteHeadQuery] = {}
    for watch, sources in watched.items():
        query = queries.setdefault(watch.repository, RemoteHeadQuery(watch.repository))
        query.branches.add(watch.branch)
        query.patterns.update(watch.further)
        for source in sources:
            own = source.connection
            connection = own if isinstance(own, GitConnection) else Path(watch.repository)
            if not any(_is_same_connection(connection, other) for other in query.connections):
                query.connections.append(connection)
    return queries


def poll_remote_heads(
    queries: Sequence[RemoteHeadQuery], *, budget_s: float = BUDGET_S, timeout_s: float = TIMEOUT_S
) -> RemoteHeadResults:
    """Ask the repositories in their order, as many as there is time for in `budget_s`.

    A repository counts as one that does not answer after `timeout_s`; one that was asked too late to have
    them is missing from the result instead.
    """
    deadline = time.monotonic() + budget_s
    with ThreadPoolExecutor(THREADS, thread_name_prefix="tips") as pool:
        answers = pool.map(_poll_repository, queries, repeat(deadline), repeat(timeout_s))
        polled = zip(queries, answers, strict=True)
        return {query.repository: heads for query, heads in polled if heads is not None}


def _poll_repository(
    query: RemoteHeadQuery, deadline: float, timeout_s: float
) -> RemoteHeads | KnowledgeError | None:
    """The heads; the last connection's error if none works, None if there was no time."""
    last_error: KnowledgeError | None = None
    for connection in query.connections:
        left_s = deadline - time.monotonic()
        if left_s < _MIN_TIMEOUT_S:
            return None
        try:
            return _query_heads(connection, query, min(timeout_s, left_s))
        except GitError as failure:  # only a timeout, see _query_heads
            if left_s < timeout_s:
                return None
            last_error = SourceUnavailable(
                f"git repository {query.repository} gave no answer in {timeout_s:g} seconds: "
                f"try again ({failure})"
            )
        except KnowledgeError as error:
            last_error = error
    return last_error


def _query_heads(connection: GitConnection | Path, query: RemoteHeadQuery, timeout_s: float) -> RemoteHeads:
    """Ask once. Raises GitError if time ran out, SourceRefused or SourceUnavailable otherwise."""
    if isinstance(connection, Path):
        return RemoteHeads(_read_local_head(connection, timeout_s), {})
    remote = build_remote(connection)
    if None not in query.branches:
        return _parse_ls_remote(_ls_remote(remote, "--heads", timeout_s), query)
    if query.head_branch is not None:
        listed = _ls_remote(remote, "--heads", timeout_s)
        branches = _parse_ls_remote(listed, query).branches
        if (head := branches.get(query.head_branch)) is not None:
            return RemoteHeads(head, branches, query.head_branch)
    return _parse_ls_remote(_ls_remote(remote, "--symref", timeout_s), query)


def _ls_remote(remote: Remote, option: str, timeout_s: float) -> bytes:
    def refuse_wait(wait_s: float) -> None:  # there is no time for it: the next poll asks again
        raise SourceUnavailable("GitHub gives no token of the App now: it is asked for again in a moment")

    arguments = ["ls-remote", option, "--", remote.url]
    with pausing_by(refuse_wait):
        environment = remote.build_environment()
    try:
        return run_git(arguments, repository=None, extra_environment=environment, timeout_s=timeout_s)
    except GitError as failure:
        if failure.timed_out:
            raise
        raise to_source_error(remote, failure) from failure


def _parse_ls_remote(output: bytes, query: RemoteHeadQuery) -> RemoteHeads:
    """The wanted lines of `git ls-remote`, each "commit TAB name", or "ref: name TAB HEAD"."""
    wanted, head, head_branch = query.branches | {query.head_branch}, None, None
    branches: dict[str, str] = {}
    for line in output.split(b"\n"):
        commit, _, ref = line.decode("utf-8", "replace").partition("\t")
        branch = ref.removeprefix("refs/heads/")
        if ref == "HEAD" and commit.startswith("ref: "):
            head_branch = commit.removeprefix("ref: refs/heads/")
        elif ref == "HEAD":
            head = commit
        elif branch != ref and (branch in wanted or matches_any(branch, query.patterns)):
            branches[branch] = commit
    return RemoteHeads(head, branches, head_branch)


def _read_local_head(folder: Path, timeout_s: float) -> str | None:
    try:
        return read_head(git_folder_of(folder), timeout_s=timeout_s)
    except GitError as failure:
        if failure.timed_out:
            raise
        reason = strip_credentials(" ".join(failure.stderr.split()))[:300]
        raise SourceRefused(f"the repository in {folder} cannot be read ({reason}): repair it") from failure


def _repository_name(connection: GitConnection) -> str:
    """A repository's name, fit to be shown: no credentials, and no query, which may hold some."""
    try:
        url = build_remote(connection).url
    except ConfigError:  # reported when it is polled
        url = connection.url
    shown, mark, query = strip_credentials(url).partition("?")
    return f"{shown}?{sha256(query.encode()).hexdigest()[:8]}" if mark else shown


def _is_same_connection(one: GitConnection | Path, other: GitConnection | Path) -> bool:
    if isinstance(one, Path) or isinstance(other, Path):
        return one == other
    return (one.url, one.token, one.app) == (other.url, other.token, other.app)
