"""Joins neighbouring chunks of a document into one excerpt, exactly as the document has it. Pure.

Two chunks are neighbours if they overlap, or if only the white space that is known to precede the second
lies between them. Anything else between them would make that distance longer, so an excerpt never hides a
gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from knowledge_pipeline.contract.responses import Citation, SearchResult
from knowledge_pipeline.query.citations import cite_other_lines

DocumentKey = tuple[str, str]  # source, URI


@dataclass(frozen=True, slots=True)
class ChunkPart:
    """A chunk, or whole lines of its beginning."""

    result: SearchResult
    text: str
    end_line: int

    @classmethod
    def from_result(cls, result: SearchResult) -> ChunkPart:
        """All of a chunk."""
        return cls(result, result.content, result.span.end_line)

    def take_first_lines(self, lines: int) -> ChunkPart:
        """The beginning of the chunk, `lines` lines of it, at least 1."""
        kept = self.text.split("\n")[:lines]
        return replace(self, text="\n".join(kept), end_line=self.result.span.start_line + len(kept) - 1)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Consecutive characters of one document, from one or several chunks."""

    start_char: int
    body: str
    start_line: int
    end_line: int
    parts: tuple[ChunkPart, ...]  # in reading order

    @property
    def end_char(self) -> int:
        """Half-open."""
        return self.start_char + len(self.body)

    @property
    def text(self) -> str:
        """The document's text, with the indentation of its first line."""
        span = self.parts[0].result.span
        space = span.space_before or ""
        _, line_break, indentation = space.rpartition("\n")
        if line_break or len(space) == span.start_char:
            return indentation + self.body
        return self.body  # the line has more before it than white space

    @property
    def missing_lines(self) -> int:
        """Lines of its chunks that were cut off at the end."""
        return max(part.result.span.end_line for part in self.parts) - self.end_line

    @property
    def citation(self) -> Citation:
        """Where it is from."""
        return cite_other_lines(self.parts[0].result.citation, self.start_line, self.end_line)


def document_key(result: SearchResult) -> DocumentKey:
    """The document of a chunk."""
    return result.citation.source, result.span.uri


def build_excerpts(parts: Iterable[ChunkPart]) -> list[Excerpt]:
    """Parts of one document, in any order, as its excerpts in reading order."""
    excerpts: list[Excerpt] = []
    ordered = sorted(parts, key=lambda part: (part.result.span.start_char, -len(part.text), part.result.id))
    for part in ordered:
        span = part.result.span
        excerpt = Excerpt(span.start_char, part.text, span.start_line, part.end_line, (part,))
        if excerpts and (joined := _join_excerpts(excerpts[-1], excerpt)):
            excerpts[-1] = joined
        else:
            excerpts.append(excerpt)
    return excerpts


def _join_excerpts(first: Excerpt, second: Excerpt) -> Excerpt | None:
    """Both as one; None where they do not touch, or are of different versions of the document."""
    between = second.start_char - first.end_char
    if between > 0:
        space = second.parts[0].result.span.space_before
        if space is None or len(space) != between:
            return None
        body = first.body + space + second.body
    else:
        shared = first.body[second.start_char - first.start_char :][: len(second.body)]
        if not second.body.startswith(shared):
            return None
        body = first.body + second.body[len(shared) :]
    end_line = max(first.end_line, second.end_line)
    return Excerpt(first.start_char, body, first.start_line, end_line, (*first.parts, *second.parts))
