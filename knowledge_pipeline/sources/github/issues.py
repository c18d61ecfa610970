"""Issues of a repository of GitHub, with their comments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from knowledge_pipeline.sources.code_host import Node, build_base_metadata, build_mentions
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.github.conversations import (
    GithubConversations,
    format_reference,
    iter_comment_turns,
)
from knowledge_pipeline.sources.github.nested_lists import ACTOR_FIELDS, NestedList

_DUPLICATE_FIELDS = "number repository { nameWithOwner }"


class GithubIssues(GithubConversations):
    """One document per issue: "issue/123".

    API: https://docs.github.com/en/graphql/reference/objects#issue
    """

    kind = "issue"
    default_state = "all"
    default_since = "365 days"
    state_values: ClassVar = {"open": ("OPEN",), "closed": ("CLOSED",), "all": None}
    listing_spec = ("issues", "IssueState", "comments { totalCount }")
    batch_size = 50
    graphql_type = "Issue"
    detail_fields = (
        f"id number title body url state stateReason createdAt closedAt milestone {{ title }} {ACTOR_FIELDS}"
    )
    optional_fields = frozenset({"author", "milestone", "canonical"})
    nested_lists = (
        NestedList("Issue", "comments", f"id body createdAt isMinimized url {ACTOR_FIELDS}", first_count=50),
        NestedList("Issue", "labels", "name", first_count=20),
        NestedList(
            "Issue",
            "timelineItems",
            "... on MarkedAsDuplicateEvent { canonical { "
            f"... on Issue {{ {_DUPLICATE_FIELDS} }} ... on PullRequest {{ {_DUPLICATE_FIELDS} }} }} }}",
            first_count=5,
            arguments=", itemTypes: [MARKED_AS_DUPLICATE_EVENT]",
        ),
    )

    def build_revision(self, node: Node) -> str:
        """By its time and its comments."""
        return self.mark_revision(node["updatedAt"], node["comments"]["totalCount"])

    def iter_reply_turns(self, node: Node) -> Iterator[Turn]:
        """Comments."""
        return iter_comment_turns(node["comments"])

    def build_metadata(self, node: Node) -> dict[str, Any]:
        """Facts, and what it was marked to be a duplicate of, where we may see that."""
        reason = node["stateReason"]
        twins = (event["canonical"] for event in node["timelineItems"] if event.get("canonical"))
        return {
            **build_base_metadata(node, self.repository, node["state"].lower(), node["labels"]),
            "state_reason": reason.lower() if reason else None,
            "mentions": build_mentions("duplicates", map(format_reference, twins)),
        }
