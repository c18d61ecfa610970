"""Releases of a repository of GitHub; drafts are not taken, prereleases only where they are wanted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import quote

from knowledge_pipeline.config.connections.repositories import GithubConnection
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.code_host import ConversationFilters, Node, is_incomplete
from knowledge_pipeline.sources.github.client import RATE_LIMIT_FIELDS, GithubClient
from knowledge_pipeline.sources.github.listing import iter_pages
from knowledge_pipeline.sources.markdown_cleaning import clean_markdown
from knowledge_pipeline.sources.releases import MAX_ASSETS, ReleaseSource

_QUERY = f"""
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


class GithubReleases(ReleaseSource):
    """The releases of one repository.

    API: https://docs.github.com/en/graphql/reference/objects#release
    """

    def __init__(
        self, connection: GithubConnection, filters: ConversationFilters, *, sleep: Sleep = time.sleep
    ) -> None:
        """Raises ConfigError where `since` is not a date."""
        super().__init__(filters, connection.repository)
        self._location = connection.location
        self._client = GithubClient(connection, sleep=sleep)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def iter_releases(self) -> Iterator[Node]:
        """The last created first; 25 a call."""
        found = total = 0
        for page in iter_pages(self._client, _QUERY, {}, "releases"):
            found, total = found + len(page["nodes"]), page["totalCount"]
            for node in page["nodes"]:
                if not node.pop("isDraft"):
                    yield _normalize(node)
        if is_incomplete(found, total):
            raise self._client.errors.listing_incomplete(f"listed {found} of {total} releases")

    def clean_text(self, markdown: str) -> str:
        """Clean Markdown."""
        return clean_markdown(markdown)

    def build_url(self, tag: str) -> str:
        """Its page."""
        return f"{self._location}/releases/tag/{quote(tag)}"


def _normalize(node: Node) -> Node:
    assets, commit = node.pop("releaseAssets"), node.pop("tagCommit")
    names = [each["name"] for each in assets["nodes"]]
    return {
        **node,
        "publishedAt": node["publishedAt"] or node["createdAt"],
        "status": "prerelease" if node.pop("isPrerelease") else "released",
        "commit": commit["oid"] if commit else None,
        "assets": {"names": names, "more": assets["totalCount"] > len(names)},
    }
