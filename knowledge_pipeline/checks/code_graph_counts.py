"""Counts the code graph, and how much of it is resolved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.lake import Lake

_BATCH_ROWS = 65_536
_DERIVED = frozenset({"contains", "depends"})  # always certain


@dataclass(frozen=True, slots=True)
class LanguageResolution:
    """The uses in one language: calls, references, inheritance, imports."""

    language: str
    internal: int  # lead to a definition of the source
    external: int  # have the full name of something outside
    unknown: int  # known only as they are written

    @property
    def uses(self) -> int:
        """All of them."""
        return self.internal + self.external + self.unknown

    @property
    def resolved_share(self) -> float:
        """The share with a known target; 1 where there are no uses."""
        return round((self.internal + self.external) / self.uses, 4) if self.uses else 1.0


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """Rows of some sources in the newest code graph."""

    symbols: Counter[str]  # by kind
    edges: Counter[str]  # by kind
    by_language: tuple[LanguageResolution, ...]  # the language with the most uses first


def count_graph(lake: Lake, where: Filter) -> GraphCounts:
    """Count the matching symbols and edges, in bounded memory."""
    symbols, edges, uses = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for batch in lake.graph_table("symbols").iter_batches(["kind"], where, batch_rows=_BATCH_ROWS):
        symbols.update(batch.to_pydict()["kind"])
    columns = ["language", "kind", "target_id", "confidence"]
    for batch in lake.graph_table("edges").iter_batches(columns, where, batch_rows=_BATCH_ROWS):
        known = batch["target_id"].is_valid().to_pylist()
        others = batch.select(["language", "kind", "confidence"]).to_pydict().values()
        for inside, language, kind, confidence in zip(known, *others, strict=True):
            edges[kind] += 1
            if kind not in _DERIVED:
                uses[language, "inside" if inside else "outside" if confidence > 0 else "unknown"] += 1
    by_language = [
        LanguageResolution(language, *(uses[language, end] for end in ("inside", "outside", "unknown")))
        for language in dict.fromkeys(language for language, _ in uses)
    ]
    by_language.sort(key=lambda resolution: -resolution.uses)
    return GraphCounts(symbols, edges, tuple(by_language))
