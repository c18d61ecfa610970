"""The last commit of every file of a tree, as `git log -1 -- <file>` names it, by one pass over the history.

Backwards from the tip, each file follows the first parent that has it as it is; the commit in which no parent
has it so is its last one. As that depends on the tip alone, a pass that ends where an earlier one began gives
the same result as the whole history. Results are cached in files.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Generator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

from knowledge_pipeline.connectors.base import decode_path
from knowledge_pipeline.connectors.files import CachedCommits, NewestCommits
from knowledge_pipeline.connectors.git.command import GitError, limit_to, read_grafts, run_git, stream_git

_CACHE_VERSION = 2  # of the files with the newest commits
_MAX_REMEMBERED_PATHS = 100_000  # of a branch, some 25 MB
_MAX_UNSAVED_PATHS = 100  # touched since a file was written, which holds all paths
_COMMIT_MARK = b"//"  # begins a comparison; no path in a repository begins with a slash
_COMPARISON = (
    *("diff-tree", "--stdin", "--always", "-r", "-z", "--name-only", "--no-renames", "--format=tformat://"),
    *("--no-ext-diff", "--no-textconv", "--no-color"),
)

_Paths = dict[bytes, set[bytes]]
"""By the id of a commit: files of the tip that are as they are in it."""


def load_newest_commits(
    repository: Path,
    tip: str,
    *,
    branch: str | None,
    cache: Path,
    remembered: dict[Path, CachedCommits] | None = None,
    prefix: str = "",
) -> NewestCommits:
    """The last commit of every file of a tip; raises GitError.

    A file of a commit whose parents a shallow clone lacks has none, as older ones may have made it.

    Args:
        repository: the folder of git that all of its worktrees have in common.
        tip: the whole id of a commit.
        branch: what the tip is called; each has a cached file.
        cache: the folder of cached files.
        remembered: what these hold, as far as it was read before.
        prefix: the folder whose files are wanted: "src/", or nothing for all.
    """
    name = "\0".join([branch or "", *([prefix] if prefix else [])])
    file = cache / f"touched-{sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}.json"
    remembered = {} if remembered is None else remembered
    grafts = read_grafts(repository)
    latest = remembered.get(file)
    # What is remembered may be of a branch that was left again, and the file of where it began.
    candidates = (_load_cache(file, it) for it in ([latest, None] if latest else [None]))
    usable = (it for it in candidates if it and it.grafts == grafts and _leads_to(it.tip, tip, repository))
    cached = next(usable, None)
    if cached and cached.tip == tip:
        remembered[file] = cached
        return cached.commits
    base, commits = (cached.tip, cached.commits) if cached else (None, {})
    newest = read_newest_commits(repository, tip, base=base, earlier=commits, prefix=prefix, grafts=grafts)
    unsaved = len(find_touched(commits, newest)) + (cached.unsaved if cached else 0)
    if cached and unsaved <= _MAX_UNSAVED_PATHS:  # the next process reads these few commits again
        cached = cached._replace(tip=tip, commits=newest, unsaved=unsaved)
    else:
        cached = _save_cache(file, tip, newest, grafts)
    if len(newest) <= _MAX_REMEMBERED_PATHS:
        remembered[file] = cached
    return newest


def _leads_to(commit: str, tip: str, repository: Path) -> bool:
    """Whether a commit is an ancestor; it may be gone since a force push."""
    if commit == tip:
        return True
    try:
        run_git(["merge-base", "--is-ancestor", commit, tip], repository=repository)
    except GitError:
        return False
    return True


def find_touched(before: NewestCommits, now: NewestCommits) -> set[str]:
    """The paths whose newest commit is another one."""
    touched = {path for path, commit in now.items() if before.get(path) != commit}
    return touched.union(before.keys() - now.keys())


def read_newest_commits(
    repository: Path,
    tip: str,
    *,
    base: str | None,
    earlier: NewestCommits | None = None,
    prefix: str = "",
    grafts: frozenset[str] = frozenset(),
) -> NewestCommits:
    """The last commit of every file of a tip, read; raises GitError.

    Args:
        base: an ancestor of the tip.
        earlier: the last commits of the files of `base`; without them, only files that commits since the base
            have touched are in the result.
        grafts: commits whose parents are missing.
    """
    pass_ = _HistoryPass(repository, prefix, grafts)
    listing = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", tip, *limit_to(prefix)]
    paths = set(stream_git(listing, repository=repository))
    rest = pass_.follow({tip.encode("ascii"): paths}, since=base)
    if base is not None and earlier is not None:
        older: set[bytes] = set()
        for path in rest.pop(base.encode("ascii"), ()):
            if (commit := earlier.get(decode_path(path))) is not None:
                pass_.newest[decode_path(path)] = commit
            else:  # as no file that we wrote has it
                older.add(path)
        # A merge may have taken a file from before the base, past what the base has of it.
        pass_.follow(rest | ({base.encode("ascii"): older} if older else {}), since=None)
    return pass_.newest


class _HistoryPass:
    """Follows files through the history, and takes down their last commits."""

    def __init__(self, repository: Path, prefix: str, grafts: frozenset[str]) -> None:
        self._repository = repository
        self._comparison = [*_COMPARISON, *limit_to(prefix)]
        self._grafts = {commit.encode("ascii") for commit in grafts}
        self.newest: NewestCommits = {}

    def follow(self, pending: _Paths, *, since: str | None) -> _Paths:
        """Follow files back from where they are; those whose last commit is none since a commit are left."""
        if not pending:
            return {}
        starts = b"".join(commit + b"\n" for commit in pending)
        listing = ["rev-list", "--topo-order", "--parents", "--timestamp", "--stdin"]
        starts += f"^{since}\n".encode("ascii") if since else b""
        commits = run_git(listing, repository=self._repository, stdin=starts)
        with closing(self._compare_all(commits)) as comparisons:
            for line in commits.splitlines():
                seconds, commit, *parents = line.split()
                paths = pending.pop(commit, set())
                for parent in parents:
                    if (others := next(comparisons, None)) is None:
                        raise GitError("git compared fewer commits than it was asked for")
                    changed = paths.intersection(others)
                    paths -= changed
                    _hand_over(pending, parent, paths)
                    paths = changed
                last = (0, "") if commit in self._grafts else (int(seconds), commit.decode("ascii"))
                self.newest.update(dict.fromkeys(map(decode_path, paths), last))
                if not pending:
                    break
        return pending

    def _compare_all(self, commits: bytes) -> Generator[list[bytes]]:
        """For each commit, and each of its parents: the files that are otherwise in the two."""
        pairs = (line.split()[1:] for line in commits.splitlines())
        requests = b"".join(b"%b %b\n" % (commit, it) for commit, *parents in pairs for it in parents)
        changed: list[bytes] | None = None
        with closing(stream_git(self._comparison, repository=self._repository, stdin=requests)) as fields:
            for field in fields:
                if field == _COMMIT_MARK:
                    if changed is not None:
                        yield changed
                    changed = []
                elif changed is not None and field:
                    # git puts one line feed between a comparison's mark and its first path
                    changed.append(field if changed else field.removeprefix(b"\n"))
        if changed is not None:
            yield changed


def _hand_over(pending: _Paths, parent: bytes, paths: set[bytes]) -> None:
    """Files that a parent has as they are; the larger set stays, as most files pass most commits."""
    if not paths:
        return
    there = pending.get(parent, set())
    larger, smaller = (paths, there) if len(paths) > len(there) else (there, paths)
    larger |= smaller
    pending[parent] = larger


def _load_cache(file: Path, remembered: CachedCommits | None) -> CachedCommits | None:
    if remembered and remembered.stamp == _read_stamp(file):
        return remembered
    try:
        with file.open("rb") as opened:
            stamp, cached = _to_stamp(os.fstat(opened.fileno())), json.load(opened)
        if cached["format"] == _CACHE_VERSION:
            newest: NewestCommits = {}
            for commit, (seconds, paths) in cached["commits"].items():
                newest |= dict.fromkeys(paths, (int(seconds), commit))
            return CachedCommits(stamp, cached["tip"], newest, grafts=frozenset(cached["grafts"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # missing or damaged: a cache is made anew
    return None


def _save_cache(file: Path, tip: str, newest: NewestCommits, grafts: frozenset[str]) -> CachedCommits:
    by_commit: dict[str, tuple[int, list[str]]] = {}
    for path, (seconds, commit) in newest.items():
        by_commit.setdefault(commit, (seconds, []))[1].append(path)
    content = {"format": _CACHE_VERSION, "tip": tip, "grafts": sorted(grafts), "commits": by_commit}
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{file.name}.", dir=file.parent)
    with os.fdopen(handle, "w", encoding="ascii") as new:
        new.write(json.dumps(content, separators=(",", ":")))
    stamp = _read_stamp(Path(name))
    Path(name).replace(file)
    return CachedCommits(stamp, tip, newest, grafts=grafts)


def _read_stamp(file: Path) -> tuple[int, ...]:
    """Identifies a file and its content; empty where there is none."""
    with suppress(OSError):
        return _to_stamp(file.stat())
    return ()


def _to_stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns
