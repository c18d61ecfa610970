"""Every check of what the stages made, by source type; docs/checks.md says what to do when one fails.

The blocking ones must pass before a release: `stages.release` runs them, and a Dagster run shows
them. The others inform, and are run by a schedule.
"""

from __future__ import annotations

from knowledge_pipeline.checks.check_code_graph import find_dangling_edges, find_unresolved
from knowledge_pipeline.checks.check_freshness_cost import find_cost, find_stale
from knowledge_pipeline.checks.check_integrity import find_differences, find_double_ids, find_unsound_vectors
from knowledge_pipeline.checks.check_thresholds import (
    find_duplicates,
    find_odd_sizes,
    find_orphaned_vectors,
    find_skipped,
    find_unindexed,
)
from knowledge_pipeline.checks.check_types import Check, Finding
from knowledge_pipeline.config.settings import Settings, SourceType
from knowledge_pipeline.store.lake import Lake

CHECKS: tuple[Check, ...] = (
    Check(
        name="chunk_ids_are_unique",
        stage="index",
        about="No chunk is in its index table twice: looked for in what changed since the live release.",
        blocking=True,
        find=find_double_ids,
        look="select space, source, uri, id, count(*) as rows from stg_index group by all having rows > 1",
    ),
    Check(
        name="index_matches_chunks",
        stage="index",
        about="The index holds exactly the chunks of every source: none is missing, none is left over.",
        blocking=True,
        find=find_differences,
        look="index_coverage",
    ),
    Check(
        name="vectors_are_sound",
        stage="index",
        about="Vectors that the live release lacks are finite, of length 1, and as long as their model's.",
        blocking=True,
        find=find_unsound_vectors,
        look="select source, uri, id, updated_at from stg_index order by updated_at desc",
    ),
    Check(
        name="edges_end_at_symbols",
        stage="graph",
        about="Every edge of the code graph that names a definition of its source ends at one.",
        blocking=True,
        find=find_dangling_edges,
        look="select source, path, line, kind, target_name from stg_edges "
        "where target_id not in (select node from stg_symbols where kind <> 'alias')",
        types=("code",),
    ),
    Check(
        name="skipped_share",
        stage="snapshot",
        about="Few documents could not be taken: unreadable, too large, or dropped; empty ones do not count.",
        blocking=False,
        find=find_skipped,
        threshold="skipped_share",
        look="skipped_documents",
    ),
    Check(
        name="duplicate_share",
        stage="chunks",
        about="Few indexed chunks have the same text as another one of the type.",
        blocking=False,
        find=find_duplicates,
        threshold="duplicate_share",
        look="duplicate_content",
    ),
    Check(
        name="chunk_sizes",
        stage="chunks",
        about="Few indexed chunks are larger than their model reads, or too small to say anything.",
        blocking=False,
        find=find_odd_sizes,
        threshold="outlier_share",
        look="select source, uri, id, tokens from stg_index where not archived order by tokens desc",
    ),
    Check(
        name="orphaned_vectors",
        stage="embeddings",
        about="Few stored vectors belong to texts that no chunk has any more.",
        blocking=False,
        find=find_orphaned_vectors,
        threshold="orphaned_share",
    ),
    Check(
        name="cost_within_budget",
        stage="embeddings",
        about="The models of the whole project cost no more in 30 days than is budgeted.",
        blocking=False,
        find=find_cost,
        threshold="monthly_budget",
        look="cost_by_source",
    ),
    Check(
        name="fresh",
        stage="index",
        about="Every source was refreshed within the time that its trigger allows, changed or not.",
        blocking=False,
        find=find_stale,
        look="freshness",
    ),
    Check(
        name="unindexed_tail",
        stage="index",
        about="Few index rows are searched by scanning, because no full-text index has them yet.",
        blocking=False,
        find=find_unindexed,
        threshold="unindexed_share",
    ),
    Check(
        name="unresolved_share",
        stage="graph",
        about="In no language too many uses of the code graph are without a known target.",
        blocking=False,
        find=find_unresolved,
        threshold="unresolved_share",
        look="select source, path, line, kind, target_name from stg_edges where confidence = 0",
        types=("code",),
    ),
)


def blocking(source_type: SourceType | None = None) -> tuple[Check, ...]:
    """The checks that a release needs, and that every refresh shows; their cost follows the change.

    Whoever runs them holds the index lock. Of one type, or of all.
    """
    return tuple(check for check in CHECKS if check.blocking and _is_of(check, source_type))


def informing(source_type: SourceType | None = None) -> tuple[Check, ...]:
    """The checks that a schedule runs; their cost follows the size of the store."""
    return tuple(check for check in CHECKS if not check.blocking and _is_of(check, source_type))


def _is_of(check: Check, source_type: SourceType | None) -> bool:
    return source_type is None or not check.types or source_type in check.types


def blocking_findings(lake: Lake, settings: Settings, source_type: SourceType) -> list[tuple[Check, Finding]]:
    """What the blocking checks find now, while no index table is being written.

    Raises:
        Busy: another process kept the index for too long.
    """
    with lake.index_lock():
        return [(check, check.find(lake, settings, source_type)) for check in blocking(source_type)]
