"""Files of a git repository at the tip of one branch, and what further ones have otherwise, by the mirror."""

from __future__ import annotations

import json
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from knowledge_pipeline.config.connections import WikiConnection
from knowledge_pipeline.connectors.base import Source, decode_path, format_too_large
from knowledge_pipeline.connectors.files import (
    SUBMODULE_REASON,
    SYMLINK_REASON,
    FileContent,
    FileEntry,
    ListingMemory,
    NewestCommits,
)
from knowledge_pipeline.connectors.git.command import (
    GitError,
    ObjectReader,
    parse_commit,
    read_grafts,
    stream_git,
)
from knowledge_pipeline.connectors.git.mirror import Mirror
from knowledge_pipeline.connectors.git.newest_commits import (
    find_touched,
    load_newest_commits,
    read_newest_commits,
)
from knowledge_pipeline.connectors.patterns import FileSelection, LeftOut
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import (
    ABSENT_KEY,
    BRANCHES_KEY,
    Document,
    Item,
    hash_strings,
    is_pull_name,
    select_pull_patterns,
)
from knowledge_pipeline.text import matches_any

_PAGE_FORMAT_VERSION = "1"  # changes whenever the same file may make another page of a wiki
_MAX_PEEK_BYTES = 64_000_000  # a larger file is not read to see what it is
_MAX_REMEMBERED_LINES = 100_000  # of a tree, some 50 MB


