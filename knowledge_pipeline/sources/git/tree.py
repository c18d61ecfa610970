"""Files of a git repository at the tip of one branch, read from the mirror."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.files.local import SUBMODULE, SYMLINK
from knowledge_pipeline.sources.files.trees import Content, Entry, too_large
from knowledge_pipeline.sources.git.command import GitFailed, stream
from knowledge_pipeline.sources.git.mirror import Mirror
from knowledge_pipeline.sources.git.newest_commits import Touched, touched
from knowledge_pipeline.sources.git.objects import Objects, Signature, signature
from knowledge_pipeline.sources.path_encoding import path_of_bytes
from knowledge_pipeline.sources.patterns import Selection

_HEAD_OF_AT_MOST_BYTES = 64_000_000  # a larger file is not read to see what it is


class GitTree:
    """The files of a branch's tip; author and date of a file are of the newest commit that touched it."""

    def __init__(self, mirror: Mirror, branch: str | None, selection: Selection) -> None:
        self._mirror = mirror
        self._branch = branch
        self._selection = selection
        self._objects = Objects(mirror.repository)
        self._signatures: dict[str, Signature] = {}

    def entries(self) -> Iterator[Entry]:
        """Fetch, then every wanted file in git's order; none if nothing was ever committed.

        Raises:
            SourceRefused: the repository or the branch does not exist, or refuses us.
            SourceUnavailable: the repository did not answer, or the mirror is damaged.
        """
        self._objects.close()  # it may hold open a mirror that is about to be replaced
        self._mirror.update()
        tip = self._mirror.tip(self._branch)
        if tip is None:
            return
        repository = self._mirror.repository
        try:
            newest = touched(repository, tip, branch=self._branch, cache=self._mirror.folder)
            arguments = ["ls-tree", "-r", "-z", "-l", "--full-tree", tip]
            for line in stream(arguments, repository=repository):
                yield from self._entry(line, newest)
        except GitFailed as failure:
            raise self._mirror.broken(failure) from failure

    def head(self, entry: Entry, limit_bytes: int) -> bytes:
        """The first bytes of a file; none of one too large to be looked at."""
        if entry.size_bytes > _HEAD_OF_AT_MOST_BYTES:
            return b""
        return self._object(entry.locator.partition(":")[0])[:limit_bytes]

    def read(self, path: str, locator: str, limit_bytes: int) -> Content:
        """A whole file; SourceUnavailable where the mirror lacks it."""
        del path  # the blob's id says it all
        blob, _, commit = locator.partition(":")
        payload = self._object(blob)
        if len(payload) > limit_bytes:
            raise DocumentSkipped(too_large(len(payload), limit_bytes))
        author, committed = self._signed(commit)
        return Content(payload, author, committed)

    def close(self) -> None:
        """End the git that reads objects."""
        self._objects.close()

    def _entry(self, line: bytes, newest: Touched) -> Iterator[Entry]:
        attributes, _, name = line.partition(b"\t")
        mode, _, object_id, size = attributes.decode("ascii").split()
        path = path_of_bytes(name)
        if self._selection.prunes(path.rpartition("/")[0]):
            return
        commit = newest.get(path, (0, ""))[1]
        revision, locator = f"{object_id}:{commit[:12]}", f"{object_id}:{commit}"
        if mode == "160000":
            if not self._selection.prunes(path):
                yield Entry(path, 0, revision, locator, SUBMODULE)
        elif self._selection.wants(path, executable=mode == "100755"):
            yield Entry(path, int(size), revision, locator, SYMLINK if mode == "120000" else None)

    def _object(self, object_id: str) -> bytes:
        try:
            return self._objects.read(object_id)
        except GitFailed as failure:
            raise self._mirror.broken(failure) from failure

    def _signed(self, commit: str) -> tuple[str | None, datetime | None]:
        if not commit:
            return None, None
        if commit not in self._signatures:
            self._signatures[commit] = signature(self._object(commit))
        known = self._signatures[commit]
        return known.author, known.committed
