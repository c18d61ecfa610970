"""Checks of the code graph: every edge ends at a definition, and most uses are resolved.

The first one looks at the sources whose rows differ from the live release, so that its cost follows the
change; its caller holds the index lock.
"""

from __future__ import annotations

from operator import itemgetter

from knowledge_pipeline.checks.check_integrity import is_refreshing
from knowledge_pipeline.checks.check_types import CheckResult, build_sample, compute_share
from knowledge_pipeline.checks.code_graph_counts import count_graph
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.store.changes.change_tracker import ChangeTracker
from knowledge_pipeline.store.changes.changed_sources import find_changed_sources
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import exclude_keys
from knowledge_pipeline.store.release import find_live_release, first_released_at
from knowledge_pipeline.store.tables import KEYS_PER_FILTER

_MIN_USES = 100  # of a language, to judge by


def check_dangling_edges(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check that the edges of the changed sources end at existing definitions."""
    del settings
    released, changed = find_live_release(lake), set[str]()
    since = first_released_at(lake, released)
    for name, table in lake.graph_tables().items():
        version = released.graph.get(name) if released else None
        if version != table.version:
            found = find_changed_sources(table, version, since, time_column="indexed_at")
            changed.update(source for type_, source in found if type_ == source_type)
    dangling: dict[str, list[str]] = {}
    for source in sorted(changed):
        if ids := _find_dangling(lake, source):
            dangling[source] = ids
    figures = {"changed_sources": len(changed), "dangling": sum(map(len, dangling.values()))}
    if not dangling:
        message = f"{len(changed)} sources changed: every edge ends at a definition"
        return CheckResult(True, message, figures=figures)
    settled = [source for source in dangling if not is_refreshing(lake, source)]
    source = (settled or list(dangling))[0]
    message = f"edges of source {source!r} lead to {len(dangling[source])} definitions that do not exist"
    where = eq("source", source) & one_of("target_id", dangling[source][:KEYS_PER_FILTER])
    columns = ["source", "path", "line", "kind", "source_name", "target_path", "target_name"]
    rows = lake.graph_table("edges").read_rows(columns, where).to_pylist()
    return CheckResult(False, message, build_sample(rows), figures, may_recover=not settled)


def _find_dangling(lake: Lake, source: str) -> list[str]:
    """Definitions that do not exist and that edges of a source name."""
    edges, symbols = lake.graph_table("edges"), lake.graph_table("symbols")
    tracker = ChangeTracker(lake, source, "edges_end_at_symbols", "", [edges, symbols])
    ids, mine = tracker.find_changed_values("target_id", "node"), eq("source", source)
    targeted, defined = mine & ~is_null("target_id"), mine & ~eq("kind", "alias")
    if ids is not None:
        defined = defined & one_of("node", sorted(ids))
    nodes = symbols.read_rows(["node"], defined)["node"]
    if ids is not None:  # few of them are no definition's: fewer edges are looked for
        undefined = ids.difference(nodes.to_pylist())
        targeted = targeted & one_of("target_id", sorted(undefined))
    targets = edges.read_rows(["target_id"], targeted)["target_id"].unique()
    missing: list[str] = exclude_keys(targets, nodes).to_pylist()
    if not missing:
        tracker.remember()
    return missing


def check_unresolved(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check that in each language few uses have no known target."""
    allowed = settings.checks.unresolved_share
    counts = count_graph(lake, eq("source_type", source_type))
    judged = {it.language: it for it in counts.by_language if it.uses >= _MIN_USES}
    shares = {language: compute_share(it.unknown, it.uses) for language, it in judged.items()}
    if not shares:
        return CheckResult(True, "there are too few uses to judge by")
    language, share = max(shares.items(), key=itemgetter(1))
    message = f"{share:.0%} of the uses in {language} have no known target (allowed: {allowed:.0%})"
    figures = {f"{name}_share": value for name, value in shares.items()}
    rows = [
        {"language": name, "unresolved_share": shares[name]}
        | {"inside": it.internal, "outside": it.external, "unknown": it.unknown}
        for name, it in judged.items()
    ]
    return CheckResult(share <= allowed, message, build_sample(rows), figures)
