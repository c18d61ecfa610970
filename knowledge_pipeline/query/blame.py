"""Tells who last changed the lines of a result, in which commit, when and why.

`git blame` is run for the results shown alone, in the checkout or mirror that their source is read from,
at the newest commit that has their lines as they were indexed. What it found is kept by that commit.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_pipeline.config.connections.local import LocalConnection
from knowledge_pipeline.config.connections.repositories import GitConnection
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.contract.responses.documents import RelatedDocument
from knowledge_pipeline.contract.responses.search import BlamedLines, SearchResponse, SearchResult
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.citations import format_lines
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import Index
from knowledge_pipeline.query.relations import Subject, find_relations
from knowledge_pipeline.query.working_tree import has_content
from knowledge_pipeline.relations.mentions import extract_mentions
from knowledge_pipeline.relations.names import DocumentContext, resolve_name

if TYPE_CHECKING:
    from knowledge_pipeline.sources.git.blame import BlamedRange, Checkout, CommitSummary

_SOURCE_TYPES = frozenset({"code", "markdown", "openapi", "archive", "files"})  # whose documents are files
_MAX_RESULTS = 20  # of one response, that git is asked about
_MAX_KEPT = 2_000  # answers of git
_MAX_MESSAGE_CHARS = 2_000

_Key = tuple[Path, str, str, int, int]  # repository, commit, path, first and last line


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
        self._cache, self._index = cache, index
        self._kept: OrderedDict[_Key, _Blamed] = OrderedDict()

    async def mark_results(
        self, results: Sequence[SearchResult], access: Access
    ) -> tuple[tuple[SearchResult, ...], str | None]:
        """Results that say who changed their lines, and why some do not; those of no repository as they are.

        The first results alone, up to a bound. Pull requests are those that the caller may see.
        """
        asked = [each for each in results if each.citation.source in self._sources][:_MAX_RESULTS]
        blamed, problem = await asyncio.to_thread(self._blame_all, asked)
        pull_requests = await self._find_pull_requests(asked, blamed, access)
        marked = {
            id_: tuple(
                _to_blamed_lines(each, found.commits[each.commit], pull_requests) for each in found.ranges
            )
            for id_, found in blamed.items()
        }
        return tuple(replace(each, blame=marked.get(each.id)) for each in results), problem

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
        for result in (each for each in results if each.id in blamed):
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
        return {
            commit: tuple(
                dict.fromkeys(each.document for each in found if each.document.source_type == "github_pr")
            )
            for commit, found in zip(subjects, related, strict=True)
        }

    def _blame_all(self, results: Sequence[SearchResult]) -> tuple[dict[str, _Blamed], str | None]:
        """By the id of a result, and the last reason why one has no answer."""
        from knowledge_pipeline.sources.git.blame import find_checkout  # git, only where it is asked
        from knowledge_pipeline.sources.git.command import GitError

        checkouts: dict[str, Checkout | None] = {}
        found: dict[str, _Blamed] = {}
        problem: str | None = None
        for result in results:
            name = result.citation.source
            try:
                if name not in checkouts:
                    checkouts[name] = find_checkout(self._sources[name], self._cache)
                checkout = checkouts[name]
                if checkout is None:
                    problem = f"{name} has no git repository on this machine"
                elif blamed := self._blame(checkout, result):
                    found[result.id] = blamed
                else:
                    problem = f"{result.citation.path} is not committed as it was indexed"
            except (GitError, KnowledgeError) as error:
                checkouts[name] = None
                reason = "git took too long" if getattr(error, "timed_out", False) else "git cannot read it"
                problem = f"the repository of {name} was not asked: {reason}"
        return found, problem

    def _blame(self, checkout: Checkout, result: SearchResult) -> _Blamed | None:
        from knowledge_pipeline.sources.git.blame import blame_lines, find_commit_with, read_commits
        from knowledge_pipeline.sources.path_encoding import uri_to_path

        path, span = uri_to_path(result.span.uri), result.span

        def matches(text: str) -> bool:
            lines = text.split("\n")[span.start_line - 1 : span.end_line]
            return has_content("\n".join(lines), result.content)

        commit = find_commit_with(checkout, path, matches)
        if commit is None:
            return None
        key = (checkout.repository, commit, f"{checkout.prefix}{path}", span.start_line, span.end_line)
        if key not in self._kept:
            ranges = tuple(blame_lines(checkout, commit, path, span.start_line, span.end_line))
            commits = read_commits(checkout, sorted({each.commit for each in ranges}))
            self._kept[key] = _Blamed(ranges, commits)
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return self._kept[key]


def _to_blamed_lines(
    blamed: BlamedRange, said: CommitSummary, pull_requests: Mapping[str, tuple[RelatedDocument, ...]]
) -> BlamedLines:
    from knowledge_pipeline.config.sources.source import SanitizeSettings
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
