"""What pull requests and issues of GitHub say alike: comments and references."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge_pipeline.sources.code_host import Node, author_name, parse_time
from knowledge_pipeline.sources.conversation import Turn
from knowledge_pipeline.sources.markdown_cleaning import clean_markdown


def format_reference(node: Node) -> str:
    """An issue or a pull request as GitHub writes it: "owner/name#12"."""
    return f"{node['repository']['nameWithOwner']}#{node['number']}"


def iter_comment_turns(comments: list[Node]) -> Iterator[Turn]:
    """The comments that nobody hid, as spam or as outdated; bots' are taken."""
    for comment in comments:
        if not comment["isMinimized"]:
            at = parse_time(comment["createdAt"])
            yield Turn(
                "comment", clean_markdown(comment["body"]), author_name(comment), at, url=comment["url"]
            )
