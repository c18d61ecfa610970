"""A page as a Confluence site lists it, and what hangs on it; the same for Cloud and Server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Protocol, TypeVar

from knowledge_pipeline.connectors.base import DELETED_REASON
from knowledge_pipeline.connectors.confluence.client import Json
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Item

FORMAT_VERSION = "1"
"""Changes whenever the same page may give another document."""

CONTENT_KINDS = ("page", "blogpost")
BOARD_KINDS = ("whiteboard", "database")
"""Of Cloud, whose APIs give their title, place, comments and files: no body, and no list but a search."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Page:
    """A page or blog post."""

    id: str
    kind: str  # one of `CONTENT_KINDS` or `BOARD_KINDS`
    space: str  # the space's key
    title: str
    version: int
    updated: datetime
    ancestors: tuple[str, ...] = ()  # titles of the pages above it, the topmost first
    labels: tuple[str, ...] | None = None  # None: not in the listing
    author: str | None = None  # display name
    author_account: str | None = None  # of the author, where the name must be looked up
    storage: str = ""  # the body, where it was read
    web_path: str = ""  # below the site's


@dataclass(frozen=True, slots=True)
class ChildContent:
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
    quoted_text: str = ""  # the words of the page that it is about
    size_bytes: int | None = None  # of a file
    download_path: str = ""  # of a file, below the site's address


@dataclass(frozen=True, slots=True)
class PagePlace:
    """Where a page is, by the ids of what it inherits its readers from."""

    space: str  # the space's id on Cloud, its key on Server
    ancestors: tuple[str, ...]  # the topmost first


class Edition(Protocol):
    """What differs between Cloud and Server."""

    needs_label_search: bool
    """Whether pages are listed without their labels, which a search finds."""

    def list_spaces(self, keys: Sequence[str]) -> Mapping[str, str]:
        """The wanted spaces, all current ones if no key is given: key by id."""
        ...

    def list_pages(self, spaces: Mapping[str, str], *, is_filtered: bool) -> Iterator[Page]:
        """Every page and blog post of the spaces, no bodies; `is_filtered`: not all spaces are wanted."""
        ...

    def find_pages(self, kind_by_id: Mapping[str, str], spaces: Mapping[str, str]) -> Iterator[Page]:
        """Those of the wanted ones (kind by id) that exist in the spaces, without bodies."""
        ...

    def read_pages(self, kind_by_id: Mapping[str, str]) -> Iterator[Page]:
        """Those of the wanted ones (kind by id) that can be read, with bodies but without ancestors."""
        ...

    def read_page(self, page_id: str, kind: str) -> Page | DocumentSkipped:
        """One page with its body, or why it cannot be read."""
        ...

    def locate_pages(self, kind_by_id: Mapping[str, str]) -> Mapping[str, PagePlace]:
        """The places, by id, of those of the wanted ones (kind by id) that can be read."""
        ...

    def list_labels(self, page: Page) -> tuple[str, ...]:
        """The labels of a page that the search does not know yet."""
        ...

    def resolve_people(self, accounts: set[str]) -> Mapping[str, str]:
        """Display names by account id or user key; who cannot be resolved is left out."""
        ...


@dataclass(frozen=True, slots=True)
class PageLocator:
    """What the listing knows of a page and reading it does not tell again; an item's locator."""

    space: str
    ancestors: tuple[str, ...]
    labels: tuple[str, ...]
    has_children: bool

    @classmethod
    def from_item(cls, item: Item) -> PageLocator:
        """From an item's locator."""
        space, ancestors, labels, has_children = json.loads(item.locator)
        return cls(space, tuple(ancestors), tuple(labels), has_children)


def build_item(page: Page, labels: Sequence[str], children: Sequence[ChildContent]) -> Item:
    """A page as an item: its revision changes with all that its document is made of.

    A version covers only the text and the title. The place, labels, comments and files change without
    one, so what the listings say of them is part of the revision.
    """
    listed = [page.space, page.ancestors, labels, bool(children)]
    marks = sorted([child.id, child.version, child.title] for child in children)
    facts = json.dumps([page.title, listed, marks], ensure_ascii=False)
    digest = hashlib.blake2s(facts.encode("utf-8", "replace"), digest_size=8).hexdigest()
    locator = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
    return Item(f"{page.kind}/{page.id}", f"{page.version}.{digest}:{FORMAT_VERSION}", locator)


def to_skipped(response: Json | int) -> DocumentSkipped:
    """Why a page that was requested alone cannot be read: its JSON, or the status in place of it."""
    return DocumentSkipped("the token may not read it any more" if response == 403 else DELETED_REASON)


def labels_of(content: Json) -> tuple[str, ...]:
    """The labels of `metadata.labels`, without those that are one person's own."""
    labels = ((content.get("metadata") or Json()).get("labels") or Json()).get("results") or ()
    return tuple(sorted(str(label["name"]) for label in labels if label.get("prefix") != "my"))


def storage_of(content: Json) -> str:
    """The body in storage format, "" without one."""
    return str(((content.get("body") or Json()).get("storage") or Json()).get("value") or "")


def split_batches(values: Iterable[Value], size: int) -> Iterator[list[Value]]:
    """The values in lists of `size`, the last one shorter."""
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch
