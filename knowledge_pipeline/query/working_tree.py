"""Compares results with files on this machine: whether they have changed since, and who changed them.

`git blame` is run for the results shown alone, in the checkout or mirror that their source is read from,
at the newest commit that has their lines as they were indexed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cachetools import LRUCache

from knowledge_pipeline.config.connections import GitConnection, LocalConnection
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.describe import cite_other_lines, format_lines, parse_lines
from knowledge_pipeline.contract.filters import FileState
from knowledge_pipeline.contract.responses import (
    BlamedLines,
    GraphResponse,
    RelatedDocument,
    SearchResponse,
    SearchResult,
)
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_places import (
    CodePlace,
    CodePlaces,
    FileOpener,
    iter_graph_places,
    iter_neighbour_places,
    mark_graph,
    mark_neighbours,
)
from knowledge_pipeline.query.documents import Subject, find_relations
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import Index
from knowledge_pipeline.query.present_files import PresentFile, has_content, open_present_file
from knowledge_pipeline.relations import DocumentContext, extract_mentions, resolve_name

if TYPE_CHECKING:
    from knowledge_pipeline.connectors.git.blame import BlamedRange, Checkout
    from knowledge_pipeline.connectors.git.command import CommitSummary
    from knowledge_pipeline.contract.responses import ContextExcerpt, ContextResponse


LineReader = Callable[[Collection[CodePlace]], Awaitable[SearchResponse]]
"""Reads the indexed chunks that have some lines."""

_WORST_FIRST: tuple[FileState, ...] = ("missing", "changed", "same")


class WorkingTree:
    """The folders that sources are read from: tells whether the files of results have changed since."""

    def __init__(self, sources: Iterable[SourceConfig]) -> None:
        self._folders: Mapping[str, Path] = {
            source.id: source.connection.path
            for source in sources
            if isinstance(source.connection, LocalConnection)
        }

    def __bool__(self) -> bool:
        return bool(self._folders)

    def mark_results(self, results: Sequence[SearchResult]) -> tuple[SearchResult, ...]:
        """Results that say how their files are now; those without a local file as they are.

        What stands elsewhere in its file by now is cited by its lines of now; its span is that of the index.
        """
        open_file = self._open_files()  # a document has many chunks, and a folder many documents
        return tuple(self._compare(result, open_file) for result in results)

    async def mark_search(self, response: SearchResponse, read_lines: LineReader) -> SearchResponse:
        """The response, its results marked, and the code that they are connected to where it stands now."""
        if not self:
            return response
        results = await asyncio.to_thread(self.mark_results, response.results)
        if any(result.graph for result in results):
            places = await self._find_lines_of_now(iter_neighbour_places(results), read_lines)
            results = tuple(mark_neighbours(result, places) for result in results)
        return replace(response, results=results)

    async def mark_graph(self, response: GraphResponse, read_lines: LineReader) -> GraphResponse:
        """The nodes and edges of a response with the lines where they stand now."""
        if not self:
            return response
        return mark_graph(response, await self._find_lines_of_now(iter_graph_places(response), read_lines))

    async def _find_lines_of_now(
        self, places: Iterable[tuple[CodePlace, str]], read_lines: LineReader
    ) -> CodePlaces:
        located = await asyncio.to_thread(CodePlaces, places, self._open_files())
        if located.doubtful:
            chunks = await read_lines(located.doubtful)
            await asyncio.to_thread(located.search, chunks.results)
        return located

    def mark_context(self, context: ContextResponse) -> ContextResponse:
        """The context, its excerpts marked as the worst of their chunks."""
        results = self.mark_results(context.results)
        states = {result.id: result.file_state for result in results}
        excerpts: list[ContextExcerpt] = []
        for excerpt in context.excerpts:
            own = {states.get(id_) for id_ in excerpt.chunks}
            worst = next((state for state in _WORST_FIRST if state in own), None)
            excerpts.append(replace(excerpt, file_state=worst))
        return replace(context, excerpts=tuple(excerpts), results=results)

    def locate_excerpts(self) -> Callable[[ContextExcerpt], ContextExcerpt]:
        """A function that gives excerpts the lines where their text stands now; each file is read once."""
        open_file = self._open_files()

        def locate(excerpt: ContextExcerpt) -> ContextExcerpt:
            file = open_file(excerpt.citation.source, excerpt.citation.path)
            first, last = parse_lines(excerpt.citation.lines)
            if (
                not isinstance(file, PresentFile)
                or (line := file.find_first_line(excerpt.text, first)) is None
            ):
                return excerpt
            return replace(excerpt, citation=cite_other_lines(excerpt.citation, line, last + line - first))

        return locate

    def _open_files(self) -> FileOpener:
        @cache
        def open_file(source: str, path: str) -> PresentFile | FileState | None:
            folder = self._folders.get(source)
            return open_present_file(folder, path) if folder and path else None

        return open_file

    def _compare(self, result: SearchResult, open_file: FileOpener) -> SearchResult:
        file = open_file(result.citation.source, result.citation.path)
        if not isinstance(file, PresentFile):
            return replace(result, file_state=file)
        span = result.span
        line = file.find_first_line(result.content, span.start_line)
        if line == span.start_line:
            return replace(result, file_state="same")
        if line is not None:
            moved = line - span.start_line
            return replace(
                result,
                file_state="same",
                citation=cite_other_lines(result.citation, line, span.end_line + moved),
                matches=result.matches and tuple(replace(at, line=at.line + moved) for at in result.matches),
            )
        indexed_at = result.metadata.get("updated_at")
        is_older = indexed_at and file.modified <= datetime.fromisoformat(indexed_at)
        is_text = file.text is not None and result.metadata.get("source_type") == "code"
        return replace(result, file_state="same" if is_older and not is_text else "changed")


_SOURCE_TYPES = frozenset({"code", "markdown", "openapi", "archive", "files"})  # whose documents are files
_MAX_RESULTS = 20  # of one response, that git is asked about
_MAX_KEPT = 2_000  # answers of git
_MAX_MESSAGE_CHARS = 2_000

_Key = tuple[Path, frozenset[str], str, str, int, int]  # repository, grafts, commit, path, lines


@dataclass(frozen=True, slots=True)
class _Blamed:
    """What git says of one result's lines."""

    ranges: tuple[BlamedRange, ...]
    commits: Mapping[str, CommitSummary]


