"""Pages and blog posts of Confluence, Cloud and Server, one document each.

The site's own listings tell which pages exist, completely or not at all. Searches add what a page's
version does not cover: labels, comments, files. Permissions and configuration: docs/sources/confluence.md.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from knowledge_pipeline.config.connections import ConfluenceConnection
from knowledge_pipeline.connectors.base import format_too_large
from knowledge_pipeline.connectors.confluence.client import ConfluenceClient
from knowledge_pipeline.connectors.confluence.content import (
    BOARD_KINDS,
    CONTENT_KINDS,
    MAX_IDS_PER_QUERY,
    ChildContent,
    Page,
    PageLocator,
    build_children_query,
    build_item,
    build_space_query,
    labels_of,
    parse_child_content,
    search,
)
from knowledge_pipeline.connectors.confluence.editions import open_edition
from knowledge_pipeline.connectors.confluence.storage_format import (
    find_mentioned_accounts,
    storage_to_markdown,
)
from knowledge_pipeline.connectors.service import ServiceSource, split_batches
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused
from knowledge_pipeline.records import Attachment, Document, Item
from knowledge_pipeline.times import parse_since

OVERLAP = timedelta(hours=14)
"""How long before the requested moment: a search reads times to the minute in the time zone of the
token's owner, who may live twelve hours west of UTC, and its index is minutes late."""

_ID = re.compile(r"\d{1,19}", re.ASCII)
_PAGES_PER_BATCH = 50  # pages whose bodies are in memory together


@dataclass(frozen=True, slots=True)
class PageFilters:
    """Which pages of a site, and what of them."""

    spaces: tuple[str, ...] = ()  # keys; none: every current space that the token sees
    labels: tuple[str, ...] = ()  # pages that have one of them
    since: str | None = None  # updated since a date or within a span: "2026-01-31", "2 years"
    max_results: int | None = None  # the ones updated last
    comments: bool = True  # footer and inline comments, as the text's last section
    exclude_labels: tuple[str, ...] = ()  # no pages that have one of them
    content_types: tuple[str, ...] = ()  # of `CONTENT_KINDS` and `BOARD_KINDS`; none: pages and blog posts
    max_bytes: int | None = None  # of a document's text; a longer one is skipped

    @property
    def board_kinds(self) -> tuple[str, ...]:
        """Those that are wanted and that only a search lists."""
        return tuple(kind for kind in BOARD_KINDS if kind in self.content_types)

    def accepts_labels(self, labels: Iterable[str]) -> bool:
        """Whether a page with these labels is wanted."""
        own = set(labels)
        wanted = not self.labels or not own.isdisjoint(self.labels)
        return wanted and own.isdisjoint(self.exclude_labels)


@dataclass(slots=True)
class _SearchFindings:
    """What searches add to the listing of pages, by page id."""

    children: dict[str, list[ChildContent]]
    labels: dict[str, tuple[str, ...]]
    kinds: dict[str, str]


