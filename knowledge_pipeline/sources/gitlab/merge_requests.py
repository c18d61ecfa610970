"""Merge requests of a project of GitLab: description, changed files, comments, approvals."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote

from knowledge_pipeline.sources.code_host import MAX_FILES, ChangedFiles, Node
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.diffs import FileDiff, list_changed_files
from knowledge_pipeline.sources.gitlab.conversations import PERSON_FIELDS, GitlabConversations
from knowledge_pipeline.sources.gitlab.turns import (
    find_closed_issues,
    iter_approval_turns,
    iter_comment_turns,
)


class GitlabMergeRequests(GitlabConversations):
    """One document per merge request: "merge_request/12".

    API: https://docs.gitlab.com/api/graphql/reference/#mergerequest
    """

    kind = "merge_request"
    number_prefix = "!"
    field = "mergeRequests"
    enum_types = ("MergeRequestState", "MergeRequestSort")
    batch_size = 20
    default_state = "merged"
    default_since = "180 days"
    # GitLab has no state for all that is no longer open
    state_values: ClassVar = {"open": "opened", "closed": "all", "merged": "merged", "all": "all"}
    listing_fields = "state mergedAt"
    detail_fields = (
        "draft mergedAt mergeCommitSha sourceBranch targetBranch "
        f"diffStats {{ path additions deletions }} approvedBy {{ nodes {PERSON_FIELDS} }}"
    )

    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """Of the wanted state, within the span."""
        is_open = node["state"] not in ("closed", "merged")
        return not (is_open and self._state == "closed") and super().is_wanted(node, oldest)

    def list_changed_paths(self, node: Node) -> list[str]:
        """All of them, where GitLab has computed the difference."""
        return [file["path"] for file in node["diffStats"] or ()]

    def list_file_diffs(self, uri: str, node: Node) -> Iterator[FileDiff]:
        """API: https://docs.gitlab.com/api/merge_requests/#list-merge-request-diffs."""
        project = quote(self.connection.project, safe="")
        path = f"projects/{project}/merge_requests/{node['number']}/diffs"
        for file in list_changed_files(self._client, path, uri, MAX_FILES):
            anchor = hashlib.sha1(file["new_path"].encode(), usedforsecurity=False).hexdigest()
            yield FileDiff(file["new_path"], file.get("diff") or "", f"{node['url']}/diffs#{anchor}")

    def iter_reply_turns(self, node: Node) -> Iterator[Turn]:
        """Changed files, comments, approvals."""
        yield Turn("changed files", _build_changed_files(node).text, url=f"{node['url']}/diffs")
        yield from iter_comment_turns(node["notes"], self.connection)
        yield from iter_approval_turns(node["approvedBy"]["nodes"] if node["approvedBy"] else [])

    def build_metadata(self, node: Node) -> dict[str, Any]:
        """Facts, branches, sizes, files, and what it closes."""
        return {
            **self.build_common_metadata(node),
            "draft": node["draft"],
            "base": node["targetBranch"],
            "head": node["sourceBranch"],
            "merged_at": node["mergedAt"],
            "merge_commit": node["mergeCommitSha"],
            **_build_changed_files(node).metadata,
            "mentions": find_closed_issues(node["body"], self.connection),
        }


def _build_changed_files(node: Node) -> ChangedFiles:
    files: list[Node] = node["diffStats"] or []
    added, deleted = (sum(file[name] for file in files) for name in ("additions", "deletions"))
    return ChangedFiles(files, len(files), added, deleted)
