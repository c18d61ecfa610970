"""The history of a repository, newest first: one document per commit.

A document has the message, the author, what changed, and excerpts of the diff.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from knowledge_pipeline.child_process import ChildProcess
from knowledge_pipeline.config.connections import strip_credentials
from knowledge_pipeline.connectors.base import Source, decode_path, format_path
from knowledge_pipeline.connectors.git.command import (
    CommitSummary,
    GitError,
    ObjectReader,
    build_command,
    build_environment,
    find_git_folder,
    find_repository,
    git_folder_of,
    limit_to,
    parse_commit,
    read_grafts,
    read_head,
    run_git,
    stream_git,
)
from knowledge_pipeline.connectors.git.mirror import Mirror
from knowledge_pipeline.connectors.patterns import ChangedPaths
from knowledge_pipeline.errors import KnowledgeError, SourceRefused
from knowledge_pipeline.extraction.text_decoding import add_note, decode_bytes, fingerprint_encoding
from knowledge_pipeline.file_languages import DATA_LANGUAGES, detect_language
from knowledge_pipeline.records import Document, Item, hash_strings
from knowledge_pipeline.times import parse_since

_FORMAT_VERSION = "2"
_COMMIT_MARK = b"//"  # begins a commit's field; no path in a repository begins with a slash
_MAX_FILES = 200  # named in the text and in the metadata
_MAX_PATCH_CHARS = 4_000
_LANGUAGES_WITHOUT_EXCERPT = DATA_LANGUAGES | {None}  # drawings, lock files, fixtures
_TRAILER = re.compile(
    r"^(?P<name>[A-Z][\w-]*-by: [^<\n]{0,200}?)[ \t]{0,8}<[^<>\s]+@[^<>\s]+>[ \t]*$", re.MULTILINE
)


class MirrorHistory:
    """The history of a branch of a remote repository."""

    def __init__(self, mirror: Mirror, branch: str | None) -> None:
        self.repository, self.prefix = mirror.repository, ""
        self._mirror = mirror
        self._branch = branch

    def find_newest_commit(self) -> str | None:
        """Fetch, then the tip of the branch."""
        self._mirror.update()
        return self._mirror.resolve_tip(self._branch)

    def to_source_error(self, failure: GitError) -> KnowledgeError:
        """The mirror is damaged, and is cloned again at the next fetch."""
        return self._mirror.mark_broken(failure)


class FolderHistory:
    """The history that a folder of this machine has checked out: that of the folder, not of all around it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.expanduser().absolute()
        self.repository, self.prefix = find_repository(folder) or (git_folder_of(self._folder), "")

    def find_newest_commit(self) -> str | None:
        """The commit that HEAD names."""
        if not self._folder.is_dir():
            raise SourceRefused(f"the folder {self._folder} does not exist: correct connection.path")
        try:
            return read_head(self.repository)
        except GitError as failure:
            raise self.to_source_error(failure) from failure

    def to_source_error(self, failure: GitError) -> KnowledgeError:
        """The folder holds no repository, or a broken one."""
        reason = strip_credentials(" ".join(failure.stderr.split()))[:300]
        problem = f"has no git history that can be read ({reason})"
        return SourceRefused(f"the folder {self._folder} {problem}: correct connection.path")


History = MirrorHistory | FolderHistory
"""Where commits are read from; `to_source_error` gives the error to raise where that fails."""


