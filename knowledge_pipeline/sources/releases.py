"""Releases of GitHub and GitLab: their notes, and the names of their assets.

A subclass lists them; the nodes of both use the same names: `tag`, `name`, `notes`, `publishedAt`,
`updatedAt`, `author`, `commit`, `status`, `assets` (their first `names`, and whether there are `more`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice

from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.code_host import ConversationFilters, Node, author_name, build_mentions
from knowledge_pipeline.sources.listed import ListedSource, build_revision
from knowledge_pipeline.times import parse_since, parse_time

FORMAT_VERSION = "1"
"""Changes whenever the same responses may make another document."""

MAX_ASSETS = 100  # named in the text and in the metadata


class ReleaseSource(ListedSource):
    """One document per release: "release/v1.2"."""

    def __init__(self, filters: ConversationFilters, project: str) -> None:
        """Raises ConfigError where `since` is not a date."""
        self._filters, self._project = filters, project
        self._oldest = parse_since(filters.since) if filters.since else None

    @abstractmethod
    def iter_releases(self) -> Iterator[Node]:
        """Every published release, the newest first; complete, or an exception."""

    @abstractmethod
    def clean_text(self, markdown: str) -> str:
        """Clean Markdown of the notes."""

    @abstractmethod
    def build_url(self, tag: str) -> str:
        """Where people see it."""

    def iter_entries(self) -> Iterator[tuple[Item, Node]]:
        """Those that the filters want."""
        wanted = filter(self._is_wanted, self.iter_releases())
        for node in islice(wanted, self._filters.max_results):
            yield Item(f"release/{node['tag']}", build_revision(FORMAT_VERSION, node)), node

    def build_document(self, item: Item, node: Node) -> Document:
        """Its name as the heading, its notes, its assets."""
        tag, name = node["tag"], (node["name"] or "").strip()
        title = f"{name} ({tag})" if name and tag not in name else name or tag
        parts = [f"# {title}", self.clean_text(node["notes"] or "").strip(), _format_assets(node["assets"])]
        return Document(
            uri=item.uri,
            text="\n\n".join(filter(None, parts)),
            path=item.uri,
            title=title,
            language="markdown",
            url=self.build_url(tag),
            author=author_name(node),
            last_modified=parse_time(node["updatedAt"]),
            metadata={
                "tag": tag,
                "project": self._project,
                "status": node["status"],
                "created_at": node["publishedAt"],
                "assets": node["assets"]["names"],
                **({"commit": node["commit"]} if node["commit"] else {}),
                "mentions": build_mentions("references", filter(None, [node["commit"]])),
            },
        )

    def _is_wanted(self, node: Node) -> bool:
        is_final = node["status"] == "released" or self._filters.state == "all"
        return is_final and (self._oldest is None or parse_time(node["publishedAt"]) >= self._oldest)


def _format_assets(assets: Node) -> str:
    if not assets["names"]:
        return ""
    lines = [*(f"- {name}" for name in assets["names"]), *(["- and more"] if assets["more"] else [])]
    return "\n".join(["## Assets", "", *lines])
