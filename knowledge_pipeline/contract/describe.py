"""Describes what comes with a result, cites lines and draws graphs, alike in every interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from math import floor, fsum
from typing import Any, cast

from knowledge_pipeline.contract import responses
from knowledge_pipeline.contract.base import SourceFreshness
from knowledge_pipeline.contract.responses import Citation
from knowledge_pipeline.records import is_variant_uri
from knowledge_pipeline.text import format_share, truncate
from knowledge_pipeline.times import format_span

_INCOMING_KINDS = {
    **{"closes": "closed by", "implements": "implemented by", "supersedes": "superseded by"},
    **{"duplicates": "duplicated by", "changes": "changed by", "references": "referenced by"},
    "attached_to": "has attachment",
}
_BOOST_DIGITS = 2
_SURE = 0.95  # in a line of a result, the others alone say how they were resolved
_NEIGHBOUR_KINDS = ("calls", "called_by", "extends", "implemented_by", "imports")
_MAX_SHOWN_BRANCHES = 5
DOUBTED_BELOW = 0.25  # of confidence: one of ten questions that have an answer is below
_DOUBT = "Probably nothing here answers this: these are the nearest."
TAKEN_AS_CODE = "the text was taken as code, and code alone searched: name `source_types` to search others"
_SKIPPED_STEPS = {
    "vector": "Searched by words alone: the embedding model could not be used.",
    "index": "Searched without what cannot be read of an index: `knowledge maintain --repair` mends it.",
    "hyde": "Searched without a hypothetical answer: the language model did not write one.",
    "expansion": "Searched without related terms: the language model did not name any.",
    "decompose": "Searched as one question: the language model did not split it.",
    "blame": "Without who last changed some of the lines: git could not be asked.",
    "graph": "Without callers and callees of code: there is no code graph to read.",
    "budget": "Without the language model: a budget is spent.",
    "budget_warning": "Complete, but most of a budget of the language model is spent.",
    "rerank": "Without reranking: the reranker could not be used or took too long.",
}


def format_nested(value: Any) -> str:
    """A value of an explanation in one line."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return "; ".join(f"{name}: {format_nested(inner)}" for name, inner in items)
    is_list = isinstance(value, list | tuple)
    return ", ".join(map(format_nested, cast("Sequence[Any]", value))) if is_list else str(value)


def describe_skipped_step(step: str, embedded_share: float = 0.0) -> str:
    """What a response lacks because a step was skipped, in a sentence; for `embedding` with the share."""
    if step == "embedding":
        return (
            f"{format_share(embedded_share)} of the chunks are embedded so far: words alone find the others."
        )
    if step.startswith("store:"):
        return f"The store {step.removeprefix('store:')!r} could not be asked: what it holds is missing."
    return _SKIPPED_STEPS.get(step, f"Answered without {step}.")


def to_sentence(note: str) -> str:
    """A note of a response as a sentence of its own."""
    return f"{note[:1].upper()}{note[1:]}{'' if note.endswith('…') else '.'}"


def describe_doubt(answer: responses.SearchResponse) -> str:
    """That probably no result answers, in a sentence; else nothing."""
    is_doubted = answer.results and answer.confidence is not None and answer.confidence < DOUBTED_BELOW
    return _DOUBT if is_doubted else ""


def round_to_sum(values: Sequence[float], digits: int) -> list[float]:
    """Numbers rounded so that they sum to what their sum rounds to; each by less than a last digit's unit."""
    scaled = [value * 10**digits for value in values]
    floors = list(map(floor, scaled))
    by_remainder = sorted(range(len(scaled)), key=lambda at: floors[at] - scaled[at])
    for at in by_remainder[: round(fsum(scaled)) - sum(floors)]:
        floors[at] += 1
    return [units / 10**digits for units in floors]


def describe_boosts(explanation: responses.ScoreExplanation) -> str:
    """What adds up to the log-odds of a score: `base -3.85, fused +1.20 = -2.65`; else nothing."""
    rounded = round_to_sum(list(explanation.boosts.values()), _BOOST_DIGITS)
    addends = (f"{name} {boost:+.2f}" for name, boost in zip(explanation.boosts, rounded, strict=True))
    return f"{', '.join(addends)} = {fsum(rounded):+.2f}" if rounded else ""


def describe_unread_language(language: str) -> str:
    """That a question is in another language than English, which the models read, and what mends it."""
    return (
        f"the embedding model reads English, and this question seems to be in {language}: ask in English as "
        "well, or set `embedding` to a multilingual model (docs/languages.md)"
    )


def describe_relation(relation: responses.Relation) -> str:
    """`closes`, or `closed by`: how the requested document is related to the other one."""
    outgoing = relation.direction == "to"
    return relation.kind.replace("_", " ") if outgoing else _INCOMING_KINDS[relation.kind]


