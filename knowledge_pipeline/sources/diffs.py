"""The diff of a pull request or a merge request: a turn for each hunk, with the place that it changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.repository_permissions import CodeHostClient, list_pages

MAX_DIFF_CHARS = 100_000  # of one pull request
MAX_HUNK_LINES = 200  # a new file is one hunk
_LINE_CHARS = 200
_PATH_CHARS, _FUNCTION_CHARS = 180, 80  # the chunker knows a turn by its first line, of some 300 at most

_HEADING = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?")


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What is changed in one file. `patch` has no hunk where the file is binary or too large."""

    path: str
    patch: str
    url: str  # where a person sees it


def list_changed_files(client: CodeHostClient, path: str, uri: str, max_count: int) -> list[dict[str, Any]]:
    """The first changed files with their diffs, as the service's REST API has them.

    Raises:
        SourceRefused: the service does not show them.
        SourceUnavailable: it did not answer.
    """
    files = list_pages(client, path, max_count=max_count)
    if files is None:
        raise SourceRefused(
            f"{client.errors.service} does not show the diff of {uri}: give the identity the right to read "
            "pull requests and code, or take diff out of parts (nothing is deleted meanwhile)"
        )
    return files


def iter_diff_turns(
    files: Iterable[FileDiff], author: str | None = None, at: datetime | None = None
) -> Iterator[Turn]:
    """A turn for each hunk, up to `MAX_DIFF_CHARS`; a last one says how many are left out."""
    length = left_out = 0
    for file in files:
        for hunk in _split_hunks(file.patch):
            text = _format_bounded(hunk)
            length += len(text)
            if length > MAX_DIFF_CHARS:
                left_out += 1
            else:
                yield Turn("diff", text, author, at, _format_location(file.path, hunk[0]), file.url)
    if left_out:
        reason = f"{left_out} more hunks are left out: all have over {MAX_DIFF_CHARS:,} characters."
        yield Turn("diff", reason, author, at)


def fence_diff(lines: Iterable[str], hunk: str) -> str:
    """Lines of a hunk in a fence that no line of the hunk ends; what is too long of a line is left out."""
    fence = "```" if "```" not in hunk else "`" * 8
    return "\n".join([f"{fence}diff", *(line[:_LINE_CHARS] for line in lines), fence])


def _split_hunks(patch: str) -> Iterator[list[str]]:
    """The lines of each hunk, its heading first; what stands before the first belongs to none."""
    hunk: list[str] = []
    for line in patch.replace("\r", "").rstrip("\n").split("\n"):
        if _HEADING.match(line):
            if hunk:
                yield hunk
            hunk = [line]
        elif hunk:
            hunk.append(line)
    if hunk:
        yield hunk


def _format_bounded(hunk: list[str]) -> str:
    heading, *lines = hunk
    text = fence_diff([heading, *lines[:MAX_HUNK_LINES]], "\n".join(hunk))
    more = len(lines) - MAX_HUNK_LINES
    return f"{text}\n{more} more lines are left out." if more > 0 else text


def _format_location(path: str, heading: str) -> str:
    """ "src/auth.py lines 10-24 in def pay(order)": lines of the new file, of the old one if none is left."""
    found = _HEADING.match(heading)
    assert found is not None, heading
    old, old_count, new, new_count = found.groups()
    start, count = (int(old), int(old_count or 1)) if new_count == "0" else (int(new), int(new_count or 1))
    lines = f"lines {start}-{start + count - 1}" if count > 1 else f"line {start}"
    function = heading[found.end() :].strip()[:_FUNCTION_CHARS].rstrip(" :{")
    short = path if len(path) <= _PATH_CHARS else f"…{path[-_PATH_CHARS:]}"
    return " ".join(f"{short} {lines}{f' in {function}' if function else ''}".split())
