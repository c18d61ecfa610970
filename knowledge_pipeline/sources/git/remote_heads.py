"""Where repositories stand: one cheap question each, whatever the number of sources and branches.

Nothing is fetched. A repository that does not answer is an error in the result, not an
exception: it hides no other.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from knowledge_pipeline.config.settings import GitConnection, LocalConnection, SourceConfig, trigger_of
from knowledge_pipeline.errors import ConfigError, KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.sources.git.command import GitFailed, run
from knowledge_pipeline.sources.git.remote import Remote, refusal, remote_of, without_password

BUDGET_S = 8.0
TIMEOUT_S = 6.0  # less than the budget: who is asked first has all of it, every time
THREADS = 16
_SHORTEST_S = 0.05


@dataclass(frozen=True, slots=True)
class Watched:
    """What a source is refreshed by: a repository, and a branch of it, what its HEAD names for None."""

    repository: str  # an address without credentials, or a folder of this machine
    branch: str | None


@dataclass(frozen=True, slots=True)
class Standing:
    """Commits at which a repository stands; a branch that is not there is missing."""

    head: str | None  # None: nothing was ever committed, or HEAD names a branch that is gone
    branches: Mapping[str, str]
    head_branch: str | None = None  # what HEAD names, as far as the repository says

    def at(self, branch: str | None) -> str | None:
        """The commit of a branch, of HEAD for None; None: there is none."""
        return self.head if branch is None else self.branches.get(branch)


@dataclass(slots=True)
class Asked:
    """One repository to ask, in one of several ways: sources may reach it with different tokens.

    `head_branch`, where it is known, spares listing what is no branch: a host may list
    every pull request beside them.
    """

    repository: str
    ways: list[GitConnection | Path] = field(default_factory=list[GitConnection | Path])
    branches: set[str | None] = field(default_factory=set[str | None])
    head_branch: str | None = None


Answers = dict[str, Standing | KnowledgeError]
"""What each repository said, by its name; one that there was no time for is missing."""


def watched(source: SourceConfig) -> Watched | None:
    """What a source waits for; None for one that no commit refreshes, or whose folder is in no repository.

    Reads nothing but whether a folder above has a repository.
    """
    trigger, connection = trigger_of(source), source.connection
    if isinstance(connection, GitConnection):
        return Watched(_name(connection), connection.branch) if trigger in {"on_commit", "realtime"} else None
    if not isinstance(connection, LocalConnection):
        return None
    repository = enclosing(connection.path) if trigger == "on_commit" else None
    return Watched(str(repository), None) if repository is not None else None


def enclosing(folder: Path) -> Path | None:
    """The repository that a folder of this machine lies in: the folder with `.git`, or a bare one."""
    start = folder.expanduser().absolute()
    for place in (start, *start.parents):
        if (place / ".git").exists():
            return place
    return start if (start / "HEAD").is_file() and (start / "objects").is_dir() else None


def grouped(sources: Iterable[SourceConfig]) -> dict[Watched, list[SourceConfig]]:
    """The sources that wait for commits, by what they wait for."""
    found: dict[Watched, list[SourceConfig]] = {}
    for source in sources:
        if (what := watched(source)) is not None:
            found.setdefault(what, []).append(source)
    return found


def asked(watches: Mapping[Watched, Sequence[SourceConfig]]) -> dict[str, Asked]:
    """The repositories to ask for what is watched, by name."""
    found: dict[str, Asked] = {}
    for what, sources in watches.items():
        one = found.setdefault(what.repository, Asked(what.repository))
        one.branches.add(what.branch)
        for source in sources:
            way = source.connection if isinstance(source.connection, GitConnection) else Path(what.repository)
            if not any(_same(way, known) for known in one.ways):
                one.ways.append(way)
    return found


def poll(
    repositories: Sequence[Asked], *, budget_s: float = BUDGET_S, timeout_s: float = TIMEOUT_S
) -> Answers:
    """Ask every repository where it stands, as many as there is time for, in their order.

    Args:
        repositories: first those that had no turn the last time.
        budget_s: seconds after which no answer is waited for any more.
        timeout_s: seconds after which a repository counts as one that does not answer; one that
            was asked so late that it had less is missing from the result instead.
    """
    deadline = time.monotonic() + budget_s
    with ThreadPoolExecutor(THREADS, thread_name_prefix="tips") as pool:
        answers = pool.map(lambda one: _answer(one, deadline, timeout_s), repositories)
        return {
            one.repository: said for one, said in zip(repositories, answers, strict=True) if said is not None
        }


def _answer(one: Asked, deadline: float, timeout_s: float) -> Standing | KnowledgeError | None:
    """What one repository says; the last way's error if none works, None if there was no time."""
    failed: KnowledgeError | None = None
    for way in one.ways:
        left_s = deadline - time.monotonic()
        if left_s < _SHORTEST_S:
            return None
        try:
            return _standing(way, one, min(timeout_s, left_s))
        except GitFailed as failure:  # only of time, see _standing
            if left_s < timeout_s:
                return None
            failed = SourceUnavailable(
                f"git repository {one.repository} gave no answer in {timeout_s:g} seconds: "
                f"try again ({failure})"
            )
        except KnowledgeError as error:
            failed = error
    return failed


