"""Merge requests of a project of GitLab: what was wanted, what was changed, what was said about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar

from knowledge_pipeline.sources.code_host import ChangedFiles, Node
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.gitlab.conversations import PERSON, Conversations
from knowledge_pipeline.sources.gitlab.turns import approvals, closed_by, comment_turns


class MergeRequests(Conversations):
    """One document per merge request: "merge_request/12".

    API: https://docs.gitlab.com/api/graphql/reference/#mergerequest
    """

    kind = "merge_request"
    mark = "!"
    field = "mergeRequests"
    enums = ("MergeRequestState", "MergeRequestSort")
    at_once = 20
    default_state = "merged"
    default_since = "180 days"
    states: ClassVar = {  # GitLab cannot be asked for all that is no longer open
        "open": "opened",
        "closed": "all",
        "merged": "merged",
        "all": "all",
    }
    listing = "state mergedAt"
    facts = (
        "draft mergedAt mergeCommitSha sourceBranch targetBranch "
        f"diffStats {{ path additions deletions }} approvedBy {{ nodes {PERSON} }}"
    )

    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """Of the wanted state, within the span."""
        is_open = node["state"] not in ("closed", "merged")
        return not (is_open and self._state == "closed") and super().is_wanted(node, oldest)

    def said(self, node: Node) -> Iterator[Turn]:
        """Changed files, what was said, who approved."""
        yield Turn("changed files", _changes(node).text, url=f"{node['url']}/diffs")
        yield from comment_turns(node["notes"], self.connection)
        yield from approvals(node["approvedBy"]["nodes"] if node["approvedBy"] else [])

    def metadata(self, node: Node) -> dict[str, Any]:
        """Facts, branches, sizes, files, and what it closes."""
        return {
            **self.facts_of(node),
            "draft": node["draft"],
            "base": node["targetBranch"],
            "head": node["sourceBranch"],
            "merged_at": node["mergedAt"],
            "merge_commit": node["mergeCommitSha"],
            **_changes(node).facts,
            "mentions": closed_by(node["body"], self.connection),
        }


def _changes(node: Node) -> ChangedFiles:
    files = node["diffStats"] or []
    added, deleted = (sum(file[name] for file in files) for name in ("additions", "deletions"))
    return ChangedFiles(files, len(files), added, deleted)