class ConfluencePages(ServiceSource[ConfluenceClient]):
    """The pages of one site that pass the filters; nothing is sent before the first listing."""

    full_listing_interval = timedelta(days=1)
    """Detects moves, labels and deletions; 5,000 pages cost some forty calls."""

    def __init__(self, connection: ConfluenceConnection, filters: PageFilters) -> None:
        super().__init__(ConfluenceClient(connection))
        self._filters = filters
        self._edition = open_edition(self._client)
        self._spaces: Mapping[str, str] | None = None
        if filters.board_kinds and not self._client.is_cloud:
            kinds = ", ".join(filters.board_kinds)
            raise ConfigError(f"content_types has {kinds}, which only Confluence Cloud has: remove it")
        if filters.since is not None:
            parse_since(filters.since)  # an invalid one is refused before anything is read

    def discover(self) -> Iterator[Item]:
        """Every wanted page with its revision, no bodies."""
        self._spaces = None  # read again for every full listing
        spaces = self._load_spaces()
        listed = self._edition.list_pages(spaces, is_filtered=bool(self._filters.spaces))
        pages = {page.id: page for page in listed}
        labelled = CONTENT_KINDS if self._edition.needs_label_search else ()
        kinds = (*labelled, *self._filters.board_kinds, *self._child_kinds())
        query = build_space_query(self._filters.spaces, kinds)
        findings = self._run_searches([query])
        missed = {page_id: kind for page_id, kind in findings.kinds.items() if page_id not in pages}
        for page in self._edition.find_pages(missed, spaces):  # a listing that came back short is made whole
            pages[page.id] = page
        wanted: Iterable[Page] = self._filter_with_labels(pages.values(), findings)
        if (most := self._filters.max_results) is not None:
            wanted = heapq.nlargest(most, wanted, key=lambda page: (page.updated, page.id))
        yield from self._iter_items(wanted, findings)

    def discover_updated(self, since: datetime) -> Iterator[Item]:
        """Wanted pages whose text, comments or files changed since then, `OVERLAP` included.

        What makes no new version (labels, a move, also of a page above) is left to the next whole listing.
        """
        spaces = self._load_spaces()
        changed = f'lastmodified >= "{since.astimezone(UTC) - OVERLAP:%Y-%m-%d %H:%M}" and '
        own_kinds = self._own_kinds()
        kinds = (*own_kinds, *self._child_kinds())
        touched: dict[str, str] = {}
        query = changed + build_space_query(self._filters.spaces, kinds)
        for content in search(self._client, query, ["container", "version"]):
            child = parse_child_content(content)
            touched_id, kind = str(content["id"]), content.get("type")
            if child is not None:
                touched_id, kind = child.page_id, child.page_kind
            if kind in own_kinds:
                touched[touched_id] = kind
        yield from self._list_by_id(touched, spaces)

    def discover_named(self, uris: Sequence[str]) -> Iterator[Item]:
        """Those of the pages that are in a wanted space and pass the filters, by their ids."""
        parts, spaces = [uri.partition("/") for uri in uris], self._load_spaces()
        for wanted in self._own_kinds():  # an id may be named as more than one
            ids = [id_ for kind, _, id_ in parts if kind == wanted and _ID.fullmatch(id_)]
            yield from self._list_by_id(dict.fromkeys(ids, wanted), spaces)

    def _list_by_id(self, touched: Mapping[str, str], spaces: Mapping[str, str]) -> Iterator[Item]:
        for several in split_batches(touched, MAX_IDS_PER_QUERY):
            kinds = {page_id: touched[page_id] for page_id in several}
            if pages := list(self._edition.find_pages(kinds, spaces)):
                ids = [page.id for page in pages]
                queries = [build_children_query(ids, self._child_kinds())]
                if self._edition.needs_label_search:
                    queries.append(f"id in ({', '.join(ids)}) and type in ({', '.join(self._own_kinds())})")
                findings = self._run_searches(queries)
                yield from self._iter_items(self._filter_with_labels(pages, findings), findings)

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read listed pages, `_PAGES_PER_BATCH` in one call, and one more for their comments and files."""
        for several in split_batches(items, _PAGES_PER_BATCH):
            yield from self._fetch_batch(several)

    def _fetch_batch(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        kinds = {item.uri.partition("/")[2]: item.uri.partition("/")[0] for item in items}
        pages: dict[str, Page | DocumentSkipped] = {page.id: page for page in self._edition.read_pages(kinds)}
        for page_id, kind in kinds.items():
            if page_id not in pages:  # gone, hidden, or not yet known to the search: it says which
                pages[page_id] = self._edition.read_page(page_id, kind)
        parents = [item.uri.partition("/")[2] for item in items if PageLocator.from_item(item).has_children]
        children = self._load_children(parents)
        people = self._edition.resolve_people(set(_iter_accounts(pages.values(), children)))
        builder = PageDocumentBuilder(self._client.public_url, people, self._client.build_file_address)
        for item in items:
            page_id = item.uri.partition("/")[2]
            page: Page | Document | DocumentSkipped = pages[page_id]
            if isinstance(page, Page):
                page = builder.build_document(item, page, children.get(page_id, ()))
            if isinstance(page, Document) and (limit := self._filters.max_bytes):
                size = len(page.text.encode("utf-8", "replace"))
                page = page if size <= limit else DocumentSkipped(format_too_large(size, limit))
            yield item, page

    def _load_children(self, ids: Sequence[str]) -> Mapping[str, list[ChildContent]]:
        if not ids:
            return {}
        expand = ["container", "version", "history", "body.storage", "extensions.inlineProperties"]
        children: defaultdict[str, list[ChildContent]] = defaultdict(list)
        for content in search(self._client, build_children_query(ids, self._child_kinds()), expand):
            if (child := parse_child_content(content)) is not None:
                children[child.page_id].append(child)
        return children

    def _load_spaces(self) -> Mapping[str, str]:
        """Key by id; a wanted space that is hidden must not look as if all its pages were deleted."""
        if self._spaces is None:
            wanted = self._filters.spaces
            spaces = self._edition.list_spaces(wanted)
            visible = {key.lower() for key in spaces.values()}
            hidden = [key for key in wanted if key.lower() not in visible]
            if hidden or not spaces:
                raise SourceRefused(
                    f"{self._client.service} shows no space {', '.join(hidden) or 'at all'}: correct the "
                    "source's spaces (keys, not names), or let the owner of connection.token view it"
                )
            self._spaces = spaces
        return self._spaces

    def _own_kinds(self) -> tuple[str, ...]:
        return (*CONTENT_KINDS, *self._filters.board_kinds)

    def _child_kinds(self) -> tuple[str, ...]:
        return ("attachment", "comment") if self._filters.comments else ("attachment",)

    def _run_searches(self, queries: Iterable[str]) -> _SearchFindings:
        findings = _SearchFindings(defaultdict(list), {}, {})
        for query in queries:
            for content in search(self._client, query, ["container", "version", "metadata.labels"]):
                if (child := parse_child_content(content)) is not None:
                    findings.children[child.page_id].append(child)
                elif content.get("type") in (*CONTENT_KINDS, *BOARD_KINDS):
                    findings.labels[str(content["id"])] = labels_of(content)
                    findings.kinds[str(content["id"])] = content["type"]
        return findings

    def _filter_with_labels(self, pages: Iterable[Page], findings: _SearchFindings) -> Iterator[Page]:
        """The pages that pass the filters, with their labels, read from the site if no search has them."""
        oldest = parse_since(self._filters.since) if self._filters.since else None
        for page in pages:
            is_old = oldest is not None and page.updated < oldest
            if is_old or page.kind not in (self._filters.content_types or CONTENT_KINDS):
                continue
            labels = page.labels if page.labels is not None else findings.labels.get(page.id)
            labels = self._edition.list_labels(page) if labels is None else labels
            if self._filters.accepts_labels(labels):
                yield replace(page, labels=labels)

    def _iter_items(self, pages: Iterable[Page], findings: _SearchFindings) -> Iterator[Item]:
        for page in pages:
            item = build_item(page, page.labels or (), findings.children.get(page.id, ()))
            limit = self._filters.max_bytes  # another limit may skip or take what it did not before
            yield replace(item, revision=f"{item.revision}:{limit}") if limit else item


def _iter_accounts(
    pages: Iterable[Page | DocumentSkipped], children: Mapping[str, Sequence[ChildContent]]
) -> Iterator[str]:
    """The accounts whose names are needed: authors without one, and everybody mentioned."""
    for page in pages:
        if isinstance(page, Page):
            yield from (page.author_account,) if page.author_account else ()
            for body in (page, *children.get(page.id, ())):
                yield from find_mentioned_accounts(body.storage)


_MAX_QUOTE_CHARS = 200  # characters of the page that a comment on them quotes


@dataclass(frozen=True, slots=True)
class PageDocumentBuilder:
    """How the documents of one site are written."""

    site: str
    people: Mapping[str, str]  # display names by account
    build_file_address: Callable[[str, str, str], str]  # by ids of page and file, and the site's path

    def build_document(
        self, item: Item, page: Page, children: Sequence[ChildContent]
    ) -> Document | DocumentSkipped:
        """The page with its files named after its text and its comments last; or that nothing is in it."""
        listed = PageLocator.from_item(item)
        references: set[str] = set()
        parts = [self._convert(page.storage, listed.space, references)]
        if names := sorted({child.title for child in children if child.kind == "attachment" and child.title}):
            parts.append(f"Attachments: {', '.join(names)}")
        if comments := list(self._iter_comments(children, listed.space, references)):
            parts += ["# Comments", *comments]
        text = "\n\n".join(part for part in parts if part)
        if page.kind in BOARD_KINDS:
            location = " / ".join((listed.space, *listed.ancestors))
            text = f"{page.kind.capitalize()} in {location}" + (f"\n\n{text}" if text else "")
        if not text:
            return DocumentSkipped("empty")
        above = ("blog",) if page.kind == "blogpost" else listed.ancestors
        web_path = page.web_path
        if not web_path.startswith("/"):
            boards = f"/spaces/{listed.space}/{page.kind}/{page.id}"
            web_path = boards if page.kind in BOARD_KINDS else f"/pages/viewpage.action?pageId={page.id}"
        return Document(
            uri=item.uri,
            text=text,
            # a slash in a title is none of the path
            path="/".join(part.replace("/", "-") for part in (listed.space, *above, page.title)),
            title=page.title,
            url=self.site + web_path,
            author=page.author or self.people.get(page.author_account or ""),
            # the newest of all that the next listing asks for by time
            last_modified=max([page.updated, *(child.updated for child in children if child.updated)]),
            metadata={
                "wiki_space": listed.space,
                "labels": list(listed.labels),
                "version": page.version,
                "ancestors": list(listed.ancestors),
                "status": "current",
                "page_type": page.kind,
                "mentions": [{"kind": "references", "target": target} for target in sorted(references)],
            },
            attachments=tuple(self._iter_attachments(children)),
        )

    def _iter_attachments(self, children: Sequence[ChildContent]) -> Iterator[Attachment]:
        """The files of a page; a new version of one has the same id."""
        for file in sorted(children, key=lambda child: (len(child.id), child.id)):
            if file.kind == "attachment" and file.title:
                name = quote(file.title, safe="")
                yield Attachment(
                    id=file.id,
                    name=file.title,
                    address=self.build_file_address(file.page_id, file.id, file.download_path),
                    revision=str(file.version),
                    size_bytes=file.size_bytes,
                    url=f"{self.site}/download/attachments/{file.page_id}/{name}",
                    author=file.author,
                    created=file.updated,
                )

    def _convert(self, storage: str, space: str, references: set[str]) -> str:
        converted = storage_to_markdown(storage, space=space, site=self.site, people=self.people)
        references.update(converted.references)
        return converted.text

    def _iter_comments(
        self, children: Sequence[ChildContent], space: str, references: set[str]
    ) -> Iterator[str]:
        """Each comment with its author, day and quoted words, the oldest first."""
        comments = (child for child in children if child.kind == "comment")
        for comment in sorted(comments, key=lambda child: (len(child.id), child.id)):
            if text := self._convert(comment.storage, space, references):
                by = f" by {comment.author}" if comment.author else ""
                about = " ".join(comment.quoted_text.split())[:_MAX_QUOTE_CHARS]
                on = f" on “{about}”" if about else ""
                day = f", {comment.updated.date().isoformat()}" if comment.updated else ""
                yield f"Comment{by}{on}{day}:\n{text}"