class Blame:
    """Asks git about the lines of results. Threads may share one.

    Args:
        sources: as declared.
        cache: the folder of the store that has the mirrors.
        index: where pull requests that changed the lines are looked for.
    """

    def __init__(self, sources: Sequence[SourceConfig], cache: Path, index: Index) -> None:
        self._sources = {
            source.id: source
            for source in sources
            if source.type in _SOURCE_TYPES and isinstance(source.connection, LocalConnection | GitConnection)
        }
        self._cache, self._index, self._lock = cache, index, threading.Lock()
        self._kept: LRUCache[_Key, _Blamed] = LRUCache(_MAX_KEPT)

    async def mark_results(
        self, results: Sequence[SearchResult], access: Access
    ) -> tuple[tuple[SearchResult, ...], str | None]:
        """Results that say who changed their lines, and why some do not; those of no repository as they are.

        The first results alone, up to a bound. Pull requests are those that the caller may see.
        """
        in_git = [result for result in results if result.citation.source in self._sources][:_MAX_RESULTS]
        blamed, problem = await asyncio.to_thread(self._blame_all, in_git)
        pull_requests = await self._find_pull_requests(in_git, blamed, access)
        marked = {
            id_: tuple(
                _to_blamed_lines(range_, answer.commits[range_.commit], pull_requests)
                for range_ in answer.ranges
            )
            for id_, answer in blamed.items()
        }
        return tuple(replace(result, blame=marked.get(result.id)) for result in results), problem

    async def mark_search(self, response: SearchResponse, access: Access) -> SearchResponse:
        """The response with its results marked; degraded by `blame` where git could not be asked of some."""
        results, problem = await self.mark_results(response.results, access)
        if problem is None:
            return replace(response, results=results)
        explain = {**(response.explain or {})}
        explain["degraded"] = {**explain.get("degraded", {}), "blame": problem}
        return replace(
            response,
            results=results,
            degraded=(*response.degraded, "blame"),
            explain=explain if response.explain is not None else None,
        )

    async def _find_pull_requests(
        self, results: Sequence[SearchResult], blamed: Mapping[str, _Blamed], access: Access
    ) -> Mapping[str, tuple[RelatedDocument, ...]]:
        """By commit: those that its message names, and those that name it."""
        subjects: dict[str, Subject] = {}
        for result in results:
            if result.id not in blamed:
                continue
            repo = result.metadata.get("repo")
            context = DocumentContext(result.citation.source, "git_history", "", repo)
            for commit, said in blamed[result.id].commits.items():
                names = tuple(filter(None, [resolve_name(commit, context)]))
                mentions = tuple(extract_mentions(said.message, context))
                subjects[commit] = Subject(result.citation.source, f"commit/{commit}", names, mentions)
        if not subjects:
            return {}
        readers, _ = await (await self._index.open_release()).open_readable_readers()
        related, _ = await find_relations(readers, compile_filter(access), list(subjects.values()))
        pull_requests: dict[str, tuple[RelatedDocument, ...]] = {}
        for commit, relations in zip(subjects, related, strict=True):
            documents = dict.fromkeys(relation.document for relation in relations)
            pull_requests[commit] = tuple(it for it in documents if it.source_type == "github_pr")
        return pull_requests

    def _blame_all(self, results: Sequence[SearchResult]) -> tuple[dict[str, _Blamed], str | None]:
        """By the id of a result, and the last reason why one has no answer."""
        from knowledge_pipeline.connectors.git.blame import find_checkout  # git, only where it is asked
        from knowledge_pipeline.connectors.git.command import GitError

        checkouts: dict[str, Checkout | None] = {}
        blamed_by_id: dict[str, _Blamed] = {}
        unreadable: set[str] = set()
        problem: str | None = None
        for result in results:
            name = result.citation.source
            if name in unreadable:
                continue
            try:
                if name not in checkouts:
                    checkouts[name] = find_checkout(self._sources[name], self._cache)
                checkout = checkouts[name]
                if checkout is None:
                    problem = f"{name} has no git repository on this machine"
                elif blamed := self._blame(checkout, result):
                    blamed_by_id[result.id] = blamed
                    lines = sum(range_.last_line - range_.first_line + 1 for range_ in blamed.ranges)
                    if checkout.grafts and lines <= result.span.end_line - result.span.start_line:
                        problem = f"the clone of {name} is shallow: older commits wrote some lines"
                else:
                    problem = f"{result.citation.path} is not committed as it was indexed"
            except (GitError, KnowledgeError) as error:
                unreadable.add(name)
                reason = "git took too long" if getattr(error, "timed_out", False) else "git cannot read it"
                if "promisor remote" in getattr(error, "stderr", ""):
                    unreadable.discard(name)  # of other files it may have all
                    reason = "it is a partial clone, which lacks earlier contents of files"
                problem = f"the repository of {name} was not asked: {reason}"
        return blamed_by_id, problem

    def _blame(self, checkout: Checkout, result: SearchResult) -> _Blamed | None:
        from knowledge_pipeline.connectors.base import uri_to_path
        from knowledge_pipeline.connectors.git.blame import blame_lines, find_commit_with, read_commits

        path, span = uri_to_path(result.span.uri), result.span

        def matches(text: str) -> bool:
            lines = text.split("\n")[span.start_line - 1 : span.end_line]
            return has_content("\n".join(lines), result.content)

        commit = find_commit_with(checkout, path, matches)
        if commit is None:
            return None
        name = f"{checkout.prefix}{path}"
        key = (checkout.repository, checkout.grafts, commit, name, span.start_line, span.end_line)
        with self._lock:
            blamed = self._kept.get(key)
        if blamed is None:
            ranges = tuple(blame_lines(checkout, commit, path, span.start_line, span.end_line))
            blamed = _Blamed(ranges, read_commits(checkout, sorted({range_.commit for range_ in ranges})))
            with self._lock:
                self._kept[key] = blamed
        return blamed


def _to_blamed_lines(
    blamed: BlamedRange, said: CommitSummary, pull_requests: Mapping[str, tuple[RelatedDocument, ...]]
) -> BlamedLines:
    from knowledge_pipeline.config.sources import SanitizeSettings
    from knowledge_pipeline.sanitizing.sanitize import sanitize

    message = sanitize(said.message, SanitizeSettings()).text  # before the cut, so that no secret is split
    return BlamedLines(
        lines=format_lines(blamed.first_line, blamed.last_line),
        commit=blamed.commit,
        author=said.author,
        committed=said.committed,
        message=message[:_MAX_MESSAGE_CHARS],
        pull_requests=pull_requests.get(blamed.commit, ()),
    )
