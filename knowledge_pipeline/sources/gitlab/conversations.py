"""What merge requests and issues of GitLab have in common: listed, then read in batches.

A subclass says what is asked of each, and what document that makes.

Listings come with the oldest update first. A cursor holds a time and an id, so that what is deleted
shifts nothing, and what is updated while it is paged moves on towards the end, where it is read
again: nothing is lost, and the listing ends where nothing newer is.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, ClassVar, Self

from knowledge_pipeline.config_connections import GitlabConnection
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.git.history import oldest_wanted
from knowledge_pipeline.sources.github.listing import ConversationFilters, moment
from knowledge_pipeline.sources.gitlab.client import AskedTooMuch, GitlabClient

Node = dict[str, Any]

GONE = "deleted while it was read"
CONFIDENTIAL = "confidential"
FORMAT = "1"
"""Changes whenever the same answers may make another document."""

OVERLAP = timedelta(minutes=10)
"""How long before the newest known update the next listing begins: GitLab may tell an update late.

What is written while a listing is read needs none: a document's `last_modified` is the time that it
was listed with, so that the next listing begins before whatever came later.
"""

PERSON = "{ name username }"

_UNSEEN, _UNSEEN_SHARE = 5, 0.01  # counted, but not shown: what GitLab hides of banned people


def _notes_field(after: str = "") -> str:
    """The comments of one, a hundred at a time, without the events that GitLab notes by itself."""
    return (
        f"notes(filter: ONLY_COMMENTS, first: 100{after}) {{ pageInfo {{ hasNextPage endCursor }} nodes {{ "
        f"id body createdAt url system internal resolvable resolved author {PERSON} discussion {{ id }} "
        "position { filePath newLine oldLine } } }"
    )


class Conversations(ABC):
    """Merge requests or issues of one project; fulfils `sources.base.Service`."""

    whole_listing_every = timedelta(days=1)

    kind: ClassVar[str]
    """As its address begins: "merge_request", "issue"."""
    field: ClassVar[str]
    """Of GraphQL's `Project`: "mergeRequests", "issues"."""
    enums: ClassVar[tuple[str, str]]
    """GraphQL's types for the state and the order."""
    at_once: ClassVar[int]
    """How many are asked for in one call."""
    default_since: ClassVar[str]
    listed: ClassVar[str]
    """What is asked of each in a listing, beside what all have."""
    facts: ClassVar[str]
    """What is asked of each when it is read, beside its comments."""

    def __init__(
        self,
        connection: GitlabConnection,
        filters: ConversationFilters,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Nobody is contacted.

        Raises:
            ConfigError: `since` is no date, or `state` is none of theirs.
        """
        self.connection = connection
        self._filters = filters
        self._state = self.state(filters)
        self._oldest()
        self._client = GitlabClient(connection, self.field, sleep=sleep)

    @abstractmethod
    def state(self, filters: ConversationFilters) -> str:
        """The state that GitLab is asked for."""

    @abstractmethod
    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """Whether what was listed is wanted, by what GitLab cannot be asked to choose by."""

    @abstractmethod
    def document(self, uri: str, node: Node) -> Document:
        """The document that a node makes, all its comments in `node["notes"]`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def discover(self) -> Iterator[Item]:
        """All that the filters want, a hundred a call, the oldest update first."""
        oldest = self._oldest()
        yield from self._items(self._newest_begin(oldest) if self._filters.max_results else oldest)

    def updated(self, since: datetime) -> Iterator[Item]:
        """What was updated since, and `OVERLAP` before; the oldest update first."""
        yield from self._items(max(self._oldest(), since - OVERLAP))

    def fetch(self, item: Item) -> Document:
        """Read one; `fetch_many` reads many in fewer calls."""
        [(_, document)] = self.fetch_many([item])
        if isinstance(document, DocumentSkipped):
            raise document
        return document

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read in the order given, `at_once` in a call, fewer where GitLab fails at so many."""
        for start in range(0, len(items), self.at_once):
            yield from self._batch(items[start : start + self.at_once])

    def _oldest(self) -> datetime:
        return oldest_wanted(self._filters.since or self.default_since, datetime.now(UTC))

    def _chosen(self, nodes: Iterable[Node]) -> list[Node]:
        """Those that the filters want, but for `max_results`."""
        oldest, labels = self._oldest(), set(self._filters.labels)
        return [
            node
            for node in nodes
            if (not labels or any(label["title"] in labels for label in node["labels"]["nodes"]))
            and self.is_wanted(node, oldest)
        ]

    def _items(self, oldest: datetime) -> Iterator[Item]:
        """Confidential ones are listed to be skipped: what had been public leaves the index at once."""
        chosen = self._chosen(self._listed(oldest))
        public = [node for node in chosen if not node.get("confidential")]
        most = self._filters.max_results
        surplus = {node["iid"] for node in public[:-most]} if most else set[str]()
        yield from (self._item(node) for node in chosen if node["iid"] not in surplus)

    def _listed(self, oldest: datetime) -> list[Node]:
        """What was updated at `oldest` or later, each in the place of its last update."""
        found: dict[str, Node] = {}
        total = 0
        for page in self._pages("UPDATED_ASC", oldest):
            total = page.get("count", total)
            for node in page["nodes"]:
                found.pop(node["iid"], None)
                found[node["iid"]] = node
        if total - len(found) > max(_UNSEEN, total * _UNSEEN_SHARE):
            raise self._client.sentences.unsteady(f"listed {len(found)} of {total} {self.field}")
        return list(found.values())

    def _item(self, node: Node) -> Item:
        """The count tells of a comment that was deleted, which may leave the time as it was."""
        revision = f"{node['updatedAt']}:{node['userNotesCount']}:{FORMAT}"
        skip = CONFIDENTIAL if node.get("confidential") else None
        return Item(f"{self.kind}/{node['iid']}", revision, locator=node["updatedAt"], skip=skip)

    def _newest_begin(self, oldest: datetime) -> datetime:
        """Since when the newest `max_results` were updated, found from the newest on."""
        most, wanted = self._filters.max_results or 0, list[Node]()
        for page in self._pages("UPDATED_DESC", oldest):
            wanted += [node for node in self._chosen(page["nodes"]) if not node.get("confidential")]
            if len(wanted) >= most:
                return max(oldest, moment(wanted[most - 1]["updatedAt"]))
        return oldest

    def _pages(self, sort: str, oldest: datetime) -> Iterator[Node]:
        """Every page until the one that has no next; the first has the `count` of all."""
        state_type, sort_type = self.enums
        declared = f"$after: String, $state: {state_type}, $sort: {sort_type}, $since: Time, $first: Boolean!"
        selection = (
            f"listed: {self.field}(first: 100, after: $after, state: $state, sort: $sort, "
            "updatedAfter: $since) { count @include(if: $first) pageInfo { hasNextPage endCursor } "
            f"nodes {{ iid updatedAt userNotesCount labels {{ nodes {{ title }} }} {self.listed} }} }}"
        )
        asked: dict[str, Any] = {"state": self._state, "sort": sort, "since": oldest.isoformat()}
        after, more = None, True
        while more:
            project = self._client.ask(declared, selection, asked | {"after": after, "first": after is None})
            page = project["listed"]
            if page is None:
                raise self._client.sentences.unsteady(f"does not list the {self.field}")
            yield page
            more, before = page["pageInfo"]["hasNextPage"], after
            after = self._next(page, before) if more else None

    def _next(self, page: Node, before: str | None) -> str:
        cursor = page["pageInfo"]["endCursor"]
        if not cursor or cursor == before:
            raise self._client.sentences.unsteady("gave a page that leads nowhere")
        return cursor

    def _batch(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Halve what is too much. Where GitLab fails at one alone, but not at none, that is at fault."""
        try:
            nodes = self._read([item.uri for item in items], divisible=len(items) > 1)
        except AskedTooMuch:
            middle = len(items) // 2
            if middle:
                yield from self._batch(items[:middle])
                yield from self._batch(items[middle:])
            else:
                self._client.ask("", "id", {})
                yield items[0], DocumentSkipped("GitLab fails to answer for it, even alone")
            return
        for item in items:
            yield item, self._made(item, nodes.get(item.uri))

    def _read(self, uris: Sequence[str], *, divisible: bool) -> dict[str, Node]:
        """What is still there, by its address."""
        selection = self._wanted(f"iid {self.facts} {_notes_field()}")
        iids = [uri.partition("/")[2] for uri in uris]
        project = self._client.ask("$iids: [String!]", selection, {"iids": iids}, divisible=divisible)
        return {f"{self.kind}/{node['iid']}": node for node in project["wanted"]["nodes"]}

    def _wanted(self, selection: str) -> str:
        return f"wanted: {self.field}(iids: $iids) {{ nodes {{ {selection} }} }}"

    def _made(self, item: Item, node: Node | None) -> Document | DocumentSkipped:
        if node is None:
            return DocumentSkipped(GONE)
        if node.get("confidential"):
            return DocumentSkipped(CONFIDENTIAL)
        try:
            node["notes"] = list(self._notes(node))
        except DocumentSkipped as gone:
            return gone
        node["listedAt"] = item.locator
        return self.document(item.uri, node)

    def _notes(self, node: Node) -> Iterator[Node]:
        """All that people wrote for everybody who sees it: no events, no internal notes."""
        page, after = node["notes"], None
        while True:
            yield from (note for note in page["nodes"] if not note["system"] and not note["internal"])
            if not page["pageInfo"]["hasNextPage"]:
                return
            after = self._next(page, after)
            selection = self._wanted(_notes_field(", after: $after"))
            project = self._client.ask(
                "$iids: [String!], $after: String", selection, {"iids": [node["iid"]], "after": after}
            )
            if not project["wanted"]["nodes"]:
                raise DocumentSkipped(GONE)
            page = project["wanted"]["nodes"][0]["notes"]
