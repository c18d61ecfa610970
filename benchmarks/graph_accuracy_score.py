"""Edges of the code graph against what another tool answers at the same places."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from knowledge_pipeline.code_graph import Edge

Definition = tuple[str, str]
"""A file, and a qualified name within it; "" for the file itself."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the code that calls, names, imports or extends something."""

    kind: str  # of the edge
    source: Definition
    line: int
    name: str  # the name as it is written there


def is_asked(kind: str, source: Definition) -> bool:
    """Whether sites of a definition are compared: of references, those of every fifth one."""
    return kind != "references" or zlib.crc32(":".join(source).encode()) % 5 == 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the other tool says of a site.

    Neither inside nor outside: it does not know, or knows a variable or parameter alone.
    """

    inside: tuple[Definition, ...] = ()  # definitions in the package
    outside: bool = False  # a definition elsewhere
    of_variable: bool = False  # all of them are variables: what they are worth, it does not say

    @property
    def known(self) -> bool:
        """Whether the tool found a definition."""
        return bool(self.inside) or self.outside


@dataclass(slots=True)
class Score:
    """Counts of edges (source, target) of one kind."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    unjudged: int = 0  # ours, where the other tool knows no definition
    unanswered: int = 0  # sites at which the other tool knows no definition
    sites: int = 0
    errors: list[str] = field(default_factory=list[str])
    judged: list[tuple[float, bool]] = field(default_factory=list["tuple[float, bool]"])
    """How sure the graph is of each judged edge, and whether it is right."""

    @property
    def precision(self) -> float:
        """Share of judged edges that are right."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Share of the tool's edges that were found."""
        return self.right / max(1, self.right + self.missed)

    def counts(self) -> dict[str, float]:
        """All numbers by their names."""
        names = ("right", "wrong", "missed", "unjudged", "unanswered", "sites", "precision", "recall")
        return {name: getattr(self, name) for name in names}

    def __iadd__(self, other: Score) -> Score:
        for name in ("right", "wrong", "missed", "unjudged", "unanswered", "sites"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.errors += other.errors
        self.judged += other.judged
        return self


def scored(kind: str, edges: Iterable[tuple[str, Edge]], answers: dict[Site, Answer]) -> Score:
    """Compare edges of a kind with answers.

    Args:
        kind: "calls", "references", "imports" or "extends".
        edges: the file that each starts in, and the edge.
        answers: for all sites of the package.
    """
    sites = {
        site: answer for site, answer in answers.items() if site.kind == kind and is_asked(kind, site.source)
    }
    truth: dict[tuple[Definition, Definition], Site] = {}
    for site, answer in sites.items():
        for target in answer.inside:
            truth.setdefault((site.source, target), site)
    ours: dict[tuple[Definition, Definition], list[Edge]] = {}
    for path, edge in edges:
        if edge.kind == kind and edge.target_path is not None and is_asked(kind, (path, edge.source)):
            ours.setdefault(((path, edge.source), (edge.target_path, edge.target)), []).append(edge)
    score = Score(sites=len(sites), unanswered=sum(not answer.known for answer in sites.values()))
    lines = _Lines(sites)
    for pair, found in ours.items():
        sure = max(edge.confidence for edge in found)
        if pair in truth:
            score.right += 1
            score.judged.append((sure, True))
        elif any(lines.leave_open(pair[0], edge.line, pair[1][1]) for edge in found):
            score.unjudged += 1
        else:
            score.wrong += 1
            score.judged.append((sure, False))
            score.errors.append(f"wrong {kind}: {_format_edge(pair)} at {[edge.line for edge in found]}")
    for pair, site in truth.items():
        if pair not in ours:
            score.missed += 1
            score.errors.append(f"missed {kind}: {_format_edge(pair)} at [{site.line}]")
    return score


class _Lines:
    """On which lines the other tool leaves open what a name means."""

    def __init__(self, sites: dict[Site, Answer]) -> None:
        self._open: dict[tuple[Definition, int], set[str]] = {}
        self._written: dict[tuple[Definition, int], set[str]] = {}
        for site, answer in sites.items():
            self._written.setdefault((site.source, site.line), set()).add(site.name)
            if not answer.known or answer.of_variable:
                self._open.setdefault((site.source, site.line), set()).add(site.name)

    def leave_open(self, source: Definition, line: int, target: str) -> bool:
        """Whether the place where a target is named is open; any place, if its name is not written there."""
        name = target.rpartition(".")[2]
        names = self._open.get((source, line), set())
        return name in names or (bool(names) and name not in self._written[source, line])


def table(rows: Iterable[tuple[str, str, Score]]) -> Iterator[str]:
    """A Markdown table: package, kind, precision, recall, and how many edges they are of."""
    yield "| package | edges | precision | recall | right | wrong | missed | not judged |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for package, kind, score in rows:
        counts = f"{score.right} | {score.wrong} | {score.missed} | {score.unjudged}"
        yield f"| {package} | {kind} | {score.precision:.3f} | {score.recall:.3f} | {counts} |"


def confidences(score: Score) -> Iterator[str]:
    """A Markdown table: how many edges are right of those that the graph is equally sure of."""
    yield "\n| confidence | judged | right |\n| --- | --- | --- |"
    for least, below in ((1.0, 2.0), (0.85, 1.0), (0.75, 0.85), (0.55, 0.75), (0.0, 0.55)):
        band = [right for sure, right in score.judged if least <= sure < below]
        if band:
            yield f"| {least} and more | {len(band)} | {sum(band) / len(band):.3f} |"


def _format_edge(pair: tuple[Definition, Definition]) -> str:
    (path, source), (target_path, target) = pair
    return f"{path}:{source or '-'} -> {target_path}:{target or '-'}"
