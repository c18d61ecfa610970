"""How an answer names lines of a document: "L10-L24", and a link to them. Pure."""

from __future__ import annotations

from dataclasses import replace

from knowledge_pipeline.contract.responses.search import Citation


def format_lines(first: int, last: int) -> str:
    """Lines counted from 1: "L10-L24", or "L10" for one line."""
    return f"L{first}-L{last}" if last > first else f"L{first}"


def parse_first_line(lines: str) -> int:
    """The 10 of "L10-L24"."""
    return int(lines.removeprefix("L").partition("-")[0])


def link_to_lines(url: str | None, lines: str) -> str | None:
    """A web address with the lines as its fragment, unless it has a fragment already."""
    if url and url.startswith(("http://", "https://")) and "#" not in url:
        return f"{url}#{lines}"
    return url


def cite_other_lines(citation: Citation, first_line: int, last_line: int) -> Citation:
    """The citation of other lines of the same document."""
    lines = format_lines(first_line, last_line)
    url = citation.url.removesuffix(f"#{citation.lines}") if citation.url else None
    return replace(citation, lines=lines, url=link_to_lines(url, lines))
