"""What an event of a service says: which sources it is about, and which of their documents.

An event is a reason to look, nothing more: no word of it is indexed, and what it names is read from the
service. So it does not matter in which order events arrive, whether one comes twice, or whether it lies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.serve.webhooks.verification import Headers

Payload = dict[str, Any]

NOTHING_INDEXED = "nothing that is indexed changes by this event"


@dataclass(frozen=True, slots=True)
class Change:
    """Documents of some sources that may be new, changed, hidden or gone."""

    is_of: Callable[[SourceConfig], bool]
    documents: tuple[str, ...] = ()  # uris, or "FOLDER/*"; none: the source as a whole
    relist: bool = False  # a whole source whose deletions have to be seen


@dataclass(frozen=True, slots=True)
class ServiceEvent:
    """One event, after its signature was checked."""

    changes: tuple[Change, ...] = ()
    ignored_reason: str | None = None  # why it changes nothing
    challenge: str | None = None  # what the service wants to read in the answer

    @classmethod
    def of(cls, changes: Iterable[Change]) -> ServiceEvent:
        """An event of some changes, which are none for an event that does not matter."""
        found = tuple(changes)
        return cls(found, None if found else NOTHING_INDEXED)


def find_kind(payload: Payload, headers: Headers) -> str:
    """What the service calls the kind of an event: `push`, `jira:issue_updated`; "" where it says nothing."""
    records = list_objects(payload.get("Records"))[:1]
    names: list[Any] = [
        headers.get("x-github-event"),
        *(
            payload.get(name)
            for name in ("object_kind", "event_name", "webhookEvent", "event", "detail-type")
        ),
        descend(payload, "event").get("type"),
        *(record.get("eventName") for record in records),
        descend(payload, "message", "attributes").get("eventType"),
    ]
    found = next((name for name in map(read_text, names) if name), "")
    return _NOT_OF_KINDS.sub("", found)[:_MAX_KIND_CHARS]


def descend(value: Any, *names: str) -> Payload:
    """The object within objects at these names; an empty one where there is none."""
    for name in names:
        value = value.get(name) if is_object(value) else None
    return value if is_object(value) else {}


def list_objects(value: Any) -> list[Payload]:
    """The objects of a list; none where there is no list."""
    return [each for each in value if is_object(each)] if is_list(value) else []


def read_text(value: Any) -> str:
    """A text, or a number as text; "" for anything else."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def read_number(value: Any) -> str:
    """A number that is an id, as text; "" for anything else."""
    text = read_text(value)
    return text if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else ""


_MAX_DIGITS = 19
_NOT_OF_KINDS = re.compile(r"[^A-Za-z0-9_:. -]")
_MAX_KIND_CHARS = 60
