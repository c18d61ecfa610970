"""Joins neighbouring chunks of a document into one excerpt, exactly as the document has it. Pure.

Two chunks are neighbours if they overlap, or if only the white space that is known to precede the second
lies between them. Anything else between them would make that distance longer, so an excerpt never hides a
gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from knowledge_pipeline.contract.responses.search import Citation, SearchResult
from knowledge_pipeline.query.citations import cite_other_lines

DocumentKey = tuple[str, str]  # source, URI


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Consecutive characters of one document, from one or several chunks, or whole lines of such."""

    start_char: int
    body: str
    start_line: int
    end_line: int
    parts: tuple[SearchResult, ...]  # in reading order
    indentation: str = ""  # of its first line

    @classmethod
    def from_result(cls, result: SearchResult) -> Excerpt:
        """All of a chunk."""
        span = result.span
        space = span.space_before or ""
        _, line_break, indentation = space.rpartition("\n")
        begins_line = bool(line_break) or len(space) == span.start_char  # else more than space precedes it
        return cls(
            span.start_char,
            result.content,
            span.start_line,
            span.end_line,
            (result,),
            indentation if begins_line else "",
        )

    @property
    def end_char(self) -> int:
        """Half-open."""
        return self.start_char + len(self.body)

    @property
    def text(self) -> str:
        """The document's text, with the indentation of its first line."""
        return self.indentation + self.body

    @property
    def lines(self) -> list[str]:
        """Of its text."""
        return self.text.split("\n")

    @property
    def missing_lines(self) -> int:
        """Lines of its chunks that were cut off at the end."""
        return max(0, max(part.span.end_line for part in self.parts) - self.end_line)

    @property
    def citation(self) -> Citation:
        """Where it is from."""
        return cite_other_lines(self.parts[0].citation, self.start_line, self.end_line)

    def take_lines(self, first: int, last: int) -> Excerpt:
        """Some of its lines, named by their numbers in the document, both included."""
        before, lines = first - self.start_line, self.lines
        text = "\n".join(lines[before : last - self.start_line + 1])
        if before == 0:
            start_char, indentation = self.start_char, self.indentation
        else:
            skipped = sum(len(line) + 1 for line in lines[:before]) - len(self.indentation)
            start_char, indentation = self.start_char + skipped, ""
        parts = (part for part in self.parts if part.span.start_line <= last and part.span.end_line >= first)
        return Excerpt(start_char, text[len(indentation) :], first, last, tuple(parts), indentation)


def document_key(result: SearchResult) -> DocumentKey:
    """The document of a chunk."""
    return result.citation.source, result.span.uri


def build_excerpts(results: Iterable[SearchResult]) -> list[Excerpt]:
    """Chunks of one document, in any order, as its excerpts in reading order."""
    excerpts: list[Excerpt] = []
    ordered = sorted(results, key=lambda each: (each.span.start_char, -len(each.content), each.id))
    for excerpt in map(Excerpt.from_result, ordered):
        if excerpts and (joined := _join_excerpts(excerpts[-1], excerpt)):
            excerpts[-1] = joined
        else:
            excerpts.append(excerpt)
    return excerpts


def _join_excerpts(first: Excerpt, second: Excerpt) -> Excerpt | None:
    """Both as one; None where they do not touch, or are of different versions of the document."""
    between = second.start_char - first.end_char
    if between > 0:
        space = second.parts[0].span.space_before
        if space is None or len(space) != between:
            return None
        body = first.body + space + second.body
    else:
        shared = first.body[second.start_char - first.start_char :][: len(second.body)]
        if not second.body.startswith(shared):
            return None
        body = first.body + second.body[len(shared) :]
    end_line = max(first.end_line, second.end_line)
    parts = (*first.parts, *second.parts)
    return Excerpt(first.start_char, body, first.start_line, end_line, parts, first.indentation)
