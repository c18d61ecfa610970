"""Issues of a repository of GitHub, with their comments."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.github.conversations import Conversations
from knowledge_pipeline.sources.github.listing import ConversationFilters, Listing, moment
from knowledge_pipeline.sources.github.parts import ACTOR, Node, Part
from knowledge_pipeline.sources.github.turns import comment_turns, facts_of, person, reference
from knowledge_pipeline.sources.markdown_cleaning import clean

FORMAT = "1"
"""Changes whenever the same answers may make another document."""

_STATES = {"open": ("OPEN",), "closed": ("CLOSED",), "all": None}
_TWIN = "number repository { nameWithOwner }"


class Issues(Conversations):
    """One document per issue: "issue/123".

    API: https://docs.github.com/en/graphql/reference/objects#issue
    """

    kind = "issue"
    at_once = 50
    graphql_type = "Issue"
    facts = f"id number title body url state stateReason createdAt closedAt milestone {{ title }} {ACTOR}"
    dispensable = frozenset({"author", "milestone", "canonical"})
    parts = (
        Part("Issue", "comments", f"id body createdAt isMinimized url {ACTOR}", first=50),
        Part("Issue", "labels", "name", first=20),
        Part(
            "Issue",
            "timelineItems",
            "... on MarkedAsDuplicateEvent { canonical { "
            f"... on Issue {{ {_TWIN} }} ... on PullRequest {{ {_TWIN} }} }} }}",
            first=5,
            arguments=", itemTypes: [MARKED_AS_DUPLICATE_EVENT]",
        ),
    )

    def since(self, filters: ConversationFilters) -> str:
        """Of the last 365 days, if not told otherwise."""
        return filters.since or "365 days"

    def listing(self, filters: ConversationFilters) -> Listing:
        """Of any state, if not told otherwise.

        Raises:
            ConfigError: an issue cannot be merged.
        """
        state = filters.state or "all"
        if state not in _STATES:
            raise ConfigError(f"state is {state!r}, which no issue has: write open, closed or all")
        return Listing("issues", "IssueState", "comments { totalCount }", _STATES[state], filters.labels)

    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """What was listed within the span."""
        return moment(node["updatedAt"]) >= oldest

    def revision(self, node: Node) -> str:
        """The count tells of a comment that was deleted, which may leave the time as it was."""
        return f"{node['updatedAt']}:{node['comments']['totalCount']}:{FORMAT}"

    def turns(self, node: Node) -> Iterator[Turn]:
        """Description, comments."""
        return _turns(node)

    def metadata(self, node: Node) -> dict[str, Any]:
        """Facts, and what it is a duplicate of."""
        return _metadata(node, self.repository)


def _turns(node: Node) -> Iterator[Turn]:
    at = moment(node["createdAt"])
    yield Turn("description", clean(node["body"]), person(node), at, url=node["url"])
    yield from comment_turns(node["comments"])


def _metadata(node: Node, repository: str) -> dict[str, Any]:
    reason = node["stateReason"]
    return {
        **facts_of(node, repository),
        "state_reason": reason.lower() if reason else None,
        "mentions": _duplicates(node),
    }


def _duplicates(node: Node) -> list[dict[str, str]]:
    """What it was marked to be a duplicate of, where we may see that."""
    twins = {reference(event["canonical"]) for event in node["timelineItems"] if event.get("canonical")}
    return [{"kind": "duplicates", "target": target} for target in sorted(twins)]
