"""What narrows a search: the one list of filters, which every interface derives from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

from knowledge_pipeline.contract.types import MAX_VALUES
from knowledge_pipeline.errors import InvalidQuery


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on results: all fields must hold, any value of a field will do, an empty field is none.

    Raises:
        QuestionRefused: more than `MAX_VALUES` values.
    """

    languages: tuple[str, ...] = ()  # a name ("python") or a file name's end ("py")
    extensions: tuple[str, ...] = ()  # "py", with or without the dot
    sources: tuple[str, ...] = ()
    source_types: tuple[str, ...] = ()
    repos: tuple[str, ...] = ()  # the whole name, or its last parts: "requests", "psf/requests"
    branches: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # globs; a path without a wildcard also means all below it
    authors: tuple[str, ...] = ()  # whole words of a name or address, letter case aside
    tags: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    spaces: tuple[str, ...] = ()  # of a wiki
    since: datetime | None = None  # last modified then or later; without a time zone it is UTC
    until: datetime | None = None  # last modified before then
    include_archived: bool = False

    def __post_init__(self) -> None:
        values = (getattr(self, each.name) for each in fields(self))
        found = sum(len(value) for value in values if isinstance(value, tuple))
        if found > MAX_VALUES:
            raise InvalidQuery(f"found {found} filter values; allowed: at most {MAX_VALUES} in one question")
