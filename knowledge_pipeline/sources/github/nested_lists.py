"""The lists within a pull request or an issue: comments, reviews, files; their first page comes with it.

GraphQL gives lists within lists, each with pages of its own. What is longer than its first page is
paged on, list by list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.base import DELETED_REASON
from knowledge_pipeline.sources.code_host import Node
from knowledge_pipeline.sources.github.client import RATE_LIMIT_FIELDS, GithubClient

ACTOR_FIELDS = "author { login ... on User { name } }"

_MAX_PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class NestedList:
    """A list of a GraphQL type: `name(first: …) { nodes { selection } }`."""

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


def build_list_selections(nested_lists: Sequence[NestedList], *, small: bool) -> str:
    """The first page of each list; a fifth of it for what is too much for GitHub."""
    divisor = 5 if small else 1
    return " ".join(part.build_query(max(1, part.first_count // divisor)) for part in nested_lists)


def load_all_entries(client: GithubClient, node: Node, nested_lists: Sequence[NestedList]) -> None:
    """Put in the place of each list all its entries, reading on where there are more than came with it.

    Raises:
        DocumentSkipped: the node is gone meanwhile.
        SourceRefused, SourceUnavailable: as `GithubClient.ask`.
    """
    for part in nested_lists:
        page: Node = node.get(part.name) or {"nodes": [], "pageInfo": {"hasNextPage": False}}
        entries = _visible_entries(page)
        while page["pageInfo"]["hasNextPage"] and (part.max_count is None or len(entries) < part.max_count):
            page = _fetch_next_page(client, node["id"], part, page["pageInfo"]["endCursor"])
            entries += _visible_entries(page)
        node[part.name] = entries
        if part.inner:
            for entry in entries:
                load_all_entries(client, entry, [part.inner])


def _visible_entries(page: Node) -> list[Node]:
    """An entry that we may not see is null."""
    return [entry for entry in page["nodes"] or () if entry]


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
        raise client.errors.from_graphql_errors(answer.errors)
    return owner[nested_list.name]
