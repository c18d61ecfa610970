"""Files of a git repository at the tip of one branch, and what further ones have otherwise, by the mirror.

The newest commit of each path is cached next to the mirror. "Newest" is the greatest (time of commit, id)
among the commits that can be reached from the tip and whose diff names the path; a merge names only what it
changed against all of its parents. As it is a maximum, the result at an ancestor of the tip and the commits
since give the same result as the whole history.
"""

from __future__ import annotations

import json
import os
import posixpath
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from cachetools import LRUCache

from knowledge_pipeline.config.connections import WikiConnection
from knowledge_pipeline.connectors.base import Source, decode_path, format_too_large
from knowledge_pipeline.connectors.files import (
    SUBMODULE_REASON,
    SYMLINK_REASON,
    FileContent,
    FileEntry,
)
from knowledge_pipeline.connectors.git.command import (
    GitError,
    ObjectReader,
    parse_commit,
    run_git,
    stream_git,
)
from knowledge_pipeline.connectors.git.mirror import Mirror
from knowledge_pipeline.connectors.patterns import FileSelection
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

NewestCommits = dict[str, tuple[int, str]]
"""Path to (seconds since 1970, commit id)."""

_PAGE_FORMAT_VERSION = "1"  # changes whenever the same file may make another page of a wiki
_CACHE_VERSION = 1  # of the files with the newest commits
_MAX_REMEMBERED_PATHS = 100_000  # of all branches, some 25 MB
_MAX_UNSAVED_PATHS = 100  # touched since a file was written, which holds all paths
_COMMIT_MARK = b"//"  # begins a commit's field; no path in a repository begins with a slash
_MAX_PEEK_BYTES = 64_000_000  # a larger file is not read to see what it is
_MAX_REMEMBERED_LINES = 100_000  # of all trees, some 50 MB


class _ListedTree(NamedTuple):
    """What the lines of a listing became, None where a file is not wanted."""

    selection: FileSelection
    newest: NewestCommits
    entries: Mapping[bytes, FileEntry | None]


_listed_trees: LRUCache[tuple[Path, str | None, int], _ListedTree] = LRUCache(
    _MAX_REMEMBERED_LINES, getsizeof=lambda tree: len(tree.entries)
)
"""By repository, branch and the identity of the selection: most lines are those of the listing before."""
_listed_trees_lock = threading.Lock()


class _CachedFile(NamedTuple):
    """What a cached file holds; never changed."""

    stamp: tuple[int, ...]  # of the file, which is replaced, not written again
    tip: str
    commits: NewestCommits
    unsaved: int = 0  # paths that were touched since the file was written


_cached_files: LRUCache[Path, _CachedFile] = LRUCache(
    _MAX_REMEMBERED_PATHS, getsizeof=lambda cached: len(cached.commits)
)
_cached_files_lock = threading.Lock()


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
        self.key = mirror.repository, branch, id(selection)
        """Of the listing, whose entries the next one has again as far as they are the same."""

    def list_entries(self) -> Iterator[FileEntry]:
        """Fetch, then every wanted file in git's order; none if nothing was ever committed."""
        self._objects.close()  # it may hold open a mirror that is about to be replaced
        self._mirror.update()
        self.branches = ()
        if (tip := self._mirror.resolve_tip(self._branch)) is None:
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
        del path  # the blob's id says it all
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
        with _listed_trees_lock:
            listed = _listed_trees.get(self.key, _ListedTree(self._selection, newest, {}))
        earlier, touched = listed.entries, find_touched(listed.newest, newest)
        entries = dict[bytes, FileEntry | None]()
        for line in self._stream_tree(tip):
            entry = earlier.get(line)
            is_current = line in earlier if entry is None else entry.path not in touched
            entries[line] = entry = entry if is_current else self._to_entry(line, newest)
            if entry is not None:
                yield entry
        if len(entries) <= _MAX_REMEMBERED_LINES:
            with _listed_trees_lock:
                _listed_trees[self.key] = _ListedTree(self._selection, newest, entries)

    def _list_branches(self, tip: str, newest: NewestCommits) -> Iterator[FileEntry]:
        """The files of the branch, then the variants of further branches, each once."""
        tips = self._list_further_tips(tip)
        self.branches = tuple(tips)
        own = {_identify(line): line for line in self._stream_tree(tip)}
        absent, present = defaultdict[bytes, list[str]](list), defaultdict[bytes, list[str]](list)
        variants: dict[bytes, bytes] = {}
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
            if entry := self._to_entry(line, newest, absent=absent.get(file, ())):
                yield entry
        for name, commit in tips.items():
            firsts = sorted(file for file, names in present.items() if names[0] == name)
            if not firsts:
                continue
            newest = (
                read_newest_commits(self._mirror.repository, commit, base=tip)
                if is_pull_name(name)
                else self._load_newest_commits(commit, name)
            )
            for file in firsts:
                if entry := self._to_entry(variants[file], newest, present=present[file]):
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
        return load_newest_commits(self._mirror.repository, tip, branch=branch, cache=self._mirror.folder)

    def _to_entry(
        self,
        line: bytes,
        newest_commits: NewestCommits,
        *,
        absent: Sequence[str] = (),
        present: Sequence[str] = (),
    ) -> FileEntry | None:
        """None where it is not wanted.

        `absent` names branches that lack the file, `present` those that have it as a variant.
        """
        attributes, _, name = line.partition(b"\t")
        mode, _, object_id, size = attributes.decode("ascii").split()
        path = decode_path(name)
        if self._selection.is_pruned(path.rpartition("/")[0]):
            return None
        commit = newest_commits.get(path, (0, ""))[1]  # empty where none touched it
        revision, locator = f"{object_id}:{commit[:12]}", f"{object_id}:{commit}"
        if absent or present:
            noted = json.dumps({BRANCHES_KEY: present} if present else {ABSENT_KEY: absent})
            revision, locator = f"{revision}:{hash_strings(noted)[:12]}", f"{locator}:{noted}"
        if present and not mode.startswith("100"):
            return None  # what cannot be read is no variant of anything
        if mode == "160000":
            is_pruned = self._selection.is_pruned(path)
            return None if is_pruned else FileEntry(path, 0, revision, locator, SUBMODULE_REASON)
        if not self._selection.accepts(path, executable=mode == "100755"):
            return None
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


