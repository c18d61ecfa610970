"""Every check of what the stages made; docs/checks.md says what to do when one fails.

The blocking ones must pass before a release: `stages.pipeline` runs them, and a Dagster run shows them. A
schedule runs the informational ones.
"""

from __future__ import annotations

from knowledge_pipeline.checks import thresholds
from knowledge_pipeline.checks.canaries import check_canaries
from knowledge_pipeline.checks.integrity import (
    Check,
    CheckResult,
    check_duplicate_ids,
    check_index_matches_chunks,
    check_vectors,
)
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.store.lake import Lake

CHECKS: tuple[Check, ...] = (
    Check(
        name="chunk_ids_are_unique",
        topic="releasable",
        description="Among the changes since the live release, no chunk is in its index table twice.",
        blocking=True,
        run=check_duplicate_ids,
        inspect_query="select space, source, uri, id, count(*) as rows from stg_index "
        "group by all having rows > 1",
    ),
    Check(
        name="index_matches_chunks",
        topic="releasable",
        description="The index holds exactly the chunks of every source: none is missing, none is left over.",
        blocking=True,
        run=check_index_matches_chunks,
        inspect_query="index_coverage",
    ),
    Check(
        name="vectors_are_sound",
        topic="releasable",
        description="New vectors since the live release are finite, of length 1, and of their model's size.",
        blocking=True,
        run=check_vectors,
        inspect_query="select source, uri, id, updated_at from stg_index order by updated_at desc",
    ),
    Check(
        name="sentences_are_found",
        topic="releasable",
        description="A sentence of each changed source, and of some others in turn, is found by its readers "
        "alone: by its words, and by its vector.",
        blocking=True,
        run=check_canaries,
        inspect_query="select source, uri, id, updated_at from stg_index order by updated_at desc",
    ),
    Check(
        name="edges_end_at_symbols",
        topic="releasable",
        description="Every edge of the code graph that names a definition of its source ends at one.",
        blocking=True,
        run=thresholds.check_dangling_edges,
        inspect_query="select source, path, line, kind, target_name from stg_edges "
        "where target_id not in (select node from stg_symbols where kind <> 'alias')",
        source_types=("code",),
    ),
    Check(
        name="skipped_share",
        topic="useful_content",
        description="Few documents are skipped as unreadable, too large or dropped; empty ones do not count.",
        run=thresholds.check_skipped,
        threshold="skipped_share",
        inspect_query="skipped_documents",
    ),
    Check(
        name="duplicate_share",
        topic="useful_content",
        description="Few indexed chunks have the same text as another one of the type.",
        run=thresholds.check_duplicates,
        threshold="duplicate_share",
        inspect_query="duplicate_content",
    ),
    Check(
        name="chunk_sizes",
        topic="useful_content",
        description="Few indexed chunks are larger than their model reads, or too small to say anything.",
        run=thresholds.check_chunk_sizes,
        threshold="outlier_share",
        inspect_query="select source, uri, id, tokens from stg_index where not archived order by tokens desc",
    ),
    Check(
        name="orphaned_vectors",
        topic="maintained",
        description="Few stored vectors belong to texts that no chunk has any more.",
        run=thresholds.check_orphaned_vectors,
        threshold="orphaned_share",
    ),
    Check(
        name="cost_within_budget",
        topic="cost_within_budget",
        description="The models of the whole project cost no more in 30 days than is budgeted.",
        run=thresholds.check_cost,
        threshold="monthly_budget",
        inspect_query="cost_by_source",
    ),
    Check(
        name="fresh",
        topic="fresh",
        description="Every source was refreshed within the time that its trigger allows, changed or not.",
        run=thresholds.check_freshness,
        inspect_query="freshness",
    ),
    Check(
        name="unindexed_tail",
        topic="maintained",
        description="Few index rows are searched by scanning, because no full-text index covers them yet.",
        run=thresholds.check_unindexed,
        threshold="unindexed_share",
    ),
    Check(
        name="unembedded_share",
        topic="maintained",
        description="Every index row has the vector of its text; one without is found by its words alone.",
        run=thresholds.check_unembedded,
        threshold="unembedded_share",
        inspect_query="select source, uri, id from stg_index where unembedded",
    ),
    Check(
        name="unresolved_share",
        topic="useful_content",
        description="In each language, few uses in the code graph have no known target.",
        run=thresholds.check_unresolved,
        threshold="unresolved_share",
        inspect_query="select source, path, line, kind, target_name from stg_edges where confidence = 0",
        source_types=("code",),
    ),
)


def list_checks(source_type: SourceType | None = None, *, blocking: bool) -> tuple[Check, ...]:
    """The checks of one type, or of all.

    Those that block are what a release needs; the caller holds the index lock. A schedule runs the others,
    whose cost follows the size of the store.
    """
    return tuple(
        check
        for check in CHECKS
        if check.blocking == blocking
        and (source_type is None or not check.source_types or source_type in check.source_types)
    )


def run_blocking_checks(
    lake: Lake, settings: Settings, source_type: SourceType
) -> list[tuple[Check, CheckResult]]:
    """Run the blocking checks of a type while no index table is being written.

    Raises `Busy`: another process held the index for too long.
    """
    checks = list_checks(source_type, blocking=True)
    with lake.lock_index():
        return [(check, check.run(lake, settings, source_type)) for check in checks]
