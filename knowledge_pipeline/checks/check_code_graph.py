"""Checks of the code graph: every edge ends somewhere, and most uses are resolved.

The first looks at the sources whose rows differ from those of the live release, so that its cost
follows the change; its caller holds the index lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from knowledge_pipeline.checks.check_integrity import is_refreshing
from knowledge_pipeline.checks.check_types import CheckResult, build_sample, compute_share
from knowledge_pipeline.checks.code_graph_counts import count_graph
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.store.changed_sources import find_changed_sources
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import exclude_keys
from knowledge_pipeline.store.release import find_live_release, first_released_at
from knowledge_pipeline.store.tables import KEYS_PER_FILTER

_MIN_USES = 100  # of a language, to judge by


def check_dangling_edges(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Whether the edges of the changed sources end at definitions that are there."""
    del settings
    written = _changed_sources(lake, source_type)
    dangling = {source: ids for source in written if (ids := _find_missing_targets(lake, source))}
    figures = {"changed_sources": len(written), "dangling": sum(map(len, dangling.values()))}
    if not dangling:
        return CheckResult(
            True, f"{len(written)} sources changed: every edge ends at a definition", figures=figures
        )
    settled = [source for source in dangling if not is_refreshing(lake, source)]
    named = (settled or list(dangling))[0]
    sentence = f"edges of source {named!r} lead to {len(dangling[named])} definitions that are not there"
    rows = _iter_edges_to(lake, named, dangling[named])
    return CheckResult(False, sentence, build_sample(rows), figures, may_recover=not settled)


def check_unresolved(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Whether the share of uses without a known target is small, in each language."""
    allowed = settings.checks.unresolved_share
    counts = count_graph(lake, eq("source_type", source_type))
    judged = {
        it.language: it for it in counts.by_language if it.internal + it.external + it.unknown >= _MIN_USES
    }
    shares = {
        name: compute_share(it.unknown, it.internal + it.external + it.unknown) for name, it in judged.items()
    }
    rows = [
        {"language": name, "unresolved_share": shares[name], "inside": it.internal, "outside": it.external,
         "unknown": it.unknown}
        for name, it in judged.items()
    ]  # fmt: skip
    worst = max(shares, key=lambda name: shares[name], default=None)
    if worst is None:
        return CheckResult(True, "there are too few uses to judge by")
    sentence = (
        f"{shares[worst]:.0%} of the uses in {worst} are without a known target (allowed: {allowed:.0%})"
    )
    return CheckResult(
        shares[worst] <= allowed, sentence, build_sample(rows), {f"{k}_share": v for k, v in shares.items()}
    )


def _changed_sources(lake: Lake, source_type: SourceType) -> list[str]:
    """Sources with other rows than in the live release."""
    released, found = find_live_release(lake), set[str]()
    since = first_released_at(lake, released)
    for name, table in lake.graph_tables().items():
        version = released.graph.get(name) if released else None
        if version != table.version:
            written = find_changed_sources(table, version, since, time_column="indexed_at")
            found.update(source for type_, source in written if type_ == source_type)
    return sorted(found)


def _find_missing_targets(lake: Lake, source: str) -> list[str]:
    """Targets of a source's edges that no symbol of it has."""
    mine = eq("source", source)
    targets = (
        lake.graph_table("edges").read_rows(["target_id"], mine & ~is_null("target_id"))["target_id"].unique()
    )
    nodes = lake.graph_table("symbols").read_rows(["node"], mine & ~eq("kind", "alias"))["node"]
    return exclude_keys(targets, nodes).to_pylist()


def _iter_edges_to(lake: Lake, source: str, targets: list[str]) -> Iterator[dict[str, Any]]:
    where = eq("source", source) & one_of("target_id", targets[:KEYS_PER_FILTER])
    columns = ["source", "path", "line", "kind", "source_name", "target_path", "target_name"]
    yield from lake.graph_table("edges").read_rows(columns, where).to_pylist()
