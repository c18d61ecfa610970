"""A page as a Confluence site lists it, what hangs on it, and searches; the same for Cloud and Server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from knowledge_pipeline.connectors.base import DELETED_REASON
from knowledge_pipeline.connectors.confluence.client import ConfluenceClient, Json
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Item
from knowledge_pipeline.text import descend
from knowledge_pipeline.times import parse_time

FORMAT_VERSION = "2"
"""Changes whenever the same page may give another document."""

CONTENT_KINDS = ("page", "blogpost")
BOARD_KINDS = ("whiteboard", "database")
"""Of Cloud, whose APIs give their title, place, comments and files: no body, and no list but a search."""


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
    return shared_labels(descend(content, "metadata", "labels").get("results") or ())


def shared_labels(labels: Iterable[Json]) -> tuple[str, ...]:
    """The names of labels that are not one person's own."""
    return tuple(sorted(str(label["name"]) for label in labels if label.get("prefix") != "my"))


def storage_of(content: Json) -> str:
    """The body in storage format, "" without one."""
    return str(descend(content, "body", "storage").get("value") or "")


# Confluence's search (CQL) finds what no listing gives in bulk: what was modified since, the comments and
# files of many pages, and on Cloud the labels of many. Cloud's API v2 has no search, `/rest/api/search` no
# expansions. The listings of `editions`, never a search, tell which pages exist: the search index is late.
# Source: https://developer.atlassian.com/cloud/confluence/advanced-searching-using-cql/
SEARCH_PATH = "rest/api/content/search"
MAX_IDS_PER_QUERY = 100  # ids in one question, so that its address stays short
_PAGE_SIZE = 250  # results in one page; a site gives fewer where it likes


def search(client: ConfluenceClient, cql: str, expand: Sequence[str]) -> Iterator[Json]:
    """Everything current that a query finds, the oldest first, so that what is new comes last."""
    question = {"cql": f"{cql} order by created asc", "expand": ",".join(expand), "limit": _PAGE_SIZE}
    return client.iter_results(SEARCH_PATH, question)


def build_space_query(spaces: Iterable[str], kinds: Sequence[str]) -> str:
    """The query for kinds of content in spaces; in all of them if none is given."""
    wanted = f"type in ({', '.join(kinds)})"
    escaped = (key.replace("\\", "\\\\").replace('"', '\\"') for key in spaces)
    keys = ", ".join(f'"{key}"' for key in escaped)
    return f"{wanted} and space in ({keys})" if keys else wanted


def build_children_query(ids: Iterable[str], kinds: Sequence[str]) -> str:
    """The query for what hangs on pages."""
    return f"type in ({', '.join(kinds)}) and container in ({', '.join(ids)})"


def parse_child_content(content: Json) -> ChildContent | None:
    """A comment or file on a page; None for one on anything else, a file's own comment perhaps."""
    container, version = descend(content, "container"), descend(content, "version")
    kinds = (*CONTENT_KINDS, *BOARD_KINDS)
    if content.get("type") not in ("comment", "attachment") or container.get("type") not in kinds:
        return None
    extensions, creator = descend(content, "extensions"), descend(content, "history", "createdBy")
    return ChildContent(
        id=str(content["id"]),
        kind=content["type"],
        page_id=str(container["id"]),
        page_kind=container["type"],
        version=int(version.get("number") or 1),
        title=str(content.get("title") or "") if content["type"] == "attachment" else "",
        updated=parse_time(str(version["when"])) if version.get("when") else None,
        author=(creator or descend(version, "by")).get("displayName"),
        storage=storage_of(content),
        size_bytes=size if isinstance(size := extensions.get("fileSize"), int) else None,
        download_path=str(descend(content, "_links").get("download") or ""),
        quoted_text=str(descend(extensions, "inlineProperties").get("originalSelection") or ""),
    )