def describe_blame(blame: Sequence[responses.BlamedLines], *, max_named: int) -> Iterator[str]:
    """A line for each commit, the newest first: `lines 1-4 by Ann, 2026-01-31: Retry twice (1a2b3c4)`."""
    by_commit: dict[str, list[responses.BlamedLines]] = {}
    for range_ in blame:
        by_commit.setdefault(range_.commit, []).append(range_)
    newest = sorted(by_commit.values(), key=lambda ranges: str(ranges[0].committed or ""), reverse=True)
    for commit in newest[:max_named]:
        lines, first = ", ".join(range_.lines.replace("L", "") for range_ in commit), commit[0]
        when = f"{first.committed:%Y-%m-%d}" if first.committed else "at an unknown time"
        where = ", ".join(
            [
                first.commit[:7],
                *(pull_request.title or pull_request.path for pull_request in first.pull_requests),
            ]
        )
        noun = "line" if lines.isdigit() else "lines"
        yield f"{noun} {lines} by {first.author or 'somebody'}, {when}: {first.subject[:120]} ({where})"
    if len(newest) > max_named:
        yield f"{len(newest) - max_named} more commits"


def describe_neighbours(neighbours: responses.CodeNeighbours, *, max_named: int) -> Iterator[str]:
    """A line for each kind, such as `calls Store.get shop/store.py:5, check shop/check.py:1, 3 more`."""
    for kind in _NEIGHBOUR_KINDS:
        of_kind: Sequence[responses.CodeNeighbour] = getattr(neighbours, kind)
        shown = [_format_neighbour(neighbour) for neighbour in of_kind[:max_named]]
        more = len(of_kind) - len(shown) + neighbours.omitted.get(kind, 0)
        if shown:
            yield f"{kind.replace('_', ' ')} {', '.join([*shown, *([f'{more} more'] if more else [])])}"


def _format_neighbour(neighbour: responses.CodeNeighbour) -> str:
    location = f"{neighbour.path}:{neighbour.line}" if neighbour.line else neighbour.path
    is_sure = neighbour.confidence is None or neighbour.confidence >= _SURE
    doubt = None if is_sure else f"({neighbour.certainty})"
    stale = "(changed since it was indexed)" if neighbour.file_state in ("changed", "missing") else None
    place = location if location != neighbour.name else None
    return " ".join(filter(None, [neighbour.name, place, doubt, stale]))


def describe_branches(result: responses.SearchResult) -> str:
    """`in release/1, release/2`: where a result stands that the main branch has not; else nothing."""
    if not is_variant_uri(result.span.uri):
        return ""
    names = result.metadata.get("branches", ())
    more = len(names) - _MAX_SHOWN_BRANCHES
    return f"in {', '.join(names[:_MAX_SHOWN_BRANCHES])}" + (f" and {more} more" if more > 0 else "")


def format_lines(first: int, last: int) -> str:
    """Lines counted from 1: "L10-L24", or "L10" for one line."""
    return f"L{first}-L{last}" if last > first else f"L{first}"


def parse_lines(lines: str) -> tuple[int, int]:
    """The 10 and 24 of "L10-L24"."""
    first, _, last = lines.replace("L", "").partition("-")
    return int(first), int(last or first)


def parse_first_line(lines: str) -> int:
    """The 10 of "L10-L24"."""
    return int(lines.removeprefix("L").partition("-")[0])


def link_to_lines(url: str | None, lines: str) -> str | None:
    """A web address with the lines as its fragment, unless it has a fragment already."""
    if url and url.startswith(("http://", "https://")) and "#" not in url:
        return f"{url}#{lines}"
    return url


def cite_other_lines(citation: Citation, first_line: int, last_line: int) -> Citation:
    """The citation of other lines of the same document."""
    lines = format_lines(first_line, last_line)
    url = citation.url.removesuffix(f"#{citation.lines}") if citation.url else None
    return replace(citation, lines=lines, url=link_to_lines(url, lines))


_ARROWS = {"calls": "-->", "references": "-.->", "imports": "-.->", "extends": "==>", "implements": "==>"}
_STYLES = {"references": "dashed", "imports": "dashed", "extends": "bold", "implements": "bold"}
_MAX_NAMED_SOURCES = 3
_MAX_PROBLEM_CHARS = 200
_OLD_PERMISSIONS = timedelta(hours=25)  # a source is refreshed once a day, at the least


