"""Project records as files: sessions, plans, discussions, decisions, specifications.

A Markdown record keeps its text, front matter included, so that line numbers are the file's. A JSON record
becomes text that a person can read. What a record says of itself becomes metadata.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any

import yaml

from knowledge_pipeline import times
from knowledge_pipeline.connectors.conversations import Turn, format_conversation
from knowledge_pipeline.connectors.files import build_original_metadata, extract_title
from knowledge_pipeline.extraction.text_decoding import DECODING_VERSION, ExtractedText, decode_text
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.records import MAX_CHARS, Metadata, locate_front_matter
from knowledge_pipeline.text import descend, is_list, is_object

ARCHIVE_VERSION = f"1.{DECODING_VERSION}"
"""Changes whenever the same bytes may give another document."""

_JSON = re.compile(r"\.(?:json|jsonl|ndjson)$", re.IGNORECASE)


def read_record(name: str, payload: bytes) -> ExtractedText:
    """One record: its text, its title, and its metadata, author and time included.

    What is not what its name or its first line promises is plain text, with the reason under `note`. Raises
    DocumentSkipped: it is binary, empty, or in an unknown encoding.
    """
    text = decode_text(payload)
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
    return replace(extracted, author=author, last_modified=parse_time(updated), metadata=metadata)


def _extract_json(name: str, text: str) -> ExtractedText:
    stem = name.rpartition("/")[2].rpartition(".")[0]
    try:
        record = parse_record(text)
        header = parse_record_header(record if is_object(record) else {})
        shown, segments = format_record(record, header.title or stem)
    except InvalidRecord as reason:
        return ExtractedText(text, metadata={"note": f"{reason}; taken as plain text"}, language="text")
    metadata = {**header.metadata, "segments": segments} if segments else header.metadata
    return ExtractedText(shown, header.title or stem, metadata, language="markdown")


def _extract_text(name: str, text: str) -> ExtractedText:
    language = detect_language(name, text)
    try:
        header = parse_record_header(parse_front_matter(text))
    except InvalidRecord as reason:
        header = RecordHeader(metadata={"note": f"{reason}; taken as plain text"})
    title = header.title or extract_title(name, text, language)
    return ExtractedText(text, title, header.metadata, language=language)


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
_KINDS = ("adr", "session", "plan", "discussion", "spec")
_KIND_BY_FOLDER = {kind: kind for kind in _KINDS} | {"decision": "adr", "specification": "spec"}
_MIN_MILLISECONDS = 100_000_000_000  # a larger number counts them


@dataclass(frozen=True, slots=True)
class RecordHeader:
    """The title, and the known metadata.

    `id`, `kind`, `status`, `project`; `tags`, `labels`, `authors`; `updated_at`, `created_at` in ISO
    8601, UTC; `mentions`.
    """

    title: str = ""
    metadata: Metadata = field(default_factory=dict[str, Any])


class InvalidRecord(Exception):
    """A record's front matter or its JSON cannot be read; `str(error)` says why."""


def parse_front_matter(text: str) -> Mapping[Any, Any]:
    """The values of a text's front matter; none without one. Raises InvalidRecord: it cannot be read.

    Values may share parts, as aliases in YAML make them: they are not to be written out whole.
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
        value = tomllib.loads(front.inner) if language == "TOML" else yaml.safe_load(front.inner)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise InvalidRecord(f"its front matter is no valid YAML (line {line})") from error
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidRecord(f"its front matter is no valid {language}") from error
    if not is_object(value):
        raise InvalidRecord("its front matter has no fields")
    return value


def parse_record_header(fields: Mapping[Any, Any]) -> RecordHeader:
    """The header in a mapping that may hold anything; names are compared without case, with `-` as `_`."""
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
    return RecordHeader(title, {name: value for name, value in metadata.items() if value})


def infer_kind(path: str) -> str | None:
    """The kind that the nearest known folder names: "docs/decisions/store.md" is an adr."""
    for folder in reversed(path.lower().split("/")[:-1]):
        if kind := _KIND_BY_FOLDER.get(folder) or _KIND_BY_FOLDER.get(folder.removesuffix("s")):
            return kind
    return None


def parse_time(value: Any) -> datetime | None:
    """A time in UTC from a date, ISO 8601, or seconds or milliseconds since 1970."""
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(value, date):  # a datetime too
            value = value.isoformat()
        text = str(value).strip()
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
_MAX_INLINE_CHARS = 200  # a longer value has lines of its own


def parse_record(text: str) -> Any:
    """The value of JSON, or the list of those of JSON Lines; numbers stay text. Raises InvalidRecord."""
    try:
        return _parse_json(text)
    except json.JSONDecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2:
            raise InvalidRecord(f"no valid JSON (line {error.lineno})") from error
        try:
            return [_parse_json(line) for line in lines]
        except json.JSONDecodeError:
            raise InvalidRecord(f"no valid JSON (line {error.lineno})") from error


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
