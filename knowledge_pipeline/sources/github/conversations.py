"""Pull requests and issues of GitHub: what both have in common.

A subclass defines how they are listed, their fields, and their turns.
"""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from knowledge_pipeline.config.connections.repositories import GithubConnection
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Attachment, Document, Item
from knowledge_pipeline.sources import code_host
from knowledge_pipeline.sources.attachments.download import Downloader
from knowledge_pipeline.sources.base import DELETED_REASON, Sleep
from knowledge_pipeline.sources.code_host import ConversationFilters, Node, QueryTooLarge, author_name
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.github.client import RATE_LIMIT_FIELDS, GithubClient, GraphqlResponse
from knowledge_pipeline.sources.github.errors import is_single_sign_on
from knowledge_pipeline.sources.github.listing import ConversationLister, ListingSpec
from knowledge_pipeline.sources.github.nested_lists import NestedList, build_list_selections, load_all_entries
from knowledge_pipeline.sources.markdown_cleaning import clean_markdown
from knowledge_pipeline.times import parse_time

_FILE_NAME = r"[^\s()<>\[\]\"'`|\\?#/]{1,300}"


class GithubConversations(code_host.ConversationSource[GraphqlResponse]):
    """Pull requests or issues of one repository."""

    nested_lists: ClassVar[tuple[NestedList, ...]]
    """The lists that belong to one."""
    optional_fields: ClassVar[frozenset[str]]
    """Fields that may be missing, because the token may not read them or they lead nowhere."""
    detail_fields: ClassVar[str]
    """GraphQL fields of one."""
    graphql_type: ClassVar[str]
    listing_spec: ClassVar[tuple[str, str, str]]
    """The list of a repository, GraphQL's type for their states, and the fields of each in it."""

    def __init__(
        self, connection: GithubConnection, filters: ConversationFilters, *, sleep: Sleep = time.sleep
    ) -> None:
        """Raises ConfigError where `since` is not a date, or `state` is not one of theirs."""
        super().__init__(filters)
        self.repository = connection.repository
        self._listing_spec = ListingSpec(*self.listing_spec, self.state_values[self._state], filters.labels)
        self._client = GithubClient(connection, sleep=sleep)
        site, repository = re.escape(connection.web_url), re.escape(connection.repository)
        self._upload = re.compile(
            rf"{site}/(?:user-attachments|{repository})/files/(\d{{1,20}})/({_FILE_NAME})"
        )
        # Without our token, which GitHub does not take there, and with which whoever writes here could have
        # files of other repositories read.
        self._downloader = Downloader(f"GitHub at {urlsplit(connection.web_url).hostname}", (), sleep=sleep)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._downloader.close()

    def find_attachments(self, text: str) -> Iterator[Attachment]:
        """The files that were uploaded to its texts."""
        for found in self._upload.finditer(text):
            yield Attachment(found[1], unquote(found[2]), found[0], found[0], url=found[0])

    def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """An uploaded file; raises as `Downloader.read`."""
        return self._downloader.read(attachment.address, attachment.name, max_bytes)

    @abstractmethod
    def build_revision(self, node: Node) -> str:
        """Changes whenever the document would differ."""

    def list_items(self, oldest: datetime) -> Iterator[Item]:
        """The oldest update first.

        `max_results` counts from the newest of all; of what was updated, it drops nothing more.
        """
        wanted_since = self._oldest_update()
        nodes = ConversationLister(self._client, self._listing_spec).list_since(
            oldest, lambda node: self.is_wanted(node, wanted_since), self._filters.max_results
        )
        yield from map(self._to_item, nodes)

    def list_by_number(self, numbers: Sequence[int]) -> Iterator[Item]:
        """By their numbers in the repository, in one query."""
        wanted_since = self._oldest_update()
        nodes = ConversationLister(self._client, self._listing_spec).list_by_number(numbers)
        yield from (self._to_item(node) for node in nodes if self.is_wanted(node, wanted_since))

    def _to_item(self, node: Node) -> Item:
        locator = f"{node['updatedAt']} {node['id']}"
        return Item(f"{self.kind}/{node['number']}", self.build_revision(node), locator)

    def list_nested(self) -> tuple[NestedList, ...]:
        """The lists that are read of each."""
        return self.nested_lists

    def fetch_batch(self, items: Sequence[Item]) -> GraphqlResponse:
        """The response for several; a timeout is raised at once."""
        return self._execute(items, can_split=True)

    def parse_batch(
        self, items: Sequence[Item], batch: GraphqlResponse
    ) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Each item with its document."""
        refused = self._find_skipped(batch, len(items))
        for place, (item, node) in enumerate(zip(items, batch.data["nodes"], strict=True)):
            yield item, refused.get(place) or self._to_document(item, node)

    def fetch_one(self, item: Item) -> Document | DocumentSkipped:
        """Read in small pages. Where GitHub answers other queries, the document is at fault."""
        try:
            answer = self._execute([item], can_split=False)
            return self._find_skipped(answer, 1).get(0) or self._to_document(item, answer.data["nodes"][0])
        except QueryTooLarge:
            self._client.execute(f"query {{ {RATE_LIMIT_FIELDS} }}", {})
            return DocumentSkipped("too large for GitHub to answer in its time")

    def _execute(self, items: Sequence[Item], *, can_split: bool) -> GraphqlResponse:
        """The response, if the repository is still visible: else all of it would look deleted."""
        lists = build_list_selections(self.list_nested(), small=not can_split)
        query = (
            f"query($ids: [ID!]!, $owner: String!, $name: String!) {{ {RATE_LIMIT_FIELDS} "
            "repository(owner: $owner, name: $name) { id } "
            f"nodes(ids: $ids) {{ ... on {self.graphql_type} {{ {self.detail_fields} {lists} }} }} }}"
        )
        client = self._client
        ids = [item.locator.partition(" ")[2] for item in items]
        variables = {"ids": ids, "owner": client.owner, "name": client.name}
        answer = client.execute(query, variables, can_split=can_split)
        if answer.data.get("repository") is None:
            of_it = [error for error in answer.errors if (error.get("path") or [""])[0] == "repository"]
            raise client.errors.from_graphql_errors(of_it or [{"type": "NOT_FOUND"}])
        return answer

    def _find_skipped(self, response: GraphqlResponse, requested_count: int) -> dict[int, DocumentSkipped]:
        """Which nodes cannot be read, by their index, and why.

        Raises:
            KnowledgeError: the errors do not concern single documents.
        """
        skipped: dict[int, DocumentSkipped] = {}
        sentences = self._client.errors
        for error in response.errors:
            path, kind = [*(error.get("path") or ()), None, None], error.get("type")
            if kind == "FORBIDDEN" and self.optional_fields.intersection(map(str, path)):
                continue
            if path[0] != "nodes" or not isinstance(path[1], int) or kind not in ("NOT_FOUND", "FORBIDDEN"):
                raise sentences.from_graphql_errors(response.errors)
            reason = DELETED_REASON if kind == "NOT_FOUND" else sentences.format_not_permitted(error)
            skipped[path[1]] = DocumentSkipped(reason)
        forbidden = sum(str(reason) != DELETED_REASON for reason in skipped.values())
        if any(map(is_single_sign_on, response.errors)) or forbidden == requested_count > 1:
            refusals = [error for error in response.errors if error.get("type") == "FORBIDDEN"]
            raise sentences.from_graphql_errors(refusals)
        return skipped

    def _to_document(self, item: Item, node: Node | None) -> Document | DocumentSkipped:
        """The document; one that moved to another repository has another number there."""
        if not node or f"{self.kind}/{node['number']}" != item.uri:
            return DocumentSkipped(DELETED_REASON)
        try:
            load_all_entries(self._client, node, self.list_nested())
        except DocumentSkipped as gone:
            return gone
        node["listedAt"] = item.locator.partition(" ")[0]
        return self.build_document(item.uri, node)


def format_reference(node: Node) -> str:
    """An issue or a pull request as GitHub writes it: "owner/name#12"."""
    return f"{node['repository']['nameWithOwner']}#{node['number']}"


def iter_comment_turns(comments: list[Node]) -> Iterator[Turn]:
    """The comments that are not hidden as spam or outdated; bots' are included."""
    for comment in comments:
        if not comment["isMinimized"]:
            text, at = clean_markdown(comment["body"]), parse_time(comment["createdAt"])
            yield Turn("comment", text, author_name(comment), at, url=comment["url"])
