"""The newest commit that touched each path of a branch, cached next to the mirror.

"Newest" is the greatest (time of commit, id) among the commits that can be reached from
the tip and whose diff names the path; a merge names only what it changed against all of
its parents. As it is a maximum, the result at an ancestor of the tip and the commits since
give the same result as the whole history.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from cachetools import LRUCache

from knowledge_pipeline.sources.git.command import GitError, run_git, stream_git
from knowledge_pipeline.sources.path_encoding import decode_path

_FORMAT_VERSION = 1
_MAX_REMEMBERED_PATHS = 100_000  # of all branches, some 25 MB
_MAX_UNSAVED_PATHS = 100  # touched since a file was written, which holds all paths
_COMMIT_MARK = b"//"  # begins a commit's field; no path in a repository begins with a slash

NewestCommits = dict[str, tuple[int, str]]
"""Path to (seconds since 1970, commit id)."""


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


def load_newest_commits(repository: Path, tip: str, *, branch: str | None, cache: Path) -> NewestCommits:
    """The newest commit of every path that any commit up to `tip` touched.

    Args:
        repository: the git folder.
        tip: id of a commit.
        branch: names the cached file, one for each branch.
        cache: folder of the cached files, made if missing.

    Raises:
        GitError: the history cannot be read.
    """
    file = cache / f"touched-{sha256((branch or '').encode()).hexdigest()[:12]}.json"
    known = _load_cache(file)
    if known and known.tip == tip:
        return known.commits
    if known and not _is_ancestor(repository, known.tip, tip):
        known = None
    base, commits = (known.tip, known.commits) if known else (None, {})
    newest = read_newest_commits(repository, tip, base=base, known=commits)
    unsaved = len(find_touched(commits, newest)) + (known.unsaved if known else 0)
    if known and unsaved <= _MAX_UNSAVED_PATHS:  # the next process reads these few commits again
        _remember(file, known._replace(tip=tip, commits=newest, unsaved=unsaved))
    else:
        _save_cache(file, tip, newest)
    return newest


def find_touched(before: NewestCommits, now: NewestCommits) -> set[str]:
    """The paths whose newest commit is another one."""
    touched = {path for path, commit in now.items() if before.get(path) != commit}
    return touched.union(before.keys() - now.keys())


def read_newest_commits(
    repository: Path, tip: str, *, base: str | None, known: NewestCommits | None = None
) -> NewestCommits:
    """The newest commit of every path, of `known` and of the commits since `base`.

    Raises GitError where the history cannot be read.
    """
    newest = dict(known or {})
    since = [f"^{base}"] if base else []
    for path, when, commit in iter_touched_paths(repository, ["-c", tip, *since]):
        if (when, commit) > newest.get(path, (-(1 << 63), "")):
            newest[path] = (when, commit)
    return newest


def iter_touched_paths(repository: Path, revisions: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Path, time (seconds since 1970) and id for each file that a commit names; the newest commit first.

    Args:
        repository: the git folder.
        revisions: which commits, and how merges are compared, as `git log` takes them.

    Raises:
        GitError: the history cannot be read.
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


def _is_ancestor(repository: Path, older: str, newer: str) -> bool:
    try:
        run_git(["merge-base", "--is-ancestor", older, newer], repository=repository)
    except GitError:  # it is not, or is gone since a force push
        return False
    return True


def _load_cache(file: Path) -> _CachedFile | None:
    with _cached_files_lock:
        known = _cached_files.get(file)
    if known and known.stamp == _read_stamp(file):
        return known
    try:
        with file.open("rb") as opened:
            stamp, cached = _to_stamp(os.fstat(opened.fileno())), json.load(opened)
        if cached["format"] == _FORMAT_VERSION:
            commits = {path: (when, commit) for path, (when, commit) in cached["paths"].items()}
            return _remember(file, _CachedFile(stamp, cached["tip"], commits))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # missing or damaged: a cache is made anew
    return None


def _save_cache(file: Path, tip: str, commits: NewestCommits) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"format": _FORMAT_VERSION, "tip": tip, "paths": commits}, separators=(",", ":"))
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


def _to_stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns
