"""Files of a folder of this machine that git knows: each has the date of its last commit.

A clone gives its files the time of the clone. Only names and ids are asked of git, which a repository's own
configuration can give nothing to run: whether a file is as it was committed, its content says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import new, sha256
from pathlib import Path

from knowledge_pipeline.connectors.base import encode_path
from knowledge_pipeline.connectors.files import (
    LFS_POINTER_START,
    FileContent,
    FileEntry,
    ListingMemory,
    LocalTree,
    NewestCommits,
)
from knowledge_pipeline.connectors.git.command import (
    GitError,
    find_git_folder,
    find_repository,
    limit_to,
    parse_timestamp,
    read_head,
    stream_git,
)
from knowledge_pipeline.connectors.git.newest_commits import load_newest_commits
from knowledge_pipeline.connectors.patterns import FileSelection
from knowledge_pipeline.errors import SourceRefused

CHECKOUTS = "checkouts"
"""The folder, in that of what can be made again, of what is known of repositories."""

_UNKNOWN = "unknown"  # a locator: the history does not tell when the file was last committed


class CheckoutTree(LocalTree):
    """The files of a folder; those that are as they were last committed have the date of that commit.

    Files that are changed, or not in git, have the file system's; all have where git cannot read the
    repository, and then `notes` says so.
    """

    def __init__(self, root: Path, selection: FileSelection, cache: Path, memory: ListingMemory) -> None:
        super().__init__(root, selection)
        self._folder, self._cache, self._memory = root, cache, memory
        self._repository, self._prefix = find_repository(root) or (None, "")
        self._blobs: dict[bytes, bytes] | None = None  # read with the first file
        self.notes = Counter[str]()
        """What the last listing could not tell."""
        self.tip: str | None = None
        """The commit that was checked out at the last listing."""

    def list_entries(self) -> Iterator[FileEntry]:
        """As the folder's, with the last commit in the revision: its date is the document's."""
        commits = self._load_commits()
        for entry in super().list_entries():
            commit = commits.get(f"{self._prefix}{entry.path}")
            if commit is None:
                yield entry
            else:
                seconds, id_ = commit
                locator = str(seconds) if id_ else _UNKNOWN
                yield replace(entry, revision=f"{entry.revision}@{id_[:12]}", locator=locator)

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """A whole file, with the date of its last commit if it is as it was committed."""
        content = super().read(path, locator, limit_bytes)
        if not locator or not self._is_committed(path, content.payload):
            return content
        return replace(content, last_modified=None if locator == _UNKNOWN else parse_timestamp(locator))

    def _load_commits(self) -> NewestCommits:
        """The last commits of the files that HEAD has."""
        self.notes.clear()
        self._blobs = None
        if self._repository is None:
            return {}
        try:
            self.tip = tip = read_head(self._repository) or None
            if tip is None:
                return {}
            return load_newest_commits(
                find_git_folder(self._repository),
                tip,
                branch=None,
                cache=self._cache / CHECKOUTS / name_checkout(self._repository),
                remembered=self._memory.commits,
                prefix=self._prefix,
            )
        except (GitError, SourceRefused) as failure:
            reason = " ".join(str(failure).split())[:200]
            self.notes[f"dates are the file system's: git cannot read the repository ({reason})"] += 1
            return {}

    def _is_committed(self, path: str, payload: bytes) -> bool:
        """Whether a file is as HEAD has it, but for its line ends and for what Git LFS keeps elsewhere."""
        if self._blobs is None:
            self._blobs = self._read_blobs()
        blob = self._blobs.get(encode_path(f"{self._prefix}{path}"))
        return blob is not None and blob in _iter_blob_ids(payload, len(blob))

    def _read_blobs(self) -> dict[bytes, bytes]:
        """By path, the ids of the files that HEAD has; none where it cannot be read."""
        arguments = ["ls-tree", "-r", "-z", "--full-tree", "HEAD", *limit_to(self._prefix)]
        blobs: dict[bytes, bytes] = {}
        with suppress(GitError, SourceRefused):
            assert self._repository is not None  # whose listing gave a locator
            for line in stream_git(arguments, repository=self._repository):
                attributes, _, name = line.partition(b"\t")
                blobs[name] = attributes.split()[2]
        return blobs


def name_checkout(repository: Path) -> str:
    """The name of the folder of what is known of a repository."""
    return sha256(str(repository).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _iter_blob_ids(payload: bytes, length: int) -> Iterator[bytes]:
    """The ids that git may have given a file's content when it was committed."""
    hashed = "sha1" if length == 40 else "sha256"
    pointer = b"%boid sha256:%b\nsize %d\n" % (
        LFS_POINTER_START,
        sha256(payload).hexdigest().encode("ascii"),
        len(payload),
    )
    for content in (payload, payload.replace(b"\r\n", b"\n"), pointer):
        blob = new(hashed, b"blob %d\0" % len(content), usedforsecurity=False)
        blob.update(content)
        yield blob.hexdigest().encode("ascii")
