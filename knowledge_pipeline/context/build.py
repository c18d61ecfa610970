"""Builds the context for an agent's task: what its searches found, as a prompt within a budget.

One search ranks all types of sources together; what is like the task's files or its snippet is searched for
beside it, and so is what the configured sections ask for.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from knowledge_pipeline.config.operation import ContextSettings, SectionSettings
from knowledge_pipeline.context.links import find_users, follow_links, put_first
from knowledge_pipeline.context.prompt import FittedPrompt, PromptFitter, render_query
from knowledge_pipeline.context.select import (
    SHOWN_TEXTS,
    ContextCandidate,
    ExcerptSelector,
    SearchChances,
    Select,
    leave_out_shown,
    rank_candidates,
    select_sections,
)
from knowledge_pipeline.context.task_text import (
    build_query,
    describe_task,
    find_nearby_text,
    get_example,
    name_files,
    neutralize_filters,
)
from knowledge_pipeline.contract.filters import (
    DocumentType,
    Filters,
    SearchName,
    SearchType,
    SectionFilters,
    SectionType,
    TaskKind,
)
from knowledge_pipeline.contract.responses import (
    ContextResponse,
    ContextSection,
    SearchResponse,
    SearchResult,
    SearchRun,
)
from knowledge_pipeline.errors import InvalidQuery, KnowledgeError, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.answer_cache import Stopwatch
from knowledge_pipeline.query.code_graph import CodePlace
from knowledge_pipeline.query.plan import SearchQuestion, asks_for_code
from knowledge_pipeline.query.search import Engine
from knowledge_pipeline.query.working_tree import Blame, WorkingTree
from knowledge_pipeline.sync_facade import gather_all

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task


async def find_similar(engine: Engine, access: Access, task: Task, limit: int) -> SearchResponse:
    """What is like the files and the snippet of a task, in other files: at most `limit` results.

    Of several files it is the best of each in turn.

    A file that is not in the index is a skipped step, unless a snippet says what to look for.

    Raises `KnowledgeError`: nothing could be searched for; the first error.
    """
    text, paths = get_example(task), task.paths
    example = SearchQuestion(text, "similar", task.filters, limit=limit, explain=True, source=task.source)
    if len(paths) > 1 and text is None:
        examples = (replace(example, path=path) for path in paths)
        outcomes = await asyncio.gather(
            *(engine.search(of_path, access) for of_path in examples), return_exceptions=True
        )
        response = _merge_responses(outcomes)
    else:
        path = paths[0] if paths else None
        try:
            response = await engine.search(replace(example, path=path), access)
        except NotFound:  # the file must be in the index unless there is a snippet
            if path is None or text is None:
                raise
            response = await engine.search(replace(example, source=None), access)
    if len(paths) < 2:
        return response
    results = (  # not of the task's own files
        result
        for result in response.results
        if result.citation.path not in paths or task.source not in (None, result.citation.source)
    )
    return replace(response, results=tuple(islice(results, limit)))


def _merge_responses(outcomes: Sequence[SearchResponse | BaseException]) -> SearchResponse:
    problems = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if unexpected := [problem for problem in problems if not isinstance(problem, KnowledgeError)]:
        raise unexpected[0]
    responses = [outcome for outcome in outcomes if isinstance(outcome, SearchResponse)]
    if not responses:
        raise problems[0]
    oldest = min(responses, key=lambda response: response.release)  # others' releases are tried again
    in_turn = chain.from_iterable(zip_longest(*(response.results for response in responses)))
    results = {result.id: result for result in in_turn if result is not None}
    steps = tuple(dict.fromkeys(step for response in responses for step in response.degraded))
    reasons: dict[str, str] = {}
    for response in responses:
        reasons |= (response.explain or {}).get("degraded", {})
    if problems:
        steps, reasons = (*steps, "similar"), {**reasons, "similar": "; ".join(map(str, problems))}
    explain = {**(oldest.explain or {}), "degraded": reasons}
    return replace(
        oldest,
        results=tuple(results.values()),
        degraded=steps,
        explain=explain,
        took_ms=max(response.took_ms for response in responses),
        steps=tuple(step for response in responses for step in response.steps),  # at the same time
    )


_CODE, _DOCUMENTS = ("code",), get_args(DocumentType)
_HISTORY = ("git_history", "github_pr")
_TICKETS = ("github_issues", "discussions", "jira", "slack")
_WEIGHTS: Mapping[TaskKind, Mapping[tuple[str, ...], float]] = {
    "code_generation": {_CODE: 1.0, _DOCUMENTS: 0.7, _HISTORY: 0.4, _TICKETS: 0.4},
    "code_review": {_CODE: 1.0, _DOCUMENTS: 0.6, _HISTORY: 0.6, _TICKETS: 0.4},
    "merge_resolution": {_CODE: 1.0, _DOCUMENTS: 0.4, _HISTORY: 1.0, _TICKETS: 0.5},
    "issue_resolution": {_CODE: 1.0, _DOCUMENTS: 0.7, _HISTORY: 0.7, _TICKETS: 0.8},
    "complete_code": {_CODE: 1.0, _DOCUMENTS: 0.3, _HISTORY: 0.0, _TICKETS: 0.0},
}
"""Of the chance that a result answers, by the type of its source; of questions and other types 1."""

_SIMILAR_WEIGHTS: Mapping[TaskKind, float] = {
    "code_generation": 0.9,
    "code_review": 1.0,
    "merge_resolution": 0.6,
    "issue_resolution": 0.6,
    "complete_code": 1.0,
    "question": 0.5,
    "chat": 0.5,
}
"""Of the chance of the best result, that the first similar one has."""

_MAX_RAISED = 3  # of the best code, beside commits about it
_MAX_ATTEMPTS = 3  # to search one release with all


@dataclass(frozen=True, slots=True)
class SectionResults:
    """A section, and what its search found, best first."""

    section: ContextSection
    results: tuple[SearchResult, ...] = ()
    release: int | None = None  # None: its search failed
    error: KnowledgeError | None = None
    notes: tuple[str, ...] = ()  # of the response


@dataclass(frozen=True, slots=True)
class TaskSearchResults:
    """What all searches of a task found, and those of its sections."""

    release: int
    runs: tuple[SearchRun, ...]
    searches: tuple[SearchChances, ...]  # those that did not fail
    is_truncated: bool  # whether only the beginning of the task's text was searched for
    sections: Sequence[SectionResults] = ()
    notes: tuple[str, ...] = ()  # of the responses, each once


async def run_task_searches(
    engine: Engine, access: Access, task: Task, *, limit: int, watch: Stopwatch
) -> TaskSearchResults:
    """Search all that the task's filters allow, and by its files and its snippet, if it has any.

    At most `limit` results each, all of one release, and what the code graph adds to them.

    The run of a search that fails has a problem; the others go on.

    Raises `KnowledgeError`: none could be run; the first one's error.
    """
    query, is_truncated = build_query(task)
    all_types = task.filters.source_types
    runs = [SearchRun("semantic", "semantic", " ".join((query, *name_files(task))), all_types)]
    if task.paths or get_example(task):
        runs.append(SearchRun("similar", "similar", ", ".join(task.paths) or "the snippet"))
    outcomes: list[SearchResponse | KnowledgeError] = []
    for _ in range(_MAX_ATTEMPTS):
        searches = (_run_search(engine, access, task, run, limit, watch) for run in runs)
        outcomes = await asyncio.gather(*searches)
        if len({outcome.release for outcome in outcomes if isinstance(outcome, SearchResponse)}) <= 1:
            break
    responses = [outcome for outcome in outcomes if isinstance(outcome, SearchResponse)]
    if not responses:
        raise next(outcome for outcome in outcomes if isinstance(outcome, KnowledgeError))
    release = max(response.release for response in responses)
    by_name: dict[SearchName, Sequence[SearchResult]] = {
        run.name: outcome.results
        for run, outcome in zip(runs, outcomes, strict=True)
        if isinstance(outcome, SearchResponse) and outcome.release == release
    }
    searches = list(_estimate_chances(task, by_name))
    users: Sequence[SearchResult] = ()
    problem: str | None = None
    with watch.step("link"):
        try:
            filters = task.filters
            searches = [await follow_links(engine, access, filters, search, release) for search in searches]
            users = await find_users(engine, access, task.text, filters, release)
        except KnowledgeError as error:  # the graph cannot be read: what was found is shown all the same
            problem = str(error)
    searches = [put_first(search, users) if search.name == "semantic" else search for search in searches]
    completed = (_complete_run(run, outcome, release) for run, outcome in zip(runs, outcomes, strict=True))
    return TaskSearchResults(
        release=release,
        runs=tuple(_add_degraded(run, "graph", problem) for run in completed),
        searches=tuple(searches),
        is_truncated=is_truncated,
        notes=tuple(dict.fromkeys(note for response in responses for note in response.notes)),
    )


def _raise_code(results: Sequence[SearchResult], chances: Sequence[float]) -> list[float]:
    """The chances, of which the best code's are no less than those of commits about it, first to first.

    A commit says in a sentence what the code does in a hundred lines, and is found more easily.
    """
    types = [result.metadata["source_type"] for result in results]
    of_history = [chance for type_, chance in zip(types, chances, strict=True) if type_ in _HISTORY]
    code = [at for at, type_ in enumerate(types) if type_ in _CODE]
    best = sorted(code, key=lambda at: -chances[at])[:_MAX_RAISED]
    raised = list(chances)
    for at, chance in zip(best, sorted(of_history, reverse=True), strict=False):
        raised[at] = max(raised[at], chance)
    return raised


def _estimate_chances(
    task: Task, by_name: Mapping[SearchName, Sequence[SearchResult]]
) -> Iterator[SearchChances]:
    """The scores of the search of all are chances; what is similar counts by rank, relative to the best."""
    best = 1.0
    if "semantic" in by_name:
        of_kind = _WEIGHTS.get(task.kind, {})
        weights = {type_: weight for types, weight in of_kind.items() for type_ in types}
        own = ((result, weights.get(result.metadata["source_type"], 1.0)) for result in by_name["semantic"])
        weighted = [(result, result.score * weight) for result, weight in own if weight > 0]
        results, chances = [result for result, _ in weighted], [chance for _, chance in weighted]
        if asks_for_code(task.text):
            chances = _raise_code(results, chances)
        yield SearchChances("semantic", results, chances)
        best = max(chances, default=best)
    if "similar" in by_name:
        yield SearchChances.by_rank("similar", by_name["similar"], best * _SIMILAR_WEIGHTS[task.kind])


async def _run_search(
    engine: Engine, access: Access, task: Task, run: SearchRun, limit: int, watch: Stopwatch
) -> SearchResponse | KnowledgeError:
    question = SearchQuestion(run.query, filters=task.filters, limit=limit, explain=True, diverse=False)
    with watch.step(run.name) as step:
        try:
            if run.name == "similar":
                response = await find_similar(engine, access, task, limit)
            else:
                response = await engine.search(question, access)
        except KnowledgeError as error:
            return error
        step.steps = response.steps
    return response


def _complete_run(run: SearchRun, outcome: SearchResponse | KnowledgeError, release: int) -> SearchRun:
    if isinstance(outcome, KnowledgeError):
        return replace(run, problem=str(outcome))
    if outcome.release != release:
        return replace(run, problem=f"it searched release {outcome.release}, the others {release}: try again")
    return replace(run, **_describe_outcome(outcome))


def _add_degraded(run: SearchRun, step: str, reason: str | None) -> SearchRun:
    """The run of the task's own search, which a step was skipped of, with the reason."""
    if reason is None or run.name != "semantic":
        return run
    return replace(run, degraded={**run.degraded, step: reason})


