"""The informational checks of shares: each may be as large as `checks` in the settings allows.

They look at everything of a type, so a schedule runs them, not every refresh.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.checks.check_types import SAMPLE_ROWS, CheckResult, build_sample, compute_share
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.embedding.base import Space
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.filters import UNEMBEDDED, Filter, eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import exclude_keys
from knowledge_pipeline.store.tables import Table

SMALL_CHUNK_TOKENS = 16  # a chunk of fewer tokens says hardly anything by itself
_EMPTY_REASONS = frozenset({"empty", "no text"})  # reasons for a skip that need no attention

_Rows = list[dict[str, Any]]


def check_duplicates(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check the share of indexed chunks whose text another chunk has, and show the most repeated texts."""
    held = _load_index_rows(lake, source_type, ["content_hash"])
    counted = held.group_by("content_hash").aggregate([([], "count_all")])
    repeated = counted.filter(pc.field("count_all") > 1).to_pylist()
    chunks, duplicates = held.num_rows, sum(row["count_all"] for row in repeated)
    share, limit = compute_share(duplicates, chunks), settings.checks.duplicate_share
    message = f"{share:.1%} of {chunks} chunks have the text of another one (allowed: {limit:.0%})"
    repeated.sort(key=lambda row: (-row["count_all"], row["content_hash"]))
    hashes = [row["content_hash"] for row in repeated[:SAMPLE_ROWS]]
    rows = _load_repeated_texts(lake, source_type, hashes)
    return _compare_share(share, limit, message, rows, chunks=chunks, duplicates=duplicates)


