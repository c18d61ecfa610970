"""`search`, `similar`, `get`, `related`, `debug` and `feedback`: commands that ask the live release."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from knowledge_pipeline.cli.filter_options import FilterOptions
from knowledge_pipeline.cli.screen import Screen, escape_controls, format_count, one_line
from knowledge_pipeline.cli.session import (
    Blame,
    MaxAge,
    Session,
    WrongUsage,
    example,
    iter_index_locations,
    read_beginning,
)
from knowledge_pipeline.contract.describe import (
    describe_blame,
    describe_boosts,
    describe_branches,
    describe_doubt,
    describe_neighbours,
    describe_relation,
    describe_skipped_step,
    format_nested,
)
from knowledge_pipeline.contract.filters import ContentType, RankedMode, SearchMode, SearchType
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.text import truncate

if TYPE_CHECKING:
    from datetime import datetime

    from knowledge_pipeline.contract.filters import Filters
    from knowledge_pipeline.contract.responses import (
        RelatedDocument,
        RelationsResponse,
        ScoreExplanation,
        SearchResponse,
        SearchResult,
        TraceResponse,
    )
    from knowledge_pipeline.knowledge_base import KnowledgeBase


Limit = Annotated[int | None, Option("--limit", "-n", metavar="N", help="How many results.", min=1)]
Lines = Annotated[
    int, Option("--lines", metavar="N", help="Lines to show of each result; 0: only its location.", min=0)
]
Explain = Annotated[bool, Option("--explain", help="Explain each score, and show timings.")]
Mode = Annotated[
    RankedMode,
    Option("--mode", help="Search by words and meaning, by words alone (no model), or by meaning alone."),
]
File = Annotated[
    str | None, Option("--file", metavar="PATH", help="Find what is similar to this file, indexed or not.")
]


@example("""
    knowledge search "how are sessions signed"
    knowledge search "retry with backoff" --type code --language python --path "src/**"
    knowledge search "why was the cache removed" --type historical --since 180d
    knowledge search "E_CONN_RESET" --mode words
    knowledge search "session->sign(" --mode exact --path "src/**"
    knowledge search --file src/auth.py --json
""")
def search(
    session: Session,
    query: Annotated[
        str | None,
        Argument(metavar="QUERY", help="A question, keywords, or a name; `lang:go path:src/` narrow it."),
    ] = None,
    type: Annotated[
        SearchType | None, Option("--type", "-t", help="What to look for.  [default: semantic]")
    ] = None,
    file: File = None,
    limit: Limit = None,
    lines: Lines = 12,
    explain: Explain = False,
    blame: Blame = False,
    mode: Annotated[
        SearchMode,
        Option(
            "--mode",
            help="Search by words and meaning, by words alone (no model), by meaning alone, or as grep does: "
            "for the exact text, or by a regular expression.",
        ),
    ] = "hybrid",
    max_age: MaxAge = None,
    *,
    filter_options: FilterOptions,
) -> None:
    """Find what answers a question best.

    Types: semantic (everything), code (source files only), similar (like the given text
    or --file), historical (commits). Results are citations: path, lines, score, content.
    The modes exact and regex show every line that matches instead; letter case counts.
    """
    if file is not None and type not in (None, "similar"):
        raise WrongUsage(f"--file finds what is similar to a file: omit --type {type}")
    if blame and (file is not None or type == "similar"):
        raise WrongUsage("--blame is for a question: ask `knowledge get ID --blame` of a similar result")
    if query is None and file is None:
        raise WrongUsage("give a QUERY, or --file")
    filters = filter_options.to_filters()
    if mode in ("hybrid", "vectors"):
        session.preload_models(query or "")
    with session.open_knowledge_base() as base:
        if file is not None or type == "similar":
            ask = partial(
                base.similar, filters=filters, limit=limit, explain=explain, mode=mode, max_age=max_age
            )
            response = _search_similar(ask, base, query, file, filters)
        else:
            response = base.search(
                query or "",
                type=type or "semantic",
                filters=filters,
                limit=limit,
                explain=explain,
                blame=blame,
                mode=mode,
                max_age=max_age,
            )
        _show_results(session.screen, response, lines=lines)  # the log need not be written for that


@example("""
    knowledge similar --file src/auth.py
    knowledge similar "for attempt in range(tries): ..."
    git show HEAD:src/auth.py | knowledge similar -
