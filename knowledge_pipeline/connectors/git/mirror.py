"""One bare copy of a remote repository, shared by every source that reads it.

It is a cache: deleting it costs only a clone. A finished clone is renamed into place, so that the
mirror is always complete; a damaged one is cloned again at the next fetch. Which pull requests are open,
only the API of the repository's service says.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from filelock import FileLock, Timeout

from knowledge_pipeline.config.connections import GithubConnection, GitlabConnection
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.base import pause
from knowledge_pipeline.connectors.git.command import (
    FETCH_TIMEOUT_S,
    GitError,
    Remote,
    may_pass,
    read_grafts,
    resolve_commit,
    run_git,
    to_source_error,
)
from knowledge_pipeline.errors import Busy, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import PULL_PREFIXES, parse_pull_ref, select_pull_patterns, sort_pulls
from knowledge_pipeline.text import matches_any

MAX_PULLS = 100
"""Of so many pull requests, those with the highest numbers, the heads are read."""

_HEAD_REF = "refs/knowledge/head"
_BROKEN_MARKER = "broken"  # a file whose presence asks for a new clone
_DAMAGE_PATTERN = re.compile(
    r"bad object|missing|corrupt|necessary objects|unable to (?:read|parse)|unresolved delta|"
    r"packfile|bad config|mismatched algorithms",
    re.IGNORECASE,
)
_MAX_FETCHES = 3  # the remote may move between its listing and the fetch
_MAX_ATTEMPTS = 4  # some 5 s in all: git does not say how long its server asks it to wait


class Mirror:
    """The bare copy of one remote, in a folder named after its address."""

    def __init__(self, remote: Remote, cache: Path) -> None:
        self.remote = remote
        name = sha256(remote.url.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self.folder = cache / "mirrors" / name
        self.repository = self.folder / "repository.git"

    def update(self) -> None:
        """Fetch what is new on all branches, or clone; one process at a time.

        Raises SourceRefused or SourceUnavailable as git reports, Busy where another process fetches too long.
        """
        with self._lock():
            for leftover in self.folder.parent.glob(f"{self.folder.name}.new-*"):
                shutil.rmtree(leftover, ignore_errors=True)  # of a clone that was killed
            if not self._is_usable():
                self._clone()
                return
            for lock in (*self.repository.glob("*.lock"), *(self.repository / "refs").rglob("*.lock")):
                lock.unlink(missing_ok=True)  # of a fetch that was killed: no other one runs now
            try:
                self._fetch(self.repository, self._list_remote_branches(self.repository))
            except GitError as failure:
                if _DAMAGE_PATTERN.search(failure.stderr) is None and self._is_usable():
                    raise to_source_error(self.remote, failure) from failure
                self._clone()

    def update_pulls(
        self, patterns: Sequence[str], *, tip: str, open_names: Sequence[str] | None
    ) -> dict[str, str]:
        """Fetch what is new of the heads of pull requests; the commits of those that are read, by name.

        Raises as `update`. `patterns` of names are those of branches too; `tip` is the commit of the branch
        that heads are compared with. Without `open_names`, whatever is not merged counts as open.
        """
        wanted = select_pull_patterns(patterns)
        with self._lock():
            try:
                refs = self._list_remote(self.repository, "refs/pull/*/head", "refs/merge-requests/*/head")
                listed = {name: commit for ref, commit in refs if (name := parse_pull_ref(ref))}
                candidates = listed if open_names is None else listed.keys() & open_names
                chosen = sort_pulls(name for name in candidates if matches_any(name, wanted))[-MAX_PULLS:]
                existing = self._list_pulls()
                wanted = [f"refs/{name}/head" for name in chosen if existing.get(name) != listed[name]]
                if wanted:
                    self._fetch_refs(self.repository, *(f"+{ref}:{ref}" for ref in wanted))
            except GitError as failure:
                raise to_source_error(self.remote, failure) from failure
            if gone := "".join(f"delete refs/{name}/head\n" for name in existing.keys() - chosen):
                run_git(["update-ref", "--stdin"], repository=self.repository, stdin=gone.encode("ascii"))
            unmerged = [f"--no-merged={tip}"] if open_names is None else []
            return self._list_pulls(*unmerged)

    def resolve_tip(self, branch: str | None) -> str | None:
        """The newest commit of a branch, or of HEAD; None: nothing was ever committed.

        SourceRefused where there is no such branch.
        """
        name = _HEAD_REF if branch is None else f"refs/heads/{branch}"
        try:
            return resolve_commit(name, self.repository)
        except GitError as error:
            branches = self.list_branches()
            if branch is None and not branches:
                return None
            wanted = f"branch {branch!r}" if branch is not None else "branch that its HEAD names"
            raise SourceRefused(
                f"git repository {self.remote.url} has no {wanted}: set connection.branch to "
                f"one of {', '.join([*branches][:20]) or '(it has none yet)'}"
            ) from error

    def list_branches(self) -> dict[str, str]:
        """The newest commits of the remote's branches, by name."""
        refs = self._iter_refs("refs/heads/", repository=self.repository)
        return {ref.removeprefix("refs/heads/"): commit for ref, commit in refs}

    def mark_broken(self, failure: GitError) -> SourceUnavailable:
        """The error to raise for a damaged mirror; the next fetch clones it again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _BROKEN_MARKER).touch()
        reason = " ".join(failure.stderr.split())[:300]
        return SourceUnavailable(
            f"the mirror of git repository {self.remote.url} is damaged ({reason}): "
            "try again, it will be cloned anew"
        )

    def _list_pulls(self, *options: str) -> dict[str, str]:
        """The heads of pull requests that are here, by number."""
        refs = self._iter_refs(*options, "refs/pull/", "refs/merge-requests/", repository=self.repository)
        commits = {name: commit for ref, commit in refs if (name := parse_pull_ref(ref))}
        return {name: commits[name] for name in sort_pulls(commits)}

    def _iter_refs(self, *arguments: str, repository: Path) -> Iterator[tuple[str, str]]:
        """Names and commits of refs that are here."""
        listing = ["for-each-ref", "--format=%(objectname) %(refname)", *arguments]
        for line in run_git(listing, repository=repository).decode("utf-8", "replace").splitlines():
            commit, _, ref = line.partition(" ")
            yield ref, commit

    def _list_remote(self, repository: Path, *patterns: str) -> list[tuple[str, str]]:
        """Names and commits of refs that the remote has, in one call."""
        arguments = ["ls-remote", "--", self.remote.url, *patterns]
        listed = self._run_remote(repository, arguments).decode("utf-8", "replace").splitlines()
        return [(ref, commit) for commit, _, ref in (line.partition("\t") for line in listed)]

    @contextmanager
    def _lock(self) -> Generator[None]:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(f"{self.folder}.lock", timeout=FETCH_TIMEOUT_S):
                yield
        except Timeout as error:
            raise Busy(f"another process is still fetching {self.remote.url}: try again later") from error

    def _clone(self) -> None:
        """Fetch everything into a new folder, then let it take the mirror's place."""
        new = Path(mkdtemp(prefix=f"{self.folder.name}.new-", dir=self.folder.parent))
        repository = new / self.repository.name
        try:
            init = ["init", "--quiet", "--bare", "--template="]
            run_git([*init, "--", str(repository)], repository=None)
            wanted = self._list_remote_branches(repository)
            if any(len(commit) == 64 for commit in wanted.values()):  # digits of SHA-256
                shutil.rmtree(repository)
                run_git([*init, "--object-format=sha256", "--", str(repository)], repository=None)
            self._fetch(repository, wanted)
            shutil.rmtree(self.folder, ignore_errors=True)
            new.rename(self.folder)
        except GitError as failure:
            raise to_source_error(self.remote, failure) from failure
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _fetch(self, repository: Path, wanted: Mapping[str, str]) -> None:
        """Fetch until what the remote lists is here: git may leave out branches, and report success."""
        for _ in range(_MAX_FETCHES):
            if wanted == self._list_own_branches(repository) and not read_grafts(repository):
                return
            head = [f"+HEAD:{_HEAD_REF}"] if _HEAD_REF in wanted else []
            if not head:
                run_git(["update-ref", "-d", _HEAD_REF], repository=repository)
            self._fetch_refs(repository, *head, "+refs/heads/*:refs/heads/*")
            own = self._list_own_branches(repository)
            if wanted == own or (wanted := self._list_remote_branches(repository)) == own:
                return
        raise SourceUnavailable(
            f"git repository {self.remote.url} did not send its branches as it lists them: try again later"
        )

    def _list_own_branches(self, repository: Path) -> dict[str, str]:
        return dict(self._iter_refs(_HEAD_REF, "refs/heads/", repository=repository))

    def _list_remote_branches(self, repository: Path) -> dict[str, str]:
        """The commits of HEAD and of all branches of the remote, by the names that they have here."""
        refs = dict(self._list_remote(repository, "HEAD", "refs/heads/*"))
        head = {_HEAD_REF: refs["HEAD"]} if "HEAD" in refs else {}
        return head | {ref: commit for ref, commit in refs.items() if ref.startswith("refs/heads/")}

    def _fetch_refs(self, repository: Path, *refs: str) -> None:
        options = ["--quiet", "--prune", "--no-tags", "--force", "--update-shallow"]
        if read_grafts(repository):  # as far as the remote has become complete, so does the mirror
            options.append("--unshallow")
        scope = ("--no-recurse-submodules", "--no-write-fetch-head")
        self._run_remote(repository, ["fetch", *options, *scope, "--", self.remote.url, *refs])

    def _run_remote(self, repository: Path, arguments: Sequence[str]) -> bytes:
        """The output of a command that asks the remote, tried again after errors that may pass."""
        attempt = 1
        while True:
            environment = self.remote.build_environment()
            try:
                return run_git(
                    arguments, repository=repository, extra_environment=environment, timeout_s=FETCH_TIMEOUT_S
                )
            except GitError as failure:
                if attempt == _MAX_ATTEMPTS or not may_pass(failure):
                    raise
            # Imported here: it brings `requests`, which git does without.
            from knowledge_pipeline.connectors.http_retry import compute_backoff_s

            pause(compute_backoff_s(attempt))
            attempt += 1

    def _is_usable(self) -> bool:
        """Whether it is a repository in which every branch leads to a commit."""
        if not self.repository.is_dir() or (self.folder / _BROKEN_MARKER).exists():
            return False
        try:
            run_git(["for-each-ref", "--format=%(objecttype)"], repository=self.repository)
        except GitError:
            return False
        return True


def find_pull_lister(source: SourceConfig) -> Callable[[], Sequence[str]] | None:
    """The function that lists the heads of open pull requests by name; None: no service may be asked."""
    api = source.permission_connection
    if not isinstance(api, GithubConnection | GitlabConnection):
        return None
    is_authenticated = api.token or (isinstance(api, GithubConnection) and api.app)
    return partial(_list_open_pulls, api) if is_authenticated else None


def _list_open_pulls(connection: GithubConnection | GitlabConnection) -> Sequence[str]:
    # Imported here: they bring `requests`, which git does without.
    from knowledge_pipeline.connectors.conversations import ConversationFilters
    from knowledge_pipeline.connectors.github.documents import GithubPullRequests
    from knowledge_pipeline.connectors.gitlab.documents import GitlabMergeRequests

    filters = ConversationFilters(state="open", since="1970-01-01")
    is_github = isinstance(connection, GithubConnection)
    pulls = GithubPullRequests(connection, filters) if is_github else GitlabMergeRequests(connection, filters)
    with pulls:
        numbers = [item.uri.rpartition("/")[2] for item in pulls.discover()]
    return [PULL_PREFIXES[connection.type] + number for number in numbers]