def check_skipped(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check the share of documents that gave nothing, except empty ones, and show the reasons."""
    documents, rows = 0, _Rows()
    for source in _list_sources(settings, source_type):
        snapshot, chunks = lake.snapshot(source_type, source.id), lake.chunks(source_type, source.id)
        listed = snapshot.read_rows(["skipped"], is_null("archived_at"))["skipped"]
        documents += len(listed)
        if listed.null_count < len(listed):
            rows += _iter_skipped(snapshot, source.id, "snapshot", is_null("archived_at"))
        rows += _iter_skipped(chunks, source.id, "chunks", eq("archived", False))
    skipped = [row for row in rows if row["reason"] not in _EMPTY_REASONS]
    share, limit = compute_share(len(skipped), documents), settings.checks.skipped_share
    message = f"{len(skipped)} of {documents} documents ({share:.1%}) are skipped (allowed: {limit:.0%})"
    reasons = Counter(row["reason"] for row in skipped)
    skipped.sort(key=lambda row: (-reasons[row["reason"]], row["reason"], row["source"], row["uri"]))
    empty = len(rows) - len(skipped)
    return _compare_share(share, limit, message, skipped, documents=documents, empty=empty)


def check_chunk_sizes(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check the share of indexed chunks that the model truncates, or that hold next to nothing.

    Too large: more tokens than the model reads. Too small: fewer than `SMALL_CHUNK_TOKENS`, and not the
    last chunk of its document, which holds the rest.
    """
    chunks, large, rows = 0, 0, _Rows()
    columns = ["id", "source", "uri", "start_char", "tokens"]
    for space in _list_spaces(settings, source_type):
        held = _load_index_rows(lake, source_type, columns, [space.name])
        over = held.filter(pc.field("tokens") > space.max_tokens).to_pylist()
        chunks, large = chunks + held.num_rows, large + len(over)
        rows += [_build_size_row(row, f"over {space.max_tokens}") for row in over]
        rows += [_build_size_row(row, f"under {SMALL_CHUNK_TOKENS}") for row in _find_small_chunks(held)]
    share, limit, small = compute_share(len(rows), chunks), settings.checks.outlier_share, len(rows) - large
    message = (
        f"{large} of {chunks} chunks are larger than their model reads, and {small} have "
        f"fewer than {SMALL_CHUNK_TOKENS} tokens ({share:.1%} together; allowed: {limit:.0%})"
    )
    rows.sort(key=lambda row: -row["tokens"])
    return _compare_share(share, limit, message, rows, chunks=chunks, large=large, small=small)


def check_orphaned_vectors(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check the share of stored vectors that no chunk uses, including those of former models."""
    sources = _list_sources(settings, source_type)
    spaces = {model: resolve_space(model) for model in map(settings.resolve_embedding, sources)}
    known = lake.list_spaces() | {space.name: space.dimensions for space in spaces.values()}
    rows = _Rows()
    for source in sources:
        present = spaces[settings.resolve_embedding(source)].name  # the only one with used vectors
        used = lake.chunks(source.type, source.id).read_rows(["text_key"], is_null("skipped"))["text_key"]
        for space, dimensions in known.items():
            keys = lake.embeddings(space, source.id, dimensions).read_rows(["text_key"])["text_key"]
            unused = exclude_keys(keys, used) if space == present else keys
            if len(keys):
                row = {"source": source.id, "space": space, "vectors": len(keys)}
                rows.append(row | {"orphaned": len(unused)})
    vectors, orphaned = sum(row["vectors"] for row in rows), sum(row["orphaned"] for row in rows)
    share, limit = compute_share(orphaned, vectors), settings.checks.orphaned_share
    message = f"no chunk uses {orphaned} of {vectors} vectors ({share:.1%}; allowed: {limit:.0%})"
    worst = sorted((row for row in rows if row["orphaned"]), key=lambda row: -row["orphaned"])
    return _compare_share(share, limit, message, worst, vectors=vectors, orphaned=orphaned)


def check_unindexed(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check the share of rows of each of the type's spaces that full-text search finds by scanning.

    So few rows that a refresh would index them (`indexes.MAX_UNINDEXED_ROWS`) always pass.
    """
    rows = _Rows()
    for space in _list_spaces(settings, source_type):
        table = lake.index(space.name, space.dimensions)
        unindexed, count = indexes.count_unindexed_rows(table), table.count_rows()
        share = compute_share(unindexed, count)
        rows.append({"space": space.name, "rows": count, "unindexed": unindexed, "share": share})
    limit = settings.checks.unindexed_share
    failed = [row for row in rows if row["share"] > limit and row["unindexed"] > indexes.MAX_UNINDEXED_ROWS]
    unindexed, count = sum(row["unindexed"] for row in rows), sum(row["rows"] for row in rows)
    message = f"{unindexed} of {count} rows are searched without an index (allowed: {limit:.0%} of a space)"
    figures = {
        "share": compute_share(unindexed, count),
        "allowed": limit,
        "rows": count,
        "unindexed": unindexed,
    }
    return CheckResult(not failed, message, build_sample(failed), figures)


def check_unembedded(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check the share of index rows whose text has no vector yet: full text alone finds them."""
    count, waiting, of_type = 0, Counter[str](), eq("source_type", source_type)
    for space in _list_spaces(settings, source_type):
        table = lake.index(space.name, space.dimensions)
        count += table.count_rows(of_type)
        sources: list[Any] = table.read_rows(["source"], of_type & UNEMBEDDED)["source"].to_pylist()
        waiting.update(sources)
    unembedded, limit = waiting.total(), settings.checks.unembedded_share
    share = compute_share(unembedded, count)
    message = f"{unembedded} of {count} rows have no vector yet ({share:.1%}; allowed: {limit:.0%})"
    rows = [{"source": source, "unembedded": number} for source, number in waiting.most_common()]
    return _compare_share(share, limit, message, rows, chunks=count, unembedded=unembedded)


def _compare_share(share: float, limit: float, message: str, rows: _Rows, **figures: int) -> CheckResult:
    """Pass a share up to its limit; the rows show what it consists of."""
    shown = {"share": share, "allowed": limit, **figures}
    return CheckResult(share <= limit, message, build_sample(rows), shown)


def _list_sources(settings: Settings, source_type: SourceType) -> list[SourceConfig]:
    return [source for source in settings.sources if source.type == source_type]


def _list_spaces(settings: Settings, source_type: SourceType) -> list[Space]:
    models = dict.fromkeys(map(settings.resolve_embedding, _list_sources(settings, source_type)))
    return list({space.name: space for space in map(resolve_space, models)}.values())


def _iter_skipped(table: Table, source: str, stage: str, condition: Filter) -> Iterator[dict[str, Any]]:
    for row in table.read_rows(["uri", "skipped"], condition & ~is_null("skipped")).to_pylist():
        yield {"source": source, "uri": row["uri"], "stage": stage, "reason": row["skipped"]}


def _load_index_rows(
    lake: Lake, source_type: str, columns: list[str], spaces: Iterable[str] | None = None
) -> pa.Table:
    """Columns of the type's rows in the index, without archived ones."""
    where = eq("source_type", source_type) & eq("archived", False)
    tables = [
        lake.index(space, dimensions).read_rows(columns, where)
        for space, dimensions in lake.list_spaces().items()
        if spaces is None or space in set(spaces)
    ]
    empty = lake.index("none", 1).schema.empty_table().select(columns)
    return pa.concat_tables([empty, *tables])


def _load_repeated_texts(lake: Lake, source_type: str, content_hashes: list[str]) -> _Rows:
    found: dict[str, _Rows] = {hash_: [] for hash_ in content_hashes}
    where = eq("source_type", source_type) & eq("archived", False) & one_of("content_hash", content_hashes)
    for space, dimensions in lake.list_spaces().items() if content_hashes else ():
        rows = lake.index(space, dimensions).read_rows(["content_hash", "source", "uri", "id", "text"], where)
        for row in rows.to_pylist():
            found[row["content_hash"]].append(row)
    repeated = _Rows()
    for rows in filter(None, found.values()):
        first = min(rows, key=lambda row: (row["source"], row["uri"]))
        counts = {"chunks": len(rows), "sources": len({row["source"] for row in rows})}
        place = {"first_source": first["source"], "first_uri": first["uri"], "chunk_id": first["id"]}
        repeated.append(counts | place | {"text": first["text"]})
    return repeated


def _find_small_chunks(chunks: pa.Table) -> _Rows:
    small = chunks.filter(pc.field("tokens") < SMALL_CHUNK_TOKENS)
    if not small.num_rows:
        return []
    last = chunks.group_by(["source", "uri"]).aggregate([("start_char", "max")])
    joined = small.join(last, keys=["source", "uri"])
    return joined.filter(pc.field("start_char") < pc.field("start_char_max")).to_pylist()


def _build_size_row(row: dict[str, Any], wrong: str) -> dict[str, Any]:
    shown = {name: row[name] for name in ("source", "uri", "tokens")}
    return shown | {"wrong": wrong, "chunk_id": row["id"]}
