"""How much of a source's code graph there is, and how much of it is resolved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from knowledge_pipeline.store.filters import Filter, eq
from knowledge_pipeline.store.lake import Lake

_BATCH_ROWS = 65_536
_DERIVED = frozenset({"contains", "depends"})  # always certain


@dataclass(frozen=True, slots=True)
class LanguageResolution:
    """The uses in one language: calls, references, inheritance, imports."""

    language: str
    internal: int  # lead to a definition of the source
    external: int  # have the full name of something outside
    unknown: int  # are only known as they are written

    @property
    def resolved_share(self) -> float:
        """Of the uses, those whose target is known; 1 of none."""
        uses = self.internal + self.external + self.unknown
        return round((self.internal + self.external) / uses, 4) if uses else 1.0


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """Rows of some sources in the newest code graph."""

    symbols: Counter[str]  # by kind
    edges: Counter[str]  # by kind
    by_language: tuple[LanguageResolution, ...]  # the language with the most uses first


def count_graph(lake: Lake, where: Filter) -> GraphCounts:
    """Count the symbols and edges that match, in bounded memory."""
    symbols, edges, uses = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for batch in lake.graph_table("symbols").iter_batches(["kind"], where, batch_rows=_BATCH_ROWS):
        symbols.update(batch["kind"].to_pylist())
    columns = ["language", "kind", "target_id", "confidence"]
    for batch in lake.graph_table("edges").iter_batches(columns, where, batch_rows=_BATCH_ROWS):
        known, sure = batch["target_id"].is_valid().to_pylist(), batch["confidence"].to_pylist()
        rows = zip(batch["language"].to_pylist(), batch["kind"].to_pylist(), known, sure, strict=True)
        for language, kind, inside, confidence in rows:
            edges[kind] += 1
            if kind not in _DERIVED:
                uses[language, "inside" if inside else "outside" if confidence > 0 else "unknown"] += 1
    return GraphCounts(symbols, edges, _group_by_language(uses))


def count_source_graph(lake: Lake, source: str) -> GraphCounts:
    """The same of one source."""
    return count_graph(lake, eq("source", source))


def _group_by_language(uses: Counter[tuple[str, str]]) -> tuple[LanguageResolution, ...]:
    total = Counter[str]()
    for (language, _), count in uses.items():
        total[language] += count
    return tuple(
        LanguageResolution(language, *(uses[language, where] for where in ("inside", "outside", "unknown")))
        for language, _ in total.most_common()
    )