""")
def similar(
    session: Session,
    text: Annotated[
        str | None, Argument(metavar="TEXT", help="Code or prose; `-` reads it from stdin.")
    ] = None,
    file: File = None,
    content_type: Annotated[
        ContentType | None,
        Option("--content-type", "--type", "-t", help="What to look for; by default what TEXT is."),
    ] = None,
    limit: Limit = None,
    lines: Lines = 12,
    explain: Explain = False,
    mode: Mode = "hybrid",
    max_age: MaxAge = None,
    *,
    filter_options: FilterOptions,
) -> None:
    """Find what is similar to a text or to a file.

    Chunks of the file itself are left out. Results are of the file's type, and of a TEXT that
    is code, code, unless --content-type or --source-type says otherwise.
    """
    if (text is None) == (file is None):
        raise WrongUsage("give either TEXT or --file")
    filters = filter_options.to_filters()
    example_text = sys.stdin.read(session.settings.limits.example_chars) if text == "-" else text
    if mode != "words":
        session.preload_models()
    with session.open_knowledge_base() as base:
        ask = partial(base.similar, filters=filters, limit=limit, explain=explain, mode=mode, max_age=max_age)
        response = _search_similar(partial(ask, content_type=content_type), base, example_text, file, filters)
    _show_results(session.screen, response, lines=lines)


def _search_similar(
    ask: Callable[..., SearchResponse],
    base: KnowledgeBase,
    text: str | None,
    file: str | None,
    filters: Filters,
) -> SearchResponse:
    """What is similar to a text, to an indexed file, or to the content of another file."""
    if file is None:
        return ask(text=text)
    for path, source in iter_index_locations(file, base.settings):
        only_source = filters.sources[0] if len(filters.sources) == 1 else source
        try:
            return ask(text=text, path=path, source=only_source)
        except NotFound:
            if not Path(file).is_file():  # then it has one location only
                raise
    return ask(text=text or read_beginning(file, base.settings))


@example("""
    knowledge debug --query "how are sessions signed" --explain
""")
def debug(
    session: Session,
    query: Annotated[str, Option(metavar="QUERY", help="The question to look into.")],
    type: Annotated[SearchType, Option("--type", "-t", help="What to look for.")] = "semantic",
    limit: Annotated[int, Option("--limit", "-n", metavar="N", help="How many candidates.", min=1)] = 20,
    mode: Annotated[
        RankedMode, Option("--mode", help="Search by words and meaning, by words alone, or by meaning alone.")
    ] = "hybrid",
    explain: Annotated[
        bool, Option("--explain", help="Accepted for scripts; this command always explains.")
    ] = True,
    *,
    filter_options: FilterOptions,
) -> None:
    """Show how a question is answered, step by step.

    Shows how the question was understood, the time of each step, and each candidate's ranks and scores.
    """
    del explain
    filters = filter_options.to_filters()
    with session.open_knowledge_base() as base:
        if type == "similar":
            response = base.similar(text=query, filters=filters, limit=limit, explain=True, mode=mode)
        else:
            response = base.search(query, type=type, filters=filters, limit=limit, explain=True, mode=mode)
    _show_search_steps(session.screen, response)


@example("""
    knowledge get 3f2a9c...
    knowledge get flask-code:src/flask/app.py --json
    knowledge get 3f2a9c... --blame
    knowledge get PROJ-12
""")
def get(
    session: Session,
    id: Annotated[str, Argument(metavar="ID", help="A chunk's id, SOURCE:URI, or a key as of `related`.")],
    blame: Blame = False,
    trace: Annotated[
        bool, Option("--trace", help="Show what made it instead: refresh, Dagster run, release.")
    ] = False,
    max_age: MaxAge = None,
) -> None:
    """Show one chunk, or all chunks of a document, in full."""
    with session.open_knowledge_base() as base:
        if trace:
            _show_trace(session.screen, base.trace(id, max_age=max_age))
        else:
            response = base.get(id, blame=blame, max_age=max_age)
            _show_results(session.screen, response, lines=None, scores=False)


@example("""
    knowledge related PROJ-12
    knowledge related owner/name#45
    knowledge related docs/decisions/store.md
    knowledge related https://wiki.example.org/wiki/spaces/OPS/pages/98765 --json
