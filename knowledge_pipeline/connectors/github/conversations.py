"""Pull requests, issues and discussions of GitHub: how they are listed, and what all have in common.

A listing has ids and times, a hundred a call, the newest update first, so that it ends where the wanted
span does and costs what changed, not what there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar
from urllib.parse import unquote

from knowledge_pipeline.config.connections import GithubConnection
from knowledge_pipeline.connectors.base import DELETED_REASON
from knowledge_pipeline.connectors.conversations import (
    ConversationFilters,
    ConversationSource,
    Node,
    QueryTooLarge,
    Turn,
    author_name,
    is_incomplete,
)
from knowledge_pipeline.connectors.github.client import (
    RATE_LIMIT_FIELDS,
    GithubClient,
    GraphqlResponse,
    is_single_sign_on,
)
from knowledge_pipeline.connectors.github.markdown_cleaning import clean_markdown
from knowledge_pipeline.connectors.service import PageGuard
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Attachment, Document, Item
from knowledge_pipeline.times import parse_time

ACTOR_FIELDS = "author { login ... on User { name } }"

_MAX_PAGE_SIZE = 100
_MAX_PASSES = 20
_SWITCHES = {"issues": "hasIssuesEnabled", "discussions": "hasDiscussionsEnabled"}
_STATE_FIELDS = {"discussions": "closed"}
_UNLABELLED = "discussions"  # which GitHub does not select by label
_FILE_NAME = r"[^\s()<>\[\]\"'`|\\?#/]{1,300}"


class GithubConversations(ConversationSource[GithubClient]):
    """Pull requests, issues or discussions: a subclass says how they are listed, their fields and turns."""

    nested_lists: ClassVar[tuple[NestedList, ...]]
    """The lists that belong to one."""
    optional_fields: ClassVar[frozenset[str]]
    """Fields that may be missing, because the token may not read them or they lead nowhere."""
    detail_fields: ClassVar[str]
    """GraphQL fields of one."""
    graphql_type: ClassVar[str]
    listing_spec: ClassVar[tuple[str, str, str]]
    """The list of a repository, GraphQL's type for their states, and the fields of each in it."""

    def __init__(self, connection: GithubConnection, filters: ConversationFilters) -> None:
        super().__init__(GithubClient(connection), filters)
        self.repository = connection.repository
        states = self.state_values[self._state]
        self._lister = _ConversationLister(self._client, *self.listing_spec, states, filters.labels)
        site, repository = re.escape(connection.web_url), re.escape(connection.repository)
        self._upload = re.compile(
            rf"{site}/(?:user-attachments|{repository})/files/(\d{{1,20}})/({_FILE_NAME})"
        )

    def find_attachments(self, text: str) -> Iterator[Attachment]:
        """The files that were uploaded to its texts."""
        for match in self._upload.finditer(text):
            yield Attachment(match[1], unquote(match[2]), match[0], match[0], url=match[0])

    def build_revision(self, node: Node) -> str:
        """Changes whenever the document would differ; replies to comments are not counted."""
        return self.mark_revision(node["updatedAt"], node["comments"]["totalCount"])

    def list_items(self, oldest: datetime) -> Iterator[Item]:
        """`max_results` counts from the newest of all; of what was updated, it drops nothing more."""
        wanted_since = self._oldest_update()
        nodes = self._lister.list_since(
            oldest, lambda node: self.is_wanted(node, wanted_since), self._filters.max_results
        )
        yield from map(self._to_item, nodes)

    def list_by_number(self, numbers: Sequence[int]) -> Iterator[Item]:
        """By their numbers in the repository, in one query."""
        wanted_since = self._oldest_update()
        nodes = self._lister.list_by_number(numbers)
        yield from (self._to_item(node) for node in nodes if self.is_wanted(node, wanted_since))

    def _to_item(self, node: Node) -> Item:
        locator = f"{node['updatedAt']} {node['id']}"
        return Item(f"{self.kind}/{node['number']}", self.build_revision(node), locator)

    def list_nested(self) -> tuple[NestedList, ...]:
        """The lists that are read of each."""
        return self.nested_lists

    def fetch_batch(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """A timeout is raised at once."""
        return self._iter_documents(items, self._execute(items, can_split=True))

    def _iter_documents(
        self, items: Sequence[Item], response: GraphqlResponse
    ) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        refused = self._find_skipped(response, len(items))
        for index, (item, node) in enumerate(zip(items, response.data["nodes"], strict=True)):
            yield item, refused.get(index) or self._to_document(item, node)

    def fetch_one(self, item: Item) -> Document | DocumentSkipped:
        """Read in small pages. Where GitHub answers other queries, the document is at fault."""
        try:
            [(_, document)] = self._iter_documents([item], self._execute([item], can_split=False))
            return document
        except QueryTooLarge:
            self._client.execute(f"query {{ {RATE_LIMIT_FIELDS} }}", {})
            return DocumentSkipped("too large for GitHub to answer in its time")

    def _execute(self, items: Sequence[Item], *, can_split: bool) -> GraphqlResponse:
        """The response, if the repository is still visible: else all of it would look deleted."""
        divisor = 1 if can_split else 5  # a part of each first page, for what is too much for GitHub
        lists = " ".join(part.build_query(max(1, part.first_count // divisor)) for part in self.list_nested())
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
            raise client.from_graphql_errors(of_it)
        return answer

    def _find_skipped(self, response: GraphqlResponse, requested_count: int) -> dict[int, DocumentSkipped]:
        """Which nodes cannot be read, by their index, and why. Raises errors that concern more than these."""
        skipped: dict[int, DocumentSkipped] = {}
        for error in response.errors:
            path, kind = [*(error.get("path") or ()), None, None], error.get("type")
            if kind == "FORBIDDEN" and self.optional_fields.intersection(map(str, path)):
                continue
            if path[0] != "nodes" or not isinstance(path[1], int) or kind not in ("NOT_FOUND", "FORBIDDEN"):
                raise self._client.from_graphql_errors(response.errors)
            reason = DELETED_REASON if kind == "NOT_FOUND" else self._client.format_not_permitted(error)
            skipped[path[1]] = DocumentSkipped(reason)
        forbidden = sum(str(reason) != DELETED_REASON for reason in skipped.values())
        if any(map(is_single_sign_on, response.errors)) or forbidden == requested_count > 1:
            refusals = [error for error in response.errors if error.get("type") == "FORBIDDEN"]
            raise self._client.from_graphql_errors(refusals or response.errors)
        return skipped

    def _to_document(self, item: Item, node: Node | None) -> Document | DocumentSkipped:
        """The document; one that moved to another repository has another number there."""
        if not node or f"{self.kind}/{node['number']}" != item.uri:
            return DocumentSkipped(DELETED_REASON)
        try:
            _load_all_entries(self._client, node, self.list_nested())
        except DocumentSkipped as gone:
            return gone
        node["listedAt"] = item.locator.partition(" ")[0]
        return self.build_document(item.uri, node)


def format_reference(node: Node) -> str:
    """An issue or a pull request as GitHub writes it: "owner/name#12"."""
    return f"{node['repository']['nameWithOwner']}#{node['number']}"


def iter_comment_turns(comments: list[Node], kind: str = "comment") -> Iterator[Turn]:
    """The comments that are not hidden as spam or outdated; bots' are included."""
    for comment in comments:
        if not comment["isMinimized"]:
            text, at = clean_markdown(comment["body"]), parse_time(comment["createdAt"])
            turn_kind = "answer" if comment.get("isAnswer") else kind
            yield Turn(turn_kind, text, author_name(comment), at, url=comment["url"])


@dataclass(frozen=True, slots=True)
class _ConversationLister:
    """Lists one kind of conversation of one repository.

    What is updated while it is paged jumps to the front, before the page that is read next: so the front is
    read again, until nothing can have jumped unseen.
    """

    client: GithubClient
    connection: str  # a field of GitHub's `Repository`: "pullRequests", "issues", "discussions"
    state_type: str  # of GraphQL: "PullRequestState"
    fields: str  # fields besides id, number and updatedAt
    states: tuple[str, ...] | None  # None: any
    labels: tuple[str, ...]

    @property
    def query(self) -> str:
        """One page, the newest update first."""
        is_labelled = self.connection != _UNLABELLED
        declared, argument = (", $labels: [String!]", ", labels: $labels") if is_labelled else ("", "")
        return f"""
query($owner: String!, $name: String!, $after: String, $states: [{self.state_type}!]{declared}) {{
  {RATE_LIMIT_FIELDS}
  repository(owner: $owner, name: $name) {{
    shown: {_SWITCHES.get(self.connection, "id")}
    listed: {self.connection}(first: 100, after: $after, states: $states{argument},
        orderBy: {{field: UPDATED_AT, direction: DESC}}) {{
      totalCount
      pageInfo {{ hasNextPage endCursor }}
      nodes {{ id number updatedAt {self.fields} }}
    }}
  }}
}}"""

    def build_number_query(self, numbers: Sequence[int]) -> str:
        """The query for some by their numbers, each under a name of its own."""
        one, state = self.connection.removesuffix("s"), _STATE_FIELDS.get(self.connection, "state")
        labels = "" if self.connection == _UNLABELLED else "labels(first: 100) { nodes { name } }"
        fields = f"id number updatedAt {state} {labels} {self.fields}"
        parts = [f"n{number:d}: {one}(number: {number:d}) {{ {fields} }}" for number in numbers]
        shown = f"shown: {_SWITCHES.get(self.connection, 'id')}"
        return (
            f"query($owner: String!, $name: String!) {{ {RATE_LIMIT_FIELDS} "
            f"repository(owner: $owner, name: $name) {{ {shown} {' '.join(parts)} }} }}"
        )

    def accepts(self, node: Node) -> bool:
        """Whether its state and labels are asked for, which a listing decides by itself."""
        state = node["state"] if "state" in node else ("CLOSED" if node["closed"] else "OPEN")
        labels = {label["name"].casefold() for label in node["labels"]["nodes"]}
        has_label = not self.labels or not labels.isdisjoint(label.casefold() for label in self.labels)
        is_labelled = self.connection == _UNLABELLED or has_label
        return is_labelled and (self.states is None or state in self.states)

    def list_since(
        self, oldest: datetime, is_wanted: Callable[[Node], bool], limit: int | None
    ) -> list[Node]:
        """What was updated at `oldest` or later and is wanted, the newest `limit`; the oldest comes first.

        So a refresh that is broken off has taken the oldest, and goes on from there.
        """
        nodes: dict[int, Node] = {}
        total, until = self._read_from_front(
            nodes, oldest, lambda: bool(limit and sum(map(is_wanted, nodes.values())) >= limit)
        )
        passes = 0
        while until is not None:
            if (passes := passes + 1) > _MAX_PASSES:
                raise self.client.listing_incomplete("changes faster than it can be listed")
            counted, until = self._read_from_front(nodes, max(oldest, until), lambda: False)
            total = None if total is None else counted or total
        if total is not None and is_incomplete(len(nodes), total):
            raise self.client.listing_incomplete(f"listed {len(nodes)} of {total} {self.connection}")
        wanted = filter(is_wanted, nodes.values())
        chosen = sorted(wanted, key=lambda node: (node["updatedAt"], node["number"]))
        return chosen[-limit:] if limit else chosen

    def list_by_number(self, numbers: Sequence[int]) -> list[Node]:
        """Those of some that are there and pass the listing's states and labels."""
        client = self.client
        variables = {"owner": client.owner, "name": client.name}
        answer = client.execute(self.build_number_query(numbers), variables)
        repository = answer.data.get("repository")
        serious = [  # besides those that say that one node is not there
            error
            for error in answer.errors
            if error.get("type") != "NOT_FOUND" or len(error.get("path") or ()) != 2
        ]
        if serious or repository is None:
            raise client.from_graphql_errors(serious)
        if not repository["shown"]:
            raise client.documents_disabled(self.connection)
        numbered = ((number, repository[f"n{number:d}"]) for number in numbers)
        # one that moved to another repository has another number there
        present = (node for number, node in numbered if node and node["number"] == number)
        return list(filter(self.accepts, present))

    def _read_from_front(
        self, nodes_by_number: dict[int, Node], oldest: datetime, is_enough: Callable[[], bool]
    ) -> tuple[int | None, datetime | None]:
        """Read from the front until `oldest`, or until it is enough.

        Returns how many there are, if the end was reached; and since when something may have jumped to the
        front unseen: None where one page, which is of one moment, held all.
        """
        newest = None
        variables: dict[str, Any] = {"states": self.states}
        if self.connection != _UNLABELLED:
            variables["labels"] = self.labels or None
        pages = iter_pages(self.client, self.query, variables, self.connection)
        for number, page in enumerate(pages):
            nodes: list[Node] = page["nodes"]
            if number == 0 and nodes:
                newest = parse_time(nodes[0]["updatedAt"])
            fresh = [node for node in nodes if parse_time(node["updatedAt"]) >= oldest]
            nodes_by_number.update((node["number"], node) for node in fresh)
            last = not page["pageInfo"]["hasNextPage"]
            if last or len(fresh) < len(nodes) or is_enough():
                reached = last and len(fresh) == len(nodes)
                return page["totalCount"] if reached else None, newest if number else None
        raise AssertionError("the last page has no next one")


def iter_pages(
    client: GithubClient, query: str, variables: dict[str, Any], documents: str
) -> Iterator[dict[str, Any]]:
    """Every page, whole, until the one that has no next; a cursor holds a time, not an offset.

    The query takes `$owner`, `$name`, `$after` and these variables, and gives the list as `listed`, and as
    `shown` whether the repository shows it; `documents` says what is listed, for errors.
    """
    variables = {**variables, "owner": client.owner, "name": client.name, "after": None}
    guard = PageGuard(partial(client.listing_incomplete, "repeats a page of a listing"))
    more = True
    while more:
        answer = client.execute(query, variables)
        repository = answer.data.get("repository")
        if answer.errors or repository is None:
            raise client.from_graphql_errors(answer.errors)
        if not repository["shown"]:
            raise client.documents_disabled(documents)
        page = repository["listed"]
        yield page
        more, cursor = page["pageInfo"]["hasNextPage"], page["pageInfo"]["endCursor"]
        if more:
            guard.advance(map(repr, page["nodes"]), cursor or "")
        variables["after"] = cursor


@dataclass(frozen=True, slots=True)
class NestedList:
    """A list of a GraphQL type, with pages of its own: `name(first: …) { nodes { selection } }`."""

    owner: str  # the type that has it: "PullRequest"
    name: str
    selection: str
    first_count: int  # entries that come with the owner
    max_count: int | None = None  # entries that are taken, about; None: all
    arguments: str = ""  # besides the page's
    inner: NestedList | None = None  # a list within each entry

    def build_query(self, first: int, after: str = "") -> str:
        """The list's first entries, or those after a variable."""
        from_there = f", after: {after}" if after else ""
        inner = self.inner.build_query(self.inner.first_count) if self.inner else ""
        return (
            f"{self.name}(first: {first}{from_there}{self.arguments}) "
            f"{{ pageInfo {{ hasNextPage endCursor }} nodes {{ {self.selection} {inner} }} }}"
        )


def _load_all_entries(client: GithubClient, node: Node, nested_lists: Sequence[NestedList]) -> None:
    """Put all its entries in each list's place. Raises DocumentSkipped: the node is gone meanwhile."""
    for part in nested_lists:
        page: Node = node.get(part.name) or {"nodes": [], "pageInfo": {"hasNextPage": False}}
        entries: list[Node] = []
        guard = PageGuard(
            partial(client.unavailable, f"does not end the {part.name} of one of its documents")
        )
        while True:
            entries += filter(None, page["nodes"] or ())  # an entry that we may not see is null
            is_enough = part.max_count is not None and len(entries) >= part.max_count
            if is_enough or not page["pageInfo"]["hasNextPage"]:
                break
            cursor = page["pageInfo"]["endCursor"]
            guard.advance(map(repr, page["nodes"] or ()), cursor or "")
            page = _fetch_next_page(client, node["id"], part, cursor)
        node[part.name] = entries
        if part.inner:
            for entry in entries:
                _load_all_entries(client, entry, [part.inner])


def _fetch_next_page(client: GithubClient, owner_id: str, nested_list: NestedList, after: str) -> Node:
    page = nested_list.build_query(_MAX_PAGE_SIZE, "$after")
    query = (
        f"query($id: ID!, $after: String!) {{ {RATE_LIMIT_FIELDS} "
        f"node(id: $id) {{ ... on {nested_list.owner} {{ {page} }} }} }}"
    )
    answer = client.execute(query, {"id": owner_id, "after": after})
    owner = answer.data.get("node")
    if owner is None and all(error.get("type") == "NOT_FOUND" for error in answer.errors):
        raise DocumentSkipped(DELETED_REASON)
    if answer.errors or not owner:
        raise client.from_graphql_errors(answer.errors)
    return owner[nested_list.name]
