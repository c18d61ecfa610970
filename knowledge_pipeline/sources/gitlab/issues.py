"""Issues of a project of GitLab, with their comments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from knowledge_pipeline.sources.code_host import Node, build_mentions
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.gitlab.conversations import GitlabConversations
from knowledge_pipeline.sources.gitlab.turns import iter_comment_turns


class GitlabIssues(GitlabConversations):
    """One document per issue: "issue/12". Confidential ones are not taken.

    API: https://docs.gitlab.com/api/graphql/reference/#issue
    """

    kind = "issue"
    field = "issues"
    enum_types = ("IssuableState", "IssueSort")
    batch_size = 50
    default_state = "all"
    default_since = "365 days"
    state_values: ClassVar = {"open": "opened", "closed": "closed", "all": "all"}
    listing_fields = "confidential"
    detail_fields = "type closedAt confidential closedAsDuplicateOf { reference(full: true) }"

    def iter_reply_turns(self, node: Node) -> Iterator[Turn]:
        """Comments."""
        return iter_comment_turns(node["notes"], self.connection)

    def build_metadata(self, node: Node) -> dict[str, Any]:
        """Facts, and what it is a duplicate of."""
        duplicate, kind = node["closedAsDuplicateOf"], node["type"]
        return {
            **self.build_common_metadata(node),
            "issue_type": kind.lower() if kind else None,
            "mentions": build_mentions("duplicates", [duplicate["reference"]] if duplicate else []),
        }
