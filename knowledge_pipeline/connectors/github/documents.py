"""Pull requests, issues, discussions and releases of a repository of GitHub, as documents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote

from knowledge_pipeline.config.connections import GithubConnection
from knowledge_pipeline.connectors.conversations import (
    MAX_ASSETS,
    MAX_FILES,
    ChangedFiles,
    ConversationFilters,
    FileDiff,
    Node,
    ReleaseSource,
    Turn,
    author_name,
    build_base_metadata,
    build_mentions,
    fence_diff,
    is_incomplete,
    list_changed_files,
)
from knowledge_pipeline.connectors.github.client import RATE_LIMIT_FIELDS, GithubClient
from knowledge_pipeline.connectors.github.conversations import (
    ACTOR_FIELDS,
    GithubConversations,
    NestedList,
    format_reference,
    iter_comment_turns,
    iter_pages,
)
from knowledge_pipeline.connectors.github.markdown_cleaning import clean_markdown
from knowledge_pipeline.times import parse_time

_HUNK_LINES = 12
_VERDICT_TEXTS = {
    "APPROVED": "Approved.",
    "CHANGES_REQUESTED": "Changes requested.",
    "DISMISSED": "This review was dismissed.",
}
_REFERENCE_FIELDS = "number repository { nameWithOwner }"
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
        NestedList("PullRequest", "closingIssuesReferences", _REFERENCE_FIELDS, 10),
    )
    optional_fields = frozenset({"author", "mergeCommit", "milestone", "closingIssuesReferences"})

    def build_revision(self, node: Node) -> str:
        """By its time and all its comments, those on lines included."""
        return self.mark_revision(node["updatedAt"], node["totalCommentsCount"])

    def list_nested(self) -> tuple[NestedList, ...]:
        """All changed files, where they tell whether it is wanted: else the ones that are named."""
        if self._filters.changed_paths is None:
            return self.nested_lists
        return tuple(replace(nested, max_count=None) for nested in self.nested_lists)

    def list_changed_paths(self, node: Node) -> list[str]:
        """As GitHub gives them: at most 3,000."""
        return [file["path"] for file in node["files"]]

    def list_file_diffs(self, uri: str, node: Node) -> Iterator[FileDiff]:
        """API: https://docs.github.com/en/rest/pulls/pulls#list-pull-requests-files."""
        path = f"/repos/{self._client.owner}/{self._client.name}/pulls/{node['number']}/files"
        for file in list_changed_files(self._client, path, uri):
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
        for _, _, turns in sorted(groups, key=lambda group: group[:2]):
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
        location = f"{comment['path']} line {line}" if line else comment["path"]
        text, at = clean_markdown(comment["body"]), parse_time(comment["publishedAt"] or comment["createdAt"])
        heading, *lines = comment["diffHunk"].replace("\r", "").split("\n")
        if heading and not turns:  # the end of the hunk is what is spoken of
            hunk = fence_diff([heading, *lines[-_HUNK_LINES:]], comment["diffHunk"])
            text = f"{hunk}\n\n{text}"
        turns.append(Turn("review comment", text, author_name(comment), at, location, comment["url"]))
    return turns


_RELEASES_QUERY = f"""
query($owner: String!, $name: String!, $after: String) {{
  {RATE_LIMIT_FIELDS}
  repository(owner: $owner, name: $name) {{
    shown: id
    listed: releases(first: 25, after: $after, orderBy: {{field: CREATED_AT, direction: DESC}}) {{
      totalCount
      pageInfo {{ hasNextPage endCursor }}
      nodes {{
        tag: tagName name notes: description createdAt publishedAt updatedAt isDraft isPrerelease
        tagCommit {{ oid }} author {{ login name }}
        releaseAssets(first: {MAX_ASSETS}) {{ totalCount nodes {{ name }} }}
      }}
    }}
  }}
}}"""


