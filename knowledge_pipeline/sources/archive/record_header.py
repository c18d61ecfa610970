"""Metadata of a record, from its front matter or the fields of its JSON object."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import yaml

from knowledge_pipeline import times
from knowledge_pipeline.front_matter import MAX_CHARS, locate_front_matter
from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.records import Metadata

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


class InvalidFrontMatter(Exception):
    """There is front matter, and it cannot be read; `str(error)` says why."""


def parse_front_matter(text: str) -> Mapping[Any, Any]:
    """The values of a text's front matter; none where it has no front matter.

    Values may share parts, as aliases in YAML make them: they are not to be written out whole.

    Raises:
        InvalidFrontMatter: it has no end, or is not YAML or TOML with fields.
    """
    found = locate_front_matter(text)
    if found is None:
        return {}
    if found.end is None and _FRONT_MATTER_FIELD.match(found.inner):
        raise InvalidFrontMatter(f"its front matter has no end within {MAX_CHARS} characters")
    if found.end is None or not _FRONT_MATTER_FIELD.search(found.inner):
        return {}  # rulers
    language = "TOML" if found.delimiter == "+++" else "YAML"
    try:
        value = tomllib.loads(found.inner) if language == "TOML" else yaml.safe_load(found.inner)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise InvalidFrontMatter(f"its front matter is no valid YAML (line {line})") from error
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFrontMatter(f"its front matter is no valid {language}") from error
    if not is_object(value):
        raise InvalidFrontMatter("its front matter has no fields")
    return value


def parse_record_header(fields: Mapping[Any, Any]) -> RecordHeader:
    """The header in a mapping that may hold anything; names are compared without case, with `-` as `_`."""
    known = {str(name).strip().lower().replace("-", "_"): value for name, value in fields.items()}
    found: dict[str, Any] = {
        **{name: next(_iter_texts(known, keys), "") for name, keys in _SINGLE_FIELDS.items()},
        **{name: list(dict.fromkeys(_split_values(known, keys))) for name, keys in _LIST_FIELDS.items()},
    }
    found["kind"] = found["kind"].lower()
    found["authors"] = [_EMAIL_SUFFIX.sub("", author) or author for author in found["authors"]]
    for name, keys in _TIME_FIELDS.items():
        moments = (parse_time(known[key]) for key in keys if key in known)
        found[name] = next((moment.isoformat() for moment in moments if moment), "")
    mentions = {(kind, target) for kind in _MENTION_KINDS for target in _split_values(known, (kind,))}
    found["mentions"] = [{"kind": kind, "target": target} for kind, target in sorted(mentions)]
    title = next(_iter_texts(known, ("title", "name", "subject")), "")
    return RecordHeader(title, {name: value for name, value in found.items() if value})


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
        found = [*_iter_texts(fields, (key,))]
        if isinstance(fields.get(key), str) and found:
            found = [part for part in (part.strip() for part in found[0].split(",")) if part]
        if found:
            yield from found
            return


def _iter_texts(fields: Mapping[str, Any], keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        value = fields.get(key)
        for each in value[:_MAX_VALUES] if is_list(value) else [value]:
            if text := _to_text(each):
                yield text


def _to_text(value: Any) -> str:
    """A plain value as text, on one line; of an object its name."""
    if is_object(value):
        value = next((value[name] for name in _NAME_KEYS if isinstance(value.get(name), (str, int))), None)
    if isinstance(value, bool) or not isinstance(value, (str, int, float, date)):
        return ""
    text = " ".join(str(value)[: 2 * _MAX_CHARS].split())[:_MAX_CHARS]
    return text.encode("utf-8", "replace").decode()  # escapes in JSON can make lone surrogates
