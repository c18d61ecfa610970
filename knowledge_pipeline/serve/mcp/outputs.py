"""What tools answer, declared once: the text is rendered from it, and programs get it as it is, if anybody.

Clients that get a structured part often hand the model nothing else. So it says all that the text says, in
as few words, and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge_pipeline.context.select import Excerpt
from knowledge_pipeline.contract import describe, responses
from knowledge_pipeline.contract.base import HIDDEN, JsonResponse, QueryResponse
from knowledge_pipeline.contract.filters import NodeRole, about, described
from knowledge_pipeline.contract.operation import IndexedSource, IndexedSourcesResponse
from knowledge_pipeline.serve.documents import document_id_of
from knowledge_pipeline.serve.mcp.advice import drop_commands

NO_RESULTS = (
    "Nothing was found that you may see. Try other words, fewer or wider filters, or search everything."
)

_MAX_NEIGHBOURS = 5  # of each kind
_MAX_COMMITS = 5  # that changed the lines of a result
_FILE_STATES = {"changed": "changed since it was indexed", "missing": "its file is gone"}
_MAX_PLACE_CHARS = 120  # of the line that stands for a result


def _if_any(description: str) -> Any:
    """A field that is left out where there is nothing."""
    return described(description, None, omit_none=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """A text, and where it stands; of a compact answer, its first telling line."""

    number: int
    location: str = field(metadata=about("`path:lines`: cite it so."))
    title: str | None = _if_any("The definition or section, and the document's title.")
    id: str | None = _if_any("`get_document` returns it whole.")
    document_id: str | None = _if_any("`source:uri`: `get_document` returns all of the document.")
    source: str | None = _if_any("Id of its source.")
    score: float | None = _if_any("Comparable within one answer.")
    labels: tuple[str, ...] | None = _if_any("What else is known of it: branches, status, date, address.")
    content: str
    details: tuple[str, ...] | None = _if_any("Its neighbours in the code graph, commits, relations.")
    language: str | None = field(default=None, metadata=HIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPage(JsonResponse):
    """What every answer of a tool has; it is one page of all that was found."""

    query_id: str | None = field(default=None, metadata=HIDDEN)  # it would cost a model sixty tokens
    notes: tuple[str, ...] = described(
        "Sentences: what is missing or doubted, or that nothing was found.", ()
    )
    freshness: Mapping[str, str] | None = _if_any(
        "By source of what is shown: the indexed commit, and when it was last known to be current."
    )
    next_offset: int | None = _if_any("Read on with this `offset`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsPage(ToolPage):
    """Results, best first; of a context, its excerpts."""

    results: tuple[ToolResult, ...]
    is_compact: bool = field(default=False, metadata=HIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPage(ResultsPage):
    """Texts of one document, in order."""

    path: str
    document_id: str
    labels: tuple[str, ...] = described("Its title, source and address.", ())
    offset: int = field(metadata=about("How many chunks were skipped."))
    total: int = field(metadata=about("How many chunks there are."))


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphItem:
    """A definition, a file, or a name outside of everything that is indexed."""

    kind: str
    name: str
    location: str | None = _if_any("`path:lines`: cite it so.")
    source: str | None = _if_any("Id of its source.")
    role: NodeRole = "target"
    distance: int | None = _if_any("Steps from the target, if more than one.")
    score: float | None = _if_any("Where nodes are ranked.")
    signature: str | None = _if_any("Of a target.")
    uses: tuple[str, ...] | None = _if_any("Where it uses the target, or is used.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPage(ToolPage):
    """Targets and what is connected to them; only candidates if the target is ambiguous."""

    target: str
    nodes: tuple[GraphItem, ...] = ()
    between: tuple[str, ...] | None = _if_any("Uses among the targets.")
    candidates: tuple[GraphItem, ...] | None = _if_any("Ask again with the location or name of one.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceItem:
    """A source that can be searched."""

    id: str
    type: str | None = _if_any("Its type, as `source_types` names it.")
    chunks: int | None = _if_any("How much of it there is.")
    repos: tuple[str, ...] | None = _if_any("Its repositories, as `repos` names them.")
    languages: tuple[str, ...] | None = _if_any("Its programming languages, the most frequent first.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesPage(ToolPage):
    """Sources, by id."""

    sources: tuple[SourceItem, ...]


def list_notes(answer: responses.SearchResponse) -> tuple[str, ...]:
    """What an answer lacks, whether it is doubted, and that it is empty."""
    notes = [
        *map(describe.to_sentence, answer.notes),
        *(describe.describe_skipped_step(step, answer.embedded_share) for step in answer.degraded),
    ]
    nothing = NO_RESULTS if not answer.results else ""
    return tuple(map(drop_commands, filter(None, [*notes, describe.describe_doubt(answer), nothing])))


def list_freshness(answer: QueryResponse, shown: Iterable[str | None]) -> Mapping[str, str] | None:
    """What is known of the sources of what is shown; what is wrong with one is in the notes."""
    sources, states = {*shown}, dict[str, str]()
    for it in answer.freshness:
        if it.source in sources and it.as_of:
            states[it.source] = f"{(it.revision or '')[:12]} as of {it.as_of:%Y-%m-%d %H:%M}".strip()
    return states or None


def to_result(number: int, result: responses.SearchResult) -> ToolResult:
    """A result with its content, and all that is said of it."""
    metadata, citation = result.metadata, result.citation
    label = metadata.get("symbol") or metadata.get("section") or ""
    title = citation.title if citation.title not in (label, citation.path.rpartition("/")[2]) else None
    labels = [
        describe_file_state(result.file_state),
        describe.describe_branches(result),
        metadata.get("status"),
        str(metadata.get("last_modified") or "")[:10],
        citation.url,
    ]
    details = [
        *describe.describe_blame(result.blame or (), max_named=_MAX_COMMITS),
        *(describe.describe_neighbours(result.graph, max_named=_MAX_NEIGHBOURS) if result.graph else ()),
        *describe_relations(result.related),
    ]
    return ToolResult(
        number=number,
        location=locate(result),
        title=" · ".join(filter(None, [label, title])) or None,
        id=result.id,
        document_id=document_id_of(result),
        source=citation.source,
        score=round(result.score, 2),
        labels=tuple(str(label) for label in labels if label) or None,
        content=_list_matches(result) or result.content,
        details=tuple(details) or None,
        language=metadata.get("language"),
    )


def _list_matches(result: responses.SearchResult) -> str:
    """The lines that an exact search matched, by their numbers: the rest is one `get_document` away."""
    return "\n".join(f"{match.line}: {match.text}" for match in result.matches or ())


def to_place(number: int, result: responses.SearchResult) -> ToolResult:
    """A result without its content, but for the first line that tells what it is."""
    metadata = result.metadata
    lines = [line.strip() for line in result.content.split("\n") if line.strip()]
    name = str(metadata.get("symbol") or "").rpartition(".")[2]
    telling = next((line for line in lines if name in line), lines[0] if lines else "")
    telling = _list_matches(result).partition("\n")[0] or telling
    labels = [describe.describe_branches(result), describe_file_state(result.file_state)]
    return ToolResult(
        number=number,
        location=locate(result),
        title=metadata.get("symbol") or metadata.get("section") or None,
        id=result.id,
        labels=tuple(filter(None, labels)) or None,
        content=telling[:_MAX_PLACE_CHARS],
    )


def from_document(number: int, excerpt: Excerpt) -> ToolResult:
    """Chunks of a document that follow one another, as one text."""
    citation = excerpt.citation
    return ToolResult(
        number=number,
        location=format_location(citation.path, citation.lines),
        content=excerpt.text,
        language=excerpt.parts[0].metadata.get("language"),
    )


def from_context(excerpt: responses.ContextExcerpt) -> ToolResult:
    """An excerpt of a context, which is cited by its number."""
    citation = excerpt.citation
    more = f"{excerpt.missing_lines} more lines" if excerpt.missing_lines else ""
    labels = [describe_file_state(excerpt.file_state), citation.url, more]
    title = excerpt.within or citation.title
    return ToolResult(
        number=excerpt.number,
        location=format_location(citation.path or citation.url or "", citation.lines),
        title=title if title and not citation.path.endswith(title) else None,
        source=citation.source,
        labels=tuple(filter(None, labels)) or None,
        content=excerpt.text,
        language=excerpt.metadata.get("language"),
    )


def describe_document(results: Sequence[responses.SearchResult]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels of a document, and what is known of its lines and relations."""
    first = results[0]
    labels = [first.citation.title, f"source {first.citation.source}", first.citation.url]
    if first.metadata.get("archived"):
        labels.append("archived: its source no longer has it")
    if state := describe_file_state(first.file_state):
        labels.append(state)
    blamed = (
        line
        for result in results
        for line in describe.describe_blame(result.blame or (), max_named=_MAX_COMMITS)
    )
    return tuple(filter(None, labels)), (*blamed, *describe_relations(first.related))


