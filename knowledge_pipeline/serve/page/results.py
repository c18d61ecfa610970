"""Results as the page shows them: what is on top, which lines, and why it is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from knowledge_pipeline.languages import is_code
from knowledge_pipeline.query.agent_context.excerpts import Part, excerpts
from knowledge_pipeline.query.search.assemble import Answer, Neighbours, Relation, Result
from knowledge_pipeline.serve.page import links
from knowledge_pipeline.serve.page.code_html import lines_of, marked
from knowledge_pipeline.serve.page.markdown_html import html_of
from knowledge_pipeline.serve.page.term_matching import Marks

_LINES = 14  # of code that are shown at first
_SPARED = 4  # lines that are not worth a click
_AROUND = 1  # lines around a marked one
_LONG_PROSE = 900  # characters above which prose is folded
_MARKDOWN = frozenset({"markdown", "github_issues", "github_pr", "archive", "openapi"})
_KINDS = {
    "code": "code",
    "markdown": "docs",
    "openapi": "API",
    "git_history": "commit",
    "github_pr": "pull request",
    "github_issues": "issue",
    "jira": "ticket",
    "confluence": "wiki",
    "slack": "chat",
    "files": "file",
    "archive": "archive",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of code."""

    number: int
    html: Markup
    url: str  # where it is shown: in the source, else in the document
    far: bool = False  # from what was asked for, and folded away
    gap: bool = False  # lines before it are folded away
    hit: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """One score of a result, and how it compares with the best of the answer."""

    name: str
    told: str
    share: float  # 0 to 1
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """One result."""

    number: int
    result: Result
    kind: str
    folder: Markup
    name: Markup
    symbol: Markup | None
    url: str  # of the document
    source_url: str | None
    lines: tuple[Line, ...]  # of code; prose has none
    prose: Markup | None
    folded: int  # lines that are folded away; of prose 1 where it is long
    bars: tuple[Bar, ...]
    similar_url: str
    graph_url: str | None  # of code
    related_url: str

    @property
    def surroundings(self) -> Neighbours | None:
        """What it calls and what calls it, where the answer tells."""
        return self.result.graph

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Documents that it is related to."""
        return self.result.related

    @property
    def modified(self) -> str:
        """The day of the last change; "" where it is not known."""
        return str(self.result.metadata.get("last_modified", ""))[:10]


def shown(answer: Answer, marks: Marks, q: str) -> list[Shown]:
    """The results of an answer to a question, in their order. Takes milliseconds for each."""
    best = _best(answer.results)
    return [_one(number, each, marks, best, q) for number, each in enumerate(answer.results, start=1)]


def kind_of(source_type: str) -> str:
    """What a person calls a document of a type of source."""
    return _KINDS.get(source_type, source_type.replace("_", " "))


def code_lines(
    result: Result, text: str, first_line: int, marks: Marks, *, folding: bool = True
) -> list[Line]:
    """A piece of code as numbered lines; where it is long, those that tell little are `far`."""
    language = result.metadata.get("language")
    html = lines_of(text, str(language) if language else None, marks)
    near = _near(html) if folding else [True] * len(html)
    made = list[Line]()
    for at, line in enumerate(html):
        number = first_line + at
        inside = links.document_url(result.citation.source, result.span.uri, f"L{number}")
        url = links.line_url(result.citation, number) or inside
        gap = near[at] and at > 0 and not near[at - 1]
        made.append(Line(number, line, url, far=not near[at], gap=gap))
    return made


def is_shown_as_code(result: Result) -> bool:
    """Whether a passage is shown line by line."""
    if result.metadata.get("source_type") in ("code", "git_history"):
        return True
    language = result.metadata.get("language")
    return bool(language) and is_code(str(language))


def prose_of(result: Result, text: str, marks: Marks, *, first_line: int | None = None) -> Markup:
    """A passage of a document as HTML, as Markdown where it is some."""
    known, citation = result.metadata, result.citation
    if known.get("source_type") in _MARKDOWN or known.get("language") == "markdown":
        leads = links.leads_from(citation.source, citation.path)
        return html_of(text, marks, leads=leads, first_line=first_line)
    id_ = Markup(' id="L{}"').format(first_line) if first_line else Markup("")
    return Markup('<p class="plain"{}>{}</p>').format(id_, marked(text, marks))


def _one(number: int, result: Result, marks: Marks, best: dict[str, float], q: str) -> Shown:
    citation, known = result.citation, result.metadata
    code = is_shown_as_code(result)
    (whole,) = excerpts([Part.whole(result)])
    lines = code_lines(result, whole.text, whole.start_line, marks) if code else []
    folder, _, name = citation.path.rpartition("/")
    heading = _heading(result)
    return Shown(
        number=number,
        result=result,
        kind=kind_of(str(known.get("source_type", ""))),
        folder=marked(f"{folder}/" if folder else "", marks),
        name=marked(name or citation.title or result.span.uri, marks),
        symbol=marked(heading, marks) if heading else None,
        url=links.document_url_of(result, **({"q": q} if q else {})),
        source_url=links.source_url(citation),
        lines=tuple(lines),
        prose=None if code else prose_of(result, result.content, marks),
        folded=sum(line.far for line in lines) if code else int(len(result.content) > _LONG_PROSE),
        bars=tuple(_bars(result, best)),
        similar_url=f"/similar?{urlencode({'id': result.id})}",
        graph_url=graph_url_of(result),
        related_url=f"/related?{urlencode({'id': result.id})}",
    )


def graph_url_of(result: Result) -> str | None:
    """Where the code graph around a piece of code is shown; None where it is no code."""
    known, citation = result.metadata, result.citation
    if known.get("source_type") != "code":
        return None
    place = known.get("symbol") or result.span.start_line
    asked = {"target": f"{citation.path}:{place}", "source": citation.source}
    return f"/graph?{urlencode(asked)}"


def _heading(result: Result) -> str:
    known = result.metadata
    told = str(known.get("symbol") or known.get("section") or result.citation.title or "")
    page = f" (page {known['page']})" if known.get("page") else ""
    return " ".join(told.split())[:160] + page


def _near(html: Sequence[Markup]) -> list[bool]:
    """Which lines are shown at first: all of a short text, else its head and what is around marks."""
    if len(html) <= _LINES + _SPARED:
        return [True] * len(html)
    wanted: dict[int, None] = {0: None, 1: None}
    for at, line in enumerate(html):
        if "<mark>" in line and len(wanted) < _LINES:
            wanted |= dict.fromkeys(range(max(0, at - _AROUND), min(len(html), at + _AROUND + 1)))
    for at in range(len(html)):
        if len(wanted) >= _LINES:
            break
        wanted[at] = None
    return [at in wanted for at in range(len(html))]


def _scores(result: Result) -> Iterator[tuple[str, float | None, int | None]]:
    why = result.explain
    if why is not None:
        yield "words (BM25)", why.bm25_score, why.bm25_rank
        yield "meaning (cosine)", why.vector_score, why.vector_rank
        for name, boost in why.boosts.items():
            yield f"boost: {name}", boost, None
        yield "fused", why.fused, None
        yield "reranked", why.rerank, None
    yield "score", result.score, None


def _best(results: Sequence[Result]) -> dict[str, float]:
    best: dict[str, float] = {}
    for result in results:
        for name, score, _ in _scores(result):
            best[name] = max(best.get(name, 0.0), score or 0.0)
    return best


def _bars(result: Result, best: dict[str, float]) -> Iterator[Bar]:
    for name, score, rank in _scores(result):
        if score is not None:
            share = max(0.0, score) / best[name] if best[name] > 0 else 0.0
            yield Bar(name, f"{score:.3f}", min(1.0, share), rank)
        elif name in ("words (BM25)", "meaning (cosine)"):
            yield Bar(name, "not found by it", 0.0)


def facets(results: Sequence[Result]) -> dict[str, list[tuple[str, int]]]:
    """How many of the results each type, source and language has; the most first."""
    values: dict[str, Any] = {
        "source_type": [each.metadata.get("source_type") for each in results],
        "source": [each.citation.source for each in results],
        "language": [each.metadata.get("language") for each in results],
    }
    return {name: _counted(filter(None, found)) for name, found in values.items()}


def _counted(values: Any) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for value in values:
        counts[str(value)] = counts.get(str(value), 0) + 1
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))
