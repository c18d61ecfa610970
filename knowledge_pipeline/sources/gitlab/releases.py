"""Releases of a project of GitLab; those of the future are taken only where they are wanted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import quote

from knowledge_pipeline.config.connections.repositories import GitlabConnection
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.code_host import ConversationFilters, Node, is_incomplete
from knowledge_pipeline.sources.gitlab.client import GitlabClient
from knowledge_pipeline.sources.gitlab.turns import clean_gitlab_markdown
from knowledge_pipeline.sources.releases import MAX_ASSETS, ReleaseSource

_SELECTION = f"""
listed: releases(first: 50, after: $after, sort: RELEASED_AT_DESC) {{
  count @include(if: $first)
  pageInfo {{ hasNextPage endCursor }}
  nodes {{
    tag: tagName name notes: description createdAt publishedAt: releasedAt isUpcoming: upcomingRelease
    author {{ name login: username }} commit {{ sha }}
    assets {{ links(first: {MAX_ASSETS}) {{ pageInfo {{ hasNextPage }} nodes {{ name }} }} }}
  }}
}}"""


class GitlabReleases(ReleaseSource):
    """The releases of one project.

    API: https://docs.gitlab.com/api/graphql/reference/#release
    """

    def __init__(
        self, connection: GitlabConnection, filters: ConversationFilters, *, sleep: Sleep = time.sleep
    ) -> None:
        """Raises ConfigError where `since` is not a date."""
        super().__init__(filters, connection.project)
        self._connection = connection
        self._client = GitlabClient(connection, "releases", sleep=sleep)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def iter_releases(self) -> Iterator[Node]:
        """The last released first; 50 a call. REST tells whether they are shown: GraphQL would list none."""
        path = f"projects/{quote(self._connection.project, safe='')}/releases"
        if isinstance(self._client.get_or_status(path, {"per_page": 1, "page": 1}), int):
            raise self._client.errors.documents_hidden("releases")
        found = total = 0
        for page in self._client.iter_pages("$first: Boolean!", _SELECTION, {}):
            found, total = found + len(page["nodes"]), page.get("count", total)
            for node in page["nodes"]:
                yield _normalize(node)
        if is_incomplete(found, total):
            raise self._client.errors.listing_incomplete(f"listed {found} of {total} releases")

    def clean_text(self, markdown: str) -> str:
        """Clean Markdown, with links to uploads."""
        return clean_gitlab_markdown(markdown, self._connection)

    def build_url(self, tag: str) -> str:
        """Its page."""
        return f"{self._connection.location}/-/releases/{quote(tag, safe='')}"


def _normalize(node: Node) -> Node:
    links, commit = node["assets"]["links"], node["commit"]
    return {
        **node,
        "updatedAt": node["publishedAt"],  # GitLab does not say when one was edited
        "status": "upcoming" if node["isUpcoming"] else "released",
        "commit": commit["sha"] if commit else None,
        "assets": {
            "names": [each["name"] for each in links["nodes"]],
            "more": links["pageInfo"]["hasNextPage"],
        },
    }