def _describe_outcome(response: SearchResponse) -> dict[str, Any]:
    """What a run and a section say of their search."""
    reasons = dict((response.explain or {}).get("degraded", {}))
    degraded = {step: reasons.get(step, "") for step in response.degraded}
    return {"found": len(response.results), "took_ms": response.took_ms, "degraded": degraded}


_QUERY_CHARS = 4_000
_LINKING_RESULTS = 3  # of code, whose types are shown
_CONVENTIONS = "coding conventions, style and best practices {{ languages | join(' ') }} {{ task }}"
_CONVENTION_NAMES = ("contributing", "conventions", "coding", "style", "guidelines", "best-practices")
_CONVENTION_PATHS = Filters(
    paths=(
        *(f"**/{form}*" for name in _CONVENTION_NAMES for form in (name, name.upper(), name.capitalize())),
        *(f"**/{name}*/**" for name in _CONVENTION_NAMES),
        "**/AGENTS.md",
    )
)
_CODE_TASKS: tuple[TaskKind, ...] = ("code_generation", "code_review", "complete_code")
"""Tasks whose similar content is code, whatever the query is."""
_SEARCH_TYPES: Mapping[SectionType, SearchType] = {
    "semantic": "semantic",
    "code": "code",
    "similar": "similar",
    "historical": "historical",
    "conventions": "semantic",
}