class GitHistorySource(Source):
    """The newest `depth` commits, none older than `since`; of them, those that change a wanted file."""

    def __init__(
        self,
        history: History,
        *,
        depth: int,
        since: str | None,
        commit_prefix: str | None,
        changed_paths: ChangedPaths | None = None,
        encoding: str | None = None,
    ) -> None:
        self._history = history
        self._encoding = encoding
        self._version = _FORMAT_VERSION + fingerprint_encoding(encoding)
        if history.prefix:
            self._version += f"+{hash_strings(history.prefix)[:12]}"
        self._depth = depth
        self._since = since
        self._commit_prefix = commit_prefix
        self._changed_paths = changed_paths
        self._grafts: frozenset[str] | None = None  # read when they are asked for
        self._tip: str | None = None
        self._objects = ObjectReader(history.repository)
        self._diffs = DiffReader(history.repository, encoding, history.prefix)
        if since is not None:
            parse_since(since)  # an invalid one is refused before anything is read

    @property
    def revision(self) -> str | None:
        """See `Source.revision`."""
        return self._tip

    def close(self) -> None:
        """End the gits that read objects."""
        self._objects.close()
        self._diffs.close()

    def discover(self) -> Iterator[Item]:
        """Every commit within depth and span; a commit never changes, so its id is its revision."""
        self.close()  # git may hold open a mirror that is about to be replaced
        self._tip = tip = self._history.find_newest_commit()
        if tip is None:
            return
        limits = [f"--max-count={self._depth}"]
        if self._since is not None:
            limits.append(f"--max-age={int(parse_since(self._since).timestamp())}")
        try:
            commits = self._list_commits([*limits, tip])
        except GitError as failure:
            raise self._history.to_source_error(failure) from failure
        folder = find_git_folder(self._history.repository)
        self._grafts = read_grafts(folder)
        is_partial = any((folder / "objects/pack").glob("*.promisor"))
        unread = self._find_unreadable(commits) if is_partial else set[str]()
        for commit in commits:
            state = "+graft2" if commit in self._grafts else "+partial" if commit in unread else ""
            yield Item(f"commit/{commit}", f"{commit}:{self._version}{state}", commit)

    def _list_commits(self, revisions: Sequence[str]) -> list[str]:
        repository, prefix, wanted = self._history.repository, self._history.prefix, self._changed_paths
        if wanted is None:
            arguments = ["rev-list", *revisions, *limit_to(prefix)]
            return run_git(arguments, repository=repository).decode("ascii").split()
        by_commit = groupby(_iter_touched_paths(repository, revisions, prefix), key=itemgetter(0))
        return [
            commit
            for commit, changes in by_commit
            if wanted.accepts(format_path(path) for _, path in changes)
        ]

    def _find_unreadable(self, commits: Sequence[str]) -> set[str]:
        """The commits of whose diffs a partial clone lacks parts now; it may be given them later."""
        repository = self._history.repository
        output = ["--stdin", "--root", "-r", "--raw", "-z", "--no-renames", "--format=tformat://%H"]
        requests = "".join(f"{commit}\n" for commit in commits).encode("ascii")
        blobs: list[tuple[str, bytes]] = []
        commit = ""
        arguments = ["diff-tree", "--diff-merges=first-parent", *output, *limit_to(self._history.prefix)]
        try:
            for field in stream_git(arguments, repository=repository, stdin=requests):
                if field.startswith(_COMMIT_MARK):
                    commit = field[2:].decode("ascii")
                elif field.lstrip(b"\n").startswith(b":") and len(words := field.split()) == 5:
                    blobs += [(commit, words[2]), (commit, words[3])]
            wanted = b"\n".join({blob for _, blob in blobs if blob.strip(b"0")})
            checked = run_git(["cat-file", "--batch-check"], repository=repository, stdin=wanted + b"\n")
        except GitError:
            return set(commits)
        missing = {line.split()[0] for line in checked.splitlines() if line.endswith(b" missing")}
        return {commit for commit, blob in blobs if blob in missing}

    def fetch(self, item: Item) -> Document:
        """Read one commit and its diff against its first parent; a note says what a clone lacks of it."""
        try:
            commit = parse_commit(self._objects.read(item.locator), self._encoding)
            diff = self._read_diff(item.locator, commit.parents[0] if commit.parents else None)
        except GitError as failure:
            raise self._history.to_source_error(failure) from failure
        subject = commit.message.partition("\n")[0].strip() or f"Commit {item.locator[:12]}"
        text, metadata = _build_commit_text(item.locator, subject, commit, diff)
        return Document(
            uri=item.uri,
            text=text,
            path=f"commit/{item.locator[:12]}",
            title=subject,
            url=f"{self._commit_prefix}{item.locator}" if self._commit_prefix else None,
            author=commit.author,
            last_modified=commit.committed,
            metadata=add_note(add_note(metadata, commit.note), diff.note),
        )

    def _read_diff(self, commit: str, first_parent: str | None) -> Diff:
        """The diff; without the parts that a clone lacks, and then with a note."""
        if self._grafts is None:
            self._grafts = read_grafts(find_git_folder(self._history.repository))
        if commit in self._grafts:
            return Diff((), "", "changes not known: the clone is shallow and ends here")
        try:
            return self._diffs.read(commit, first_parent)
        except GitError:
            if isinstance(self._history, MirrorHistory):  # it is complete: it is cloned anew
                raise
        prefix = self._history.prefix
        # Names of files need no contents, which a partial clone lacks.
        options = ["-r", "-z", "--root", "--no-commit-id", "--name-only", *limit_to(prefix, "--relative")]
        commits = [first_parent, commit] if first_parent else [commit]
        try:
            names = run_git(["diff-tree", *commits, *options], repository=self._history.repository)
        except GitError:
            names = b""
        paths = (format_path(decode_path(name)) for name in names.split(b"\0") if name)
        files = tuple(ChangedFile(path, None, None, None) for path in paths)
        return Diff(files, "", "changed lines not read: the clone lacks parts of its history")


def _iter_touched_paths(repository: Path, revisions: Sequence[str], prefix: str) -> Iterator[tuple[str, str]]:
    """Commit and path for each file that a commit changes in a folder; the newest commit first."""
    output = ["-z", "--root", "--name-only", "--no-renames", "--format=tformat://%H"]
    plain = ["--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature", "--no-notes"]
    options = [*output, *plain, *revisions, *limit_to(prefix, "--relative")]
    commit, first = "", False
    for entry in stream_git(["log", "--diff-merges=first-parent", *options], repository=repository):
        if entry.startswith(_COMMIT_MARK):
            commit, first = entry[2:].decode("ascii"), True
        elif entry:
            # git puts one line feed between a commit and its first path
            yield commit, decode_path(entry.removeprefix(b"\n") if first else entry)
            first = False


