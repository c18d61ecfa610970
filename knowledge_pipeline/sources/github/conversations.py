"""What pull requests and issues of GitHub have in common: listed, then read in batches.

A subclass says how they are listed, what is asked of each, and what was said in it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, ClassVar, Self

from knowledge_pipeline.config_connections import GithubConnection
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.conversation import Turn, conversation
from knowledge_pipeline.sources.git.history import oldest_wanted
from knowledge_pipeline.sources.github.client import RATE_LIMIT, Answer, GithubClient
from knowledge_pipeline.sources.github.errors import AskedTooMuch, is_single_sign_on
from knowledge_pipeline.sources.github.listing import ConversationFilters, Lister, Listing, moment
from knowledge_pipeline.sources.github.parts import GONE, Node, Part, complete, selection
from knowledge_pipeline.sources.github.turns import person

OVERLAP = timedelta(minutes=10)
"""How long before the newest known update the next listing begins: GitHub may tell an update late.

What is written while a listing is read needs none: a document's `last_modified` is the time that it
was listed with, so that the next listing begins before whatever came later.
"""


class Conversations(ABC):
    """Pull requests or issues of one repository; fulfils `sources.base.Service`."""

    whole_listing_every = timedelta(days=1)

    kind: ClassVar[str]
    """As its address begins: "pull", "issue"."""
    at_once: ClassVar[int]
    """How many are asked for in one call."""
    parts: ClassVar[tuple[Part, ...]]
    """The lists that belong to one."""
    dispensable: ClassVar[frozenset[str]]
    """Fields that one can do without, where they may not be read or lead nowhere."""
    facts: ClassVar[str]
    """What else is asked of one."""
    graphql_type: ClassVar[str]

    def __init__(
        self,
        connection: GithubConnection,
        filters: ConversationFilters,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Nobody is contacted.

        Raises:
            ConfigError: `since` is no date, or `state` is none of theirs.
        """
        self.repository = connection.repository
        self._filters = filters
        self._listing = self.listing(filters)
        self._oldest()
        self._client = GithubClient(connection, sleep=sleep)

    @abstractmethod
    def listing(self, filters: ConversationFilters) -> Listing:
        """How they are listed."""

    @abstractmethod
    def since(self, filters: ConversationFilters) -> str:
        """Since when they are wanted: a date, or a span before now."""

    @abstractmethod
    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """Whether what was listed is wanted."""

    @abstractmethod
    def revision(self, node: Node) -> str:
        """What tells that the document would differ."""

    @abstractmethod
    def turns(self, node: Node) -> Iterator[Turn]:
        """What was said, in its order, of a node whose lists are complete."""

    @abstractmethod
    def metadata(self, node: Node) -> dict[str, Any]:
        """What else is known of it; None for what is not."""

    def document(self, uri: str, node: Node) -> Document:
        """The document that a whole node makes."""
        title = f"{node['title'].strip()} (#{node['number']})"
        text, segments = conversation(title, self.turns(node))
        known = {name: value for name, value in self.metadata(node).items() if value is not None}
        return Document(
            uri=uri,
            text=text,
            path=uri,
            title=title,
            language="markdown",
            url=node["url"],
            author=person(node),
            last_modified=moment(node["listedAt"]),
            metadata={**known, "segments": segments},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def discover(self) -> Iterator[Item]:
        """All that the filters want, a hundred a call, the oldest update first."""
        yield from self._items(self._oldest())

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
        """Read in the order given, `at_once` in a call, fewer where GitHub takes too long."""
        for start in range(0, len(items), self.at_once):
            yield from self._batch(items[start : start + self.at_once])

    def _oldest(self) -> datetime:
        return oldest_wanted(self.since(self._filters), datetime.now(UTC))

    def _items(self, oldest: datetime) -> Iterator[Item]:
        """`max_results` counts from the newest of all; of what was updated, it drops nothing more."""
        wanted_since = self._oldest()
        nodes = Lister(self._client, self._listing).since(
            oldest, lambda node: self.is_wanted(node, wanted_since), self._filters.max_results
        )
        for node in nodes:
            locator = f"{node['updatedAt']} {node['id']}"
            yield Item(f"{self.kind}/{node['number']}", self.revision(node), locator)

    def _batch(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Halve what is too much; one alone is asked for in small pages."""
        try:
            answer = self._ask(items, divisible=True)
        except AskedTooMuch:
            middle = len(items) // 2
            if middle:
                yield from self._batch(items[:middle])
                yield from self._batch(items[middle:])
            else:
                yield items[0], self._alone(items[0])
            return
        refused = self._refused(answer, len(items))
        for place, (item, node) in enumerate(zip(items, answer.data["nodes"], strict=True)):
            yield item, refused.get(place) or self._made(item, node)

    def _alone(self, item: Item) -> Document | DocumentSkipped:
        """One that is too much even alone. Where GitHub answers other questions, it is itself at fault."""
        try:
            answer = self._ask([item], divisible=False)
            return self._refused(answer, 1).get(0) or self._made(item, answer.data["nodes"][0])
        except AskedTooMuch:
            self._client.ask(f"query {{ {RATE_LIMIT} }}", {})
            return DocumentSkipped("too large for GitHub to answer in its time")

    def _ask(self, items: Sequence[Item], *, divisible: bool) -> Answer:
        """The answer about a repository that is still shown to us: else all of it would look deleted."""
        lists = selection(self.parts, small=not divisible)
        query = (
            f"query($ids: [ID!]!, $owner: String!, $name: String!) {{ {RATE_LIMIT} "
            "repository(owner: $owner, name: $name) { id } "
            f"nodes(ids: $ids) {{ ... on {self.graphql_type} {{ {self.facts} {lists} }} }} }}"
        )
        client = self._client
        ids = [item.locator.partition(" ")[2] for item in items]
        variables = {"ids": ids, "owner": client.owner, "name": client.name}
        answer = client.ask(query, variables, divisible=divisible)
        if answer.data.get("repository") is None:
            of_it = [error for error in answer.errors if (error.get("path") or [""])[0] == "repository"]
            raise client.sentences.of_errors(of_it or [{"type": "NOT_FOUND"}])
        return answer

    def _refused(self, answer: Answer, asked: int) -> dict[int, DocumentSkipped]:
        """Which nodes are not to be had, by their place, and why.

        Raises:
            KnowledgeError: the errors do not concern single documents.
        """
        skipped: dict[int, DocumentSkipped] = {}
        sentences = self._client.sentences
        for error in answer.errors:
            path = [*(error.get("path") or ()), None, None]
            kind = error.get("type")
            if kind == "FORBIDDEN" and self.dispensable.intersection(map(str, path)):
                continue
            if path[0] != "nodes" or not isinstance(path[1], int) or kind not in ("NOT_FOUND", "FORBIDDEN"):
                raise sentences.of_errors(answer.errors)
            skipped[path[1]] = DocumentSkipped(
                GONE if kind == "NOT_FOUND" else sentences.not_permitted(error)
            )
        forbidden = sum(str(reason) != GONE for reason in skipped.values())
        if any(map(is_single_sign_on, answer.errors)) or (asked > 1 and forbidden == asked):
            raise sentences.of_errors([error for error in answer.errors if error.get("type") == "FORBIDDEN"])
        return skipped

    def _made(self, item: Item, node: Node | None) -> Document | DocumentSkipped:
        """The document; one that moved to another repository has another number there."""
        if not node or f"{self.kind}/{node['number']}" != item.uri:
            return DocumentSkipped(GONE)
        try:
            complete(self._client, node, self.parts)
        except DocumentSkipped as gone:
            return gone
        node["listedAt"] = item.locator.partition(" ")[0]
        return self.document(item.uri, node)
