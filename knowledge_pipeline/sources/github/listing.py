"""Which pull requests, issues or discussions a repository has: ids and times, a hundred a call.

The newest update comes first, so that a listing ends where the wanted span does and costs what
changed, not what there is. What is updated while it is paged jumps to the front, before the page
that is read next: so the front is read again, until nothing can have jumped unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from knowledge_pipeline.errors import SourceUnavailable
from knowledge_pipeline.sources.code_host import Node, is_incomplete
from knowledge_pipeline.sources.github.client import RATE_LIMIT_FIELDS, GithubClient
from knowledge_pipeline.times import parse_time

_MAX_PASSES = 20
_SWITCHES = {"issues": "hasIssuesEnabled", "discussions": "hasDiscussionsEnabled"}
_STATE_FIELDS = {"discussions": "closed"}
_UNLABELLED = "discussions"  # which GitHub does not select by label


@dataclass(frozen=True, slots=True)
class ListingSpec:
    """How one kind of conversation is listed."""

    connection: str  # a field of GitHub's `Repository`: "pullRequests", "issues", "discussions"
    state_type: str  # of GraphQL: "PullRequestState"
    fields: str  # fields besides id, number and updatedAt
    states: tuple[str, ...] | None  # None: any
    labels: tuple[str, ...]

    @property
    def query(self) -> str:
        """One page, the newest update first."""
        is_labelled = self.connection != _UNLABELLED
        declared, given = (", $labels: [String!]", ", labels: $labels") if is_labelled else ("", "")
        return f"""
query($owner: String!, $name: String!, $after: String, $states: [{self.state_type}!]{declared}) {{
  {RATE_LIMIT_FIELDS}
  repository(owner: $owner, name: $name) {{
    shown: {_SWITCHES.get(self.connection, "id")}
    listed: {self.connection}(first: 100, after: $after, states: $states{given},
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
        has_label = not self.labels or not labels.isdisjoint(each.casefold() for each in self.labels)
        is_labelled = self.connection == _UNLABELLED or has_label
        return is_labelled and (self.states is None or state in self.states)


class ConversationLister:
    """Lists one kind of conversation of one repository."""

    def __init__(self, client: GithubClient, listing: ListingSpec) -> None:
        self._client = client
        self._spec = listing

    def list_since(
        self, oldest: datetime, is_wanted: Callable[[Node], bool], limit: int | None
    ) -> list[Node]:
        """What was updated at `oldest` or later and is wanted, the newest `most`; the oldest comes first.

        So a refresh that is broken off has taken the oldest, and goes on from there.

        Raises:
            SourceRefused, SourceUnavailable: as `GithubClient.ask`; or the listing came back short.
        """
        found: dict[int, Node] = {}
        total, until = self._read_from_front(
            found, oldest, lambda: bool(limit and sum(map(is_wanted, found.values())) >= limit)
        )
        passes = 0
        while until is not None:
            if (passes := passes + 1) > _MAX_PASSES:
                raise self._build_listing_error("changes faster than it can be listed")
            counted, until = self._read_from_front(found, max(oldest, until), lambda: False)
            total = None if total is None else counted or total
        if total is not None and is_incomplete(len(found), total):
            raise self._build_listing_error(f"listed {len(found)} of {total} {self._spec.connection}")
        wanted = filter(is_wanted, found.values())
        chosen = sorted(wanted, key=lambda node: (node["updatedAt"], node["number"]))
        return chosen[-limit:] if limit else chosen

    def list_by_number(self, numbers: Sequence[int]) -> list[Node]:
        """Those of some that are there and pass the listing's states and labels.

        Raises:
            SourceRefused, SourceUnavailable: as `GithubClient.execute`; or the repository is not shown.
        """
        client = self._client
        variables = {"owner": client.owner, "name": client.name}
        answer = client.execute(self._spec.build_number_query(numbers), variables)
        repository = answer.data.get("repository")
        serious = [error for error in answer.errors if not _is_missing_node(error)]
        if serious or repository is None:
            raise client.errors.from_graphql_errors(serious or [{"type": "NOT_FOUND"}])
        if not repository["shown"]:
            raise client.errors.documents_disabled(self._spec.connection)
        found = ((number, repository[f"n{number:d}"]) for number in numbers)
        # one that moved to another repository has another number there
        present = [node for number, node in found if node and node["number"] == number]
        return [node for node in present if self._spec.accepts(node)]

    def _read_from_front(
        self, nodes_by_number: dict[int, Node], oldest: datetime, is_enough: Callable[[], bool]
    ) -> tuple[int | None, datetime | None]:
        """Read from the front until `oldest`, or until it is enough.

        Returns how many there are, if the end was reached; and since when something may have jumped
        to the front unseen: None where one page, which is of one moment, held all.
        """
        newest: datetime | None = None
        for number, page in enumerate(self._iter_pages()):
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

    def _iter_pages(self) -> Iterator[dict[str, Any]]:
        spec = self._spec
        variables: dict[str, Any] = {"states": spec.states}
        if spec.connection != _UNLABELLED:
            variables["labels"] = spec.labels or None
        return iter_pages(self._client, spec.query, variables, spec.connection)

    def _build_listing_error(self, problem: str) -> SourceUnavailable:
        return self._client.errors.listing_incomplete(problem)


def iter_pages(
    client: GithubClient, query: str, variables: dict[str, Any], documents: str
) -> Iterator[dict[str, Any]]:
    """Every page, whole, until the one that has no next; a cursor holds a time, not an offset.

    Args:
        client: of the repository.
        query: it takes `$owner`, `$name` and `$after`, and gives the list as `listed`, and as `shown` whether
            the repository shows it.
        variables: the others that it takes.
        documents: what is listed, for errors.

    Raises:
        SourceRefused, SourceUnavailable: as `GithubClient.execute`; or pages repeat.
    """
    variables = {**variables, "owner": client.owner, "name": client.name, "after": None}
    more = True
    while more:
        answer = client.execute(query, variables)
        repository = answer.data.get("repository")
        if answer.errors or repository is None:
            raise client.errors.from_graphql_errors(answer.errors or [{"type": "NOT_FOUND"}])
        if not repository["shown"]:
            raise client.errors.documents_disabled(documents)
        page = repository["listed"]
        yield page
        more, cursor = page["pageInfo"]["hasNextPage"], page["pageInfo"]["endCursor"]
        if more and (cursor == variables["after"] or not page["nodes"]):
            raise client.errors.listing_incomplete("repeats a page of a listing")
        variables["after"] = cursor


def _is_missing_node(error: Any) -> bool:
    """Whether an error says that one node of a repository is not there."""
    return error.get("type") == "NOT_FOUND" and len(error.get("path") or ()) == 2
