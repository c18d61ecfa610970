"""What a release changed: documents and chunks, by source, at the cost of what changed."""

# pyarrow-stubs leaves type arguments out of joins and of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.store.damage import LANCE_ERRORS
from knowledge_pipeline.store.filters import eq, one_of
from knowledge_pipeline.store.fragments import find_changed_rows
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import Release
from knowledge_pipeline.store.schemas import build_index_schema
from knowledge_pipeline.store.tables import split_batches

CHANGES = tuple(
    f"{what}_{how}" for what in ("documents", "chunks") for how in ("added", "changed", "removed")
)
_COLUMNS = ("id", "source", "uri", "fingerprint", "archived")
_DocumentKey = tuple[str, str]
"""Source and uri."""


def compare_releases(lake: Lake, former: Release | None, release: Release) -> dict[str, Counter[str]] | None:
    """How many documents and chunks were added, changed and removed (`CHANGES`), by source.

    Without a `former` release all are added, and what its source no longer has is removed, though it may be
    kept as archived. None where a version of the former is erased.
    """
    try:
        documents = _count_chunks(*_read_differing_rows(lake, former, release))
        new = {key for key, chunks in documents.items() if chunks.keys() == {"added"}}
        gone = {key for key, chunks in documents.items() if chunks.keys() == {"removed"}}
        new -= _find_stored(lake, former, new)
        gone -= _find_stored(lake, release, gone)
    except LANCE_ERRORS:
        return None
    changes = defaultdict[str, Counter[str]](Counter)
    for key, chunks in documents.items():
        how = "added" if key in new else "removed" if key in gone else "changed"
        changes[key[0]].update({f"documents_{how}": 1, **{f"chunks_{it}": chunks[it] for it in chunks}})
    return changes


def _read_differing_rows(lake: Lake, former: Release | None, release: Release) -> list[pa.Table]:
    """The rows of either release that the other lacks, or has elsewhere: of files that one has alone."""
    versions = former.tables if former else dict[str, int](), release.tables
    found = [[build_index_schema(1).empty_table().select(_COLUMNS)] for _ in versions]
    for space, dimensions in lake.list_spaces().items():
        table, (then, now) = lake.index(space, dimensions), (tables.get(space) for tables in versions)
        if then and now:
            differing = find_changed_rows(table.open_version(then), table.open_version(now), _COLUMNS) or ()
            found = [[*tables, rows] for tables, rows in zip(found, differing, strict=True)]
        elif version := then or now:
            found[1 if now else 0].append(table.read_rows(_COLUMNS, version=version))
    return [pa.concat_tables(tables) for tables in found]


def _count_chunks(then: pa.Table, now: pa.Table) -> dict[_DocumentKey, Counter[str]]:
    """How many chunks of each document are added, changed, removed, or only moved; not of unchanged ones."""
    arrow: Any = pc
    then, now = (rows.filter(arrow.invert(rows["archived"])) for rows in (then, now))
    pairs: Any = then.join(now, "id", join_type="full outer", left_suffix="_then", right_suffix="_now")
    how = arrow.if_else(arrow.equal(pairs["fingerprint_then"], pairs["fingerprint_now"]), "moved", "changed")
    how = arrow.if_else(arrow.is_null(pairs["uri_then"]), "added", how)
    how = arrow.if_else(arrow.is_null(pairs["uri_now"]), "removed", how)
    keys = [arrow.coalesce(pairs[f"{name}_now"], pairs[f"{name}_then"]) for name in ("source", "uri")]
    counted: Any = pa.table([*keys, how], ["source", "uri", "how"]).group_by(["source", "uri", "how"])
    documents = defaultdict[_DocumentKey, Counter[str]](Counter)
    for row in counted.aggregate([([], "count_all")]).to_pylist():
        documents[row["source"], row["uri"]][row["how"]] = row["count_all"]
    return {key: chunks for key, chunks in documents.items() if chunks.keys() != {"moved"}}


def _find_stored(lake: Lake, release: Release | None, documents: set[_DocumentKey]) -> set[_DocumentKey]:
    """Documents with these URIs that a release has."""
    stored = set[_DocumentKey]()
    for space, version in release.tables.items() if release else ():
        table = lake.index(space, lake.list_spaces()[space])
        for uris in split_batches({uri for _, uri in documents}):
            where = eq("archived", False) & one_of("uri", uris)
            rows: Any = table.read_rows(["source", "uri"], where, version=version)
            stored.update(zip(rows["source"].to_pylist(), rows["uri"].to_pylist(), strict=True))
    return stored