class GithubReleases(ReleaseSource[GithubClient]):
    """The releases of one repository, without drafts; prereleases only where they are wanted.

    API: https://docs.github.com/en/graphql/reference/objects#release
    """

    def __init__(self, connection: GithubConnection, filters: ConversationFilters) -> None:
        super().__init__(GithubClient(connection), filters, connection.repository)
        self._location = connection.location

    def iter_releases(self) -> Iterator[Node]:
        """The last created first; 25 a call."""
        listed = total = 0
        for page in iter_pages(self._client, _RELEASES_QUERY, {}, "releases"):
            listed, total = listed + len(page["nodes"]), page["totalCount"]
            for node in page["nodes"]:
                if not node.pop("isDraft"):
                    assets, commit = node.pop("releaseAssets"), node.pop("tagCommit")
                    names = [asset["name"] for asset in assets["nodes"]]
                    yield {
                        **node,
                        "publishedAt": node["publishedAt"] or node["createdAt"],
                        "status": "prerelease" if node.pop("isPrerelease") else "released",
                        "commit": commit["oid"] if commit else None,
                        "assets": {"names": names, "more": assets["totalCount"] > len(names)},
                    }
        if is_incomplete(listed, total):
            raise self._client.listing_incomplete(f"listed {listed} of {total} releases")

    def build_url(self, tag: str) -> str:
        """Its page."""
        return f"{self._location}/releases/tag/{quote(tag)}"


_DISCUSSION_COMMENT_FIELDS = f"id body createdAt isMinimized isAnswer url {ACTOR_FIELDS}"
_REPLIES = NestedList("DiscussionComment", "replies", _DISCUSSION_COMMENT_FIELDS, first_count=10)
_CLASS_FIELDS = "category { name } labels(first: 20) { nodes { name } }"


class GithubDiscussions(GithubConversations):
    """One document per discussion: "discussion/123". Its category counts as one of its labels.

    API: https://docs.github.com/en/graphql/guides/using-the-graphql-api-for-discussions
    """

    kind = "discussion"
    default_state = "all"
    default_since = "365 days"
    state_values: ClassVar = {"open": ("OPEN",), "closed": ("CLOSED",), "all": None}
    listing_spec = ("discussions", "DiscussionState", f"comments {{ totalCount }} {_CLASS_FIELDS}")
    batch_size = 25
    graphql_type = "Discussion"
    detail_fields = (
        f"id number title body url closed closedAt stateReason isAnswered upvoteCount createdAt "
        f"category {{ name }} {ACTOR_FIELDS}"
    )
    optional_fields = frozenset({"author"})
    nested_lists = (
        NestedList("Discussion", "comments", _DISCUSSION_COMMENT_FIELDS, first_count=30, inner=_REPLIES),
        NestedList("Discussion", "labels", "name", first_count=20),
    )

    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """Whether it is recent enough, and has one of the labels, which GitHub does not select by."""
        wanted, own = self._filters.labels, _list_labels(node, node["labels"]["nodes"])
        return super().is_wanted(node, oldest) and (not wanted or not own.isdisjoint(wanted))

    def iter_reply_turns(self, node: Node) -> Iterator[Turn]:
        """Comments, each with the replies to it."""
        for comment in node["comments"]:
            yield from iter_comment_turns([comment])
            yield from iter_comment_turns(comment["replies"], "reply")

    def build_metadata(self, node: Node) -> dict[str, Any]:
        """Facts. The status is "answered" where an answer was chosen, whatever the state."""
        state, reason = "closed" if node["closed"] else "open", node["stateReason"]
        labels = [{"name": name} for name in _list_labels(node, node["labels"])]
        return {
            **build_base_metadata(node, self.repository, state, labels),
            "status": "answered" if node["isAnswered"] else state,
            "state_reason": reason.lower() if reason else None,
            "category": node["category"]["name"],
            "upvotes": node["upvoteCount"],
        }


def _list_labels(node: Node, labels: list[Node]) -> set[str]:
    return {node["category"]["name"], *(label["name"] for label in labels)}


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
        NestedList("Issue", "comments", _COMMENT_FIELDS, first_count=50),
        NestedList("Issue", "labels", "name", first_count=20),
        NestedList(
            "Issue",
            "timelineItems",
            "... on MarkedAsDuplicateEvent { canonical { "
            f"... on Issue {{ {_REFERENCE_FIELDS} }} ... on PullRequest {{ {_REFERENCE_FIELDS} }} }} }}",
            first_count=5,
            arguments=", itemTypes: [MARKED_AS_DUPLICATE_EVENT]",
        ),
    )

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
