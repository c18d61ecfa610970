"""Project records as files: sessions, plans, discussions, decisions, specifications.

A Markdown record keeps its text, front matter included, so that line numbers are the file's. A JSON record
becomes text that a person can read. What a record says of itself becomes metadata.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import yaml

from knowledge_pipeline import times
from knowledge_pipeline.connectors.conversations import Turn, format_conversation
from knowledge_pipeline.connectors.files import build_original_metadata
from knowledge_pipeline.connectors.titles import TITLES_VERSION, extract_title
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.text_decoding import DECODING_VERSION, ExtractedText, add_note, decode_text
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.records import MAX_CHARS, Metadata, locate_front_matter, parse_record_kind
from knowledge_pipeline.text import descend, is_list, is_object
from knowledge_pipeline.untrusted_yaml import load_yaml

ARCHIVE_VERSION = f"2.{DECODING_VERSION}.{TITLES_VERSION}"
"""Changes whenever the same bytes may give another document."""

_JSON = re.compile(r"\.(?:json|jsonl|ndjson)$", re.IGNORECASE)


def read_record(name: str, payload: bytes, encoding: str | None = None) -> ExtractedText:
    """One record: its text, its title, and its metadata, author and time included.

    What is not what its name or its first line promises is plain text, with the reason under `note`. Raises
    DocumentSkipped: it is binary, empty, or in an unknown encoding.
    """
    text, note = decode_text(payload, encoding)
    extracted = _extract_json(name, text) if _JSON.search(name) else _extract_text(name, text)
    header = extracted.metadata
    kind = header.get("kind") or infer_kind(name)
    updated = header.get("updated_at") or header.get("created_at")
    metadata = {
        **header,
        **build_original_metadata(extracted.text, payload),
        **({"kind": kind} if kind else {}),
    }
    author = ", ".join(header.get("authors", ())) or None
    return replace(
        extracted, author=author, last_modified=parse_time(updated), metadata=add_note(metadata, note)
    )


def _extract_json(name: str, text: str) -> ExtractedText:
    stem = name.rpartition("/")[2].rpartition(".")[0]
    try:
        record, note = parse_record(text)
        session = find_session(record)
        fields = session.fields if session else record if is_object(record) else {}
        own_title, header = parse_record_header(fields)
        title = own_title or stem
        shown, segments = (
            format_conversation(_remove_invalid_characters(title), session.turns)
            if session
            else format_record(record, title)
        )
    except InvalidRecord as reason:
        return ExtractedText(text, metadata={"note": f"{reason}; taken as plain text"}, language="text")
    notes = "; ".join(filter(None, [note, session.note if session else ""]))
    optional = {"segments": segments, "note": notes}
    metadata = {**header, **{name: value for name, value in optional.items() if value}}
    return ExtractedText(shown, title, metadata, language="markdown")


def _extract_text(name: str, text: str) -> ExtractedText:
    language = detect_language(name, text)
    try:
        title, header = parse_record_header(parse_front_matter(text))
    except InvalidRecord as reason:
        title, header = "", {"note": f"{reason}; taken as plain text"}
    return ExtractedText(text, title or extract_title(name, text, language), header, language=language)


_FRONT_MATTER_FIELD = re.compile(r"(?<![\w-])[\w-]++[ \t]*[:=]")
_MAX_VALUES = 200  # of one field
_MAX_CHARS = 500
_MENTION_KINDS = ("closes", "duplicates", "implements", "references", "supersedes")
_SINGLE_FIELDS = {"id": ("id",), "kind": ("kind", "type"), "status": ("status",), "project": ("project",)}
_LIST_FIELDS = {"tags": ("tags", "keywords"), "labels": ("labels",), "authors": ("authors", "author")}
_TIME_FIELDS = {
    "updated_at": ("updated_at", "updated", "modified", "last_modified", "last_updated"),
    "created_at": ("date", "created_at", "created", "timestamp"),
}
_NAME_KEYS = ("name", "login", "title", "id", "key", "target", "url", "href")  # of what is an object itself
_EMAIL_SUFFIX = re.compile(r"(?<!\s)\s*<[^<>@]*+@[^<>]*+>\s*$")
_ZONE_AFTER_SPACE = re.compile(r"(?<=\d)[ \t]{1,9}(?=(?:[+-]\d\d(?::?\d\d)?|Z)\Z)")
_MIN_MILLISECONDS = 100_000_000_000  # a larger number counts them


class InvalidRecord(Exception):
    """A record's front matter or its JSON cannot be read; `str(error)` says why."""


