"""What a materialization of the code graph shows: how much there is, and how much is resolved."""

from typing import Any

import dagster as dg

from knowledge_pipeline.checks.code_graph_counts import count_graph
from knowledge_pipeline.defs.metadata.tables import build_table
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake


def build_graph_metadata(lake: Lake, source: str) -> dict[str, Any]:
    """Symbols and edges of a source by kind, and the share resolved by language."""
    counts = count_graph(lake, eq("source", source))
    resolved = [
        {"language": it.language, "in the source": it.internal, "outside": it.external}
        | {"unknown": it.unknown, "share resolved": it.resolved_share}
        for it in counts.by_language
    ]
    return {
        "symbols": counts.symbols.total(),
        "edges": counts.edges.total(),
        "symbols_by_kind": dg.MetadataValue.json(dict(counts.symbols.most_common())),
        "edges_by_kind": dg.MetadataValue.json(dict(counts.edges.most_common())),
        **({"resolved": build_table(resolved)} if resolved else {}),
    }
