"""Merge requests and issues of a project of GitLab, as documents.

How they are asked for is in `gitlab_client`, how they are listed in `gitlab_conversations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.records import Document
from knowledge_pipeline.sources.conversation import Turn, conversation
from knowledge_pipeline.sources.github.listing import ConversationFilters, moment
from knowledge_pipeline.sources.gitlab.conversations import PERSON, Conversations, Node
from knowledge_pipeline.sources.gitlab.turns import (
    approvals,
    closed_by,
    comment_turns,
    facts_of,
    known,
    person,
    said,
)

MOST_FILES = 200  # named in the text and in the metadata

_BOTH = (
    f"title description webUrl state createdAt milestone {{ title }} author {PERSON} "
    "labels { nodes { title } }"
)


class MergeRequests(Conversations):
    """One document per merge request: "merge_request/12".

    API: https://docs.gitlab.com/api/graphql/reference/#mergerequest
    """

    kind = "merge_request"
    field = "mergeRequests"
    enums = ("MergeRequestState", "MergeRequestSort")
    at_once = 20
    default_since = "180 days"
    listed = "state mergedAt"
    facts = (
        f"{_BOTH} draft mergedAt mergeCommitSha sourceBranch targetBranch "
        f"diffStats {{ path additions deletions }} approvedBy {{ nodes {PERSON} }}"
    )

    def state(self, filters: ConversationFilters) -> str:
        """Merged ones, if not told otherwise. GitLab cannot be asked for all that is no longer open."""
        return {"open": "opened", "merged": "merged"}.get(filters.state or "merged", "all")

    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """Where only merged ones are wanted, the time of the merge counts, else that of the last update."""
        if self._filters.state == "closed":
            return node["state"] in ("closed", "merged")
        only_merged = self._state == "merged"
        return not only_merged or moment(node["mergedAt"] or node["updatedAt"]) >= oldest

    def document(self, uri: str, node: Node) -> Document:
        """Title, description, changed files, what was said, who approved."""
        title = f"{node['title'].strip()} (!{node['iid']})"
        text, segments = conversation(title, self._turns(node))
        return Document(
            uri=uri,
            text=text,
            path=uri,
            title=title,
            language="markdown",
            url=node["webUrl"],
            author=person(node["author"]),
            last_modified=moment(node["listedAt"]),
            metadata={**self._metadata(node), "segments": segments},
        )

    def _turns(self, node: Node) -> Iterator[Turn]:
        at, connection = moment(node["createdAt"]), self.connection
        written = said(node["description"], connection)
        yield Turn("description", written, person(node["author"]), at, url=node["webUrl"])
        yield Turn("changed files", _files(node["diffStats"] or []), url=f"{node['webUrl']}/diffs")
        yield from comment_turns(node["notes"], connection)
        yield from approvals(node["approvedBy"]["nodes"] if node["approvedBy"] else [])

    def _metadata(self, node: Node) -> dict[str, object]:
        files = node["diffStats"] or []
        return known(
            {
                **facts_of(node, self.connection.project),
                "draft": node["draft"],
                "base": node["targetBranch"],
                "head": node["sourceBranch"],
                "merged_at": node["mergedAt"],
                "merge_commit": node["mergeCommitSha"],
                "additions": sum(file["additions"] for file in files),
                "deletions": sum(file["deletions"] for file in files),
                "changed_files": len(files),
                "files": [file["path"] for file in files[:MOST_FILES]],
                "mentions": closed_by(node["description"], self.connection),
            }
        )


class GitlabIssues(Conversations):
    """One document per issue: "issue/12". Confidential ones are not taken.

    API: https://docs.gitlab.com/api/graphql/reference/#issue
    """

    kind = "issue"
    field = "issues"
    enums = ("IssuableState", "IssueSort")
    at_once = 50
    default_since = "365 days"
    listed = "confidential"
    facts = f"{_BOTH} type closedAt confidential closedAsDuplicateOf {{ reference(full: true) }}"

    def state(self, filters: ConversationFilters) -> str:
        """Of any state, if not told otherwise.

        Raises:
            ConfigError: an issue cannot be merged.
        """
        states = {"open": "opened", "closed": "closed", "all": "all"}
        state = filters.state or "all"
        if state not in states:
            raise ConfigError(f"state is {state!r}, which no issue has: write open, closed or all")
        return states[state]

    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """What was listed within the span."""
        return moment(node["updatedAt"]) >= oldest

    def document(self, uri: str, node: Node) -> Document:
        """Title, description, comments."""
        title = f"{node['title'].strip()} (#{node['iid']})"
        text, segments = conversation(title, self._turns(node))
        duplicate = node["closedAsDuplicateOf"]
        kind = node["type"]
        metadata = {
            **facts_of(node, self.connection.project),
            "issue_type": kind.lower() if kind else None,
            "closed_at": node["closedAt"],
            "mentions": [{"kind": "duplicates", "target": duplicate["reference"]}] if duplicate else [],
            "segments": segments,
        }
        return Document(
            uri=uri,
            text=text,
            path=uri,
            title=title,
            language="markdown",
            url=node["webUrl"],
            author=person(node["author"]),
            last_modified=moment(node["listedAt"]),
            metadata=known(metadata),
        )

    def _turns(self, node: Node) -> Iterator[Turn]:
        at, written = moment(node["createdAt"]), said(node["description"], self.connection)
        yield Turn("description", written, person(node["author"]), at, url=node["webUrl"])
        yield from comment_turns(node["notes"], self.connection)


def _files(files: list[Node]) -> str:
    if not files:
        return ""
    added, removed = (sum(file[name] for file in files) for name in ("additions", "deletions"))
    lines = [f"{len(files)} changed, +{added} -{removed}"]
    lines += [f"- {file['path']} (+{file['additions']} -{file['deletions']})" for file in files[:MOST_FILES]]
    more = len(files) - MOST_FILES
    return "\n".join([*lines, f"- and {more} more"] if more > 0 else lines)
