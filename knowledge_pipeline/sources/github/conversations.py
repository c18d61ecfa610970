"""What pull requests and issues of GitHub have in common: listed, then read in batches.

A subclass says how they are listed, what is asked of each, and what was said in it.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import ClassVar

from knowledge_pipeline.config.connections import GithubConnection
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources import code_host
from knowledge_pipeline.sources.code_host import GONE, AskedTooMuch, ConversationFilters, Node
from knowledge_pipeline.sources.github.client import RATE_LIMIT, Answer, GithubClient
from knowledge_pipeline.sources.github.errors import is_single_sign_on
from knowledge_pipeline.sources.github.listing import Lister, Listing
from knowledge_pipeline.sources.github.nested_lists import Part, complete, selection


class Conversations(code_host.Conversations[Answer]):
    """Pull requests or issues of one repository."""

    parts: ClassVar[tuple[Part, ...]]
    """The lists that belong to one."""
    dispensable: ClassVar[frozenset[str]]
    """Fields that one can do without, where they may not be read or lead nowhere."""
    facts: ClassVar[str]
    """What else is asked of one."""
    graphql_type: ClassVar[str]
    listing: ClassVar[tuple[str, str, str]]
    """The list of a repository, GraphQL's type for their states, and what it is asked of each."""

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
        super().__init__(filters)
        self.repository = connection.repository
        self._listing = Listing(*self.listing, self.states[self._state], filters.labels)
        self._client = GithubClient(connection, sleep=sleep)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    @abstractmethod
    def revision(self, node: Node) -> str:
        """What tells that the document would differ."""

    def listed(self, oldest: datetime) -> Iterator[Item]:
        """The oldest update first.

        `max_results` counts from the newest of all; of what was updated, it drops nothing more.
        """
        wanted_since = self._oldest()
        nodes = Lister(self._client, self._listing).since(
            oldest, lambda node: self.is_wanted(node, wanted_since), self._filters.max_results
        )
        for node in nodes:
            locator = f"{node['updatedAt']} {node['id']}"
            yield Item(f"{self.kind}/{node['number']}", self.revision(node), locator)

    def asked(self, items: Sequence[Item]) -> Answer:
        """The answer about several, at once where GitHub takes too long for it."""
        return self._ask(items, divisible=True)

    def told(
        self, items: Sequence[Item], answer: Answer
    ) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """What the answer tells of them."""
        refused = self._refused(answer, len(items))
        for place, (item, node) in enumerate(zip(items, answer.data["nodes"], strict=True)):
            yield item, refused.get(place) or self._made(item, node)

    def alone(self, item: Item) -> Document | DocumentSkipped:
        """Asked for in small pages. Where GitHub answers other questions, it is itself at fault."""
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