def _build_commit_text(
    id: str, subject: str, commit: CommitSummary, diff: Diff
) -> tuple[str, dict[str, Any]]:
    """Text and metadata of a commit.

    `segments` in the metadata lists the parts of the text with their offsets in
    characters: one "message", one "files", and a "diff" for each excerpt, with its path.
    """
    body = _TRAILER.sub(r"\g<name>", commit.message.partition("\n")[2].strip())
    date = commit.committed.isoformat() if commit.committed else "unknown"
    signed = f"Author: {commit.author or 'unknown'}\nDate: {date}"
    message = "\n\n".join(part for part in (subject, body, signed) if part)
    parts: list[tuple[dict[str, Any], str]] = [({"kind": "message"}, message)]
    if diff.files:
        parts.append(({"kind": "files"}, _format_files(diff)))
    for path, excerpt in iter_excerpts(diff.patch[: _MAX_PATCH_CHARS * 10]):
        if detect_language(path) in _LANGUAGES_WITHOUT_EXCERPT:
            continue
        parts.append(({"kind": "diff", "path": path}, f"diff {path}\n{excerpt}"))
        if sum(len(text) for _, text in parts[2:]) > _MAX_PATCH_CHARS:
            break
    segments: list[dict[str, Any]] = []
    at = 0
    for described, text in parts:
        segments.append({**described, "start_char": at, "end_char": at + len(text)})
        at += len(text) + 2
    inserted, deleted = _count_lines(diff.files)
    metadata = {
        "sha": id,
        "parents": list(commit.parents),
        "files": [file.path for file in diff.files[:_MAX_FILES]],
        "files_changed": len(diff.files),
        "insertions": inserted,
        "deletions": deleted,
        "segments": segments,
    }
    return "\n\n".join(text for _, text in parts), metadata


def _format_files(diff: Diff) -> str:
    files, (inserted, deleted) = diff.files, _count_lines(diff.files)
    lines = [f"Files changed: {len(files)}" + ("" if diff.note else f" (+{inserted} -{deleted})")]
    for file in files[:_MAX_FILES]:
        name = f"{file.old_path} => {file.path}" if file.old_path else file.path
        count = " (binary)" if file.insertions is None else f" (+{file.insertions} -{file.deletions})"
        lines.append(f"- {' '.join(name.splitlines())}{'' if diff.note else count}")
    if len(files) > _MAX_FILES:
        lines.append(f"- and {len(files) - _MAX_FILES} more")
    return "\n".join(lines)


def _count_lines(files: tuple[ChangedFile, ...]) -> tuple[int, int]:
    return sum(file.insertions or 0 for file in files), sum(file.deletions or 0 for file in files)


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
    note: str = ""  # what the clone lacks of it: then no lines are counted


class DiffReader(ChildProcess):
    """Reads diffs through one lasting `git diff-tree`."""

    def __init__(self, repository: Path, encoding: str | None = None, prefix: str = "") -> None:
        """`encoding`: of lines that are not UTF-8; `prefix`: the folder whose files are compared."""
        self._encoding = encoding
        options = [*_OPTIONS, *limit_to(prefix, "--relative")]
        command = build_command(["-c", "core.bigFileThreshold=2m", "diff-tree", *options], repository)
        super().__init__(command, build_environment(), own_session=True, bufsize=0)

    def read(self, commit: str, first_parent: str | None) -> Diff:
        """The diff of a commit against its first parent, or against nothing."""
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
        return _parse_diff(raw, self._encoding)

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


def _parse_diff(raw: bytes, encoding: str | None) -> Diff:
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
    return Diff(tuple(files), _decode_patch(raw[at + 1 :], encoding))


def _decode_patch(raw: bytes, encoding: str | None) -> str:
    """Line by line where not all is UTF-8: the files of a patch may be in several encodings."""
    with suppress(UnicodeDecodeError):
        return raw.decode()
    return "\n".join(decode_bytes(line, encoding).text for line in raw.split(b"\n"))


def iter_excerpts(patch: str) -> Iterator[tuple[str, str]]:
    """For the first files of a patch: the path, and its first hunk lines, cut to the limits."""
    sections = (section.partition("\n@@ ") for section in ("\n" + patch).split("\ndiff --git ")[1:])
    # without hunks, it is binary, renamed or emptied: nothing to show
    with_hunks = (section for section in sections if section[1])
    for head, _, hunks in islice(with_hunks, _EXCERPT_FILES):
        body = f"@@ {hunks}".split("\n")
        body = [line[:_EXCERPT_LINE_CHARS] for line in body if not line.startswith("\\ ")]
        shortened = ["..."] if len(body) > _EXCERPT_LINES else []
        paths = [line[4:].rstrip("\t") for line in head.split("\n") if line.startswith(("--- ", "+++ "))]
        path = next((path for path in reversed(paths) if path != "/dev/null"), "")
        excerpt = "\n".join([*body[:_EXCERPT_LINES], *shortened]).rstrip("\n")
        yield path.removeprefix('"').removesuffix('"')[2:], excerpt
