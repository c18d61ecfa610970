"""Queries and results as the page shows them: addresses, headings, lines, scores."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import fsum
from typing import Any, cast, get_args
from urllib.parse import unquote, urlencode, urlsplit

from markupsafe import Markup
from starlette.datastructures import QueryParams

from knowledge_pipeline.context.select import Excerpt
from knowledge_pipeline.contract import responses
from knowledge_pipeline.contract.describe import DOUBTED_BELOW, format_lines, parse_first_line, round_to_sum
from knowledge_pipeline.contract.filters import (
    SOURCE_TYPE_LABELS,
    TIME_FILTERS,
    Filters,
    SearchMode,
    SearchType,
    SourceType,
)
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.file_languages import is_code
from knowledge_pipeline.query.plan import PROFILES, read_filters
from knowledge_pipeline.records import parse_record_kind
from knowledge_pipeline.serve.page.markdown_html import (
    LinkResolver,
    TermMatcher,
    render_lines,
    render_markdown,
    render_marked,
)
from knowledge_pipeline.text import format_share
from knowledge_pipeline.times import parse_query_time

_LINES = re.compile(r"L(\d+)(?:-L(\d+))?")


def document_url(source: str, uri: str, lines: str = "", **more: str) -> str:
    """Where a whole document is shown, at some lines: "L10-L24"."""
    params = {"id": f"{source}:{uri}", **more, **({"lines": lines} if lines else {})}
    first = lines.partition("-")[0]
    return f"/doc?{urlencode(params)}{f'#{first}' if first else ''}"


def result_url(result: responses.SearchResult, **more: str) -> str:
    """Where the document of a result is shown as it was indexed, at the result's lines."""
    lines = format_lines(result.span.start_line, result.span.end_line)
    return document_url(result.citation.source, result.span.uri, lines, **more)


def related_url(document: responses.RelatedDocument) -> str:
    """Where a related document is shown."""
    return document_url(document.source, document.uri)


def line_url(citation: responses.Citation, line: int) -> str | None:
    """Where the source itself shows one line; None if it has no addresses of lines."""
    url = web_url_of(citation.url)
    if url is None or not url.endswith(f"#{citation.lines}"):
        return None
    return f"{url.removesuffix(citation.lines)}L{line}"


def web_url_of(url: str | None) -> str | None:
    """An address on the web, else None."""
    return url if url and url.lower().startswith(("http://", "https://")) else None


def parse_line_range(lines: str) -> tuple[int, int] | None:
    """The first and last line of "L10-L24" or "L10"; None where it is neither."""
    match = _LINES.fullmatch(lines)
    return (int(match[1]), int(match[2] or match[1])) if match and len(lines) < 30 else None


def build_link_resolver(source: str, path: str) -> LinkResolver:
    """Resolves relative links of a document to other documents of its source."""

    def resolve(href: str) -> str | None:
        try:
            parts = urlsplit(href)
        except ValueError:
            return None
        if parts.scheme or parts.netloc or not parts.path or ":" in parts.path.partition("/")[0]:
            return None
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(parts.path))).lstrip("/")
        return None if joined.startswith("..") else document_url(source, joined)

    return resolve


