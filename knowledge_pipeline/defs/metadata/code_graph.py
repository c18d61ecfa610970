"""What is shown beside a materialization of the code graph: how much there is, how much is resolved."""

from typing import Any

import dagster as dg

from knowledge_pipeline.checks.code_graph_counts import GraphCounts, count_source_graph
from knowledge_pipeline.store.lake import Lake

_COLUMNS = ("language", "in the source", "outside", "unknown", "share resolved")


def build_graph_metadata(lake: Lake, source: str) -> dict[str, Any]:
    """Symbols and edges of a source by kind, and the share resolved by language."""
    counts = count_source_graph(lake, source)
    return {
        "symbols": counts.symbols.total(),
        "edges": counts.edges.total(),
        "symbols_by_kind": dg.MetadataValue.json(dict(counts.symbols.most_common())),
        "edges_by_kind": dg.MetadataValue.json(dict(counts.edges.most_common())),
        **({"resolved": _resolution_table(counts)} if counts.by_language else {}),
    }


def _resolution_table(counts: GraphCounts) -> dg.TableMetadataValue:
    records = [
        dg.TableRecord(
            dict(
                zip(
                    _COLUMNS,
                    (it.language, it.internal, it.external, it.unknown, it.resolved_share),
                    strict=True,
                )
            )
        )
        for it in counts.by_language
    ]
    types = ("string", "int", "int", "int", "float")
    columns = [dg.TableColumn(name, type_) for name, type_ in zip(_COLUMNS, types, strict=True)]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))
