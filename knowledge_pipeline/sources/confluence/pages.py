"""Pages and blog posts of Confluence, Cloud and Server, one document each.

Which pages exist is listed by the site's own listings, whole or not at all; what a version does not
tell (labels, comments, files) by searches beside them. Permissions and configuration:
docs/sources/confluence.md.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from knowledge_pipeline.config.connections import ConfluenceConnection
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.base import Service
from knowledge_pipeline.sources.confluence.client import Wiki
from knowledge_pipeline.sources.confluence.cloud import CloudEdition
from knowledge_pipeline.sources.confluence.content import (
    KINDS,
    Attached,
    Edition,
    Listed,
    Page,
    batches,
    item_of,
    labels_of,
)
from knowledge_pipeline.sources.confluence.document import Pages
from knowledge_pipeline.sources.confluence.search import (
    AT_ONCE,
    attached_of,
    modified_since,
    on_pages,
    search,
    within,
)
from knowledge_pipeline.sources.confluence.server import ServerEdition
from knowledge_pipeline.sources.confluence.storage import people_in
from knowledge_pipeline.sources.time_window import oldest_wanted

OVERLAP = timedelta(hours=14)
"""How far back of the moment asked for: a search reads times to the minute in the time zone of the
token's owner, who may live twelve hours west of UTC, and its index is minutes late."""

_READ_AT_ONCE = 50  # pages whose bodies are in memory together


@dataclass(frozen=True, slots=True)
class PageFilters:
    """Which pages of a site, and what of them."""

    spaces: tuple[str, ...] = ()  # keys; none: every current space that the token sees
    labels: tuple[str, ...] = ()  # pages that have one of them
    since: str | None = None  # updated since a date or within a span: "2026-01-31", "2 years"
    max_results: int | None = None  # the ones updated last
    comments: bool = True  # footer and inline comments, as the text's last section


@dataclass(slots=True)
class _Beside:
    """What searches tell of pages beside their listing, by page id."""

    attached: dict[str, list[Attached]]
    labels: dict[str, tuple[str, ...]]
    kinds: dict[str, str]


