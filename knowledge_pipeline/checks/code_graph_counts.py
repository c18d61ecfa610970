"""How much of a source's code graph there is, and how much of it is resolved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from knowledge_pipeline.store.filters import Filter, eq
from knowledge_pipeline.store.lake import Lake

_BATCH_ROWS = 65_536
_DERIVED = frozenset({"contains", "depends"})  # always certain


@dataclass(frozen=True, slots=True)
class Resolved:
    """The uses in one language: calls, references, inheritance, imports."""

    language: str
    inside: int  # lead to a definition of the source
    outside: int  # have the full name of something outside
    unknown: int  # are only known as they are written

    @property
    def share(self) -> float:
        """Of the uses, those whose target is known; 1 of none."""
        uses = self.inside + self.outside + self.unknown
        return round((self.inside + self.outside) / uses, 4) if uses else 1.0


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """Rows of some sources in the newest code graph."""

    symbols: Counter[str]  # by kind
    edges: Counter[str]  # by kind
    resolved: tuple[Resolved, ...]  # the language with the most uses first


def graph_counts(lake: Lake, where: Filter) -> GraphCounts:
    """Count the symbols and edges that match, in bounded memory."""
    symbols, edges, uses = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for batch in lake.graph("symbols").batches(["kind"], where, batch_rows=_BATCH_ROWS):
        symbols.update(batch["kind"].to_pylist())
    columns = ["language", "kind", "target_id", "confidence"]
    for batch in lake.graph("edges").batches(columns, where, batch_rows=_BATCH_ROWS):
        known, sure = batch["target_id"].is_valid().to_pylist(), batch["confidence"].to_pylist()
        rows = zip(batch["language"].to_pylist(), batch["kind"].to_pylist(), known, sure, strict=True)
        for language, kind, inside, confidence in rows:
            edges[kind] += 1
            if kind not in _DERIVED:
                uses[language, "inside" if inside else "outside" if confidence > 0 else "unknown"] += 1
    return GraphCounts(symbols, edges, _by_language(uses))


def of_source(lake: Lake, source: str) -> GraphCounts:
    """The same of one source."""
    return graph_counts(lake, eq("source", source))


def _by_language(uses: Counter[tuple[str, str]]) -> tuple[Resolved, ...]:
    total = Counter[str]()
    for (language, _), count in uses.items():
        total[language] += count
    return tuple(
        Resolved(language, *(uses[language, where] for where in ("inside", "outside", "unknown")))
        for language, _ in total.most_common()
    )