def _standing(way: GitConnection | Path, one: Asked, timeout_s: float) -> Standing:
    """Ask once. Raises GitFailed if time ran out, SourceRefused or SourceUnavailable otherwise."""
    if isinstance(way, Path):
        return Standing(_head_of(way, timeout_s), {})
    remote = remote_of(way)
    if None not in one.branches:
        return _listed(_ls_remote(remote, "--heads", timeout_s), one.branches)
    if one.head_branch is not None:
        known = _listed(_ls_remote(remote, "--heads", timeout_s), one.branches | {one.head_branch})
        head = known.branches.get(one.head_branch)
        if head is not None:
            return Standing(head, known.branches, one.head_branch)
    return _listed(_ls_remote(remote, "--symref", timeout_s), one.branches)


def _ls_remote(remote: Remote, option: str, timeout_s: float) -> bytes:
    arguments = ["ls-remote", option, "--", remote.url]
    try:
        return run(arguments, repository=None, extra=remote.environment, timeout_s=timeout_s)
    except GitFailed as failure:
        if failure.timed_out:
            raise
        raise refusal(remote, failure) from failure


def _listed(said: bytes, wanted: Collection[str | None]) -> Standing:
    """The wanted lines of `git ls-remote`, each "commit TAB name", or "ref: name TAB HEAD"."""
    head = head_branch = None
    branches: dict[str, str] = {}
    for line in said.split(b"\n"):
        commit, _, ref = line.decode("utf-8", "replace").partition("\t")
        branch = ref.removeprefix("refs/heads/")
        if ref == "HEAD" and commit.startswith("ref: "):
            head_branch = commit.removeprefix("ref: refs/heads/")
        elif ref == "HEAD":
            head = commit
        elif branch != ref and branch in wanted:
            branches[branch] = commit
    return Standing(head, branches, head_branch)


def _head_of(folder: Path, timeout_s: float) -> str | None:
    inside = folder / ".git"
    repository = inside if inside.exists() else folder
    try:
        arguments = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]
        return run(arguments, repository=repository, timeout_s=timeout_s).decode("ascii").strip()
    except GitFailed as failure:
        if failure.timed_out:
            raise
        if not failure.stderr.strip():
            return None  # git says nothing of a branch without a commit
        said = without_password(" ".join(failure.stderr.split()))[:300]
        raise SourceRefused(f"the repository in {folder} cannot be read ({said}): repair it") from failure


def _name(connection: GitConnection) -> str:
    """A repository's name, fit to be shown: no credentials, and no query, which may hold some."""
    try:
        url = remote_of(connection).url
    except ConfigError:  # said when it is polled
        url = connection.url
    shown, mark, query = without_password(url).partition("?")
    return f"{shown}?{sha256(query.encode()).hexdigest()[:8]}" if mark else shown


def _same(one: GitConnection | Path, other: GitConnection | Path) -> bool:
    """Whether two ways differ in nothing but the branch."""
    if isinstance(one, Path) or isinstance(other, Path):
        return one == other
    return (one.url, one.token) == (other.url, other.token)
