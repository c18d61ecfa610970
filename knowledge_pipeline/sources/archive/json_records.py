"""A record of JSON as text for people: its title, its fields as lines and sections, its turns as turns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from knowledge_pipeline.sources.archive.record_header import moment_of
from knowledge_pipeline.sources.conversation import Turn, conversation

_LISTS_OF_TURNS = ("messages", "turns", "conversation", "comments", "entries", "events")
_TITLES = ("title", "name", "subject")
_WHO = ("author", "name", "user", "sender", "speaker", "from")
_SAID = ("content", "text", "body", "message")
_WHEN = ("created_at", "timestamp", "created", "date", "time", "at")
_ROLE = re.compile(r"[a-z]+(?: [a-z]+){0,2}")
_LINE_CHARS = 200  # a longer value has lines of its own


class NotJson(Exception):
    """The text is no JSON, or too deep; `str(error)` says which."""


def record_of(text: str) -> Any:
    """The value of a JSON text, or the list of those on the lines of a JSON Lines text.

    Numbers are texts, as they are written.

    Raises:
        NotJson: it is neither.
    """
    try:
        return _loaded(text)
    except json.JSONDecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2:
            raise NotJson(f"no valid JSON (line {error.lineno})") from error
        try:
            return [_loaded(line) for line in lines]
        except json.JSONDecodeError:
            raise NotJson(f"no valid JSON (line {error.lineno})") from error


def shown_record(record: Any, title: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of a record, and its segments where people take turns in it, as `conversation` has them.

    Raises:
        NotJson: it is nested too deep.
    """
    try:
        key, turns = _turns(record)
        rest = {name: value for name, value in record.items() if name != key} if key else record
        if turns:
            told = "" if record is turns or isinstance(rest, list) else "\n".join(_sections(rest, title))
            said = [Turn("description", told), *map(_turn, turns)]
            text, segments = conversation(_clean(title), said)
            return text, segments
        return _clean("\n".join([f"# {title}", "", *_sections(record, title)])).rstrip() + "\n", []
    except RecursionError as error:
        raise NotJson("JSON nested too deep") from error


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError as error:
        raise NotJson("JSON nested too deep") from error


def _turns(record: Any) -> tuple[str | None, list[Mapping[str, Any]]]:
    """Under which key turns are, and they; a list can be all that a record is."""
    if isinstance(record, list):
        return None, record if _are_turns(record) else []
    if isinstance(record, Mapping):
        for key in _LISTS_OF_TURNS:
            if _are_turns(record.get(key)):
                return key, record[key]
    return None, []


def _are_turns(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_turn(each) for each in value)


def _is_turn(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return any(name in value for name in ("role", *_WHO)) and any(name in value for name in _SAID)


def _turn(value: Mapping[str, Any]) -> Turn:
    """Whatever else a turn has follows what was said."""
    role = str(value.get("role") or "message").lower().replace("_", " ").replace("-", " ")
    who, said = _first(value, _WHO), _first(value, _SAID)
    when = next((name for name in _WHEN if moment_of(value.get(name))), None)
    named = _name(value.get(who)) if who else ""
    told = {"role", who if named else None, said, when}
    rest = {name: each for name, each in value.items() if name not in told and each not in (None, "")}
    if not _ROLE.fullmatch(role):
        role, rest = "message", {"role": value["role"], **rest}
    parts = [*_said(value[said] if said else None), *_lines(rest, 0)]
    text = _clean("\n".join(parts))
    return Turn(role, text, author=_clean(named) or None, at=moment_of(value[when]) if when else None)


def _said(content: Any) -> Iterator[str]:
    """A text, or parts of which some are texts."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]
            yield from _lines({name: each for name, each in part.items() if name not in ("type", "text")}, 0)
        elif isinstance(part, str):
            yield part
        elif part is not None:
            yield from _lines(part, 0)


def _first(value: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if value.get(name) not in (None, "")), None)


def _name(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("name") or value.get("login") or value.get("id")
    name = value if isinstance(value, str) else ""
    return name if len(name) <= 100 and "\n" not in name else ""


def _sections(record: Any, title: str) -> Iterator[str]:
    """Short fields of an object as lines, then the others each under a heading."""
    if not isinstance(record, Mapping):
        yield from _lines(record, 0)
        return
    long = {name: value for name, value in record.items() if not _is_short(value)}
    for name, value in record.items():
        if name not in long and not (value == title and name.lower() in _TITLES):
            yield f"{name}: {_scalar(value)}"
    for name, value in long.items():
        yield from ("", f"## {name}", "", *_lines(value, 0))


def _lines(value: Any, depth: int) -> Iterator[str]:
    """Any value, indented by its depth."""
    indent = "  " * depth
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _field(f"{indent}{name}:", inner, depth)
    elif isinstance(value, list):
        for inner in value:
            yield from _field(f"{indent}-", inner, depth)
    else:
        yield from (f"{indent}{line}" for line in _scalar(value).split("\n"))


def _field(name: str, value: Any, depth: int) -> Iterator[str]:
    if _is_short(value):
        yield f"{name} {_scalar(value)}"
    else:
        yield name
        yield from _lines(value, depth + 1)


def _is_short(value: Any) -> bool:
    return (
        not isinstance(value, (Mapping, list))
        and len(text := _scalar(value)) <= _LINE_CHARS
        and "\n" not in text
    )


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _clean(text: str) -> str:
    """Without what a table cannot hold: NUL, and lone surrogates, which escapes in JSON can make."""
    return text.replace("\0", "\ufffd").replace("\r\n", "\n").encode("utf-8", "replace").decode()
