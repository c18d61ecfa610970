"""One bare copy of a remote repository, shared by every source that reads it.

It is a cache: deleting it costs only a clone. A finished clone is renamed into place, so that the
mirror is always complete; a damaged one is cloned again at the next fetch.
"""

from __future__ import annotations

import re
import shutil
import time
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from filelock import FileLock, Timeout

from knowledge_pipeline.errors import Busy, SourceRefused, SourceUnavailable
from knowledge_pipeline.sources.git.command import GitError, resolve_commit, run_git
from knowledge_pipeline.sources.git.remote import FETCH_TIMEOUT_S, Remote, may_pass, to_source_error

_HEAD_REF = "refs/knowledge/head"
_BROKEN_MARKER = "broken"  # a file whose presence asks for a new clone
_DAMAGE_PATTERN = re.compile(
    r"bad object|missing|corrupt|necessary objects|unable to (?:read|parse)|unresolved delta|"
    r"packfile|bad config",
    re.IGNORECASE,
)
_MAX_ATTEMPTS = 4  # some 5 s in all: git does not say how long its server asks it to wait
_NO_HEAD_MESSAGE = "couldn't find remote ref head"


class Mirror:
    """The bare copy of one remote, in a folder named after its address."""

    def __init__(self, remote: Remote, cache: Path) -> None:
        self.remote = remote
        name = sha256(remote.url.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self.folder = cache / "mirrors" / name
        self.repository = self.folder / "repository.git"

    def update(self) -> None:
        """Fetch what is new on all branches, or clone; one process at a time.

        Raises:
            SourceRefused, SourceUnavailable: as git reports.
            Busy: another process has been fetching for longer than a fetch may take.
        """
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(f"{self.folder}.lock", timeout=FETCH_TIMEOUT_S):
                self._update()
        except Timeout as error:
            raise Busy(f"another process is still fetching {self.remote.url}: try again later") from error

    def resolve_tip(self, branch: str | None) -> str | None:
        """The newest commit of a branch, or of the remote's HEAD; None: nothing was ever committed.

        Raises:
            SourceRefused: there is no such branch.
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
        arguments = ["for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads/"]
        lines = run_git(arguments, repository=self.repository).decode("utf-8", "replace").splitlines()
        return {name: commit for commit, _, name in (line.partition(" ") for line in lines)}

    def mark_broken(self, failure: GitError) -> SourceUnavailable:
        """The error to raise for a damaged mirror; the next fetch clones it again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _BROKEN_MARKER).touch()
        reason = " ".join(failure.stderr.split())[:300]
        return SourceUnavailable(
            f"the mirror of git repository {self.remote.url} is damaged ({reason}): "
            "try again, it will be cloned anew"
        )

    def _update(self) -> None:
        for leftover in self.folder.parent.glob(f"{self.folder.name}.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)  # of a clone that was killed
        if not self._is_usable():
            self._clone()
            return
        for lock in (*self.repository.glob("*.lock"), *(self.repository / "refs").rglob("*.lock")):
            lock.unlink(missing_ok=True)  # of a fetch that was killed: no other one runs now
        try:
            self._fetch(self.repository)
        except GitError as failure:
            if _DAMAGE_PATTERN.search(failure.stderr) is None and self._is_usable():
                raise to_source_error(self.remote, failure) from failure
            self._clone()

    def _clone(self) -> None:
        """Fetch everything into a new folder, then let it take the mirror's place."""
        new = Path(mkdtemp(prefix=f"{self.folder.name}.new-", dir=self.folder.parent))
        repository = new / self.repository.name
        try:
            run_git(["init", "--quiet", "--bare", "--template=", "--", str(repository)], repository=None)
            self._fetch(repository)
            shutil.rmtree(self.folder, ignore_errors=True)
            new.rename(self.folder)
        except GitError as failure:
            raise to_source_error(self.remote, failure) from failure
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _fetch(self, repository: Path) -> None:
        try:
            self._fetch_refs(repository, f"+HEAD:{_HEAD_REF}", "+refs/heads/*:refs/heads/*")
        except GitError as failure:
            if _NO_HEAD_MESSAGE not in failure.stderr.lower():
                raise
            run_git(["update-ref", "-d", _HEAD_REF], repository=repository)
            self._fetch_refs(repository, "+refs/heads/*:refs/heads/*")

    def _fetch_refs(self, repository: Path, *refs: str) -> None:
        options = ("--quiet", "--prune", "--no-tags", "--force")
        scope = ("--no-recurse-submodules", "--no-write-fetch-head")
        arguments = ["fetch", *options, *scope, "--", self.remote.url, *refs]
        for attempt in range(1, _MAX_ATTEMPTS):
            try:
                return self._run_fetch(repository, arguments)
            except GitError as failure:
                if not may_pass(failure):
                    raise
            _pause(attempt)
        self._run_fetch(repository, arguments)

    def _run_fetch(self, repository: Path, arguments: list[str]) -> None:
        environment = self.remote.build_environment()
        run_git(arguments, repository=repository, extra_environment=environment, timeout_s=FETCH_TIMEOUT_S)

    def _is_usable(self) -> bool:
        """Whether it is a repository in which every branch leads to a commit."""
        if not self.repository.is_dir() or (self.folder / _BROKEN_MARKER).exists():
            return False
        try:
            run_git(["for-each-ref", "--format=%(objecttype)"], repository=self.repository)
        except GitError:
            return False
        return True


def _pause(attempt: int) -> None:
    """Wait before the next attempt, longer each time."""
    # Imported here: it brings `requests`, which git does without.
    from knowledge_pipeline.sources.http_retry import compute_backoff_s

    time.sleep(compute_backoff_s(attempt))
