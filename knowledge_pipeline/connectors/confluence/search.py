"""Confluence's search (CQL): what changed, and what hangs on pages; the same for Cloud and Server.

`/rest/api/content/search` finds what no listing gives in bulk: what was modified since, the comments and
files of many pages, and on Cloud the labels of many pages. Cloud's API v2 has no search, and lists labels,
comments and files page by page. `/rest/api/search` has no expansions. The listings of `editions`,
never a search, tell which pages exist: the search index is late.
Source: https://developer.atlassian.com/cloud/confluence/advanced-searching-using-cql/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from knowledge_pipeline.connectors.confluence.client import ConfluenceClient, Json
from knowledge_pipeline.connectors.confluence.content import (
    BOARD_KINDS,
    CONTENT_KINDS,
    ChildContent,
    storage_of,
)
from knowledge_pipeline.times import parse_time

SEARCH_PATH = "rest/api/content/search"
MAX_IDS_PER_QUERY = 100  # ids in one question, so that its address stays short
_PAGE_SIZE = 250  # results in one page; a site gives fewer where it likes


def search(client: ConfluenceClient, cql: str, expand: Sequence[str]) -> Iterator[Json]:
    """Everything current that a query finds, the oldest first, so that what is new comes last."""
    question = {"cql": f"{cql} order by created asc", "expand": ",".join(expand), "limit": _PAGE_SIZE}
    return client.iter_results(SEARCH_PATH, question)


def build_space_query(spaces: Iterable[str], kinds: Sequence[str]) -> str:
    """The query for kinds of content in spaces; in all of them if none is given."""
    wanted = f"type in ({', '.join(kinds)})"
    escaped = (key.replace("\\", "\\\\").replace('"', '\\"') for key in spaces)
    keys = ", ".join(f'"{key}"' for key in escaped)
    return f"{wanted} and space in ({keys})" if keys else wanted


def build_children_query(ids: Iterable[str], kinds: Sequence[str]) -> str:
    """The query for what hangs on pages."""
    return f"type in ({', '.join(kinds)}) and container in ({', '.join(ids)})"


def parse_child_content(content: Json) -> ChildContent | None:
    """A comment or file on a page; None for one on anything else, a file's own comment perhaps."""
    container, version = content.get("container") or Json(), content.get("version") or Json()
    kinds = (*CONTENT_KINDS, *BOARD_KINDS)
    if content.get("type") not in ("comment", "attachment") or container.get("type") not in kinds:
        return None
    extensions, history = content.get("extensions") or Json(), content.get("history") or Json()
    author = (history.get("createdBy") or version.get("by") or Json()).get("displayName")
    return ChildContent(
        id=str(content["id"]),
        kind=content["type"],
        page_id=str(container["id"]),
        page_kind=container["type"],
        version=int(version.get("number") or 1),
        title=str(content.get("title") or "") if content["type"] == "attachment" else "",
        updated=parse_time(str(version["when"])) if version.get("when") else None,
        author=author,
        storage=storage_of(content),
        size_bytes=size if isinstance(size := extensions.get("fileSize"), int) else None,
        download_path=str((content.get("_links") or Json()).get("download") or ""),
        quoted_text=str((extensions.get("inlineProperties") or Json()).get("originalSelection") or ""),
    )
