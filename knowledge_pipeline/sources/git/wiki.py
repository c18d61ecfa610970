"""Pages of a wiki of GitHub or GitLab: the files of its git repository, with their names and addresses."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

from knowledge_pipeline.config.connections.repositories import WikiConnection
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.base import Source

FORMAT_VERSION = "1"
"""Changes whenever the same file may make another page."""


class WikiPages(Source):
    """The pages of one wiki. A page is named by its file, whatever its first heading says."""

    def __init__(self, files: Source, connection: WikiConnection) -> None:
        """`files`: of the wiki's repository."""
        self._files, self._connection = files, connection

    def discover(self) -> Iterator[Item]:
        """Every page, as `files` lists it."""
        for item in self._files.discover():
            yield replace(item, revision=f"{item.revision}+wiki{FORMAT_VERSION}")

    def fetch(self, item: Item) -> Document:
        """Read one page."""
        document = self._files.fetch(item)
        name = posixpath.splitext(document.path)[0]
        base = posixpath.basename(name)
        address = self._connection.pages + quote(base if self._connection.is_flat else name)
        return replace(document, title=base.replace("-", " "), url=address)

    def close(self) -> None:
        """Free what the files opened."""
        self._files.close()