def describe_file_state(state: str | None) -> str | None:
    """That the file of a text is another one now, or gone; else nothing."""
    return _FILE_STATES.get(state or "")


def describe_relations(relations: Sequence[responses.Relation]) -> tuple[str, ...]:
    """`related: closes PAY-12 Double charge (jira:PAY-12); closed by …`, if there are any."""
    named = "; ".join(
        f"{describe.describe_relation(relation)} {relation.document.title or relation.document.path} "
        f"({relation.document.source}:{relation.document.uri})"
        for relation in relations
    )
    return (f"related: {named}",) if named else ()


def format_location(path: str, lines: str | None) -> str:
    """`src/store.py:10-24`."""
    return f"{path}:{lines.replace('L', '')}" if lines else path


def locate(result: responses.SearchResult) -> str:
    """Where a result is, to be cited."""
    citation = result.citation
    return format_location(citation.path or citation.url or "", citation.lines)


_ROLES: tuple[NodeRole, ...] = ("target", "used_by", "uses", "member")


def to_graph_page(
    answer: responses.GraphResponse,
    *,
    is_empty: bool,
    notes: Sequence[str] = (),
    next_offset: int | None = None,
) -> GraphPage:
    """An answer of the code graph: each node with the uses for which it was found, which are named once."""
    names = {node.id: node.name for node in answer.nodes}
    rest = dict.fromkeys(answer.edges)
    items: list[GraphItem] = []
    for node in sorted(answer.nodes, key=lambda node: _ROLES.index(node.role)):
        uses: list[str] = []
        for edge in [edge for edge in rest if node.role != "target" and _connects(edge, node)]:
            del rest[edge]
            subject = "" if edge.source == node.id else f"{names[edge.source]} "
            uses.append(f"{subject}{_format_edge(edge, names)}")
        items.append(_to_item(node, tuple(uses)))
    between = tuple(f"{names[edge.source]} {_format_edge(edge, names)}" for edge in rest)
    nothing = ["Nothing else was found"] if is_empty and not answer.candidates else []
    return GraphPage(
        query_id=answer.query_id,
        target=answer.target,
        nodes=tuple(items),
        between=between or None,
        candidates=tuple(_to_item(node) for node in answer.candidates) or None,
        notes=(*nothing, *map(drop_commands, answer.notes), *notes),
        freshness=list_freshness(answer, (node.source for node in answer.nodes)),
        next_offset=next_offset,
    )


