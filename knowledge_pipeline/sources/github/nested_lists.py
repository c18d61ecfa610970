"""The lists within a pull request or an issue: comments, reviews, files; their first page comes with it.

GraphQL gives lists within lists, each with pages of its own. What is longer than its first page is
paged on, list by list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.code_host import GONE, Node
from knowledge_pipeline.sources.github.client import RATE_LIMIT, GithubClient

ACTOR = "author { login ... on User { name } }"

_MOST_A_PAGE = 100


@dataclass(frozen=True, slots=True)
class Part:
    """A list of a GraphQL type: `name(first: …) { nodes { selection } }`."""

    owner: str  # the type that has it: "PullRequest"
    name: str
    selection: str
    first: int  # entries that come with the owner
    most: int | None = None  # entries that are taken, about; None: all
    arguments: str = ""  # beside the page's
    inner: Part | None = None  # a list within each entry

    def query(self, first: int, after: str = "") -> str:
        """The list's first entries, or those after a variable."""
        from_there = f", after: {after}" if after else ""
        inner = self.inner.query(self.inner.first) if self.inner else ""
        return (
            f"{self.name}(first: {first}{from_there}{self.arguments}) "
            f"{{ pageInfo {{ hasNextPage endCursor }} nodes {{ {self.selection} {inner} }} }}"
        )


def selection(parts: Sequence[Part], *, small: bool) -> str:
    """The first page of each list; a fifth of it for what is too much for GitHub."""
    return " ".join(part.query(max(1, part.first // 5) if small else part.first) for part in parts)


def complete(client: GithubClient, node: Node, parts: Sequence[Part]) -> None:
    """Put in the place of each list all its entries, reading on where there are more than came with it.

    Raises:
        DocumentSkipped: the node is gone meanwhile.
        SourceRefused, SourceUnavailable: as `GithubClient.ask`.
    """
    for part in parts:
        page = node.get(part.name) or {"nodes": [], "pageInfo": {"hasNextPage": False}}
        entries = _entries(page)
        while page["pageInfo"]["hasNextPage"] and (part.most is None or len(entries) < part.most):
            page = _next(client, node["id"], part, page["pageInfo"]["endCursor"])
            entries += _entries(page)
        node[part.name] = entries
        if part.inner:
            for entry in entries:
                complete(client, entry, [part.inner])


def _entries(page: Node) -> list[Node]:
    """An entry that we may not see is null."""
    return [entry for entry in page["nodes"] or () if entry]


def _next(client: GithubClient, owner_id: str, part: Part, after: str) -> Node:
    query = (
        f"query($id: ID!, $after: String!) {{ {RATE_LIMIT} "
        f"node(id: $id) {{ ... on {part.owner} {{ {part.query(_MOST_A_PAGE, '$after')} }} }} }}"
    )
    answer = client.ask(query, {"id": owner_id, "after": after})
    owner = answer.data.get("node")
    if owner is None and all(error.get("type") == "NOT_FOUND" for error in answer.errors):
        raise DocumentSkipped(GONE)
    if answer.errors or not owner:
        raise client.sentences.of_errors(answer.errors)
    return owner[part.name]
