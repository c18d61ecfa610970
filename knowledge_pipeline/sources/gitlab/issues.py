"""Issues of a project of GitLab, with their comments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from knowledge_pipeline.sources.code_host import Node, mentions
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.gitlab.conversations import Conversations
from knowledge_pipeline.sources.gitlab.turns import comment_turns


class Issues(Conversations):
    """One document per issue: "issue/12". Confidential ones are not taken.

    API: https://docs.gitlab.com/api/graphql/reference/#issue
    """

    kind = "issue"
    field = "issues"
    enums = ("IssuableState", "IssueSort")
    at_once = 50
    default_state = "all"
    default_since = "365 days"
    states: ClassVar = {"open": "opened", "closed": "closed", "all": "all"}
    listing = "confidential"
    facts = "type closedAt confidential closedAsDuplicateOf { reference(full: true) }"

    def said(self, node: Node) -> Iterator[Turn]:
        """Comments."""
        return comment_turns(node["notes"], self.connection)

    def metadata(self, node: Node) -> dict[str, Any]:
        """Facts, and what it is a duplicate of."""
        duplicate, kind = node["closedAsDuplicateOf"], node["type"]
        return {
            **self.facts_of(node),
            "issue_type": kind.lower() if kind else None,
            "mentions": mentions("duplicates", [duplicate["reference"]] if duplicate else []),
        }