async def run_sections(
    engine: Engine,
    access: Access,
    task: Task,
    sections: Sequence[SectionSettings],
    *,
    code: Sequence[SearchResult],
    watch: Stopwatch,
) -> list[SectionResults]:
    """The results of all sections, in their order; a search that fails has a problem.

    Type definitions are those that the task's files, and the best `code` that was found, refer to.
    """
    return await gather_all(_run_section(engine, access, task, section, code, watch) for section in sections)


async def _run_section(
    engine: Engine,
    access: Access,
    task: Task,
    settings: SectionSettings,
    code: Sequence[SearchResult],
    watch: Stopwatch,
) -> SectionResults:
    query = _build_section_query(task, settings)
    heading = settings.heading or settings.name
    section = ContextSection(settings.name, heading, settings.type, query, settings.share)
    with watch.step(f"section {settings.name}") as step:
        try:
            if settings.type == "type_definitions":
                response = await _find_type_definitions(engine, access, task, code, settings.limit)
            else:
                has_defaults = settings.filters == SectionFilters()
                use_defaults = settings.type == "conventions" and has_defaults
                wants_code = settings.type == "similar" and has_defaults and task.kind in _CODE_TASKS
                question = SearchQuestion(
                    query,
                    _SEARCH_TYPES[settings.type],
                    task.filters,
                    within=_CONVENTION_PATHS if use_defaults else settings.filters,
                    limit=settings.limit,
                    explain=True,
                    diverse=False,
                    content_type="code" if wants_code else None,
                )
                response = await engine.search(question, access)
        except KnowledgeError as error:
            return SectionResults(replace(section, problem=str(error)), error=error)
        step.steps = response.steps
    described = replace(section, **_describe_outcome(response))
    return SectionResults(described, response.results, response.release, notes=response.notes)


