"""What hangs at the code that a change reaches, in sentences: its owners by CODEOWNERS, tests, tickets."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pathspec import GitIgnoreSpec

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import GraphNode
from knowledge_pipeline.file_languages import classify_file
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import OpenRelease
from knowledge_pipeline.query.visible_graph import VisibleGraph
from knowledge_pipeline.relations import DocumentContext, resolve_name
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.search import Row
from knowledge_pipeline.sync_facade import gather_all

_MAX_FILES = 200  # whose changes are looked for, the nearest first
_MAX_ROWS = 500  # that mention them
_MAX_SHOWN, _MAX_PATHS = 8, 3
_CODEOWNERS = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
_TICKET_TYPES = frozenset({"jira", "github_issues"})

_File = tuple[str, str]  # source, path


async def describe_surroundings(
    opened: OpenRelease, graph: VisibleGraph, nodes: Iterable[GraphNode], access: Access
) -> list[str]:
    """Sentences about the files of some nodes, as far as the caller may see what they say."""
    near = sorted((node for node in nodes if node.role != "uses"), key=lambda node: node.distance)
    files = list(dict.fromkeys((node.source, node.path) for node in near if node.source and node.path))
    owned = await _find_owners(graph, files) if files else {}
    parts = {
        "owners": [f"{owner} ({_join(paths, _MAX_PATHS)})" for owner, paths in owned.items()],
        "tests": [path for _, path in files if classify_file(path) == "test"],
        "tickets of changes": await _find_tickets(opened, graph, files[:_MAX_FILES], access) if files else [],
    }
    return [f"{title}: {_join(values, _MAX_SHOWN)}" for title, values in parts.items() if values]


def _join(values: Sequence[str], limit: int) -> str:
    more = f" and {len(values) - limit} more" if len(values) > limit else ""
    return ", ".join(values[:limit]) + more


async def _find_owners(graph: VisibleGraph, files: Sequence[_File]) -> dict[str, list[str]]:
    """Owner -> paths; of a repository the first CODEOWNERS counts, and in it the last line that fits."""
    where = filters.eq("kind", "owns") & filters.one_of("source", sorted({source for source, _ in files}))
    rows = await graph.read_edges(where, columns=("source", "path", "line", "target_name"))
    rules = defaultdict[_File, list[tuple[GitIgnoreSpec, list[str]]]](list)
    for row in sorted(rows, key=lambda row: -row["line"]):
        pattern, *owners = row["target_name"].split(" ")[1:]
        rules[row["source"], row["path"]].append((GitIgnoreSpec.from_lines([pattern]), owners))
    owned: dict[str, list[str]] = {}
    for source, path in files:
        lines = next((rules[source, place] for place in _CODEOWNERS if (source, place) in rules), ())
        for owner in next((owners for pattern, owners in lines if pattern.match_file(path)), ()):
            owned.setdefault(owner, []).append(path)
    return owned


async def _find_tickets(
    opened: OpenRelease, graph: VisibleGraph, files: Sequence[_File], access: Access
) -> list[str]:
    """Tickets that name the files, or that commits and pull requests name which change them."""
    readers, visible = await opened.open_readers(), compile_filter(access, Filters())

    async def find_listing(column: str, values: Iterable[str], *read: str) -> list[Row]:
        columns, names = ("source_type", "uri", "title", *read), sorted(values)
        listings = (
            reader.find_rows_listing(column, names, visible, limit=_MAX_ROWS, columns=columns)
            for reader in readers
        )
        return [row for rows in await gather_all(listings) for row in rows] if names else []

    changes = await find_listing("mentions", await _list_names(graph, files), "metadata")
    mentions = [mention for row in changes for mention in json.loads(row["metadata"]).get("mentions", ())]
    keys = {mention["name"] for mention in mentions if mention["name"].startswith(("key:", "issue:"))}
    tickets = [*changes, *await find_listing("names", keys)]
    titles = (f"{row['uri']} {row['title']}" for row in tickets if row["source_type"] in _TICKET_TYPES)
    return list(dict.fromkeys(titles))


async def _list_names(graph: VisibleGraph, files: Sequence[_File]) -> set[str]:
    """The names by which other documents mention files."""
    where = filters.eq("kind", "file") & filters.one_of("path", sorted({path for _, path in files}))
    visible, columns = graph.visibility & where, ("source", "repo", "path")
    rows = await graph.reader.find_symbols(visible, limit=10 * len(files), columns=columns)
    contexts = {(row["source"], row["path"]): row["repo"] for row in rows}
    names = (
        resolve_name(f"/{path}", DocumentContext(source, "code", "", contexts.get((source, path))))
        for source, path in files
    )
    return {name for name in names if name}
