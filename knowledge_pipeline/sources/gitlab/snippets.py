"""Snippets of a project of GitLab: what each is for, and its files; and who may read them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

from knowledge_pipeline.config.connections.repositories import GitlabConnection
from knowledge_pipeline.languages import detect_language
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.code_host import Node, author_name
from knowledge_pipeline.sources.files.trees import format_too_large
from knowledge_pipeline.sources.gitlab.client import GitlabClient
from knowledge_pipeline.sources.gitlab.permissions import UNREADABLE, read_snippet_readers
from knowledge_pipeline.sources.gitlab.turns import clean_gitlab_markdown
from knowledge_pipeline.sources.listed import ListedSource, build_revision
from knowledge_pipeline.sources.permissions import Permissions
from knowledge_pipeline.times import parse_time

FORMAT_VERSION = "1"
"""Changes whenever the same responses may make another document."""

DEFAULT_MAX_BYTES = 1_000_000  # of a file

_FIELDS = """
  title description createdAt updatedAt webUrl author { name login: username }
  blobs { hasUnretrievableBlobs nodes { path text: rawPlainData } }
"""


class GitlabSnippets(ListedSource):
    """A document for each file, "snippet/12/parse.py", and one for a snippet's description, "snippet/12".

    The path is of a folder with the snippet's title, which is all that says what most files are for.

    API: https://docs.gitlab.com/api/graphql/reference/#snippet
    """

    def __init__(
        self, connection: GitlabConnection, max_bytes: int | None = None, *, sleep: Sleep = time.sleep
    ) -> None:
        self._connection = connection
        self._max_bytes = max_bytes or DEFAULT_MAX_BYTES
        self._client = GitlabClient(connection, "snippets", sleep=sleep)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def iter_entries(self) -> Iterator[tuple[Item, Node]]:
        """What each snippet says of itself, if anything, then its files."""
        for snippet in _iter_snippets(self._client, _FIELDS, page_size=20):
            blobs = snippet.pop("blobs")
            if blobs["hasUnretrievableBlobs"]:
                raise self._client.errors.listing_incomplete(
                    f"does not show the files of snippet {snippet['number']}"
                )
            uri = f"snippet/{snippet['number']}"
            if (snippet["description"] or "").strip():
                described = snippet | {"paths": [blob["path"] for blob in blobs["nodes"]]}
                yield Item(uri, build_revision(FORMAT_VERSION, described)), described
            for blob in blobs["nodes"]:
                file = {**snippet, "path": blob["path"], "text": blob["text"]}
                revision, skip = build_revision(FORMAT_VERSION, file), self._find_skip_reason(blob["text"])
                yield Item(f"{uri}/{blob['path']}", revision, skip=skip), file

    def build_document(self, item: Item, node: Node) -> Document:
        """A file as it is; or the title as the heading, the description, and the names of the files."""
        folder = " ".join(node["title"].replace("/", " ").split())
        if "text" in node:
            path, text = f"{folder}/{node['path']}", node["text"]
            language = detect_language(path, text)
        else:
            about = clean_gitlab_markdown(node["description"], self._connection).strip()
            files = "\n".join(f"- {each}" for each in node["paths"])
            path, text, language = folder, f"# {folder}\n\n{about}\n\n{files}", "markdown"
        return Document(
            uri=item.uri,
            text=text,
            path=path,
            title=node["title"],
            language=language,
            url=node["webUrl"],
            author=author_name(node),
            last_modified=parse_time(node["updatedAt"]),
            metadata={
                "number": node["number"],
                "project": self._connection.project,
                "visibility": node["visibility"],
                "created_at": node["createdAt"],
            },
        )

    def _find_skip_reason(self, text: str | None) -> str | None:
        if not text:
            return "binary file" if text is None else "empty"
        size = len(text.encode())
        return format_too_large(size, self._max_bytes) if size > self._max_bytes else None


def _iter_snippets(client: GitlabClient, fields: str, *, page_size: int) -> Iterator[Node]:
    """Every snippet that the token may read, with some fields."""
    selection = (
        f"listed: snippets(first: {page_size}, after: $after) {{ pageInfo {{ hasNextPage endCursor }} "
        f"nodes {{ id visibility: visibilityLevel {fields} }} }}"
    )
    for page in client.iter_pages("", selection, {}):
        for node in page["nodes"]:
            yield {**node, "number": int(node.pop("id").rpartition("/")[2])}


def read_snippet_permissions(
    connection: GitlabConnection, uris: Sequence[str], *, sleep: Sleep = time.sleep
) -> Permissions:
    """An audience for each visibility that snippets have; one that is gone has none.

    Raises:
        SourceRefused: GitLab refuses the token, or shows no such project.
        SourceUnavailable: it did not answer.
    """
    client = GitlabClient(connection, "snippets", sleep=sleep)
    try:
        listed = _iter_snippets(client, "", page_size=100)
        audiences = {str(each["number"]): f"snippet:{each['visibility']}" for each in listed}
        readers = read_snippet_readers(client, connection.project)
    finally:
        client.close()
    found = {uri: audiences[number] for uri in uris if (number := uri.split("/")[1]) in audiences}
    problems = Counter({UNREADABLE: len(uris)} if readers is None else {})
    by_name = {f"snippet:{visibility}": [each] for visibility, each in (readers or {}).items()}
    return Permissions(by_name, found, problems)