class ConfluencePages(Service):
    """A `Service`; a context manager. Nothing is asked before the first listing."""

    whole_listing_every = timedelta(days=1)
    """Moved pages, labels and deletions are seen then; 5,000 pages cost some forty calls."""

    def __init__(self, connection: ConfluenceConnection, filters: PageFilters) -> None:
        self._filters = filters
        self._wiki = Wiki(connection)
        self._edition: Edition = (
            CloudEdition(self._wiki) if self._wiki.is_cloud else ServerEdition(self._wiki)
        )
        self._spaces: Mapping[str, str] | None = None
        if filters.since is not None:
            oldest_wanted(filters.since)  # a wrong one is told before anything is read

    def close(self) -> None:
        """Free what was opened."""
        self._wiki.close()

    def discover(self) -> Iterator[Item]:
        """Every wanted page with its revision, no bodies.

        Raises:
            SourceRefused: a space does not exist or is hidden, or the site refuses us.
            SourceUnavailable: it did not answer, or not to the end.
        """
        self._spaces = None  # asked again for every whole listing
        spaces = self._known_spaces()
        pages = {page.id: page for page in self._edition.listed(spaces, named=bool(self._filters.spaces))}
        beside = self._beside([within(self._filters.spaces, self._searched_kinds())])
        missed = {each: kind for each, kind in beside.kinds.items() if each not in pages}
        for page in self._edition.found(missed, spaces):  # a listing that came back short is made whole
            pages[page.id] = page
        yield from self._items(self._newest(self._labelled(pages.values(), beside)), beside)

    def updated(self, since: datetime) -> Iterator[Item]:
        """Wanted pages whose text, comments or files changed since then, `OVERLAP` included.

        A change of labels and a move make no new version, nor does a page's move change those below
        it: the next whole listing sees them, and what was deleted.

        Raises:
            SourceRefused, SourceUnavailable: as `discover`.
        """
        spaces = self._known_spaces()
        changed = f"{modified_since(since.astimezone(UTC) - OVERLAP)} and "
        kinds = (*KINDS, *self._attached_kinds())
        touched: dict[str, str] = {}
        for content in search(
            self._wiki, changed + within(self._filters.spaces, kinds), ["container", "version"]
        ):
            attached = attached_of(content)
            if attached is not None:
                touched[attached.page_id] = attached.page_kind
            elif content.get("type") in KINDS:
                touched[str(content["id"])] = content["type"]
        for several in batches(touched, AT_ONCE):
            pages = list(self._edition.found({each: touched[each] for each in several}, spaces))
            if pages:
                beside = self._beside(self._queries_for([page.id for page in pages]))
                yield from self._items(self._labelled(pages, beside), beside)

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read listed pages, `_READ_AT_ONCE` in one call, and one more for what hangs on them.

        Raises:
            SourceRefused, SourceUnavailable: as `discover`.
        """
        for several in batches(items, _READ_AT_ONCE):
            yield from self._documents(several)

    def _documents(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        kinds = {item.uri.partition("/")[2]: item.uri.partition("/")[0] for item in items}
        read: dict[str, Page | DocumentSkipped] = {page.id: page for page in self._edition.read(kinds)}
        for page_id, kind in kinds.items():
            if page_id not in read:  # gone, hidden, or not yet known to the search: it says which
                read[page_id] = self._edition.read_one(page_id, kind)
        hung = self._hung_on([item.uri.partition("/")[2] for item in items if Listed.of(item).has_attached])
        pages = Pages(self._wiki.shown_at, self._edition.people(set(_accounts(read.values(), hung))))
        for item in items:
            page_id = item.uri.partition("/")[2]
            page = read[page_id]
            is_read = isinstance(page, Page)
            yield item, pages.document(item, page, hung.get(page_id, ())) if is_read else page

    def _hung_on(self, ids: Sequence[str]) -> Mapping[str, list[Attached]]:
        """Comments with their texts, and files."""
        if not ids:
            return {}
        expand = ["container", "version", "history", "body.storage", "extensions.inlineProperties"]
        hung: defaultdict[str, list[Attached]] = defaultdict(list)
        for content in search(self._wiki, on_pages(ids, self._attached_kinds()), expand):
            if (attached := attached_of(content)) is not None:
                hung[attached.page_id].append(attached)
        return hung

    def _known_spaces(self) -> Mapping[str, str]:
        """Key by id; a wanted one that is not shown must not look as if all its pages were gone."""
        if self._spaces is None:
            wanted = self._filters.spaces
            found = self._edition.spaces(wanted)
            hidden = [key for key in wanted if key.lower() not in {each.lower() for each in found.values()}]
            if hidden or not found:
                raise SourceRefused(
                    f"{self._wiki.service} shows no space {', '.join(hidden) or 'at all'}: correct the "
                    "source's spaces (keys, not names), or let the owner of connection.token view it"
                )
            self._spaces = found
        return self._spaces

    def _attached_kinds(self) -> tuple[str, ...]:
        return ("attachment", "comment") if self._filters.comments else ("attachment",)

    def _searched_kinds(self) -> tuple[str, ...]:
        """What a whole listing searches for: pages only where their listing does not tell their labels."""
        own = KINDS if self._edition.searched_for_labels else ()
        return (*own, *self._attached_kinds())

    def _queries_for(self, ids: Sequence[str]) -> list[str]:
        queries = [on_pages(ids, self._attached_kinds())]
        if self._edition.searched_for_labels:
            queries.append(f"id in ({', '.join(ids)}) and type in ({', '.join(KINDS)})")
        return queries

    def _beside(self, queries: Iterable[str]) -> _Beside:
        beside = _Beside(defaultdict(list), {}, {})
        for query in queries:
            for content in search(self._wiki, query, ["container", "version", "metadata.labels"]):
                if (attached := attached_of(content)) is not None:
                    beside.attached[attached.page_id].append(attached)
                elif content.get("type") in KINDS:
                    beside.labels[str(content["id"])] = labels_of(content)
                    beside.kinds[str(content["id"])] = content["type"]
        return beside

    def _labelled(self, pages: Iterable[Page], beside: _Beside) -> Iterator[Page]:
        """The pages within the filters, with their labels; one that the search does not know is asked."""
        oldest = oldest_wanted(self._filters.since) if self._filters.since else None
        for page in pages:
            if oldest is not None and page.updated < oldest:
                continue
            labels = page.labels if page.labels is not None else beside.labels.get(page.id)
            labels = self._edition.labels(page) if labels is None else labels
            if not self._filters.labels or set(labels) & set(self._filters.labels):
                yield replace(page, labels=labels)

    def _newest(self, pages: Iterable[Page]) -> Iterable[Page]:
        most = self._filters.max_results
        return (
            pages if most is None else heapq.nlargest(most, pages, key=lambda page: (page.updated, page.id))
        )

    def _items(self, pages: Iterable[Page], beside: _Beside) -> Iterator[Item]:
        for page in pages:
            yield item_of(page, page.labels or (), beside.attached.get(page.id, ()))


def _accounts(
    pages: Iterable[Page | DocumentSkipped], hung: Mapping[str, Sequence[Attached]]
) -> Iterator[str]:
    """Whose names are needed: authors without one, and who is mentioned."""
    for page in pages:
        if isinstance(page, Page):
            yield from (page.account,) if page.account else ()
            yield from people_in(page.storage)
            yield from (who for each in hung.get(page.id, ()) for who in people_in(each.storage))
