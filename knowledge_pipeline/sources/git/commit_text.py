"""The text of one commit as a document: message, author, what changed, excerpts of the diff."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from knowledge_pipeline.languages import DATA_LANGUAGES, detect_language
from knowledge_pipeline.sources.git.diffs import ChangedFile, Diff, iter_excerpts

MAX_FILES = 200  # named in the text and in the metadata
_MAX_PATCH_CHARS = 4_000
_LANGUAGES_WITHOUT_EXCERPT = DATA_LANGUAGES | {None}  # drawings, lock files, fixtures
_TRAILER = re.compile(
    r"^(?P<name>[A-Z][\w-]*-by: [^<\n]{0,200}?)[ \t]{0,8}<[^<>\s]+@[^<>\s]+>[ \t]*$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, without its diff."""

    id: str
    parents: tuple[str, ...]
    author: str | None
    committed: datetime | None
    message: str


def build_commit_text(commit: Commit, diff: Diff) -> tuple[str, dict[str, Any]]:
    """Text and metadata of a commit.

    `segments` in the metadata lists the parts of the text with their offsets in
    characters: one "message", one "files", and a "diff" for each excerpt, with its path.
    """
    body = _TRAILER.sub(r"\g<name>", commit.message.partition("\n")[2].strip())
    date = commit.committed.isoformat() if commit.committed else "unknown"
    signed = f"Author: {commit.author or 'unknown'}\nDate: {date}"
    message = "\n\n".join(part for part in (subject(commit), body, signed) if part)
    parts: list[tuple[dict[str, Any], str]] = [({"kind": "message"}, message)]
    if diff.files:
        parts.append(({"kind": "files"}, _format_files(diff.files)))
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
        "sha": commit.id,
        "parents": list(commit.parents),
        "files": [file.path for file in diff.files[:MAX_FILES]],
        "files_changed": len(diff.files),
        "insertions": inserted,
        "deletions": deleted,
        "segments": segments,
    }
    return "\n\n".join(text for _, text in parts), metadata


def subject(commit: Commit) -> str:
    """The first line of the message."""
    return commit.message.partition("\n")[0].strip() or f"Commit {commit.id[:12]}"


def _format_files(files: tuple[ChangedFile, ...]) -> str:
    inserted, deleted = _count_lines(files)
    lines = [f"Files changed: {len(files)} (+{inserted} -{deleted})"]
    for file in files[:MAX_FILES]:
        name = f"{file.old_path} => {file.path}" if file.old_path else file.path
        count = "binary" if file.insertions is None else f"+{file.insertions} -{file.deletions}"
        lines.append(f"- {' '.join(name.splitlines())} ({count})")
    if len(files) > MAX_FILES:
        lines.append(f"- and {len(files) - MAX_FILES} more")
    return "\n".join(lines)


def _count_lines(files: tuple[ChangedFile, ...]) -> tuple[int, int]:
    return sum(file.insertions or 0 for file in files), sum(file.deletions or 0 for file in files)
