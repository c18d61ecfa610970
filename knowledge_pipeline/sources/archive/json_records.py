"""The text of a JSON record: its title, its fields as lines and sections, and its turns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.sources.archive.record_header import parse_time
from knowledge_pipeline.sources.conversation import Turn, format_conversation

_TURN_LIST_KEYS = ("messages", "turns", "conversation", "comments", "entries", "events")
_TITLE_KEYS = ("title", "name", "subject")
_AUTHOR_KEYS = ("author", "name", "user", "sender", "speaker", "from")
_CONTENT_KEYS = ("content", "text", "body", "message")
_TIME_KEYS = ("created_at", "timestamp", "created", "date", "time", "at")
_ROLE = re.compile(r"[a-z]+(?: [a-z]+){0,2}")
_MAX_INLINE_CHARS = 200  # a longer value has lines of its own


class InvalidJson(Exception):
    """The text is not JSON, or nested too deep; `str(error)` says which."""


def parse_record(text: str) -> Any:
    """The value of a JSON text, or the list of those on the lines of a JSON Lines text.

    Numbers stay text, as they are written.

    Raises:
        InvalidJson: it is neither.
    """
    try:
        return _parse_json(text)
    except json.JSONDecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2:
            raise InvalidJson(f"no valid JSON (line {error.lineno})") from error
        try:
            return [_parse_json(line) for line in lines]
        except json.JSONDecodeError:
            raise InvalidJson(f"no valid JSON (line {error.lineno})") from error


def format_record(record: Any, title: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of a record, and its segments as in `conversation` if it holds turns.

    Raises:
        InvalidJson: it is nested too deep.
    """
    try:
        key, turns = _find_turns(record)
        if not turns:
            lines = [f"# {title}", "", *_iter_sections(record, title)]
            return _remove_invalid_characters("\n".join(lines)).rstrip() + "\n", []
        rest = {name: value for name, value in record.items() if name != key} if key else {}
        all_turns = [Turn("description", "\n".join(_iter_sections(rest, title))), *map(_build_turn, turns)]
        return format_conversation(_remove_invalid_characters(title), all_turns)
    except RecursionError as error:
        raise InvalidJson("JSON nested too deep") from error


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError as error:
        raise InvalidJson("JSON nested too deep") from error


def _find_turns(record: Any) -> tuple[str | None, list[Mapping[str, Any]]]:
    """The turns of a record and their key; None for a record that is a list of turns."""
    if is_list(record):
        return None, record if _is_turn_list(record) else []
    if is_object(record):
        for key in _TURN_LIST_KEYS:
            if _is_turn_list(record.get(key)):
                return key, record[key]
    return None, []


def _is_turn_list(value: Any) -> bool:
    return is_list(value) and bool(value) and all(_is_turn(each) for each in value)


def _is_turn(value: Any) -> bool:
    keys = value.keys() if is_object(value) else set[str]()
    return not keys.isdisjoint(("role", *_AUTHOR_KEYS)) and not keys.isdisjoint(_CONTENT_KEYS)


def _build_turn(value: Mapping[str, Any]) -> Turn:
    """One turn; its other fields follow its content."""
    role = str(value.get("role") or "message").lower().replace("_", " ").replace("-", " ")
    author_key, content_key = _find_key(value, _AUTHOR_KEYS), _find_key(value, _CONTENT_KEYS)
    time_key = next((name for name in _TIME_KEYS if parse_time(value.get(name))), None)
    author = _person_name(value.get(author_key)) if author_key else ""
    used_keys = {"role", author_key if author else None, content_key, time_key}
    rest = {name: each for name, each in value.items() if name not in used_keys and each not in (None, "")}
    if not _ROLE.fullmatch(role):
        role, rest = "message", {"role": value["role"], **rest}
    parts = [*_iter_content_lines(value[content_key] if content_key else None), *_iter_lines(rest, 0)]
    text, author = _remove_invalid_characters("\n".join(parts)), _remove_invalid_characters(author)
    return Turn(role, text, author or None, parse_time(value[time_key]) if time_key else None)


def _iter_content_lines(content: Any) -> Iterator[str]:
    """A text, or parts of which some are texts."""
    for part in content if is_list(content) else [content]:
        if is_object(part) and isinstance(part.get("text"), str):
            yield part["text"]
            rest = {name: each for name, each in part.items() if name not in ("type", "text")}
            yield from _iter_lines(rest, 0)
        elif isinstance(part, str):
            yield part
        elif part is not None:
            yield from _iter_lines(part, 0)


def _find_key(value: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if value.get(name) not in (None, "")), None)


def _person_name(value: Any) -> str:
    if is_object(value):
        value = value.get("name") or value.get("login") or value.get("id")
    name = value if isinstance(value, str) else ""
    return name if len(name) <= 100 and "\n" not in name else ""


def _iter_sections(record: Any, title: str) -> Iterator[str]:
    """Short fields of an object as lines, then each of the others under a heading."""
    if not is_object(record):
        yield from _iter_lines(record, 0)
        return
    long = {name: value for name, value in record.items() if not _is_short(value)}
    for name, value in record.items():
        if name not in long and not (value == title and name.lower() in _TITLE_KEYS):
            yield f"{name}: {_format_scalar(value)}"
    for name, value in long.items():
        yield from ("", f"## {name}", "", *_iter_lines(value, 0))


def _iter_lines(value: Any, depth: int) -> Iterator[str]:
    """Any value, indented by its depth."""
    indent = "  " * depth
    if is_object(value):
        for name, inner in value.items():
            yield from _iter_field_lines(f"{indent}{name}:", inner, depth)
    elif is_list(value):
        for inner in value:
            yield from _iter_field_lines(f"{indent}-", inner, depth)
    else:
        yield from (f"{indent}{line}" for line in _format_scalar(value).split("\n"))


def _iter_field_lines(name: str, value: Any, depth: int) -> Iterator[str]:
    if _is_short(value):
        yield f"{name} {_format_scalar(value)}"
    else:
        yield name
        yield from _iter_lines(value, depth + 1)


def _is_short(value: Any) -> bool:
    return (
        not isinstance(value, (dict, list))
        and len(text := _format_scalar(value)) <= _MAX_INLINE_CHARS
        and "\n" not in text
    )


def _format_scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _remove_invalid_characters(text: str) -> str:
    """The text without NUL and lone surrogates, which JSON escapes can make and a table cannot hold."""
    return text.replace("\0", "\ufffd").replace("\r\n", "\n").encode("utf-8", "replace").decode()