def load_newest_commits(repository: Path, tip: str, *, branch: str | None, cache: Path) -> NewestCommits:
    """The newest commit of every path that any commit up to `tip` touched; raises GitError.

    `cache` is the folder of cached files, one for each `branch`.
    """
    file = cache / f"touched-{sha256((branch or '').encode()).hexdigest()[:12]}.json"
    cached = _load_cache(file)
    if cached and cached.tip == tip:
        return cached.commits
    if cached:
        try:
            run_git(["merge-base", "--is-ancestor", cached.tip, tip], repository=repository)
        except GitError:  # it is no ancestor, or is gone since a force push
            cached = None
    base, commits = (cached.tip, cached.commits) if cached else (None, {})
    newest = read_newest_commits(repository, tip, base=base, earlier=commits)
    unsaved = len(find_touched(commits, newest)) + (cached.unsaved if cached else 0)
    if cached and unsaved <= _MAX_UNSAVED_PATHS:  # the next process reads these few commits again
        _remember(file, cached._replace(tip=tip, commits=newest, unsaved=unsaved))
    else:
        _save_cache(file, tip, newest)
    return newest


def find_touched(before: NewestCommits, now: NewestCommits) -> set[str]:
    """The paths whose newest commit is another one."""
    touched = {path for path, commit in now.items() if before.get(path) != commit}
    return touched.union(before.keys() - now.keys())


def read_newest_commits(
    repository: Path, tip: str, *, base: str | None, earlier: NewestCommits | None = None
) -> NewestCommits:
    """The newest commit of every path, of `earlier` and of the commits since `base`; raises GitError."""
    newest = dict(earlier or {})
    since = [f"^{base}"] if base else []
    for path, when, commit in iter_touched_paths(repository, ["-c", tip, *since]):
        if (when, commit) > newest.get(path, (-(1 << 63), "")):
            newest[path] = (when, commit)
    return newest


def iter_touched_paths(repository: Path, revisions: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Path, time (seconds since 1970) and id for each file that a commit names; the newest commit first.

    `revisions` are which commits, and how merges are compared, as `git log` takes them. Raises GitError.
    """
    output = ["-z", "--root", "--name-only", "--no-renames", "--format=tformat://%H %ct"]
    plain = ["--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature", "--no-notes"]
    arguments = ["log", *output, *plain, *revisions, "--"]
    commit, when, first = "", 0, False
    for entry in stream_git(arguments, repository=repository):
        if entry.startswith(_COMMIT_MARK):
            commit_id, _, seconds = entry[2:].decode("ascii").partition(" ")
            commit, when, first = commit_id, int(seconds or 0), True
        elif entry:
            # git puts one line feed between a commit and its first path
            yield decode_path(entry.removeprefix(b"\n") if first else entry), when, commit
            first = False


def _load_cache(file: Path) -> _CachedFile | None:
    with _cached_files_lock:
        remembered = _cached_files.get(file)
    if remembered and remembered.stamp == _read_stamp(file):
        return remembered
    try:
        with file.open("rb") as opened:
            stamp, cached = _to_stamp(os.fstat(opened.fileno())), json.load(opened)
        if cached["format"] == _CACHE_VERSION:
            commits = {path: (when, commit) for path, (when, commit) in cached["paths"].items()}
            return _remember(file, _CachedFile(stamp, cached["tip"], commits))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # missing or damaged: a cache is made anew
    return None


def _save_cache(file: Path, tip: str, commits: NewestCommits) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"format": _CACHE_VERSION, "tip": tip, "paths": commits}, separators=(",", ":"))
    handle, name = tempfile.mkstemp(prefix=f"{file.name}.", dir=file.parent)
    with os.fdopen(handle, "w", encoding="ascii") as new:
        new.write(content)
    stamp = _read_stamp(Path(name))
    Path(name).replace(file)
    _remember(file, _CachedFile(stamp, tip, commits))


def _remember(file: Path, cached: _CachedFile) -> _CachedFile:
    if len(cached.commits) <= _MAX_REMEMBERED_PATHS:
        with _cached_files_lock:
            _cached_files[file] = cached
    return cached


def _read_stamp(file: Path) -> tuple[int, ...]:
    """Identifies a file and its content; empty where there is none."""
    with suppress(OSError):
        return _to_stamp(file.stat())
    return ()


def _to_stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns
