"""Issues of a repository of GitHub, with their comments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from knowledge_pipeline.sources.code_host import FORMAT, Node, facts_of, mentions
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.github.conversations import Conversations
from knowledge_pipeline.sources.github.nested_lists import ACTOR, Part
from knowledge_pipeline.sources.github.turns import comment_turns, reference

_TWIN = "number repository { nameWithOwner }"


class Issues(Conversations):
    """One document per issue: "issue/123".

    API: https://docs.github.com/en/graphql/reference/objects#issue
    """

    kind = "issue"
    default_state = "all"
    default_since = "365 days"
    states: ClassVar = {"open": ("OPEN",), "closed": ("CLOSED",), "all": None}
    listing = ("issues", "IssueState", "comments { totalCount }")
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

    def revision(self, node: Node) -> str:
        """The count tells of a comment that was deleted, which may leave the time as it was."""
        return f"{node['updatedAt']}:{node['comments']['totalCount']}:{FORMAT}"

    def said(self, node: Node) -> Iterator[Turn]:
        """Comments."""
        return comment_turns(node["comments"])

    def metadata(self, node: Node) -> dict[str, Any]:
        """Facts, and what it was marked to be a duplicate of, where we may see that."""
        reason = node["stateReason"]
        twins = (event["canonical"] for event in node["timelineItems"] if event.get("canonical"))
        return {
            **facts_of(node, self.repository, node["state"].lower(), node["labels"]),
            "state_reason": reason.lower() if reason else None,
            "mentions": mentions("duplicates", map(reference, twins)),
        }
