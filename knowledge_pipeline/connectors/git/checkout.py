"""Files of a folder of this machine that git knows: each has the date of its last commit.

A clone gives its files the time of the clone. Only names and ids are asked of git, which a repository's own
configuration can give nothing to run: whether a file is as it was committed, its content says.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import new, sha256
from pathlib import Path

from knowledge_pipeline.connectors.base import decode_path, encode_path
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
    run_git,
    stream_git,
)
from knowledge_pipeline.connectors.git.newest_commits import load_newest_commits
from knowledge_pipeline.connectors.patterns import FileSelection
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused

CHECKOUTS = "checkouts"
"""The folder, in that of what can be made again, of what is known of repositories."""

_STAGED = re.compile(  # of what git promises to nobody: where it writes something else, nothing is known
    rb"\d{6} ([0-9a-f]{40,64}) 0\t([^\0]+)\0\s+ctime: (\d+):(\d+)\s+mtime: (\d+):(\d+)"
    rb"\s+dev: [^\n]*\s+uid: [^\n]*\s+size: (\d+)\tflags: \w+\n"
)
_MAX_COMPARED_BYTES = 16_000_000  # a larger file counts as another
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

    def read_staged(self) -> dict[str, tuple[str, bytes]]:
        """Of files whose staged content is HEAD's, how they looked when git read them, and the content's id.

        How they looked is empty where they were written while git noted it: it does not trust that either.
        All is empty where git cannot tell.
        """
        if self._repository is None:
            return {}
        folder, prefix = self._folder.expanduser().resolve(), self._prefix
        root = str(folder.parents[prefix.count("/") - 1] if prefix else folder)
        listing = ["-C", root, f"--work-tree={root}", "ls-files", "-z", "--stage", "--debug"]
        name_index = ["rev-parse", "--path-format=absolute", "--git-path", "index"]
        try:
            index = os.fsdecode(run_git(name_index, repository=self._repository).rstrip(b"\n"))
            noted_ns = Path(index).stat().st_mtime_ns
            output = run_git([*listing, *limit_to(prefix)], repository=self._repository)
        except (GitError, SourceRefused, OSError):
            return {}
        committed, staged = self._read_blobs(), dict[str, tuple[str, bytes]]()
        for note in _STAGED.finditer(output):
            blob, name, changed_s, changed_ns, modified_s, modified_ns, size = note.groups()
            if committed.get(name) == blob:
                changed = int(changed_s + changed_ns.zfill(9))
                modified = int(modified_s + modified_ns.zfill(9))
                looked = f"{modified}-{int(size)}-{changed}@" if max(changed, modified) < noted_ns else ""
                staged[decode_path(name).removeprefix(prefix)] = looked, blob
        return staged

    def describe_committed(self, entry: FileEntry, staged: Mapping[str, tuple[str, bytes]]) -> str:
        """Content and last commit of a file that is as it was committed, the same in all trees; else nothing.

        A file that looks otherwise than git noted is read: it may have been touched alone.
        """
        looked, blob = staged.get(entry.path, ("", b""))
        if not entry.locator or not blob:
            return ""
        if not looked or not entry.revision.startswith(looked):
            try:
                payload = LocalTree.read(self, entry.path, "", _MAX_COMPARED_BYTES).payload
            except DocumentSkipped:
                return ""
            if blob not in _iter_blob_ids(payload, len(blob)):
                return ""
        return f"{blob.decode()} {entry.revision.rpartition('@')[2]} {entry.locator}"


class WorktreeTree(CheckoutTree):
    """Another working tree of the repository that a source is read from.

    A file that both have as it was last committed, by the same commit, has the revision that it has in the
    source's own folder: what was read there is not read again here.
    """

    def __init__(
        self, root: Path, selection: FileSelection, cache: Path, memory: ListingMemory, origin: CheckoutTree
    ) -> None:
        super().__init__(root, selection, cache, memory)
        self._origin = origin

    def list_entries(self) -> Iterator[FileEntry]:
        """As the folder's, with the revisions of the origin where nothing differs."""
        twins, theirs = dict[str, FileEntry](), self._origin.read_staged()
        with suppress(SourceRefused):  # what the other tree has not checked out
            twins = {entry.path: entry for entry in self._origin.list_entries()}
        self._seed_commits()
        mine = self.read_staged()
        for entry in super().list_entries():
            own = self.describe_committed(entry, mine)
            twin = twins.get(entry.path) if own else None
            is_same = twin and self._origin.describe_committed(twin, theirs) == own
            yield replace(entry, revision=twin.revision) if twin and is_same else entry

    def _seed_commits(self) -> None:
        """Begin with the last commits that are known of the origin: most are the same."""
        if self._repository and self._origin._repository:
            source = self._cache / CHECKOUTS / name_checkout(self._origin._repository)
            own = self._cache / CHECKOUTS / name_checkout(self._repository)
            if source.is_dir() and not own.exists():
                with suppress(OSError):  # another process does so
                    shutil.copytree(source, own)


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