def parse_front_matter(text: str) -> Mapping[Any, Any]:
    """The values of a text's front matter, in YAML as they are written: `0012` is no number, `yes` is a word.

    None without one. Raises InvalidRecord: it cannot be read.

    Values may share parts, as aliases in YAML make them; written out whole they are at most 200,000.
    """
    front = locate_front_matter(text)
    if front is None:
        return {}
    if front.end is None and _FRONT_MATTER_FIELD.match(front.inner):
        raise InvalidRecord(f"its front matter has no end within {MAX_CHARS} characters")
    if front.end is None or not _FRONT_MATTER_FIELD.search(front.inner):
        return {}  # rulers
    language = "TOML" if front.delimiter == "+++" else "YAML"
    try:
        value = tomllib.loads(front.inner) if language == "TOML" else load_yaml(front.inner)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise InvalidRecord(f"its front matter is no valid YAML (line {line})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidRecord(f"its front matter is no valid {language}") from error
    except DocumentSkipped as error:
        raise InvalidRecord(f"its front matter cannot be read: {error}") from error
    if not is_object(value):
        raise InvalidRecord("its front matter has no fields")
    return value


def parse_record_header(fields: Mapping[Any, Any]) -> tuple[str, Metadata]:
    """Title and known metadata of a mapping that may hold anything; names without case, `-` as `_`.

    `id`, `kind`, `status`, `project`; `tags`, `labels`, `authors`; `updated_at`, `created_at` in ISO
    8601, UTC; `mentions`.
    """
    normalized = {str(name).strip().lower().replace("-", "_"): value for name, value in fields.items()}
    metadata: dict[str, Any] = {
        **{name: next(_iter_texts(normalized, keys), "") for name, keys in _SINGLE_FIELDS.items()},
        **{name: list(dict.fromkeys(_split_values(normalized, keys))) for name, keys in _LIST_FIELDS.items()},
    }
    metadata["kind"] = metadata["kind"].lower()
    metadata["authors"] = [_EMAIL_SUFFIX.sub("", author) or author for author in metadata["authors"]]
    for name, keys in _TIME_FIELDS.items():
        moments = (parse_time(normalized[key]) for key in keys if key in normalized)
        metadata[name] = next((moment.isoformat() for moment in moments if moment), "")
    mentions = {(kind, target) for kind in _MENTION_KINDS for target in _split_values(normalized, (kind,))}
    metadata["mentions"] = [{"kind": kind, "target": target} for kind, target in sorted(mentions)]
    title = next(_iter_texts(normalized, _TITLE_KEYS), "")
    return title, {name: value for name, value in metadata.items() if value}


def infer_kind(path: str) -> str | None:
    """The kind that the nearest known folder names: "docs/decisions/store.md" is an adr."""
    kinds = map(parse_record_kind, reversed(path.split("/")[:-1]))
    return next(filter(None, kinds), None)


def build_retention(written: Mapping[str, str]) -> dict[str, timedelta]:
    """The age at which records are archived, by kind; the name of a kind's folder means the kind."""
    return {infer_kind(f"{name}/") or name.lower(): times.parse_age(age) for name, age in written.items()}


def parse_time(value: Any) -> datetime | None:
    """A time in UTC from a date, ISO 8601, or seconds or milliseconds since 1970."""
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(value, date):  # a datetime too
            value = value.isoformat()
        text = _ZONE_AFTER_SPACE.sub("", str(value).strip())
        if re.fullmatch(r"\d{9,13}(?:\.\d{1,9})?", text):
            seconds = float(text)
            return datetime.fromtimestamp(seconds / 1000 if seconds > _MIN_MILLISECONDS else seconds, UTC)
        return times.parse_time(text).astimezone(UTC) if re.match(r"\d{4}-?\d\d", text) else None
    return None


def _split_values(fields: Mapping[str, Any], keys: Iterable[str]) -> Iterator[str]:
    """The texts of the first field that has any; a single text may list them with commas."""
    for key in keys:
        texts = [*_iter_texts(fields, (key,))]
        if isinstance(fields.get(key), str) and texts:
            texts = [part for part in (part.strip() for part in texts[0].split(",")) if part]
        if texts:
            yield from texts
            return


def _iter_texts(fields: Mapping[str, Any], keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        value = fields.get(key)
        for entry in value[:_MAX_VALUES] if is_list(value) else [value]:
            if text := _to_text(entry):
                yield text


def _to_text(value: Any) -> str:
    """A plain value as text, on one line; of an object its name."""
    if is_object(value):
        value = next((value[name] for name in _NAME_KEYS if isinstance(value.get(name), (str, int))), None)
    if isinstance(value, bool) or not isinstance(value, (str, int, float, date)):
        return ""
    text = " ".join(str(value)[: 2 * _MAX_CHARS].split())[:_MAX_CHARS]
    return text.encode("utf-8", "replace").decode()  # escapes in JSON can make lone surrogates


_TURN_LIST_KEYS = ("messages", "turns", "conversation", "comments", "entries", "events")
_TITLE_KEYS = ("title", "name", "subject")
_AUTHOR_KEYS = ("author", "name", "user", "sender", "speaker", "from")
_CONTENT_KEYS = ("content", "text", "body", "message")
_TIME_KEYS = ("created_at", "timestamp", "created", "date", "time", "at")
_ROLE = re.compile(r"[a-z]+(?: [a-z]+){0,2}")
_MAX_TOLD_LINES = 5
_MAX_INLINE_CHARS = 200  # a longer value has lines of its own


def parse_record(text: str) -> tuple[Any, str]:
    """The value of JSON, or the list of those of JSON Lines, and which lines are left out; numbers stay text.

    Raises InvalidRecord: it is neither.
    """
    try:
        return _parse_json(text), ""
    except json.JSONDecodeError as error:
        values, broken = list[Any](), list[int]()
        lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        for number, line in lines:
            try:
                values.append(_parse_json(line))
            except (json.JSONDecodeError, InvalidRecord):
                broken.append(number)
        if not values or (broken and (len(broken) > len(values) or not all(map(is_object, values)))):
            raise InvalidRecord(f"no valid JSON (line {error.lineno})") from error
        return values, _describe_broken_lines(broken, lines[-1][0])


def _describe_broken_lines(broken: list[int], last: int) -> str:
    """Such as the last line of a session that a stopped program did not end."""
    if broken == [last]:
        return f"its last line ({last}) is cut, and left out"
    numbers = ", ".join(map(str, broken[:_MAX_TOLD_LINES])) + (", …" if len(broken) > _MAX_TOLD_LINES else "")
    return f"{len(broken)} lines that are no valid JSON are left out: {numbers}" if broken else ""


def format_record(record: Any, title: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of a record, and its segments if it holds turns. Raises InvalidRecord: too deep."""
    try:
        key, turns = _find_turns(record)
        if not turns:
            lines = [f"# {title}", "", *_iter_sections(record, title)]
            return _remove_invalid_characters("\n".join(lines)).rstrip() + "\n", []
        rest = {name: value for name, value in record.items() if name != key} if key else {}
        all_turns = [Turn("description", "\n".join(_iter_sections(rest, title))), *map(_build_turn, turns)]
        return format_conversation(_remove_invalid_characters(title), all_turns)
    except RecursionError as error:
        raise InvalidRecord("JSON nested too deep") from error


_ENVELOPE_KEYS = ("message", "payload", "item")  # in which a program's log has what was said
_ROLES = ("user", "human", "assistant", "ai", "model", "system", "developer", "tool")
_SAID_KEYS = (*_CONTENT_KEYS, "summary", "output", "arguments", "input", "result", "error")
_LOG_KEYS = {
    *("type", "role", "id", "uuid", "parentUuid", "sessionId", "session_id", "requestId", "leafUuid"),
    *("call_id", "model", "usage", "stop_reason", "stop_sequence", "status", "cwd", "version", "userType"),
    *("isSidechain", "gitBranch", "isMeta", *_TIME_KEYS),
}
"""What lines say of the program, and not of the conversation."""
_LOG_TYPES = ("turn_context", "token_count", "progress", "queue-operation", "file-history-snapshot")
_SEALED_KEYS = ("signature", "encrypted_content")
_DATA_URL = re.compile(r"data:[\w.+/-]{0,100};base64,")


@dataclass(frozen=True, slots=True)
class AgentSession:
    """The log of a conversation with a program, as coding agents write it, one line an event."""

    fields: Mapping[str, Any]  # what it says of itself, as of a record
    turns: list[Turn]
    note: str  # of lines that are left out


def find_session(record: Any) -> AgentSession | None:
    """The session that lines of JSON are; None: nobody says anything in them, or each is a plain turn.

    Raises InvalidRecord: too deep.
    """
    lines = record if is_list(record) else [record]
    if not all(map(is_object, lines)) or _find_turns(record)[1]:
        return None
    try:
        return _build_session([_remove_payloads(line) for line in lines])
    except RecursionError as error:
        raise InvalidRecord("JSON nested too deep") from error


def _build_session(lines: Sequence[Mapping[str, Any]]) -> AgentSession | None:
    events = [(line, _unwrap(line)) for line in lines]
    roles = [_find_role(line, inner) for line, inner in events]
    if not any(roles) or (len(lines) == 1 and events[0][1] is lines[0]):
        return None
    built = [_build_event(line, inner, role) for (line, inner), role in zip(events, roles, strict=True)]
    said = {turn.text for turn, role in zip(built, roles, strict=True) if turn and role}
    turns, left_out = list[Turn](), Counter[str]()
    for (line, inner), role, turn in zip(events, roles, built, strict=True):
        if turn is None:
            left_out[str(inner.get("type") or line.get("type") or "other")] += 1
        # what is said is logged once more, as an event, by some programs
        elif role or not any(
            inner.get(key) in said for key in _CONTENT_KEYS if isinstance(inner.get(key), str)
        ):
            turns.append(turn)
    fields = _describe_session(lines, [turn.at for turn in turns if turn.at])
    counts = ", ".join(f"{count} {kind[:40]}" for kind, count in left_out.most_common(_MAX_TOLD_LINES))
    note = f"lines left out as the program's own: {left_out.total()} ({counts})" if left_out else ""
    return AgentSession(fields, turns, note)


def _describe_session(lines: Sequence[Mapping[str, Any]], times: Sequence[datetime]) -> dict[str, Any]:
    def find(*names: str) -> str:
        values = (line.get(name) for name in names for line in lines)
        return next((value for value in values if isinstance(value, str) and value.strip()), "")

    start = descend(lines[0], "payload") or lines[0]
    return {
        "type": "session",
        "title": find("summary", "customTitle", "aiTitle", "title"),
        "id": find("sessionId", "session_id") or start.get("id"),
        **({"created_at": min(times), "updated_at": max(times)} if times else {}),
    }


def _unwrap(line: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((line[key] for key in _ENVELOPE_KEYS if is_object(line.get(key))), line)


def _find_role(line: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    """Who speaks; "" where it is no turn."""
    role = inner.get("role") or line.get("type")
    is_role = isinstance(role, str) and (role in _ROLES or (inner is not line and "role" in inner))
    return str(role) if is_role and _find_key(inner, _CONTENT_KEYS) else ""


def _build_event(line: Mapping[str, Any], inner: Mapping[str, Any], role: str) -> Turn | None:
    """What a line says; None where it is of the program's own."""
    kind = role or str(inner.get("type") or line.get("type") or "message")
    if not _find_key(inner, _SAID_KEYS) or kind in _LOG_TYPES:
        return None
    content_key = _find_key(inner, _CONTENT_KEYS)
    rest = {
        name: value
        for name, value in inner.items()
        if name not in _LOG_KEYS and name != content_key and value not in (None, "", [], {})
    }
    parts = [*_iter_content_lines(inner[content_key] if content_key else None), *_iter_lines(rest, 0)]
    times = (parse_time(part.get(name)) for part in (line, inner) for name in _TIME_KEYS if name in part)
    text = _remove_invalid_characters("\n".join(parts)).strip()
    if not text:
        return None
    kind = " ".join(re.split(r"[_\W]+", kind.lower()))
    return Turn(kind if _ROLE.fullmatch(kind) else "message", text, at=next(filter(None, times), None))


def _remove_payloads(value: Any) -> Any:
    """Without signatures and pictures: text that is none."""
    if is_object(value):
        is_data = value.get("type") == "base64"
        return {
            name: "(data)" if is_data and name == "data" else _remove_payloads(inner)
            for name, inner in value.items()
            if name not in _SEALED_KEYS
        }
    if is_list(value):
        return [_remove_payloads(inner) for inner in value]
    return "(data)" if isinstance(value, str) and _DATA_URL.match(value) else value


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError as error:
        raise InvalidRecord("JSON nested too deep") from error


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
    all_keys = [set[str](descend(entry)) for entry in value] if is_list(value) else []
    return bool(all_keys) and all(
        keys & {"role", *_AUTHOR_KEYS} and keys & {*_CONTENT_KEYS} for keys in all_keys
    )


def _build_turn(value: Mapping[str, Any]) -> Turn:
    role = str(value.get("role") or "message").lower().replace("_", " ").replace("-", " ")
    author_key, content_key = _find_key(value, _AUTHOR_KEYS), _find_key(value, _CONTENT_KEYS)
    time_key = next((name for name in _TIME_KEYS if parse_time(value.get(name))), None)
    person = value.get(author_key) if author_key else None
    if is_object(person):
        person = person.get("name") or person.get("login") or person.get("id")
    author = person if isinstance(person, str) and len(person) <= 100 and "\n" not in person else ""
    used_keys = {"role", author_key if author else None, content_key, time_key}
    rest = {name: inner for name, inner in value.items() if name not in used_keys and inner not in (None, "")}
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
            rest = {name: value for name, value in part.items() if name not in ("type", "text")}
            yield from _iter_lines(rest, 0)
        elif isinstance(part, str):
            yield part
        elif part is not None:
            yield from _iter_lines(part, 0)


def _find_key(value: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if value.get(name) not in (None, "")), None)


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
