"""Refuses questions that ask for more than the section `limits` allows: the one place, for all interfaces.

Nothing else is known of a question here, and nothing has been read for it yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from knowledge_pipeline.config.settings import LimitSettings
from knowledge_pipeline.contract.filters import FILTER_NAMES, Filters
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.filters import PATTERN_FIELDS
from knowledge_pipeline.query.graph_queries import GraphRequest
from knowledge_pipeline.query.plan import SearchQuestion, read_filters

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task

_CHEAP_CHARS, _CHEAP_VALUES, _CHEAP_PATTERNS = 500, 20, 3  # of a search that takes as long as any other
_NO_FILTERS = Filters()


def is_expensive(text: str, filters: Filters) -> bool:
    """Whether a search, by its length or its filters, takes so long that others had better not wait."""
    values = [
        (name, value)
        for restriction in (filters, read_filters(text))
        for name, value in _iter_values(restriction)
    ]
    patterns = sum(name in PATTERN_FIELDS for name, _ in values)
    return len(text) > _CHEAP_CHARS or len(values) > _CHEAP_VALUES or patterns > _CHEAP_PATTERNS


def is_document(id: str) -> bool:
    """Whether an id is that of a document, all of whose chunks are read, and not that of one chunk."""
    return ":" in id or "/" in id


def check_search(limits: LimitSettings, question: SearchQuestion) -> None:
    """Raise `InvalidQuery` for a search that asks for too much, by its filters or by those in its text."""
    text = question.text or ""
    if question.type == "similar":
        _require(limits, "example_chars", "the text", len(text), "characters")
        _check_names(limits, "the path", question.path, question.source)
        check_filters(limits, question.filters)
    else:
        _require(limits, "query_chars", "the question", len(text), "characters")
        typed = () if question.is_exact else (read_filters(text),)
        check_filters(limits, question.filters, *typed)
    _require(limits, "results", "the limit", question.limit or 0, "results")


def check_task(limits: LimitSettings, task: Task, max_tokens: int | None) -> None:
    """Raise `InvalidQuery` for a task that is too long, or a budget that is too large."""
    history_chars = sum(len(turn.content) for turn in task.history)
    what = "the task with its history" if task.history else "the task"
    _require(limits, "task_chars", what, len(task.text) + history_chars, "characters")
    _require(limits, "example_chars", "the snippet", len(task.snippet or ""), "characters")
    _require(limits, "example_chars", "the suffix", len(task.suffix or ""), "characters")
    _require(limits, "task_files", "the task", len(task.paths), "files")
    _require(limits, "context_tokens", "the budget", max_tokens or 0, "tokens")
    _check_names(limits, "the path", *task.paths, task.source)
    check_filters(limits, task.filters)


def check_graph(limits: LimitSettings, request: GraphRequest) -> None:
    """Raise `InvalidQuery` for a target that is too long, or a walk that goes too far."""
    _check_names(limits, "the target", request.target)
    _require(limits, "graph_nodes", "the limit", request.max_nodes, "nodes")
    _require(limits, "graph_depth", "the depth", request.max_depth, "steps")
    check_filters(limits, request.filters)


def check_id(limits: LimitSettings, id: str) -> None:
    """Raise `InvalidQuery` for an id, or another name of a document, that is too long."""
    _require(limits, "id_chars", "the id", len(id), "characters")


def check_filters(limits: LimitSettings, *restrictions: Filters) -> None:
    """Raise `InvalidQuery` for filters with too many values, or values that are too long."""
    pairs = [pair for restriction in restrictions for pair in _iter_values(restriction)]
    patterns = [name for name, _ in pairs if name in PATTERN_FIELDS]
    what, by = "the filters together", " and ".join(sorted(set(patterns)))
    _check_names(limits, "the value of a filter", *(value for _, value in pairs))
    _require(limits, "filter_values", what, len(pairs), "values")
    _require(limits, "filter_patterns", f"{what}, by {by},", len(patterns), "values")
    _require(limits, "filter_chars", what, sum(len(value) for _, value in pairs), "characters")


def _iter_values(filters: Filters) -> Iterator[tuple[str, str]]:
    """The name of a filter, and each of its values."""
    if filters == _NO_FILTERS:  # of most questions, and asked three times of each
        return
    for name in FILTER_NAMES:
        values: object = getattr(filters, name)
        if isinstance(values, tuple):
            yield from ((name, str(value)) for value in cast("tuple[object, ...]", values))


def _check_names(limits: LimitSettings, what: str, *names: str | None) -> None:
    _require(limits, "name_chars", what, max((len(name or "") for name in names), default=0), "characters")


def _require(limits: LimitSettings, key: str, what: str, requested: int, unit: str) -> None:
    allowed: int = getattr(limits, key)
    if requested > allowed:
        has = "has" if unit in ("characters", "files") else "is"
        verb = "have" if what.startswith("the filters") else has
        raise InvalidQuery(f"{what} {verb} {requested:,} {unit}; allowed: at most {allowed:,} (limits.{key})")
