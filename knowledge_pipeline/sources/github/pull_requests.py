"""Pull requests of a repository of GitHub: what was wanted, what was changed, what was said about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from knowledge_pipeline.sources.code_host import (
    FORMAT,
    MOST_FILES,
    ChangedFiles,
    Node,
    facts_of,
    mentions,
    moment,
    person,
)
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.github.conversations import Conversations
from knowledge_pipeline.sources.github.nested_lists import ACTOR, Part
from knowledge_pipeline.sources.github.turns import comment_turns, reference
from knowledge_pipeline.sources.markdown_cleaning import clean

_HUNK_LINES, _HUNK_LINE_CHARS = 12, 200
_VERDICTS = {
    "APPROVED": "Approved.",
    "CHANGES_REQUESTED": "Changes requested.",
    "DISMISSED": "This review was dismissed.",
    "COMMENTED": "",
}
_COMMENT = f"id body createdAt isMinimized url {ACTOR}"
_REMARKS = Part(
    "PullRequestReviewThread",
    "comments",
    f"{_COMMENT} publishedAt path line originalLine diffHunk state",
    first=10,
)


class PullRequests(Conversations):
    """One document per pull request: "pull/123".

    API: https://docs.github.com/en/graphql/reference/objects#pullrequest
    """

    kind = "pull"
    default_state = "merged"
    default_since = "180 days"
    states: ClassVar = {
        "open": ("OPEN",),
        "closed": ("CLOSED", "MERGED"),
        "merged": ("MERGED",),
        "all": None,
    }
    listing = ("pullRequests", "PullRequestState", "mergedAt totalCommentsCount")
    at_once = 25
    graphql_type = "PullRequest"
    facts = (
        f"id number title body url state isDraft createdAt mergedAt closedAt mergeCommit {{ oid }} "
        f"baseRefName headRefName additions deletions changedFiles milestone {{ title }} {ACTOR}"
    )
    parts = (
        Part("PullRequest", "comments", _COMMENT, first=50),
        Part(
            "PullRequest", "reviews", f"id body state submittedAt createdAt isMinimized url {ACTOR}", first=50
        ),
        Part("PullRequest", "reviewThreads", "id path", first=20, inner=_REMARKS),
        Part("PullRequest", "files", "path additions deletions changeType", first=100, most=MOST_FILES),
        Part("PullRequest", "labels", "name", first=20),
        Part("PullRequest", "closingIssuesReferences", "number repository { nameWithOwner }", first=10),
    )
    dispensable = frozenset({"author", "mergeCommit", "milestone", "closingIssuesReferences"})

    def revision(self, node: Node) -> str:
        """The count tells of a comment that was deleted, which may leave the time as it was."""
        return f"{node['updatedAt']}:{node['totalCommentsCount']}:{FORMAT}"

    def said(self, node: Node) -> Iterator[Turn]:
        """Changed files, then what was said in its order; threads stay together."""
        yield Turn("changed files", _changes(node).text, url=f"{node['url']}/files")
        opened = moment(node["createdAt"])
        said = [
            *((turn.at or opened, 0, [turn]) for turn in comment_turns(node["comments"])),
            *((turn.at or opened, 1, [turn]) for turn in _reviews(node["reviews"])),
            *((turns[0].at or opened, 2, turns) for turns in map(_thread, node["reviewThreads"]) if turns),
        ]
        for _, _, turns in sorted(said, key=lambda each: each[:2]):
            yield from turns

    def metadata(self, node: Node) -> dict[str, Any]:
        """Facts, branches, sizes, files, and what it closes."""
        commit = node["mergeCommit"]
        return {
            **facts_of(node, self.repository, node["state"].lower(), node["labels"]),
            "draft": node["isDraft"],
            "base": node["baseRefName"],
            "head": node["headRefName"],
            "merged_at": node["mergedAt"],
            "merge_commit": commit["oid"] if commit else None,
            **_changes(node).facts,
            "mentions": mentions("closes", map(reference, node["closingIssuesReferences"])),
        }


def _changes(node: Node) -> ChangedFiles:
    return ChangedFiles(node["files"], node["changedFiles"], node["additions"], node["deletions"])


def _reviews(reviews: list[Node]) -> Iterator[Turn]:
    """Verdicts, with or without words. One that only holds comments on lines says nothing itself."""
    for review in reviews:
        if review["state"] == "PENDING" or review["isMinimized"]:
            continue
        text = f"{_VERDICTS.get(review['state'], '')}\n\n{clean(review['body'])}".strip()
        at = moment(review["submittedAt"] or review["createdAt"])
        yield Turn("review", text, person(review), at, url=review["url"])


def _thread(thread: Node) -> list[Turn]:
    """The comments on one place of the diff; the first shows the lines that it is about."""
    turns: list[Turn] = []
    for comment in thread["comments"]:
        if comment["isMinimized"] or comment["state"] == "PENDING":
            continue
        line = comment["line"] or comment["originalLine"]
        place = f"{comment['path']} line {line}" if line else comment["path"]
        hunk = "" if turns else _excerpt(comment["diffHunk"])
        at = moment(comment["publishedAt"] or comment["createdAt"])
        text = f"{hunk}\n\n{clean(comment['body'])}"
        turns.append(Turn("review comment", text, person(comment), at, place, comment["url"]))
    return turns


def _excerpt(hunk: str) -> str:
    """The end of a hunk, which is the line that is spoken of, below the hunk's own heading."""
    heading, *lines = [line[:_HUNK_LINE_CHARS] for line in hunk.replace("\r", "").split("\n")]
    if not heading:
        return ""
    fence = "```" if "```" not in hunk else "`" * 8
    return "\n".join([f"{fence}diff", heading, *lines[-_HUNK_LINES:], fence])