def _to_item(node: responses.GraphNode, uses: tuple[str, ...] = ()) -> GraphItem:
    return GraphItem(
        kind=node.kind,
        name=node.name if node.path else node.full_name or node.name,
        location=format_location(node.path, node.lines) if node.path else None,
        source=node.source,
        role=node.role,
        distance=node.distance if node.distance > 1 else None,
        score=node.score,
        signature=(node.signature or None) if node.role == "target" else None,
        uses=uses or None,
    )


def _connects(edge: responses.GraphEdge, node: responses.GraphNode) -> bool:
    """Whether an edge is why a node was found: what it does, or what is done with it."""
    return (edge.source == node.id and node.role != "uses") or (
        edge.target == node.id and node.role != "used_by"
    )


def _format_edge(edge: responses.GraphEdge, names: dict[str, str]) -> str:
    """`calls Store.get at src/app.py:5,12 · by import or scope · 1.0`."""
    lines = ",".join(map(str, edge.lines))
    return f"{edge.kind} {names[edge.target]} at {edge.path}:{lines} · {edge.certainty}"


_MAX_NAMED = 6  # repositories of a source, and languages


def to_source_item(source: IndexedSource, *, compact: bool) -> SourceItem:
    """A source with what filters can name of it; compact: its id."""
    if compact:
        return SourceItem(id=source.id)
    repos, languages = _name_first(source.repos), _name_first(source.languages)
    return SourceItem(id=source.id, type=source.type, chunks=source.chunks, repos=repos, languages=languages)


def describe_sources(answer: IndexedSourcesResponse) -> tuple[str, ...]:
    """What could not be read, and how many sources there are, in sentences."""
    missing = [drop_commands(describe.describe_skipped_step(step)) for step in answer.degraded]
    if not answer.sources:
        return (*missing, "There is no such source that you may see: try fewer or wider filters.")
    repos = len({repo for source in answer.sources for repo in source.repos})
    count = f"{len(answer.sources)} source{'s' * (len(answer.sources) > 1)}"
    return (*missing, f"{count}, {repos} repositor{'y' if repos == 1 else 'ies'}.")


def _name_first(names: tuple[str, ...]) -> tuple[str, ...] | None:
    more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
    return (*names[:_MAX_NAMED], *more) or None
