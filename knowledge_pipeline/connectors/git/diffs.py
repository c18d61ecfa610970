"""What commits changed: files, lines, and excerpts of the diff."""

from __future__ import annotations

import os
import secrets
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from knowledge_pipeline.child_process import ChildProcess
from knowledge_pipeline.connectors.base import decode_path, format_path
from knowledge_pipeline.connectors.git.command import GitError, build_command, build_environment

MAX_DIFF_BYTES = 1_000_000  # of one commit's diff; what comes after is not read
TIMEOUT_S = 120.0
_EXCERPT_FILES, _EXCERPT_LINES, _EXCERPT_LINE_CHARS = 12, 20, 200
_OPTIONS = (
    *("--stdin", "-r", "--root", "--no-commit-id", "--numstat", "-p", "-U1", "-M", "-z"),
    *("--no-ext-diff", "--no-textconv", "--no-color"),
    *("--diff-algorithm=myers", "--src-prefix=a/", "--dst-prefix=b/"),
)


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file of a commit."""

    path: str
    old_path: str | None  # where it was, if it was renamed
    insertions: int | None  # lines; None: binary
    deletions: int | None


@dataclass(frozen=True, slots=True)
class Diff:
    """What one commit changed against its first parent."""

    files: tuple[ChangedFile, ...]
    patch: str  # git's own text, one line around each change; may end early


class DiffReader(ChildProcess):
    """Reads diffs through one lasting `git diff-tree`."""

    def __init__(self, repository: Path) -> None:
        command = build_command(["-c", "core.bigFileThreshold=2m", "diff-tree", *_OPTIONS], repository)
        super().__init__(command, build_environment(), own_session=True, bufsize=0)

    def read(self, commit: str, first_parent: str | None) -> Diff:
        """The diff of a commit against its first parent, or against nothing.

        Raises:
            GitError: the repository lacks what is compared, or it took too long.
        """
        with self._lock:
            child = self._ensure_started()
            watchdog = threading.Timer(TIMEOUT_S, child.kill)
            watchdog.start()
            try:
                raw, ended = self._ask_git(child, f"{commit} {first_parent}" if first_parent else commit)
            finally:
                watchdog.cancel()
            if not ended:
                self._stop()
            if not ended and len(raw) <= MAX_DIFF_BYTES:
                raise GitError(f"the diff of commit {commit} cannot be read")
        return _parse_diff(raw)

    def _ask_git(self, child: subprocess.Popen[bytes], request: str) -> tuple[bytes, bool]:
        """The output up to the mark, which git echoes as it is not a commit, and whether the mark came."""
        assert child.stdin is not None and child.stdout is not None
        mark = f"//end {secrets.token_hex(8)}\n".encode("ascii")
        try:
            child.stdin.write(request.encode("ascii") + b"\n" + mark)
            child.stdin.flush()
        except BrokenPipeError:
            return b"", False
        raw = bytearray()
        while not raw.endswith(mark) and len(raw) <= MAX_DIFF_BYTES + len(mark):
            if not (block := os.read(child.stdout.fileno(), 1 << 16)):
                return b"", False
            raw += block
        return bytes(raw.removesuffix(mark)), raw.endswith(mark)


def _parse_diff(raw: bytes) -> Diff:
    """Counts of lines, NUL-separated, then an empty field, then the patch."""
    files: list[ChangedFile] = []
    at = 0
    while at < len(raw) and raw[at] != 0:
        end = raw.find(b"\0", at)
        if end < 0:
            break
        *counts, name = raw[at:end].split(b"\t", 2)
        at, old = end + 1, None
        if not name:  # renamed: the old and the new name follow
            old_name, name, rest = [*raw[at:].split(b"\0", 2), b"", b""][:3]
            old, at = format_path(decode_path(old_name)), len(raw) - len(rest)
        inserted, deleted = (int(number) if number.isdigit() else None for number in counts)
        files.append(ChangedFile(format_path(decode_path(name)), old, inserted, deleted))
    return Diff(tuple(files), raw[at + 1 :].decode("utf-8", "replace"))


def iter_excerpts(patch: str) -> Iterator[tuple[str, str]]:
    """For the first files of a patch: the path, and its first hunk lines, cut to the limits."""
    sections = (section.partition("\n@@ ") for section in ("\n" + patch).split("\ndiff --git ")[1:])
    # without hunks, it is binary, renamed or emptied: nothing to show
    with_hunks = (section for section in sections if section[1])
    for head, _, hunks in islice(with_hunks, _EXCERPT_FILES):
        body = f"@@ {hunks}".split("\n")
        body = [line[:_EXCERPT_LINE_CHARS] for line in body if not line.startswith("\\ ")]
        shortened = ["..."] if len(body) > _EXCERPT_LINES else []
        yield _parse_section_path(head), "\n".join([*body[:_EXCERPT_LINES], *shortened]).rstrip("\n")


def _parse_section_path(head: str) -> str:
    paths = [line[4:].rstrip("\t") for line in head.split("\n") if line.startswith(("--- ", "+++ "))]
    path = next((path for path in reversed(paths) if path != "/dev/null"), "")
    return path.removeprefix('"').removesuffix('"')[2:]