_PREVIEW_LINES = 14  # of code that are shown at first
_FOLD_TOLERANCE = 4  # lines that are not worth a click
_CONTEXT_LINES = 1  # lines around a marked one
_SCORE_DIGITS = 3
_FOLD_PROSE_CHARS = 900  # characters above which prose is folded
_MARKDOWN_TYPES = frozenset(
    {"markdown", "github_issues", "github_pr", "discussions", "releases", "archive", "openapi"}
)


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One line of code."""

    number: int
    html: Markup
    url: str  # where it is shown: in the source, else in the document
    folded: bool = False
    after_gap: bool = False  # the lines before it are folded
    is_target: bool = False  # the address of the page names it, or an exact search matched it


@dataclass(frozen=True, slots=True)
class ScoreBar:
    """One score of a result, and how it compares with the best of the answer."""

    name: str
    label: str
    fraction: float  # 0 to 1
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class ResultView:
    """One result."""

    number: int
    result: responses.SearchResult
    folder: Markup
    name: Markup
    symbol: Markup | None
    url: str  # of the document
    source_url: str | None
    lines: tuple[CodeLine, ...]  # of code; prose has none
    prose: Markup | None
    folded_lines: int  # lines that are folded away; of prose 1 where it is long
    bars: tuple[ScoreBar, ...]
    graph_url: str | None  # of code
    blame_url: str | None  # of what may be a file of a repository

    @property
    def modified(self) -> str:
        """The date of the last change; "" if it is not known."""
        return str(self.result.metadata.get("last_modified", ""))[:10]


def build_result_views(answer: responses.SearchResponse, matcher: TermMatcher, q: str) -> list[ResultView]:
    """The results of a search, in order. Takes milliseconds for each."""
    best: dict[str, float] = {}
    for result in answer.results:
        for name, score, _ in _iter_scores(result):
            best[name] = max(best.get(name, 0.0), score or 0.0)
    numbered = enumerate(answer.results, start=1)
    return [_build_result_view(number, result, matcher, best, q) for number, result in numbered]


def type_label_of(source_type: str) -> str:
    """What people call a document of a type of source."""
    return SOURCE_TYPE_LABELS.get(source_type, source_type.replace("_", " "))


def build_code_lines(
    result: responses.SearchResult, text: str, first_line: int, matcher: TermMatcher, *, fold: bool = True
) -> list[CodeLine]:
    """Code as numbered lines; of long code, the less relevant ones are folded."""
    language = result.metadata.get("language")
    html = render_lines(text, str(language) if language else None, matcher)
    hits = {match.line - first_line for match in result.matches or ()}
    shown = _select_preview_lines(html, hits) if fold else [True] * len(html)
    code_lines = list[CodeLine]()
    for at, line in enumerate(html):
        number = first_line + at
        indexed = number + result.span.start_line - parse_first_line(result.citation.lines)
        inside = document_url(result.citation.source, result.span.uri, f"L{indexed}")
        url = line_url(result.citation, number) or inside
        after_gap = shown[at] and at > 0 and not shown[at - 1]
        code_lines.append(CodeLine(number, line, url, not shown[at], after_gap, is_target=at in hits))
    return code_lines


def is_shown_as_code(result: responses.SearchResult) -> bool:
    """Whether a result is shown line by line."""
    if result.metadata.get("source_type") in ("code", "git_history"):
        return True
    language = result.metadata.get("language")
    return bool(language) and is_code(str(language))


def render_prose(
    result: responses.SearchResult, text: str, matcher: TermMatcher, *, first_line: int | None = None
) -> Markup:
    """Text of a document as HTML, rendered if it is Markdown."""
    metadata, citation = result.metadata, result.citation
    if metadata.get("source_type") in _MARKDOWN_TYPES or metadata.get("language") == "markdown":
        leads = build_link_resolver(citation.source, citation.path)
        return render_markdown(text, matcher, resolve_link=leads, first_line=first_line)
    id_ = Markup(' id="L{}"').format(first_line) if first_line else Markup("")
    return Markup('<p class="plain"{}>{}</p>').format(id_, render_marked(text, matcher))


def _build_result_view(
    number: int, result: responses.SearchResult, matcher: TermMatcher, best: dict[str, float], q: str
) -> ResultView:
    citation, metadata = result.citation, result.metadata
    code = is_shown_as_code(result)
    whole = Excerpt.from_result(result)
    lines = build_code_lines(result, whole.text, parse_first_line(citation.lines), matcher) if code else []
    folder, _, name = citation.path.rpartition("/")
    heading = _heading_of(result)
    return ResultView(
        number=number,
        result=result,
        folder=render_marked(f"{folder}/" if folder else "", matcher),
        name=render_marked(name or citation.title or result.span.uri, matcher),
        symbol=render_marked(heading, matcher) if heading else None,
        url=result_url(result, **({"q": q} if q else {})),
        source_url=web_url_of(citation.url),
        lines=tuple(lines),
        prose=None if code else render_prose(result, result.content, matcher),
        folded_lines=sum(line.folded for line in lines)
        if code
        else int(len(result.content) > _FOLD_PROSE_CHARS),
        bars=tuple(_iter_bars(result, best)),
        graph_url=graph_url_of(result),
        blame_url=f"/blame?id={result.id}" if metadata.get("repo") and code else None,
    )


def graph_url_of(result: responses.SearchResult) -> str | None:
    """The page with the code graph around a result; None if it is not code."""
    metadata, citation = result.metadata, result.citation
    if metadata.get("source_type") != "code":
        return None
    anchor = metadata.get("symbol") or result.span.start_line
    params = {"target": f"{citation.path}:{anchor}", "source": citation.source}
    return f"/graph?{urlencode(params)}"


def _heading_of(result: responses.SearchResult) -> str:
    metadata = result.metadata
    heading = str(metadata.get("symbol") or metadata.get("section") or result.citation.title or "")
    page = f" (page {metadata['page']})" if metadata.get("page") else ""
    return " ".join(heading.split())[:160] + page


def _select_preview_lines(html: Sequence[Markup], hits: Collection[int]) -> list[bool]:
    """Which lines are not folded: all of a short text, otherwise its head and lines near marks and hits."""
    if len(html) <= _PREVIEW_LINES + _FOLD_TOLERANCE:
        return [True] * len(html)
    wanted: dict[int, None] = {0: None, 1: None}
    for at, line in enumerate(html):
        if ("<mark>" in line or at in hits) and len(wanted) < _PREVIEW_LINES:
            near = range(max(0, at - _CONTEXT_LINES), min(len(html), at + _CONTEXT_LINES + 1))
            wanted |= dict.fromkeys(near)
    for at in range(len(html)):
        if len(wanted) < _PREVIEW_LINES:
            wanted[at] = None
    return [at in wanted for at in range(len(html))]


def _iter_scores(result: responses.SearchResult) -> Iterator[tuple[str, float | None, int | None]]:
    why = result.explain
    if why is not None:
        yield "words (BM25)", why.bm25_score, why.bm25_rank
        yield "meaning (cosine)", why.vector_score, why.vector_rank
        boosts = round_to_sum(list(why.boosts.values()), _SCORE_DIGITS)
        for name, boost in zip(why.boosts, boosts, strict=True):
            yield name.replace("_", " "), boost, None
        yield "log-odds", fsum(boosts) if boosts else None, None
        yield "fused score", why.fused, None
        yield "reranked", why.rerank, None
    yield "score", result.score, None


def _iter_bars(result: responses.SearchResult, best: dict[str, float]) -> Iterator[ScoreBar]:
    for name, score, rank in _iter_scores(result):
        if score is not None:
            share = max(0.0, score) / best[name] if best[name] > 0 else 0.0
            yield ScoreBar(name, f"{score:.{_SCORE_DIGITS}f}", min(1.0, share), rank)
        elif name in ("words (BM25)", "meaning (cosine)"):
            yield ScoreBar(name, "not found", 0.0)


_MATCHES = ((1 - DOUBTED_BELOW, "Good"), (DOUBTED_BELOW, "Fair"), (0.0, "Weak"))  # from this confidence on


def describe_match(answer: responses.SearchResponse) -> tuple[str, str]:
    """How good the results are, in two words, and how likely one of them answers."""
    if not answer.results:
        return "Nothing found", ""
    if answer.results[0].matches is not None:  # which are in no order of how well they match
        return "Found as written", ""
    if answer.confidence is None:  # not compared by its meaning
        return f"Best match {format_share(answer.results[0].score)}", ""
    word = next(word for least, word in _MATCHES if answer.confidence >= least)
    return f"{word} match", f"{format_share(answer.confidence)} likely to answer"


def count_facets(results: Sequence[responses.SearchResult]) -> dict[str, list[tuple[str, int]]]:
    """How many of the results each type, source, language and kind of record has; the most first."""
    values = {
        "source_type": [result.metadata.get("source_type") for result in results],
        "source": [result.citation.source for result in results],
        "language": [result.metadata.get("language") for result in results],
        "record_kind": [
            parse_record_kind(kind) or kind
            for result in results
            if (kind := str(result.metadata.get("kind") or ""))
            and result.metadata.get("source_type") in ("archive", "custom")
        ],
    }
    return {
        name: sorted(Counter(map(str, filter(None, entries))).items(), key=lambda pair: (-pair[1], pair[0]))
        for name, entries in values.items()
    }


_TYPED_TERM = re.compile(r"""(?<!\S)\w+:(?:"[^"]+"|'[^']+'|\S+)""")


