"""The history of a repository: one document per commit, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol

from knowledge_pipeline.config.connections.repositories import strip_credentials
from knowledge_pipeline.errors import KnowledgeError, SourceRefused
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.base import Source
from knowledge_pipeline.sources.git.command import GitError, git_folder_of, resolve_commit, run_git
from knowledge_pipeline.sources.git.commit_text import Commit, build_commit_text, subject
from knowledge_pipeline.sources.git.diffs import DiffReader
from knowledge_pipeline.sources.git.mirror import Mirror
from knowledge_pipeline.sources.git.newest_commits import iter_touched_paths
from knowledge_pipeline.sources.git.objects import ObjectReader, parse_message, parse_parents, parse_signature
from knowledge_pipeline.sources.path_encoding import format_path
from knowledge_pipeline.sources.patterns import ChangedPaths
from knowledge_pipeline.times import parse_since

_FORMAT_VERSION = "1"


class History(Protocol):
    """Where commits are read from."""

    repository: Path

    def find_newest_commit(self) -> str | None:
        """The commit that the history ends with, up to date; None: nothing was ever committed."""
        ...

    def to_source_error(self, failure: GitError) -> KnowledgeError:
        """The error to raise when the history cannot be read."""
        ...


class MirrorHistory:
    """The history of a branch of a remote repository."""

    def __init__(self, mirror: Mirror, branch: str | None) -> None:
        self.repository = mirror.repository
        self._mirror = mirror
        self._branch = branch

    def find_newest_commit(self) -> str | None:
        """Fetch, then the tip of the branch."""
        self._mirror.update()
        return self._mirror.resolve_tip(self._branch)

    def to_source_error(self, failure: GitError) -> KnowledgeError:
        """The mirror is damaged, and is cloned again at the next fetch."""
        return self._mirror.mark_broken(failure)


class FolderHistory:
    """The history that a folder of this machine has checked out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.expanduser().absolute()
        self.repository = git_folder_of(self._folder)

    def find_newest_commit(self) -> str | None:
        """The commit that HEAD names."""
        if not self._folder.is_dir():
            raise SourceRefused(f"the folder {self._folder} does not exist: correct connection.path")
        try:
            run_git(["rev-parse", "--git-dir"], repository=self.repository)
        except GitError as failure:
            raise self.to_source_error(failure) from failure
        try:
            return resolve_commit("HEAD", self.repository)
        except GitError as failure:
            if self._is_unborn():
                return None
            raise self.to_source_error(failure) from failure

    def to_source_error(self, failure: GitError) -> KnowledgeError:
        """The folder holds no repository, or a broken one."""
        reason = strip_credentials(" ".join(failure.stderr.split()))[:300] or "its HEAD leads to no commit"
        problem = f"has no git history that can be read ({reason})"
        return SourceRefused(f"the folder {self._folder} {problem}: correct connection.path")

    def _is_unborn(self) -> bool:
        """Whether HEAD names a branch that does not exist yet, rather than one that is broken."""
        try:
            branch = run_git(["symbolic-ref", "--quiet", "HEAD"], repository=self.repository).decode().strip()
            return not run_git(["for-each-ref", "--format=%(refname)", branch], repository=self.repository)
        except GitError:
            return False


class GitHistorySource(Source):
    """The newest `depth` commits, none older than `since`; of them, those that change a wanted file."""

    def __init__(
        self,
        history: History,
        *,
        depth: int,
        since: str | None,
        commit_prefix: str | None,
        changed_paths: ChangedPaths | None = None,
    ) -> None:
        self._history = history
        self._depth = depth
        self._since = since
        self._commit_prefix = commit_prefix
        self._changed_paths = changed_paths
        self._objects = ObjectReader(history.repository)
        self._diffs = DiffReader(history.repository)
        if since is not None:
            parse_since(since)  # an invalid one is refused before anything is read

    def close(self) -> None:
        """End the gits that read objects."""
        self._objects.close()
        self._diffs.close()

    def discover(self) -> Iterator[Item]:
        """Every commit within depth and span; a commit never changes, so its id is its revision."""
        self.close()  # git may hold open a mirror that is about to be replaced
        tip = self._history.find_newest_commit()
        if tip is None:
            return
        limits = [f"--max-count={self._depth}"]
        if self._since is not None:
            limits.append(f"--max-age={int(parse_since(self._since).timestamp())}")
        try:
            commits = self._list_commits([*limits, tip])
        except GitError as failure:
            raise self._history.to_source_error(failure) from failure
        for commit in commits:
            yield Item(f"commit/{commit}", f"{commit}:{_FORMAT_VERSION}", commit)

    def _list_commits(self, revisions: Sequence[str]) -> list[str]:
        repository, wanted = self._history.repository, self._changed_paths
        if wanted is None:
            return run_git(["rev-list", *revisions, "--"], repository=repository).decode("ascii").split()
        touches = iter_touched_paths(repository, ["--diff-merges=first-parent", *revisions])
        by_commit = groupby(touches, key=lambda touch: touch[2])
        return [
            commit for commit, each in by_commit if wanted.accepts(format_path(path) for path, _, _ in each)
        ]

    def fetch(self, item: Item) -> Document:
        """Read one commit and its diff against its first parent."""
        try:
            raw = self._objects.read(item.locator)
            signed, parents = parse_signature(raw), parse_parents(raw)
            commit = Commit(item.locator, parents, signed.author, signed.committed, parse_message(raw))
            diff = self._diffs.read(commit.id, commit.parents[0] if commit.parents else None)
        except GitError as failure:
            raise self._history.to_source_error(failure) from failure
        text, metadata = build_commit_text(commit, diff)
        return Document(
            uri=item.uri,
            text=text,
            path=f"commit/{commit.id[:12]}",
            title=subject(commit),
            url=f"{self._commit_prefix}{commit.id}" if self._commit_prefix else None,
            author=commit.author,
            last_modified=commit.committed,
            metadata=metadata,
        )