def _build_section_query(task: Task, settings: SectionSettings) -> str:
    """The section's own query, else the task's; what the task says is text in it, and never a filter."""
    if settings.type == "type_definitions":
        return ", ".join(task.paths) or "the code that was found"
    if settings.query is None and settings.type != "conventions":
        example = get_example(task) if settings.type == "similar" else None
        return example or build_query(task)[0]
    origin = f"the query of the section {settings.name} in context.sections"
    query = render_query(settings.query or _CONVENTIONS, origin, describe_task(task))
    return neutralize_filters(query)[:_QUERY_CHARS]


async def _find_type_definitions(
    engine: Engine, access: Access, task: Task, code: Sequence[SearchResult], limit: int
) -> SearchResponse:
    places: list[CodePlace] = [(path, task.source) for path in task.paths]
    for result in code[:_LINKING_RESULTS]:
        places.append((f"{result.citation.path}:{result.span.start_line}", result.citation.source))
    types = await engine.find_used_types(places, access)
    lines = (
        (node.source, node.path, int(node.lines[1:].partition("-")[0]))
        for node in types
        if node.source and node.path and node.lines
    )
    filters = replace(task.filters, source_types=("code",))
    response = await engine.read_lines(list(lines)[: 2 * limit], access, filters)
    return replace(response, results=response.results[:limit])