def list_typed_filters(page_query: PageQuery, applied: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The words of a query that the search took as filters, and the address of the query without each.

    Args:
        applied: the filters of the search, as its response explains them.
    """
    q, typed = page_query.q, list[tuple[str, str]]()
    for match in _TYPED_TERM.finditer(q):
        terms = [(name, value) for name, value in asdict(read_filters(match.group())).items() if value]
        if any(_is_applied(name, value, filters) for name, value in terms for filters in applied):
            rest = f"{q[: match.start()].strip()} {q[match.end() :].strip()}".strip()
            typed.append((match.group(), page_query.url(q=rest, limit=DEFAULT_LIMIT)))
    return typed


def _is_applied(name: str, value: Any, filters: Mapping[str, Any]) -> bool:
    if name not in filters or name in TIME_FILTERS:
        return name in filters
    # the search has an absolute path from the root of its source
    return all(any(typed.endswith(own) for own in filters[name]) for typed in value)


DEFAULT_LIMIT = 20
LIMIT_STEP = 30  # more results for each click on "More results"

TABS: Mapping[SearchType, str] = {
    "semantic": "Everything",
    "code": "Code",
    "historical": "History",
    "similar": "Like this text",
}
MODES: Mapping[SearchMode, str] = {
    "hybrid": "Words and meaning",
    "words": "Words alone",
    "vectors": "Meaning alone",
    "exact": "This exact text",
    "regex": "A regular expression",
}
_LIST_FILTERS = ("source_type", "source", "language", "record_kind", "path")
FILTER_NAMES = (*_LIST_FILTERS, "since")


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The query of a page with its filters, as the page's address has it. Raises `InvalidQuery`."""

    q: str = ""
    type: SearchType = "semantic"
    source_type: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    since: str = ""
    limit: int = DEFAULT_LIMIT
    mode: SearchMode = "hybrid"
    record_kind: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.type not in PROFILES:
            raise InvalidQuery(f"found the search type {self.type!r}; allowed: {', '.join(PROFILES)}")
        if self.mode not in MODES:
            raise InvalidQuery(f"found the mode {self.mode!r}; allowed: {', '.join(get_args(SearchMode))}")
        if self.limit < 1:
            raise InvalidQuery(f"found limit {self.limit}; allowed: 1 or more")

    @classmethod
    def from_params(cls, params: QueryParams) -> PageQuery:
        """The query of an address; empty parameters do not count."""
        limit = params.get("limit", str(DEFAULT_LIMIT))
        if not (limit.isascii() and limit.isdecimal()):
            raise InvalidQuery("the limit is not a number")
        lists: dict[str, Any] = {
            name: tuple(dict.fromkeys(text for value in params.getlist(name) if (text := value.strip())))
            for name in _LIST_FILTERS
        }
        type_: Any = params.get("type") or "semantic"
        mode: Any = params.get("mode") or "hybrid"
        q, since = params.get("q", "").strip(), params.get("since", "").strip()
        return cls(q=q, type=type_, since=since, limit=int(limit[:9]), mode=mode, **lists)

    @property
    def is_filtered(self) -> bool:
        """Whether there is any filter."""
        return any(getattr(self, name) for name in FILTER_NAMES)

    def list_chosen(self) -> list[tuple[str, str]]:
        """The filters beside a query, and the address of the query without each."""
        chosen = list[tuple[str, str]]()
        for name in _LIST_FILTERS:
            for value in getattr(self, name):
                label = type_label_of(value) if name == "source_type" else value
                title = name.removeprefix("source_").replace("_", " ")
                chosen.append((f"{title} {label}", self.toggle_url(name, value)))
        return chosen + ([(f"since {self.since}", self.url(since=""))] if self.since else [])

    def to_filters(self) -> Filters:
        """The filters of the search. Raises `InvalidQuery` for an invalid date."""
        return Filters(
            source_types=cast("tuple[SourceType, ...]", self.source_type),  # an unknown one matches nothing
            sources=self.source,
            languages=self.language,
            record_kinds=self.record_kind,
            paths=self.path,
            since=parse_query_time("since", self.since) if self.since else None,
        )

    def url(self, **changed: Any) -> str:
        """The address of this query, with some parameters changed."""
        return f"/?{urlencode(list(replace(self, **changed).to_params()))}"

    def to_params(self) -> list[tuple[str, str]]:
        """Parameters that differ from the defaults."""
        defaults, pairs = PageQuery(), list[tuple[str, str]]()
        for field in fields(self):
            value: str | int | tuple[str, ...] = getattr(self, field.name)
            if value != getattr(defaults, field.name):
                pairs += [(field.name, str(one)) for one in (value if isinstance(value, tuple) else (value,))]
        return pairs

    def toggle_url(self, name: str, value: str) -> str:
        """The address with a value of a filter added, or removed if it is there."""
        values: tuple[str, ...] = getattr(self, name)
        changed = tuple(other for other in values if other != value) if value in values else (*values, value)
        return self.url(**{name: changed, "limit": DEFAULT_LIMIT})
