"""Discussions of a repository of GitHub, with their comments and the replies to these."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar

from knowledge_pipeline.sources.code_host import Node, author_name, build_base_metadata
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.github.conversations import GithubConversations
from knowledge_pipeline.sources.github.nested_lists import ACTOR_FIELDS, NestedList
from knowledge_pipeline.sources.markdown_cleaning import clean_markdown
from knowledge_pipeline.times import parse_time

_COMMENT_FIELDS = f"id body createdAt isMinimized isAnswer url {ACTOR_FIELDS}"
_REPLIES = NestedList("DiscussionComment", "replies", _COMMENT_FIELDS, first_count=10)
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
        NestedList("Discussion", "comments", _COMMENT_FIELDS, first_count=30, inner=_REPLIES),
        NestedList("Discussion", "labels", "name", first_count=20),
    )

    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """Whether it is recent enough, and has one of the labels, which GitHub does not select by."""
        wanted, own = self._filters.labels, _list_labels(node, node["labels"]["nodes"])
        return super().is_wanted(node, oldest) and (not wanted or not own.isdisjoint(wanted))

    def build_revision(self, node: Node) -> str:
        """By its time and its comments; replies are not counted."""
        return self.mark_revision(node["updatedAt"], node["comments"]["totalCount"])

    def iter_reply_turns(self, node: Node) -> Iterator[Turn]:
        """Comments, each with the replies to it."""
        for comment in node["comments"]:
            yield from _iter_turns(comment, "comment")
            for reply in comment["replies"]:
                yield from _iter_turns(reply, "reply")

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


def _iter_turns(comment: Node, kind: str) -> Iterator[Turn]:
    """None of a comment that is hidden as spam or outdated."""
    if not comment["isMinimized"]:
        text, at = clean_markdown(comment["body"]), parse_time(comment["createdAt"])
        kind = "answer" if comment["isAnswer"] else kind
        yield Turn(kind, text, author_name(comment), at, url=comment["url"])
