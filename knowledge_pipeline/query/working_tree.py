"""Tells whether files on this machine have changed since they were indexed.

Only sources that are read from a local folder have such files. A result is compared with its file's text: the
files of the results alone are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from knowledge_pipeline.config.connections import LocalConnection
from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.contract.responses import ContextResponse, SearchResponse, SearchResult
from knowledge_pipeline.contract.types import FileState

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
        texts: dict[Path, str | None] = {}
        return tuple(replace(each, file_state=self._compare(each, texts)) for each in results)

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

    def _compare(self, result: SearchResult, texts: dict[Path, str | None]) -> FileState | None:
        folder = self._folders.get(result.citation.source)
        if folder is None or not result.citation.path:
            return None
        path = folder / result.citation.path
        try:
            if not path.resolve().is_relative_to(folder.resolve()):
                return None
            stat = path.stat()
            if path not in texts:
                texts[path] = _read_text(path) if stat.st_size <= _MAX_BYTES else None
        except FileNotFoundError:
            return "missing"
        except OSError:
            return None  # it may not be read here
        text = texts[path]
        if text is not None and has_content(text, result.content):
            return "same"
        indexed_at = result.metadata.get("updated_at")
        is_older = indexed_at and datetime.fromtimestamp(stat.st_mtime, UTC) <= datetime.fromisoformat(
            indexed_at
        )
        is_text = text is not None and result.metadata.get("source_type") == "code"
        return "same" if is_older and not is_text else "changed"


def _read_text(path: Path) -> str | None:
    """With line feeds alone; None for what is no text."""
    try:
        return path.read_bytes().decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None


def has_content(text: str, content: str) -> bool:
    """Whether a text has some lines, all but those that were redacted."""
    parts: list[list[str]] = [[]]
    for line in content.replace("\r\n", "\n").split("\n"):
        if _REDACTED in line:
            parts.append([])
        else:
            parts[-1].append(line)
    return all("\n".join(part) in text for part in parts)


def _worst(states: Iterable[FileState | None]) -> FileState | None:
    found = set(states)
    return next((state for state in ("missing", "changed", "same") if state in found), None)