class GitTree:
    """The files of a branch's tip; author and date of a file are of the newest commit that touched it.

    Of further branches, what the branch has not with this content at this path is listed once for all, as a
    variant; author and date are of the first of them, by name. Heads of pull requests come after branches,
    and know author and date of what their own commits touched: more were a walk through all history for each.
    """

    def __init__(
        self,
        mirror: Mirror,
        branch: str | None,
        selection: FileSelection,
        further: Sequence[str] = (),
        list_open_pulls: Callable[[], Sequence[str]] | None = None,
        memory: ListingMemory | None = None,
    ) -> None:
        """`further`: patterns of the names of other branches; `list_open_pulls`: names of heads."""
        self._mirror = mirror
        self._branch = branch
        self._selection = selection
        self._further = further
        self._list_open_pulls = list_open_pulls
        self._objects = ObjectReader(mirror.repository)
        self._signatures: dict[str, tuple[str | None, datetime | None]] = {}
        self.branches: tuple[str, ...] = ()
        """The further branches that the last listing found, by name."""
        self.tip: str | None = None
        """The commit that the last listing was of."""
        self._memory = memory or ListingMemory()

    def list_entries(self) -> Iterator[FileEntry]:
        """Fetch, then every wanted file in git's order; none if nothing was ever committed."""
        self._objects.close()  # it may hold open a mirror that is about to be replaced
        self._mirror.update()
        self.branches = ()
        self.tip = tip = self._mirror.resolve_tip(self._branch)
        if tip is None:
            return
        try:
            newest = self._load_newest_commits(tip, self._branch)
            list_files = self._list_branches if self._further else self._list_branch
            yield from list_files(tip, newest)
        except GitError as failure:
            raise self._mirror.mark_broken(failure) from failure

    def read_head(self, entry: FileEntry, limit_bytes: int) -> bytes:
        """The first bytes of a file; none of one too large to be looked at."""
        if entry.size_bytes > _MAX_PEEK_BYTES:
            return b""
        return self._read_object(entry.locator.partition(":")[0])[:limit_bytes]

    def read(self, path: str, locator: str, limit_bytes: int) -> FileContent:
        """A whole file; SourceUnavailable where the mirror lacks it."""
        blob, _, rest = locator.partition(":")
        commit, _, noted = rest.partition(":")
        payload = self._read_object(blob)
        if len(payload) > limit_bytes:
            raise DocumentSkipped(format_too_large(len(payload), limit_bytes))
        metadata: dict[str, Any] = json.loads(noted) if noted else {}
        if not commit:
            return FileContent(payload, None, None, metadata)
        if commit not in self._signatures:
            summary = parse_commit(self._read_object(commit))
            self._signatures[commit] = summary.author, summary.committed
        return FileContent(payload, *self._signatures[commit], metadata)

    def close(self) -> None:
        """End the git that reads objects."""
        self._objects.close()

    def _list_branch(self, tip: str, newest: NewestCommits) -> Iterator[FileEntry]:
        """The files of the branch; a line that was listed before is read again if its commit is another."""
        memory = self._memory
        earlier, touched = memory.entries, find_touched(memory.newest, newest)
        entries = dict[bytes, FileEntry | LeftOut | None]()
        for line in self._stream_tree(tip):
            entry = earlier.get(line)
            is_current = entry.path not in touched if isinstance(entry, FileEntry) else line in earlier
            entries[line] = entry = entry if is_current else self._to_entry(line, newest)
            if isinstance(entry, FileEntry):
                yield entry
            else:
                self._selection.count(entry)
        if len(entries) <= _MAX_REMEMBERED_LINES:
            memory.newest, memory.entries = newest, entries

    def _list_branches(self, tip: str, newest: NewestCommits) -> Iterator[FileEntry]:
        """The files of the branch, then the variants of further branches, each once."""
        tips = self._list_further_tips(tip)
        self.branches = tuple(tips)
        own = {_identify(line): line for line in self._stream_tree(tip)}
        absent, present = defaultdict[bytes, list[str]](list), defaultdict[bytes, list[str]](list)
        variants: dict[bytes, bytes] = {}
        repository = self._mirror.repository
        for name, commit in tips.items():
            if commit == tip:
                continue
            lines = {_identify(line): line for line in self._stream_tree(commit)}
            for file in own.keys() - lines.keys():
                absent[file].append(name)
            for file in lines.keys() - own.keys():
                present[file].append(name)
                variants.setdefault(file, lines[file])
        for file, line in own.items():
            entry = self._to_entry(line, newest, absent=absent.get(file, ()))
            if isinstance(entry, FileEntry):
                yield entry
            else:
                self._selection.count(entry)
        for name, commit in tips.items():
            firsts = sorted(file for file, names in present.items() if names[0] == name)
            if not firsts:
                continue
            newest = (
                read_newest_commits(repository, commit, base=tip, grafts=read_grafts(repository))
                if is_pull_name(name)
                else self._load_newest_commits(commit, name)
            )
            for file in firsts:
                entry = self._to_entry(variants[file], newest, present=present[file])
                if isinstance(entry, FileEntry):
                    yield entry

    def _list_further_tips(self, tip: str) -> dict[str, str]:
        """The newest commits of further branches, by name, then of pull requests, by number."""
        branches = self._mirror.list_branches()
        further = [name for name in sorted(branches) if matches_any(name, self._further)]
        tips = {name: branches[name] for name in further if name != self._branch}
        if not select_pull_patterns(self._further):
            return tips
        open_names = self._list_open_pulls() if self._list_open_pulls else None
        pulls = self._mirror.update_pulls(self._further, tip=tip, open_names=open_names)
        return tips | {name: commit for name, commit in pulls.items() if name not in branches}

    def _stream_tree(self, commit: str) -> Iterator[bytes]:
        arguments = ["ls-tree", "-r", "-z", "-l", "--full-tree", commit]
        return stream_git(arguments, repository=self._mirror.repository)

    def _load_newest_commits(self, tip: str, branch: str | None) -> NewestCommits:
        repository, folder = self._mirror.repository, self._mirror.folder
        remembered = self._memory.commits
        return load_newest_commits(repository, tip, branch=branch, cache=folder, remembered=remembered)

    def _to_entry(
        self, line: bytes, newest: NewestCommits, *, absent: Sequence[str] = (), present: Sequence[str] = ()
    ) -> FileEntry | LeftOut | None:
        """Where it is not wanted, what it is counted as.

        `absent` names branches that lack the file, `present` those that have it as a variant.
        """
        attributes, _, name = line.partition(b"\t")
        mode, _, object_id, size = attributes.decode("ascii").split()
        path = decode_path(name)
        if mode != "160000" and self._selection.is_pruned(path.rpartition("/")[0]):
            return self._selection.find_left_out(path)
        commit = newest.get(path, (0, ""))[1]  # empty where none touched it
        revision, locator = f"{object_id}:{commit[:12]}", f"{object_id}:{commit}"
        if absent or present:
            noted = json.dumps({BRANCHES_KEY: present} if present else {ABSENT_KEY: absent})
            revision, locator = f"{revision}:{hash_strings(noted)[:12]}", f"{locator}:{noted}"
        if present and not mode.startswith("100"):
            return None  # what cannot be read is no variant of anything
        if mode == "160000":
            is_pruned = self._selection.is_pruned(path)
            return None if is_pruned else FileEntry(path, 0, revision, locator, SUBMODULE_REASON)
        if mode == "120000" and self._selection.is_plain_text(path):
            return self._selection.find_left_out(path, is_link=True)  # to a folder, as likely as not
        if not self._selection.accepts(path, executable=mode == "100755"):
            return self._selection.find_left_out(path)
        skip, variant = SYMLINK_REASON if mode == "120000" else None, object_id if present else ""
        return FileEntry(path, int(size), revision, locator, skip, variant)

    def _read_object(self, object_id: str) -> bytes:
        try:
            return self._objects.read(object_id)
        except GitError as failure:
            raise self._mirror.mark_broken(failure) from failure


def _identify(line: bytes) -> bytes:
    """Blob and path of a line of `git ls-tree`: what makes a file the same in two branches."""
    attributes, _, name = line.partition(b"\t")
    return attributes.split()[2] + b"\t" + name


class WikiPages(Source):
    """The pages of a wiki of GitHub or GitLab: the `files` of its repository, with their names and addresses.

    A page is named by its file, whatever its first heading says.
    """

    def __init__(self, files: Source, connection: WikiConnection) -> None:
        self._files, self._connection = files, connection

    def discover(self) -> Iterator[Item]:
        """Every page, as `files` lists it."""
        for item in self._files.discover():
            yield replace(item, revision=f"{item.revision}+wiki{_PAGE_FORMAT_VERSION}")

    def fetch(self, item: Item) -> Document:
        """Read one page."""
        document = self._files.fetch(item)
        name = posixpath.splitext(document.path)[0]
        base = posixpath.basename(name)
        address = self._connection.pages + quote(base if self._connection.is_flat else name)
        return replace(document, title=base.replace("-", " "), url=address)

    def close(self) -> None:
        """Free what the files opened."""
        self._files.close()
