"""Release: makes what the index stage wrote live, if it is sound.

The checks look at what changed since the last release, so that their cost follows it.
"""

from __future__ import annotations

import numpy as np

from knowledge_pipeline.config import Settings
from knowledge_pipeline.embedding.registry import space_of
from knowledge_pipeline.errors import ReleaseRefused, StoreError
from knowledge_pipeline.stages.base import Stats, measured
from knowledge_pipeline.stages.embeddings import require_sound
from knowledge_pipeline.store.filters import Filter, at_least, eq, is_null
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release, live, publish, roll_back
from knowledge_pipeline.store.tables import Table


def refresh(lake: Lake, settings: Settings) -> Stats:
    """Release the newest index versions of all spaces together, unless they already are live.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
    """
    with measured("release", "") as stats, lake.index_lock():
        last = live(lake)
        for problem in problems(lake, settings, last):
            raise ReleaseRefused(f"{problem}; the last release stays live: refresh the source again")
        made = publish(lake, keep=settings.releases.keep)
        now = made or last
        stats.added, stats.unchanged = (1, 0) if made else (0, 1)
        if now:
            stats.seen, stats.rows, stats.version = len(now.tables), now.rows, now.release
    return stats


def rollback(lake: Lake, settings: Settings, release: int) -> Release:
    """Make an earlier release live again.

    Raises:
        NotFound: there is no such release any more.
    """
    with lake.index_lock():
        return roll_back(lake, release, keep=settings.releases.keep)


def problems(lake: Lake, settings: Settings, last: Release | None) -> list[str]:
    """What forbids a release: rows missing or left over, ids twice, unsound vectors."""
    found: list[str] = []
    for source in settings.sources:
        space = space_of(settings.embedding_of(source))
        index = lake.index(space.name, space.dimensions)
        if last and last.tables.get(space.name) == index.version:
            continue
        chunks = lake.chunks(source.type, source.id)
        expected, actual = chunks.count(is_null("skipped")), index.count(eq("source", source.id))
        if expected != actual and not _as_released(index, source.id, last):
            found.append(f"source {source.id!r} has {expected} chunks but {actual} rows in the index")
    for space, dimensions in lake.spaces().items():
        index = lake.index(space, dimensions)
        if not last or last.tables.get(space) != index.version:
            found += _unsound_rows(index, last)
    return found


def _as_released(index: Table, source: str, last: Release | None) -> bool:
    """Whether a source's rows are those of the last release.

    They are while its refresh is under way, or failed, before its index stage: that must
    not keep the others from being released.
    """
    mine, version = eq("source", source), last.tables.get(index.name) if last else None
    if last is None or version is None:
        return index.count(mine) == 0
    unwritten = index.count(mine & at_least("updated_at", last.created_at)) == 0
    return unwritten and index.count(mine) == index.count(mine, version=version)


def _unsound_rows(index: Table, last: Release | None) -> list[str]:
    changed: Filter | None = at_least("updated_at", last.created_at) if last else None
    found: list[str] = []
    ids = index.rows(["id"], changed)["id"].to_pylist()
    if len(set(ids)) < len(ids):
        found.append(f"{len(ids) - len(set(ids))} chunk ids are in space {index.name!r} twice")
    for batch in index.batches(["vector"], changed, batch_rows=8192):
        try:
            vectors = batch["vector"].flatten().to_numpy(zero_copy_only=False)
            require_sound(np.asarray(vectors).reshape(batch.num_rows, -1), index.name)
        except StoreError as error:
            found.append(str(error))
            break
    return found
