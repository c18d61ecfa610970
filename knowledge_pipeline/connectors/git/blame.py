"""Who last changed the lines of a file: `git blame` on demand, for a few lines at a commit.

Format: https://git-scm.com/docs/git-blame, "the porcelain format".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge_pipeline.config.connections import GitConnection, LocalConnection
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.git.command import (
    CommitSummary,
    build_remote,
    find_git_folder,
    find_repository,
    parse_commit,
    read_grafts,
    resolve_commit,
    run_git,
)
from knowledge_pipeline.connectors.git.mirror import Mirror

_TIMEOUT_S = 10.0  # of one command
_MAX_COMMITS = 20  # of a file, that are looked through for its text as indexed


@dataclass(frozen=True, slots=True)
class Checkout:
    """A repository of this machine, the commit it stands at, and where in it a source's files are."""

    repository: Path
    commit: str
    prefix: str = ""  # "src/", or nothing for the root
    grafts: frozenset[str] = frozenset()  # commits whose parents a shallow clone lacks


@dataclass(frozen=True, slots=True)
class BlamedRange:
    """Consecutive lines, counted from 1, that one commit wrote."""

    first_line: int
    last_line: int
    commit: str


def find_checkout(source: SourceConfig, cache: Path) -> Checkout | None:
    """The repository that a source's files are from, as it is here; None where it has none."""
    connection = source.connection
    if isinstance(connection, LocalConnection):
        if (location := find_repository(connection.path)) is None:
            return None
        repository, prefix = location
        tip = resolve_commit("HEAD", repository, timeout_s=_TIMEOUT_S)
        return Checkout(repository, tip, prefix, read_grafts(find_git_folder(repository)))
    if not isinstance(connection, GitConnection):
        return None
    mirror = Mirror(build_remote(connection), cache)
    tip = mirror.resolve_tip(connection.branch) if mirror.repository.is_dir() else None
    return Checkout(mirror.repository, tip, grafts=read_grafts(mirror.repository)) if tip else None


def find_commit_with(checkout: Checkout, path: str, matches: Callable[[str], bool]) -> str | None:
    """The newest commit in which the text of a file matches; None if the last few have no such text."""
    repository, name = checkout.repository, f"{checkout.prefix}{path}"
    listing = ["rev-list", f"--max-count={_MAX_COMMITS}", checkout.commit, "--", f":(literal){name}"]
    for commit in run_git(listing, repository=repository, timeout_s=_TIMEOUT_S).decode("ascii").split():
        requests = f"{commit}:{name}\n".encode("utf-8", "surrogateescape")
        answer = run_git(["cat-file", "--batch"], repository=repository, stdin=requests, timeout_s=_TIMEOUT_S)
        header, _, content = answer.partition(b"\n")
        is_blob = header.split()[1:2] == [b"blob"]
        if is_blob and matches(content[:-1].decode("utf-8", "replace").replace("\r\n", "\n")):
            return commit
    return None


def blame_lines(checkout: Checkout, commit: str, path: str, first: int, last: int) -> list[BlamedRange]:
    """The commits that wrote some lines of a file as it is in a commit; raises GitError.

    Lines that a shallow clone has from before its oldest commits are left out.
    """
    options = ["--porcelain", "-L", f"{first},{last}", commit, "--", f"{checkout.prefix}{path}"]
    output = run_git(["blame", *options], repository=checkout.repository, timeout_s=_TIMEOUT_S)
    ranges = _join_ranges(output.split(b"\n"))
    return [range_ for range_ in ranges if range_.commit not in checkout.grafts]


def read_commits(checkout: Checkout, commits: list[str]) -> dict[str, CommitSummary]:
    """What some commits say of themselves; raises GitError."""
    requests = "".join(f"{commit}\n" for commit in commits).encode("ascii")
    output = run_git(
        ["cat-file", "--batch"], repository=checkout.repository, stdin=requests, timeout_s=_TIMEOUT_S
    )
    summaries: dict[str, CommitSummary] = {}
    for commit in commits:
        header, _, output = output.partition(b"\n")
        size_bytes = int(header.split()[2])
        raw, output = output[:size_bytes], output[size_bytes + 1 :]
        summaries[commit] = parse_commit(raw)
    return summaries


def _join_ranges(lines: list[bytes]) -> Iterator[BlamedRange]:
    """A range for each run of lines of one commit; a header is `<commit> <old line> <line> [<lines>]`."""
    current: BlamedRange | None = None
    is_header = True
    for line in lines:
        if line.startswith(b"\t"):  # the line itself ends its entry
            is_header = True
        elif is_header and line:
            is_header = False
            commit, number = line.split()[0].decode("ascii"), int(line.split()[2])
            if current and current.commit == commit and current.last_line == number - 1:
                current = BlamedRange(current.first_line, number, commit)
                continue
            if current:
                yield current
            current = BlamedRange(number, number, commit)
    if current:
        yield current
