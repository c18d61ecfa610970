"""A page as a Confluence site lists it, and what hangs on it; the same for Cloud and Server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Protocol, TypeVar

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Item
from knowledge_pipeline.sources.confluence.client import Json

FORMAT = "1"
"""Changes whenever the same page may give another document."""

KINDS = ("page", "blogpost")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Page:
    """A page or blog post."""

    id: str
    kind: str  # one of `KINDS`
    space: str  # the space's key
    title: str
    version: int
    updated: datetime
    trail: tuple[str, ...] = ()  # titles of the pages above it, the topmost first
    labels: tuple[str, ...] | None = None  # None: the listing does not tell
    author: str | None = None  # display name
    account: str | None = None  # of the author, where the name must be asked for
    storage: str = ""  # the body, where it was read
    address: str = ""  # below the site's


@dataclass(frozen=True, slots=True)
class Attached:
    """A comment on a page, or a file at it."""

    id: str
    kind: str  # "comment" or "attachment"
    page_id: str
    page_kind: str
    version: int
    title: str  # a file's name
    updated: datetime | None = None
    author: str | None = None
    storage: str = ""  # a comment's text
    about: str = ""  # the words of the page that it is about


class Edition(Protocol):
    """What differs between Cloud and Server."""

    searched_for_labels: bool
    """Whether pages are listed without their labels, which a search tells."""

    def spaces(self, keys: Sequence[str]) -> Mapping[str, str]:
        """The wanted spaces, all current ones if no key is given: key by id."""
        ...

    def listed(self, spaces: Mapping[str, str], *, named: bool) -> Iterator[Page]:
        """Every page and blog post of the spaces, no bodies; `named`: not all spaces are wanted."""
        ...

    def found(self, wanted: Mapping[str, str], spaces: Mapping[str, str]) -> Iterator[Page]:
        """Those of the wanted ones (kind by id) that exist in the spaces, without bodies."""
        ...

    def read(self, wanted: Mapping[str, str]) -> Iterator[Page]:
        """Those of the wanted ones (kind by id) that can be read, with bodies, their place not told."""
        ...

    def read_one(self, page_id: str, kind: str) -> Page | DocumentSkipped:
        """One page with its body, or why it cannot be read."""
        ...

    def labels(self, page: Page) -> tuple[str, ...]:
        """The labels of a page that the search does not know yet."""
        ...

    def people(self, accounts: set[str]) -> Mapping[str, str]:
        """Display names by account id or user key; who cannot be resolved is left out."""
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """What the listing knows of a page and reading it does not tell again; an item's locator."""

    space: str
    trail: tuple[str, ...]
    labels: tuple[str, ...]
    has_attached: bool

    @classmethod
    def of(cls, item: Item) -> Listed:
        """From an item's locator."""
        space, trail, labels, has_attached = json.loads(item.locator)
        return cls(space, tuple(trail), tuple(labels), has_attached)


def item_of(page: Page, labels: Sequence[str], attached: Sequence[Attached]) -> Item:
    """A page as an item: its revision changes with all that its document is made of.

    A version tells of the text and the title only. Its place, its labels, its comments and its files
    change without one, so what the listings tell of them is part of the revision.
    """
    listed = [page.space, page.trail, labels, bool(attached)]
    marks = sorted([each.id, each.version, each.title] for each in attached)
    told = json.dumps([page.title, listed, marks], ensure_ascii=False)
    digest = hashlib.blake2s(told.encode("utf-8", "replace"), digest_size=8).hexdigest()
    locator = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
    return Item(f"{page.kind}/{page.id}", f"{page.version}.{digest}:{FORMAT}", locator)


def moment(told: Any) -> datetime:
    """A time as Confluence writes it: "2026-03-01T10:00:00.000Z", or with "+01:00"."""
    return datetime.fromisoformat(str(told))


def labels_of(content: Json) -> tuple[str, ...]:
    """The labels of `metadata.labels`, without those that are one person's own."""
    found = ((content.get("metadata") or {}).get("labels") or {}).get("results") or []
    return tuple(sorted(str(each["name"]) for each in found if each.get("prefix") != "my"))


def storage_of(content: Json) -> str:
    """The body in storage format, "" without one."""
    return str(((content.get("body") or {}).get("storage") or {}).get("value") or "")


def batches(values: Iterable[Value], size: int) -> Iterator[list[Value]]:
    """The values in lists of `size`, the last one shorter."""
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch
