"""Pull requests of a repository of GitHub: description, changed files, reviews, comments."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from knowledge_pipeline.sources.code_host import (
    MAX_FILES,
    ChangedFiles,
    Node,
    author_name,
    build_base_metadata,
    build_mentions,
)
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.diffs import FileDiff, fence_diff, list_changed_files
from knowledge_pipeline.sources.github.conversations import (
    GithubConversations,
    format_reference,
    iter_comment_turns,
)
from knowledge_pipeline.sources.github.nested_lists import ACTOR_FIELDS, NestedList
from knowledge_pipeline.sources.markdown_cleaning import clean_markdown
from knowledge_pipeline.times import parse_time

_HUNK_LINES = 12
_VERDICT_TEXTS = {
    "APPROVED": "Approved.",
    "CHANGES_REQUESTED": "Changes requested.",
    "DISMISSED": "This review was dismissed.",
}
_COMMENT_FIELDS = f"id body createdAt isMinimized url {ACTOR_FIELDS}"
_REVIEW_FIELDS = f"id body state submittedAt createdAt isMinimized url {ACTOR_FIELDS}"
_THREAD_FIELDS = f"{_COMMENT_FIELDS} publishedAt path line originalLine diffHunk state"
_THREAD_COMMENTS = NestedList("PullRequestReviewThread", "comments", _THREAD_FIELDS, first_count=10)


class GithubPullRequests(GithubConversations):
    """One document per pull request: "pull/123".

    API: https://docs.github.com/en/graphql/reference/objects#pullrequest
    """

    kind = "pull"
    default_state = "merged"
    default_since = "180 days"
    state_values: ClassVar = {
        "open": ("OPEN",),
        "closed": ("CLOSED", "MERGED"),
        "merged": ("MERGED",),
        "all": None,
    }
    listing_spec = ("pullRequests", "PullRequestState", "mergedAt totalCommentsCount")
    batch_size = 25
    graphql_type = "PullRequest"
    detail_fields = (
        f"id number title body url state isDraft createdAt mergedAt closedAt mergeCommit {{ oid }} "
        f"baseRefName headRefName additions deletions changedFiles milestone {{ title }} {ACTOR_FIELDS}"
    )
    nested_lists = (
        NestedList("PullRequest", "comments", _COMMENT_FIELDS, first_count=50),
        NestedList("PullRequest", "reviews", _REVIEW_FIELDS, first_count=50),
        NestedList("PullRequest", "reviewThreads", "id path", first_count=20, inner=_THREAD_COMMENTS),
        NestedList("PullRequest", "files", "path additions deletions changeType", 100, max_count=MAX_FILES),
        NestedList("PullRequest", "labels", "name", first_count=20),
        NestedList("PullRequest", "closingIssuesReferences", "number repository { nameWithOwner }", 10),
    )
    optional_fields = frozenset({"author", "mergeCommit", "milestone", "closingIssuesReferences"})

    def build_revision(self, node: Node) -> str:
        """By its time and all its comments."""
        return self.mark_revision(node["updatedAt"], node["totalCommentsCount"])

    def list_nested(self) -> tuple[NestedList, ...]:
        """All changed files, where they tell whether it is wanted: else the ones that are named."""
        if self._filters.changed_paths is None:
            return self.nested_lists
        return tuple(replace(each, max_count=None) for each in self.nested_lists)

    def list_changed_paths(self, node: Node) -> list[str]:
        """As GitHub gives them: at most 3,000."""
        return [file["path"] for file in node["files"]]

    def list_file_diffs(self, uri: str, node: Node) -> Iterator[FileDiff]:
        """API: https://docs.github.com/en/rest/pulls/pulls#list-pull-requests-files."""
        path = f"/repos/{self._client.owner}/{self._client.name}/pulls/{node['number']}/files"
        for file in list_changed_files(self._client, path, uri, MAX_FILES):
            anchor = hashlib.sha256(file["filename"].encode()).hexdigest()
            url = f"{node['url']}/files#diff-{anchor}"
            yield FileDiff(file["filename"], file.get("patch") or "", url)

    def iter_reply_turns(self, node: Node) -> Iterator[Turn]:
        """Changed files, then comments and reviews by time; threads stay together."""
        yield Turn("changed files", _build_changed_files(node).text, url=f"{node['url']}/files")
        opened = parse_time(node["createdAt"])
        threads = [turns for turns in map(_build_thread_turns, node["reviewThreads"]) if turns]
        groups = [
            *((turn.at or opened, 0, [turn]) for turn in iter_comment_turns(node["comments"])),
            *((turn.at or opened, 1, [turn]) for turn in _iter_review_turns(node["reviews"])),
            *((turns[0].at or opened, 2, turns) for turns in threads),
        ]
        for _, _, turns in sorted(groups, key=lambda each: each[:2]):
            yield from turns

    def build_metadata(self, node: Node) -> dict[str, Any]:
        """Facts, branches, sizes, files, and what it closes."""
        commit = node["mergeCommit"]
        return {
            **build_base_metadata(node, self.repository, node["state"].lower(), node["labels"]),
            "draft": node["isDraft"],
            "base": node["baseRefName"],
            "head": node["headRefName"],
            "merged_at": node["mergedAt"],
            "merge_commit": commit["oid"] if commit else None,
            **_build_changed_files(node).metadata,
            "mentions": build_mentions("closes", map(format_reference, node["closingIssuesReferences"])),
        }


def _build_changed_files(node: Node) -> ChangedFiles:
    return ChangedFiles(node["files"], node["changedFiles"], node["additions"], node["deletions"])


def _iter_review_turns(reviews: list[Node]) -> Iterator[Turn]:
    """Verdicts, with or without text; a review that only holds comments on lines has none."""
    for review in reviews:
        if review["state"] == "PENDING" or review["isMinimized"]:
            continue
        text = f"{_VERDICT_TEXTS.get(review['state'], '')}\n\n{clean_markdown(review['body'])}".strip()
        at = parse_time(review["submittedAt"] or review["createdAt"])
        yield Turn("review", text, author_name(review), at, url=review["url"])


def _build_thread_turns(thread: Node) -> list[Turn]:
    """The comments on one place of the diff; the first shows the lines that it is about."""
    turns: list[Turn] = []
    for comment in thread["comments"]:
        if comment["isMinimized"] or comment["state"] == "PENDING":
            continue
        line = comment["line"] or comment["originalLine"]
        place = f"{comment['path']} line {line}" if line else comment["path"]
        hunk = "" if turns else _format_hunk(comment["diffHunk"])
        at = parse_time(comment["publishedAt"] or comment["createdAt"])
        text = f"{hunk}\n\n{clean_markdown(comment['body'])}"
        turns.append(Turn("review comment", text, author_name(comment), at, place, comment["url"]))
    return turns


def _format_hunk(hunk: str) -> str:
    """The end of a hunk, which is the line that is spoken of, below the hunk's own heading."""
    heading, *lines = hunk.replace("\r", "").split("\n")
    return fence_diff([heading, *lines[-_HUNK_LINES:]], hunk) if heading else ""
