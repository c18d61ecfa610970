"""What of a task is searched for, and what of the code around its cursor is shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.context.tokens import CountTokens
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.query.filters import replace_invalid_characters

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task


_QUERY_CHARS = 4_000  # of a task, that are searched for
_PATH_CHARS = 1_000  # of them for the paths of files, the first of which is always named
_EXAMPLE_CHARS = (2_000, 1_000)  # before and after the cursor, that similar code is searched for with
_LINES_BEFORE = 3  # the cursor: words to search for
_FILTER_TERM = re.compile(r"(?<!\S)(\w+):(?!:|//|\s)")


def build_query(task: Task) -> tuple[str, bool]:
    """The task's text as a query, and whether it had to be shortened.

    `word:value` in it is text and not a filter: tasks hold pasted logs, where `status:500` narrows nothing.
    """
    text = neutralize_filters(task.text).strip()
    max_chars = _QUERY_CHARS - max(1, sum(len(path) + 1 for path in name_files(task)))
    if len(text) > max_chars:
        return text[:max_chars].rsplit(maxsplit=1)[0], True
    nearby = neutralize_filters(find_nearby_text(task)).strip()[: max_chars - len(text)]
    return f"{text} {nearby}".rstrip()[:max_chars], False


def neutralize_filters(text: str) -> str:
    """The text as words alone, none of which a search reads as a filter."""
    return _FILTER_TERM.sub(r"\1: ", replace_invalid_characters(text))


def find_nearby_text(task: Task) -> str:
    """What a task means without saying it: the question before this one, or the code before the cursor."""
    if task.kind == "complete_code" and task.snippet:
        lines = [line.strip() for line in task.snippet[-_EXAMPLE_CHARS[0] :].splitlines() if line.strip()]
        return "\n".join(lines[-_LINES_BEFORE:])
    return next((turn.content for turn in reversed(task.history) if turn.role == "user"), "")


def describe_task(task: Task) -> dict[str, Any]:
    """The task as templates see it."""
    languages = (*filter(None, map(detect_language, task.paths)), *task.filters.languages)
    return {
        "task": task.text.strip(),
        "kind": task.kind,
        "file": next(iter(task.paths), None),
        "files": list(task.paths),
        "snippet": task.snippet,
        "suffix": task.suffix,
        "languages": list(dict.fromkeys(languages)),
    }


def name_files(task: Task) -> tuple[str, ...]:
    """The paths of its files, as many as a query has room for."""
    paths = task.paths[:1]
    for path in task.paths[1:]:
        if sum(len(name) + 1 for name in (*paths, path)) > _PATH_CHARS:
            break
        paths = (*paths, path)
    return paths


def get_example(task: Task) -> str | None:
    """The code that similar code is searched for with, besides that of its files."""
    if task.kind != "complete_code":
        return task.snippet or None
    before, after = _EXAMPLE_CHARS
    return (task.snippet or "")[-before:] + (task.suffix or "")[:after] or None


_SUFFIX_SHARE = 3  # a third of the room belongs to what follows the cursor, if it needs as much


def fit_code_around_cursor(prefix: str, suffix: str, max_tokens: int, count: CountTokens) -> tuple[str, str]:
    """The end of the prefix and the beginning of the suffix, of at most `max_tokens` tokens together.

    What one does not need is left to the other. Whole lines are kept, unless the nearest one is too long.
    """
    suffix_room = max(max_tokens // _SUFFIX_SHARE, max_tokens - count(prefix))
    kept = suffix[: _find_length(len(suffix), lambda length: count(suffix[:length]) <= suffix_room)]
    lines, line_break, _ = kept.rpartition("\n")
    suffix = kept if kept == suffix or not line_break else lines + line_break
    return _keep_end(prefix, max_tokens - count(suffix), count), suffix


def _keep_end(text: str, max_tokens: int, count: CountTokens) -> str:
    start = len(text) - _find_length(len(text), lambda n: count(text[len(text) - n :]) <= max_tokens)
    next_line = text.find("\n", max(start - 1, 0)) + 1
    return text[start:] if start == 0 or next_line in (0, len(text)) else text[next_line:]


def _find_length(longest: int, fits: Callable[[int], bool]) -> int:
    """The most characters that fit, at most `longest`."""
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
