"""Tells whether files on this machine have changed since they were indexed.

Only sources that are read from a local folder have such files. A result is compared with its file's text: the
files of the results alone are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_pipeline.config.connections.local import LocalConnection
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.contract.responses.search import SearchResponse, SearchResult
from knowledge_pipeline.contract.types import FileState

if TYPE_CHECKING:
    from knowledge_pipeline.contract.responses.context import ContextResponse

_MAX_BYTES = 4_000_000  # larger files are judged by their time alone
_REDACTED = "[REDACTED:"  # a line that the index holds without its secret


class WorkingTree:
    """The folders that sources are read from."""

    def __init__(self, sources: Iterable[SourceConfig]) -> None:
        self._folders: Mapping[str, Path] = {
            source.id: source.connection.path
            for source in sources
            if isinstance(source.connection, LocalConnection)
        }

    def __bool__(self) -> bool:
        return bool(self._folders)

    def mark_results(self, results: Sequence[SearchResult]) -> tuple[SearchResult, ...]:
        """Results that say how their files are now; those without a local file as they are."""
        open_file = cache(_open_file)  # a document has many chunks, and a folder many documents
        return tuple(replace(each, file_state=self._compare(each, open_file)) for each in results)

    def mark_search(self, response: SearchResponse) -> SearchResponse:
        """The response, its results marked."""
        return replace(response, results=self.mark_results(response.results))

    def mark_context(self, context: ContextResponse) -> ContextResponse:
        """The context, its excerpts marked as the worst of their chunks."""
        results = self.mark_results(context.results)
        states: dict[str, FileState | None] = {each.id: each.file_state for each in results}
        excerpts = tuple(
            replace(each, file_state=_worst(states.get(id_) for id_ in each.chunks))
            for each in context.excerpts
        )
        return replace(context, excerpts=excerpts, results=results)

    def _compare(
        self, result: SearchResult, open_file: Callable[[Path, str], _File | FileState | None]
    ) -> FileState | None:
        folder = self._folders.get(result.citation.source)
        if folder is None or not result.citation.path:
            return None
        file = open_file(folder, result.citation.path)
        if not isinstance(file, _File):
            return file
        if file.text is not None and has_content(file.text, result.content):
            return "same"
        indexed_at = result.metadata.get("updated_at")
        is_older = indexed_at and file.modified <= datetime.fromisoformat(indexed_at)
        is_text = file.text is not None and result.metadata.get("source_type") == "code"
        return "same" if is_older and not is_text else "changed"


@dataclass(frozen=True, slots=True)
class _File:
    modified: datetime
    text: str | None  # with line feeds alone; None for what is no text, or too large


def _open_file(folder: Path, name: str) -> _File | FileState | None:
    """A file as it is now, "missing", or None for one that may not be read here."""
    path = folder / name
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            return None
        stat = path.stat()
        text = _read_text(path) if stat.st_size <= _MAX_BYTES else None
    except FileNotFoundError:
        return "missing"
    except OSError:
        return None
    return _File(datetime.fromtimestamp(stat.st_mtime, UTC), text)


def _read_text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None


def has_content(text: str, content: str) -> bool:
    """Whether a text has some lines, all but those that were redacted."""
    content = content.replace("\r\n", "\n")
    if _REDACTED not in content:
        return content in text
    parts: list[list[str]] = [[]]
    for line in content.split("\n"):
        if _REDACTED in line:
            parts.append([])
        else:
            parts[-1].append(line)
    return all("\n".join(part) in text for part in parts)


def _worst(states: Iterable[FileState | None]) -> FileState | None:
    found = set(states)
    return next((state for state in ("missing", "changed", "same") if state in found), None)