""")
def related(
    session: Session,
    target: Annotated[
        str,
        Argument(metavar="TARGET", help="A ticket's key, owner/name#12, a commit, a URL, a path, or an id."),
    ],
    limit: Annotated[
        int, Option("--limit", "-n", metavar="N", help="How many relations to show.", min=1)
    ] = 50,
    max_age: MaxAge = None,
) -> None:
    """Show what a document closes, implements, references or changes, and what does so to it.

    Relations come from links, ids and phrases in texts ("fixes PROJ-12"), from front matter,
    and from the services themselves, across all sources.
    """
    with session.open_knowledge_base() as base:
        response = base.related(target, max_age=max_age)
    _show_relations(session.screen, target, response, limit=limit)


@example("""
    knowledge search "retry with backoff" --json
    knowledge feedback 1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed 3f2a9c... --useful
""")
def feedback(
    session: Session,
    query_id: Annotated[
        str, Argument(metavar="QUERY_ID", help="The answer's `query_id`; --json and --explain show it.")
    ],
    result_id: Annotated[str, Argument(metavar="RESULT_ID", help="The result's id.")],
    clicked: Annotated[bool, Option("--clicked", help="The result was opened.")] = False,
    useful: Annotated[bool, Option("--useful", help="The result helped.")] = False,
    useless: Annotated[bool, Option("--useless", help="The result did not help.")] = False,
) -> None:
    """Record whether a result was opened, useful or useless.

    Feedback is stored for reports on answer quality, and `knowledge tune` learns from it; by itself
    it does not change any search.
    """
    if clicked + useful + useless != 1:
        raise WrongUsage("give one of --clicked, --useful and --useless")
    judgement = "clicked" if clicked else "useful" if useful else "useless"
    with session.open_knowledge_base() as base:
        base.feedback(query_id, result_id, judgement)
    session.screen.print_json({"query_id": query_id, "result_id": result_id, "judgement": judgement})
    session.screen.print_text(f"Noted: {judgement}.")


_MAX_LINE_CHARS = 200
_MAX_FULL_LINE_CHARS = 20_000
_MAX_NEIGHBOURS = 3  # of each kind
_MAX_COMMITS = 5  # that changed the lines of a result
_MAX_NAME_CHARS = 80


def _show_notes(screen: Screen, notes: Sequence[str]) -> None:
    for sentence in notes:
        screen.print_note(f"note: {one_line(sentence)}")


def _show_relations(screen: Screen, target: str, response: RelationsResponse, *, limit: int) -> None:
    screen.print_json(response.as_json())
    _show_notes(screen, response.notes)
    if not response.documents:
        screen.print_note(f"note: {one_line(target)} is mentioned, but is not indexed itself")
    for document in response.documents:
        screen.print_text(f"{_format_document_name(document)}  [{document.source}]", style="bold cyan")
    rows = [
        {
            "relation": describe_relation(relation),
            "document": _format_document_name(document := relation.document),
            "source": document.source,
            "modified": document.last_modified and document.last_modified.date().isoformat(),
            "get": f"{document.source}:{document.uri}",
        }
        for relation in response.relations[:limit]
    ]
    screen.print_table(rows)
    if not rows:
        screen.print_text("No indexed document mentions it, and it mentions none.")
    if len(response.relations) > limit:
        rest = format_count(len(response.relations) - limit, "more relation")
        screen.print_note(f"{rest}: --limit shows them")
    if response.is_truncated:
        screen.print_note("note: more documents mention it than were read")
    unresolved = response.unresolved_mentions
    if mentions := [one_line(mention.target) for mention in unresolved if mention.kind != "references"]:
        screen.print_note(f"not indexed, or not visible: {', '.join(mentions)}")


def _format_document_name(document: RelatedDocument) -> str:
    labels = filter(None, (document.status, "archived" if document.archived else None))
    name = document.title or document.path or document.uri
    is_file = document.source_type in ("code", "markdown") and document.path != name
    shown = truncate(one_line(name), _MAX_NAME_CHARS) + "".join(f" ({label})" for label in labels)
    return shown + (f"  {document.path}" if is_file else "")


def _show_results(screen: Screen, answer: SearchResponse, *, lines: int | None, scores: bool = True) -> None:
    """Show results in their order, each with at most so many `lines` (None: all)."""
    screen.print_json(answer.as_json())
    _show_notes(screen, answer.notes)
    for step in answer.degraded:
        note = describe_skipped_step(step, answer.embedded_share).rstrip(".")
        why = answer.explain["degraded"].get(step) if answer.explain else None
        reason = one_line(format_nested(why)) if why else "--explain says why"
        screen.print_note(f"note: {note[:1].lower()}{note[1:]} ({reason})")
    corrected: Mapping[str, str] = (answer.explain or {}).get("corrected") or {}
    for word, near in corrected.items():
        screen.print_note(f"note: {word!r} is in no document, and was read as {near!r}")
    if doubt := describe_doubt(answer):
        screen.print_note(f"note: {doubt[:1].lower()}{doubt[1:].rstrip('.')}")
    for number, result in enumerate(answer.results, start=1):
        screen.print_text(_format_heading(number, result, scores=scores), style="bold cyan")
        if result.explain:
            screen.print_text(f"   {_format_explanation(result.explain)}")
        if lines != 0:
            _show_content(screen, result, lines)
        for line in describe_blame(result.blame or (), max_named=_MAX_COMMITS):
            screen.print_text(f"   {one_line(line)}", style="dim")
        if result.related:
            related = (
                f"{describe_relation(item)} {_format_document_name(item.document)} [{item.document.source}]"
                for item in result.related
            )
            screen.print_text(f"   {' · '.join(related)}", style="dim")
        if result.graph:
            for line in describe_neighbours(result.graph, max_named=_MAX_NEIGHBOURS):
                screen.print_text(f"   {one_line(line)}", style="dim")
        screen.print_text()
    if not answer.results:
        screen.print_text("Nothing was found.")
    if answer.explain:
        steps = ", ".join(f"{step} {spent:.1f}" for step, spent in answer.timings_ms.items())
        screen.print_text(
            f"query {answer.query_id}, release {answer.release}, {answer.took_ms:.1f} ms: {steps}"
        )


def _show_search_steps(screen: Screen, answer: SearchResponse) -> None:
    screen.print_json(answer.as_json())
    explain = answer.explain or {}
    names = ("corrected", "generated", "filters", "confidence", "degraded")
    understood = {**explain.get("question", {}), **{name: explain.get(name) for name in names}}
    rows = [{"understood": name, "as": format_nested(value)} for name, value in understood.items() if value]
    screen.print_table(rows)
    steps = [{"step": step, "ms": spent} for step, spent in answer.timings_ms.items()]
    screen.print_table([*steps, {"step": "all", "ms": answer.took_ms}], right_aligned=("ms",))
    rows = [_candidate_row(rank, result) for rank, result in enumerate(answer.results, start=1)]
    numbers = ("#", "score", "vector", "cosine", "words", "bm25", "fused", "rerank")
    screen.print_table(rows, right_aligned=numbers)
    if not answer.results:
        screen.print_text("Nothing was found.")


def _format_heading(number: int, result: SearchResult, *, scores: bool) -> str:
    """`1. src/flask/app.py:10-24  0.83  Flask.run  [flask-code]`, and the id that `get` takes."""
    label, branches = _format_label(result), one_line(describe_branches(result))
    score, source = f"{result.score:.2f}" if scores else "", f"[{result.citation.source}]"
    parts = (f"{number}. {_format_location(result)}", score, label, branches, source, result.id)
    return "  ".join(filter(None, parts))


def _format_location(result: SearchResult) -> str:
    citation = result.citation
    return f"{one_line(citation.path or citation.url or '')}:{citation.lines.replace('L', '')}"


def _format_label(result: SearchResult) -> str:
    metadata = result.metadata
    label = metadata.get("symbol") or metadata.get("section") or result.citation.title or ""
    page = f" (page {metadata['page']})" if metadata.get("page") else ""
    return truncate(one_line(str(label)), 80) + page


def _show_content(screen: Screen, result: SearchResult, lines: int | None) -> None:
    every = result.content.split("\n")
    longest = _MAX_LINE_CHARS if lines is not None else _MAX_FULL_LINE_CHARS
    if result.matches:
        for match in result.matches[:lines]:
            text = escape_controls(truncate(match.text, longest).expandtabs(4))
            screen.print_text(f"   {match.line}: {text}")
        if lines is not None and len(result.matches) > lines:
            screen.print_text(f"   … {format_count(len(result.matches) - lines, 'more matching line')}")
        return
    shown = [truncate(line, longest) for line in every[:lines]]
    first = re.search(r"\d+", result.citation.lines)
    language, first_line = result.metadata.get("language"), int(first[0]) if first else 1
    screen.print_code("\n".join(shown), language=language, first_line=first_line)
    if len(every) > len(shown):
        rest = format_count(len(every) - len(shown), "more line")
        screen.print_text(f"   … {rest}: knowledge get {result.id}")


def _format_explanation(explanation: ScoreExplanation) -> str:
    parts = [
        f"words #{explanation.bm25_rank} {explanation.bm25_score:.2f}" if explanation.bm25_rank else "",
        f"vector #{explanation.vector_rank} {explanation.vector_score:.3f}"
        if explanation.vector_rank
        else "",
        f"fused {explanation.fused:.3f}",
        f"log-odds: {boosts}" if (boosts := describe_boosts(explanation)) else "",
        f"reranked {explanation.rerank:.3f}" if explanation.rerank is not None else "",
    ]
    return " · ".join(part for part in parts if part)


def _candidate_row(rank: int, result: SearchResult) -> dict[str, Any]:
    why = result.explain
    assert why is not None
    return {
        "#": rank,
        "score": _format_score(result.score),
        "words": why.bm25_rank,
        "bm25": _format_score(why.bm25_score),
        "vector": why.vector_rank,
        "cosine": _format_score(why.vector_score),
        "log-odds": describe_boosts(why),
        "fused": _format_score(why.fused),
        "rerank": _format_score(why.rerank),
        "where": _format_location(result),
        "what": _format_label(result),
        "space": why.space,
    }


def _format_score(score: float | None) -> str | None:
    return None if score is None else f"{score:.3f}"


def _show_trace(screen: Screen, trace: TraceResponse) -> None:
    screen.print_json(trace.as_json())
    _show_notes(screen, trace.notes)
    location = f"{trace.citation.path}:{trace.citation.lines.replace('L', '')}"
    screen.print_text(f"{one_line(location)}  [{trace.citation.source}]  {trace.id}", style="bold cyan")
    times = map(_format_time, (trace.indexed_at, trace.updated_at))
    first = f"{trace.first_release}, {_format_time(trace.first_released_at)}" if trace.first_release else None
    rows = [
        {"what": "revision in its source", "value": trace.revision},
        {"what": "document", "value": trace.document_hash},
        {"what": "chunk made of", "value": trace.chunk_fingerprint},
        {"what": "key of its vector", "value": trace.text_key},
        {"what": "indexed first, as it is since", "value": ", ".join(times)},
        {"what": "first kept release with it", "value": first or "none is kept"},
        {"what": "release that answered", "value": trace.release},
    ]
    screen.print_table([row for row in rows if row["value"] is not None])
    stages = [
        {
            "stage": stage.stage,
            "done": _format_time(stage.done_at),
            "changes": stage.changes,
            "code": stage.code,
            "settings": " ".join(f"{name}={digest}" for name, digest in stage.settings.items()),
            "run": stage.run_url or stage.run or "command line",
        }
        for stage in trace.stages
    ]
    screen.print_table(stages, right_aligned=("changes",))
    if not trace.stages:
        screen.print_note("note: the log of its refresh is gone")


def _format_time(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else ""