_RESULTS = 100  # of each search
_BLAMED_RESULTS = 10  # of the best; git is run for each


async def get_context(
    engine: Engine,
    access: Access,
    task: Task,
    settings: ContextSettings,
    *,
    max_tokens: int | None = None,
    template: str | Path | None = None,
    blame: Blame | None = None,
    working_tree: WorkingTree | None = None,
) -> ContextResponse:
    """The excerpts that help with a task, as a prompt of at most `max_tokens` tokens.

    No search sees more than the access allows. `blame` says of the best results who changed their lines, and
    `working_tree` where the excerpts stand in their files by now.
    By default the budget is that of the settings, the section `context` of `knowledge.yaml`, and the template
    (see `load_template`) that of the task's kind.

    Raises:
        InvalidQuery: the task or the template is wrong, or they alone exceed the budget.
        ConfigError: the folder of templates does not exist, or a section is wrong.
        ModelError: the tokenizer cannot be loaded.
        NotFound: nothing is released yet.
    """
    watch = Stopwatch()
    budget = settings.max_tokens if max_tokens is None else max_tokens
    if budget < 1:
        raise InvalidQuery(f"found max_tokens {budget}; allowed: 1 or more")
    with watch.step("load"):
        fitter = await asyncio.to_thread(PromptFitter.load, task, budget, settings, template)
    results = await _run_searches(engine, access, task, fitter.sections, watch)
    own = rank_candidates(results.searches)
    if blame:
        with watch.step("blame"):
            best = [candidate.result for candidate in own[:_BLAMED_RESULTS]]
            marked, _ = await blame.mark_results(best, access)
            fitter = replace(fitter, blame={result.id: result.blame for result in marked if result.blame})
    if working_tree:
        fitter = replace(fitter, locate=working_tree.locate_excerpts())
    with watch.step("select"):
        fitted, candidates = await asyncio.to_thread(_select_and_fit, fitter, own, results)
    excerpts = fitted.selection.excerpts
    shown_ids = {id_ for excerpt in excerpts for id_ in excerpt.chunks}
    shown_counts = {
        search.name: sum(result.id in shown_ids for result in search.results) for search in results.searches
    }
    runs = [*results.runs, *(section.section for section in results.sections)]
    steps = [step for run in runs for step in run.degraded]
    failed = [run.name for run in runs if run.problem]
    cut = [*(["task"] if results.is_truncated else []), *(["history"] if fitted.dropped_turns else [])]
    return ContextResponse(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=results.release,
        degraded=tuple(dict.fromkeys([*steps, *failed, *cut, *fitter.cut])),
        kind=task.kind,
        text=fitted.text,
        tokens=fitted.tokens,
        max_tokens=budget,
        tokenizer=settings.tokenizer,
        template=fitter.prompt.name,
        excerpts=excerpts,
        omitted=fitted.selection.omitted,
        searches=tuple(replace(run, shown=shown_counts.get(run.name, 0)) for run in results.runs),
        results=tuple(candidate.result for candidate in candidates if candidate.result.id in shown_ids),
        sections=tuple(_complete_section(section, fitted) for section in results.sections) or None,
        messages=fitted.messages,
        dropped_turns=fitted.dropped_turns,
        steps=tuple(watch.steps),
        notes=results.notes,
    )


