"""Checks of the code graph: every edge ends somewhere, and most uses are resolved.

The first looks at the sources whose rows differ from those of the live release, so that its cost
follows the change; its caller holds the index lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from knowledge_pipeline.checks.check_integrity import under_way
from knowledge_pipeline.checks.check_types import Finding, sample, share
from knowledge_pipeline.checks.code_graph_counts import graph_counts
from knowledge_pipeline.config.settings import Settings, SourceType
from knowledge_pipeline.store.changed_sources import written_sources
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import without
from knowledge_pipeline.store.release import live, written_until
from knowledge_pipeline.store.tables import KEYS_PER_FILTER

_LEAST_USES = 100  # of a language, to judge by


def find_dangling_edges(lake: Lake, settings: Settings, source_type: SourceType) -> Finding:
    """Whether the edges of the changed sources end at definitions that are there."""
    del settings
    written = _written_sources(lake, source_type)
    dangling = {source: ids for source in written if (ids := _missing(lake, source))}
    figures = {"changed_sources": len(written), "dangling": sum(map(len, dangling.values()))}
    if not dangling:
        return Finding(
            True, f"{len(written)} sources changed: every edge ends at a definition", figures=figures
        )
    settled = [source for source in dangling if not under_way(lake, source)]
    named = (settled or list(dangling))[0]
    sentence = f"edges of source {named!r} lead to {len(dangling[named])} definitions that are not there"
    rows = _edges_to(lake, named, dangling[named])
    return Finding(False, sentence, sample(rows), figures, unsettled=not settled)


def find_unresolved(lake: Lake, settings: Settings, source_type: SourceType) -> Finding:
    """Whether the share of uses without a known target is small, in each language."""
    allowed = settings.checks.unresolved_share
    counts = graph_counts(lake, eq("source_type", source_type))
    judged = {it.language: it for it in counts.resolved if it.inside + it.outside + it.unknown >= _LEAST_USES}
    shares = {name: share(it.unknown, it.inside + it.outside + it.unknown) for name, it in judged.items()}
    rows = [
        {"language": name, "unresolved_share": shares[name], "inside": it.inside, "outside": it.outside,
         "unknown": it.unknown}
        for name, it in judged.items()
    ]  # fmt: skip
    worst = max(shares, key=lambda name: shares[name], default=None)
    if worst is None:
        return Finding(True, "there are too few uses to judge by")
    sentence = (
        f"{shares[worst]:.0%} of the uses in {worst} are without a known target (allowed: {allowed:.0%})"
    )
    return Finding(
        shares[worst] <= allowed, sentence, sample(rows), {f"{k}_share": v for k, v in shares.items()}
    )


def _written_sources(lake: Lake, source_type: SourceType) -> list[str]:
    """Sources with other rows than in the live release."""
    released, found = live(lake), set[str]()
    since = written_until(lake, released)
    for name, table in lake.graphs().items():
        version = released.graph.get(name) if released else None
        if version != table.version:
            written = written_sources(table, version, since, told_by="indexed_at")
            found.update(source for type_, source in written if type_ == source_type)
    return sorted(found)


def _missing(lake: Lake, source: str) -> list[str]:
    """Targets of a source's edges that no symbol of it has."""
    mine = eq("source", source)
    targets = lake.graph("edges").rows(["target_id"], mine & ~is_null("target_id"))["target_id"].unique()
    nodes = lake.graph("symbols").rows(["node"], mine & ~eq("kind", "alias"))["node"]
    return without(targets, nodes).to_pylist()


def _edges_to(lake: Lake, source: str, targets: list[str]) -> Iterator[dict[str, Any]]:
    where = eq("source", source) & one_of("target_id", targets[:KEYS_PER_FILTER])
    columns = ["source", "path", "line", "kind", "source_name", "target_path", "target_name"]
    yield from lake.graph("edges").rows(columns, where).to_pylist()
