"""The modes exact and regex: every chunk that has a text as it is written, as grep finds it.

Nothing is ranked: chunks that define a name which stands in the query come first and changes last, each
by path and line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowledge_pipeline.contract.responses import MatchedLine, SearchResult
from knowledge_pipeline.query.assemble import narrow_chunk, to_result
from knowledge_pipeline.query.hits import IndexedChunk, RowCache
from knowledge_pipeline.query.plan import SearchPlan
from knowledge_pipeline.records import SPACE_BEFORE_KEY
from knowledge_pipeline.store.search import IndexReader
from knowledge_pipeline.sync_facade import gather_all
from knowledge_pipeline.text import truncate
from knowledge_pipeline.text_matches import TextPattern, read_indent

_MAX_LINE_CHARS = 500


async def find_exact(
    plan: SearchPlan, readers: Sequence[IndexReader], cache: RowCache
) -> tuple[tuple[SearchResult, ...], tuple[str, ...]]:
    """The first results, each with the lines that match, and notes on what is not shown.

    Raises `InvalidQuery`: the regular expression is none.
    """
    pattern = TextPattern(plan.query.text, is_regex=plan.question.mode == "regex")
    spaces = await gather_all(
        reader.find_text(pattern, plan.condition, limit=plan.limit) for reader in readers
    )
    first = sorted((match, at) for at, matches in enumerate(spaces) for match in matches.best)[: plan.limit]
    chunks = await gather_all(
        cache.read_chunks(reader, [match.row_id for match, of in first if of == at])
        for at, reader in enumerate(readers)
    )
    shown = (narrow_chunk(chunks[at][match.row_id], plan.restrictions) for match, at in first)
    results = [_to_result(chunk, pattern) for chunk in shown if chunk]
    results = [result for result in results if result.matches]
    notes = list[str]()
    if (found := sum(matches.chunks for matches in spaces)) > len(results):
        documents = sum(matches.documents for matches in spaces)
        notes.append(f"{found:,} chunks in {documents:,} documents match; the first {len(results):,} shown")
    if not all(matches.is_whole for matches in spaces):
        notes.append("not all chunks could be compared: narrow the search by filters")
    return tuple(results), tuple(notes)


def _to_result(chunk: IndexedChunk, pattern: TextPattern) -> SearchResult:
    text = read_indent(chunk.metadata.get(SPACE_BEFORE_KEY)) + chunk.text
    lines = text.split("\n")
    found = pattern.find_lines(text)
    found = [
        at for at in found if lines[at].strip()
    ] or found  # an expression may begin in the blank line before
    matches = (MatchedLine(chunk.start_line + at, truncate(lines[at], _MAX_LINE_CHARS)) for at in found)
    return replace(to_result(chunk, 1.0), matches=tuple(matches))
