"""Files of a git repository at the tip of one branch, read from the mirror."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.files.local import SUBMODULE_REASON, SYMLINK_REASON
from knowledge_pipeline.sources.files.trees import FileContent, FileEntry, format_too_large
from knowledge_pipeline.sources.git.command import GitError, stream_git
from knowledge_pipeline.sources.git.mirror import Mirror
from knowledge_pipeline.sources.git.newest_commits import NewestCommits, load_newest_commits
from knowledge_pipeline.sources.git.objects import ObjectReader, Signature, parse_signature
from knowledge_pipeline.sources.path_encoding import decode_path
from knowledge_pipeline.sources.patterns import FileSelection

_MAX_PEEK_BYTES = 64_000_000  # a larger file is not read to see what it is


class GitTree:
    """The files of a branch's tip; author and date of a file are of the newest commit that touched it."""

    def __init__(self, mirror: Mirror, branch: str | None, selection: FileSelection) -> None:
        self._mirror = mirror
        self._branch = branch
        self._selection = selection
        self._objects = ObjectReader(mirror.repository)
        self._signatures: dict[str, Signature] = {}

    def list_entries(self) -> Iterator[FileEntry]:
        """Fetch, then every wanted file in git's order; none if nothing was ever committed.

        Raises:
            SourceRefused: the repository or the branch does not exist, or refuses us.
            SourceUnavailable: the repository did not answer, or the mirror is damaged.
        """
        self._objects.close()  # it may hold open a mirror that is about to be replaced
        self._mirror.update()
        if (tip := self._mirror.resolve_tip(self._branch)) is None:
            return
        try:
            repository, cache = self._mirror.repository, self._mirror.folder
            newest = load_newest_commits(repository, tip, branch=self._branch, cache=cache)
            arguments = ["ls-tree", "-r", "-z", "-l", "--full-tree", tip]
            for line in stream_git(arguments, repository=repository):
                yield from self._to_entries(line, newest)
        except GitError as failure:
            raise self._mirror.mark_broken(failure) from failure

    def read_head(self, entry: FileEntry, limit_bytes: int) -> bytes:
        """The first bytes of a file; none of one too large to be looked at."""
        if entry.size_bytes > _MAX_PEEK_BYTES:
            return b""
        return self._read_object(entry.locator.partition(":")[0])[:limit_bytes]

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """A whole file; SourceUnavailable where the mirror lacks it."""
        del path  # the blob's id says it all
        blob, _, commit = locator.partition(":")
        payload = self._read_object(blob)
        if len(payload) > limit_bytes:
            raise DocumentSkipped(format_too_large(len(payload), limit_bytes))
        if not commit:
            return FileContent(payload, None, None)
        if commit not in self._signatures:
            self._signatures[commit] = parse_signature(self._read_object(commit))
        return FileContent(payload, self._signatures[commit].author, self._signatures[commit].committed)

    def close(self) -> None:
        """End the git that reads objects."""
        self._objects.close()

    def _to_entries(self, line: bytes, newest_commits: NewestCommits) -> Iterator[FileEntry]:
        attributes, _, name = line.partition(b"\t")
        mode, _, object_id, size = attributes.decode("ascii").split()
        path = decode_path(name)
        if self._selection.is_pruned(path.rpartition("/")[0]):
            return
        commit = newest_commits.get(path, (0, ""))[1]
        revision, locator = f"{object_id}:{commit[:12]}", f"{object_id}:{commit}"
        if mode == "160000":
            if not self._selection.is_pruned(path):
                yield FileEntry(path, 0, revision, locator, SUBMODULE_REASON)
        elif self._selection.accepts(path, executable=mode == "100755"):
            yield FileEntry(path, int(size), revision, locator, SYMLINK_REASON if mode == "120000" else None)

    def _read_object(self, object_id: str) -> bytes:
        try:
            return self._objects.read(object_id)
        except GitError as failure:
            raise self._mirror.mark_broken(failure) from failure