def describe_freshness(
    freshness: Sequence[SourceFreshness], *, now: datetime, max_age: str | None = None, in_vain: bool = False
) -> str:
    """What is behind, failing or older than asked for, in one line; else nothing.

    `in_vain`: nothing was found there, so what is missing in the index as well.
    """
    lists: dict[str, list[str]] = {
        kind: [] for kind in ("behind", "failing", "permissions", "old", "missing")
    }

    def ago(at: datetime | None) -> str:
        return f"{format_span(now - at)} ago" if at else "never"

    for it in freshness:
        name, count = f"`{it.source}`", it.commits_behind
        if it.behind_since:
            commits = f"{count} commit{'s' * (count != 1)} " if count else ""
            span = f"{format_span(now - it.behind_since)}, looked at {ago(it.looked_at)}"
            lists["behind"].append(f"{name} is {commits}behind its origin ({span})")
        if it.failing_since:
            why = f" because {truncate(it.problem, _MAX_PROBLEM_CHARS)}" if it.problem else ""
            since = f"{it.failing_since:%Y-%m-%d %H:%M} UTC"
            lists["failing"].append(f"{name} cannot be refreshed since {since}{why}")
        elif it.problem:
            lists["failing"].append(f"{name}: {it.problem}")
        if it.permissions_at and now - it.permissions_at > _OLD_PERMISSIONS:
            lists["permissions"].append(f"the permissions of {name} were read {ago(it.permissions_at)}")
        if it.too_old:
            lists["old"].append(f"{name} (last known to be current: {ago(it.as_of)})")
        if in_vain and it.embedded_share is not None and it.embedded_share < 1:
            lists["missing"].append(f"{format_share(it.embedded_share)} of {name} has vectors so far")
        if in_vain and it.skipped:
            reasons = "; ".join(f"{number} {reason}" for reason, number in it.skipped.items())
            lists["missing"].append(
                f"{name} has documents without text ({truncate(reasons, _MAX_PROBLEM_CHARS)})"
            )
    parts: list[str] = []
    for kind, named in lists.items():
        more = [f"{len(named) - _MAX_NAMED_SOURCES} more"] if len(named) > _MAX_NAMED_SOURCES else []
        listed, kept = (
            ", ".join([*named[:_MAX_NAMED_SOURCES], *more]),
            "" if in_vain else "; their results stay",
        )
        parts.append(f"not as new as {max_age}: {listed}{kept}" if named and kind == "old" else listed)
    return "; ".join(filter(None, parts))


_MAX_NAME_CHARS = 80  # shown
_MERMAID_ESCAPES = {ord(char): f"#{ord(char)};" for char in '"#<>&`'}


def render_mermaid(response: responses.GraphResponse) -> str:
    """A flowchart with a box for each node and an arrow for each edge.

    Syntax: https://mermaid.js.org/syntax/flowchart.html
    """
    numbers = {node.id: f"n{number}" for number, node in enumerate(response.nodes)}
    lines = ["flowchart LR"]
    for node in response.nodes:
        # quotes would end the text, and `#` starts the number of a character
        label = "<br/>".join(part.translate(_MERMAID_ESCAPES) for part in _label_lines(node))
        start, end = ('(["', '"])') if node.source is None else ('["', '"]')
        lines.append(f"    {numbers[node.id]}{start}{label}{end}")
    for edge in response.edges:
        arrow = _ARROWS.get(edge.kind, "-->")
        lines.append(f"    {numbers[edge.source]} {arrow}|{edge.kind}| {numbers[edge.target]}")
    if targets := [numbers[node.id] for node in response.targets]:
        lines.append(f"    style {','.join(targets)} stroke-width:3px")
    return "\n".join(lines) + "\n"


def render_dot(response: responses.GraphResponse) -> str:
    """A directed graph in the language of Graphviz: https://graphviz.org/doc/info/lang.html"""
    numbers = {node.id: f"n{number}" for number, node in enumerate(response.nodes)}
    lines = ["digraph code {"]
    lines.append('    rankdir=LR; node [fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=10];')
    for node in response.nodes:
        label = "\\n".join(part.replace("\\", "\\\\").replace('"', '\\"') for part in _label_lines(node))
        shape = "ellipse" if node.source is None else "box"
        weight = 3 if node.role == "target" else 1
        lines.append(f'    {numbers[node.id]} [label="{label}", shape={shape}, penwidth={weight}];')
    for edge in response.edges:
        style = _STYLES.get(edge.kind, "solid")
        ends = f"{numbers[edge.source]} -> {numbers[edge.target]}"
        lines.append(f"    {ends} [label={edge.kind}, style={style}];")
    return "\n".join(lines) + "\n}\n"


def _label_lines(node: responses.GraphNode) -> list[str]:
    """The name, and the path unless it is a file, each on one line."""
    lines = [node.name, *([node.path] if node.path and node.kind != "file" else [])]
    spaced = (" ".join(line.split()) for line in lines)
    return [line if len(line) <= _MAX_NAME_CHARS else f"{line[: _MAX_NAME_CHARS - 1]}…" for line in spaced]
