"""What pull requests and issues of GitHub say alike: people, comments, references, facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.github.listing import moment
from knowledge_pipeline.sources.github.parts import Node
from knowledge_pipeline.sources.markdown_cleaning import clean


def person(node: Node) -> str | None:
    """The name of who wrote it, else the login; None: the account is no more."""
    author = node["author"]
    return ((author.get("name") or "").strip() or author["login"]) if author else None


def reference(node: Node) -> str:
    """An issue or a pull request as GitHub writes it: "owner/name#12"."""
    return f"{node['repository']['nameWithOwner']}#{node['number']}"


def comment_turns(comments: list[Node]) -> Iterator[Turn]:
    """The comments that nobody hid, as spam or as outdated; bots' are taken."""
    for comment in comments:
        if not comment["isMinimized"]:
            at = moment(comment["createdAt"])
            yield Turn("comment", clean(comment["body"]), person(comment), at, url=comment["url"])


def facts_of(node: Node, repository: str) -> dict[str, Any]:
    """Metadata that both have; `status` is what the index filters by."""
    state = node["state"].lower()
    return {
        "number": node["number"],
        "project": repository,
        "state": state,
        "status": state,
        "labels": sorted(label["name"] for label in node["labels"]),
        "milestone": node["milestone"]["title"] if node["milestone"] else None,
        "created_at": node["createdAt"],
        "closed_at": node["closedAt"],
    }
