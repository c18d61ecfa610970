"""From a row to a document, by the columns that the configuration names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from knowledge_pipeline.config.sources.filters import TableColumns
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused
from knowledge_pipeline.json_values import is_list
from knowledge_pipeline.languages import LANGUAGES
from knowledge_pipeline.records import Document
from knowledge_pipeline.sources.archive.record_header import parse_time
from knowledge_pipeline.sources.files.trees import format_too_large
from knowledge_pipeline.sources.table.base import Row

_SINGLE_KEYS = ("title", "url", "author", "updated", "created", "language", "labels", "project", "status")
_MAX_TAGS = 50  # of one column
_MAX_TAG_CHARS = 200


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The columns to read, the id first, and what each is read for."""

    id: str
    texts: tuple[str, ...]
    singles: Mapping[str, str]  # key of `TableColumns` -> column
    filters: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Every column that is read, the id first, each once."""
        return list(dict.fromkeys((self.id, *self.texts, *self.singles.values(), *self.filters)))


def plan_columns(wanted: TableColumns, present: Sequence[str], *, table: str) -> ColumnPlan:
    """Which columns of a table to read; a key without a column of its own name is not read.

    Raises:
        SourceRefused: a column that is named, the id or the text is missing.
    """
    named = {key: getattr(wanted, key) or key for key in _SINGLE_KEYS}
    singles = {
        key: name for key, name in named.items() if getattr(wanted, key) is not None or name in present
    }
    required = (wanted.id, *wanted.text, *singles.values(), *wanted.filters)
    missing = [name for name in dict.fromkeys(required) if name not in present]
    if missing:
        raise SourceRefused(
            f"{table} has no column {', '.join(map(repr, missing))}: name another one in columns; "
            f"it has {', '.join(map(repr, present)) or 'none'}"
        )
    return ColumnPlan(wanted.id, wanted.text, singles, wanted.filters)


def build_row_document(uri: str, row: Row, plan: ColumnPlan, max_bytes: int) -> Document:
    """The document of a row that has the columns of `plan.names`.

    Raises:
        DocumentSkipped: it has no text, too much of it, or a value that is none.
    """
    values = dict(zip(plan.names, row, strict=True))
    texts = {key: format_value(values[name], name) for key, name in plan.singles.items()}
    text = "\n\n".join(found for name in plan.texts if (found := format_value(values[name], name).strip()))
    if not text:
        raise DocumentSkipped("empty")
    if (size := len(text.encode())) > max_bytes:
        raise DocumentSkipped(format_too_large(size, max_bytes))
    language = texts.get("language", "").lower() or "markdown"
    if language not in LANGUAGES:
        raise DocumentSkipped(f"the language {language[:40]!r} is not known")
    return Document(
        uri=uri,
        text=text,
        path=str(row[0]),
        title=" ".join(texts.get("title", "").split()) or str(row[0]),
        language=language,
        url=_web_url(texts.get("url", "")),
        author=texts.get("author") or None,
        last_modified=parse_moment(values.get(plan.singles.get("updated", ""))),
        metadata=_build_metadata(values, texts, plan),
    )


def format_value(value: Any, column: str) -> str:
    """A value as text; lists and objects as JSON.

    Raises:
        DocumentSkipped: it is bytes.
    """
    match value:
        case None:
            return ""
        case str():
            return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
        case bool():
            return "true" if value else "false"
        case datetime():
            return _in_utc(value).isoformat()
        case date() | time():
            return value.isoformat()
        case int() | float() | Decimal() | UUID():
            return str(value)
        case bytes() | bytearray() | memoryview():
            raise DocumentSkipped(f"the column {column!r} holds bytes, not text")
        case _:
            return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str).replace("\0", "\ufffd")


def parse_moment(value: Any) -> datetime | None:
    """A time in UTC; None for what is none, such as a number of a version."""
    return _in_utc(value) if isinstance(value, datetime) else parse_time(value)


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _web_url(text: str) -> str | None:
    """The address, if it leads to the web: what a row says is shown as a link."""
    return text if text.startswith(("https://", "http://")) else None


def _build_metadata(values: Mapping[str, Any], texts: Mapping[str, str], plan: ColumnPlan) -> dict[str, Any]:
    created = parse_moment(values.get(plan.singles.get("created", "")))
    labels = plan.singles.get("labels")
    found: dict[str, Any] = {
        "project": texts.get("project"),
        "status": texts.get("status"),
        "labels": _split_values(values[labels], labels, ",") if labels else [],
        "created_at": created.isoformat() if created else None,
        "columns": {name: text for name in plan.filters if (text := format_value(values[name], name))},
        "tags": [f"{name}:{each}" for name in plan.filters for each in _split_values(values[name], name)],
    }
    return {key: value for key, value in found.items() if value}


def _split_values(value: Any, column: str, separator: str | None = None) -> list[str]:
    """The values of a list, of a text that is cut at a separator, or the one value."""
    if separator and isinstance(value, str):
        value = value.split(separator)
    texts = (format_value(each, column).strip() for each in (value if is_list(value) else [value]))
    return list(dict.fromkeys(text[:_MAX_TAG_CHARS] for text in texts if text))[:_MAX_TAGS]
