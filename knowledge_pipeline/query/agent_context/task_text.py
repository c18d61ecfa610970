"""What of a task is searched for. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.languages import detect_language
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
    named = task.paths[:1]
    for path in task.paths[1:]:
        if sum(len(each) + 1 for each in (*named, path)) > _PATH_CHARS:
            break
        named = (*named, path)
    return named


def get_example(task: Task) -> str | None:
    """The code that similar code is searched for with, besides that of its files."""
    if task.kind != "complete_code":
        return task.snippet or None
    before, after = _EXAMPLE_CHARS
    return (task.snippet or "")[-before:] + (task.suffix or "")[:after] or None