async def _run_searches(
    engine: Engine, access: Access, task: Task, sections: Sequence[SectionSettings], watch: Stopwatch
) -> TaskSearchResults:
    """The task's own searches, unless the sections leave them nothing of the budget, and the sections'."""
    if not sections:
        return await run_task_searches(engine, access, task, limit=_RESULTS, watch=watch)
    if _find_own_share(sections):
        searches = await run_task_searches(engine, access, task, limit=_RESULTS, watch=watch)
        ranked = next((search.results for search in searches.searches if search.name == "semantic"), ())
        code = [result for result in ranked if result.metadata["source_type"] == "code"]
        results = await run_sections(engine, access, task, sections, code=code, watch=watch)
    else:
        results = await run_sections(engine, access, task, sections, code=(), watch=watch)
        releases = [result.release for result in results if result.release is not None]
        if not releases:
            raise results[0].error or NotFound("no section of the context could be searched")
        searches = TaskSearchResults(max(releases), (), (), is_truncated=build_query(task)[1])
    release = searches.release
    for at, result in enumerate(results):
        if result.release not in (None, release):
            problem = f"it searched release {result.release}, the others {release}: try again"
            results[at] = SectionResults(replace(result.section, problem=problem))
    notes = (*searches.notes, *(note for result in results for note in result.notes))
    return replace(searches, sections=results, notes=tuple(dict.fromkeys(notes)))


def _find_own_share(sections: Sequence[SectionSettings]) -> float:
    """What the sections leave to the task's own searches."""
    return max(0.0, round(1 - sum(section.share for section in sections), 6))


def _select_and_fit(
    fitter: PromptFitter, own: Sequence[ContextCandidate], results: TaskSearchResults
) -> tuple[FittedPrompt, list[ContextCandidate]]:
    """The prompt, and all candidates. What a section has found is its own, and no other's.

    What is nearby says what the question is about as well: see `find_nearby_text`.
    """
    question = "\n".join(filter(None, (fitter.task.text, find_nearby_text(fitter.task))))

    def build_selector(candidates: Sequence[ContextCandidate], words: str) -> ExcerptSelector:
        return ExcerptSelector(
            candidates,
            words,
            count=fitter.count,
            heading_cost=fitter.estimate_heading,
            heading_share=fitter.heading_share,
        )

    if not fitter.sections:
        return fitter.fit(build_selector(own, question).select), list(own)
    of_sections: list[ContextCandidate] = []
    selectors: list[tuple[str | None, float, Select]] = []
    for settings, section_results in zip(fitter.sections, results.sections, strict=True):
        section = section_results.section
        ranked = rank_candidates([SearchChances.by_rank(section.name, section_results.results)])
        kept = leave_out_shown(ranked, (candidate.result for candidate in of_sections))
        of_sections += kept
        selector = build_selector(kept, f"{section.query}\n{question}")
        show = SHOWN_TEXTS.get(settings.format)
        select = partial(selector.select_whole, show) if show else selector.select
        selectors.append((section.name, section.share, select))
    rest = leave_out_shown(own, (candidate.result for candidate in of_sections))
    if own_share := _find_own_share(fitter.sections):
        selectors.insert(0, (None, own_share, build_selector(rest, question).select))
    return fitter.fit(partial(select_sections, selectors)), [*rest, *of_sections]


def _complete_section(results: SectionResults, fitted: FittedPrompt) -> ContextSection:
    numbers = fitted.selection.sections.get(results.section.name, ())
    excerpts = [fitted.selection.excerpts[number - 1] for number in numbers]
    return replace(
        results.section,
        shown=sum(len(excerpt.chunks) for excerpt in excerpts),
        tokens=sum(excerpt.tokens for excerpt in excerpts),
        excerpts=numbers,
    )
