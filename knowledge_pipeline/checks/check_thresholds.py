"""The checks that inform about shares: each is tolerable up to what `checks` in the settings allows.

They look at everything of a type, so they belong to a schedule and not to every refresh.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.checks.check_types import SAMPLE_ROWS, Finding, sample, share
from knowledge_pipeline.config.settings import Settings, SourceConfig, SourceType
from knowledge_pipeline.embedding.base import Space
from knowledge_pipeline.embedding.registry import space_of
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.filters import Filter, eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.tables import Table

FEW_TOKENS = 16  # a chunk of fewer says hardly anything by itself
_NOTHING_IN_IT = frozenset({"empty", "no text"})  # reasons for a skip that nobody has to look at


def find_duplicates(lake: Lake, settings: Settings, source_type: SourceType) -> Finding:
    """The share of indexed chunks whose text another chunk of the type has; the most repeated texts."""
    held = _indexed(lake, source_type, ["content_hash"])
    counted = held.group_by("content_hash").aggregate([([], "count_all")])
    repeated = counted.filter(pc.field("count_all") > 1).to_pylist()
    chunks, duplicates = held.num_rows, sum(row["count_all"] for row in repeated)
    part, limit = share(duplicates, chunks), settings.checks.duplicate_share
    sentence = f"{part:.1%} of {chunks} chunks have a text that another one has (allowed: {limit:.0%})"
    figures = {"share": part, "allowed": limit, "chunks": chunks, "duplicates": duplicates}
    repeated.sort(key=lambda row: (-row["count_all"], row["content_hash"]))
    texts = [row["content_hash"] for row in repeated[:SAMPLE_ROWS]]
    return Finding(part <= limit, sentence, sample(_repeated_texts(lake, source_type, texts)), figures)


def find_skipped(lake: Lake, settings: Settings, source_type: SourceType) -> Finding:
    """The share of documents that gave nothing, empty ones aside, with the reasons."""
    documents, rows = 0, list[dict[str, Any]]()
    for source in _sources(settings, source_type):
        snapshot, chunks = lake.snapshot(source_type, source.id), lake.chunks(source_type, source.id)
        listed = snapshot.rows(["skipped"], is_null("archived_at"))["skipped"]
        documents += len(listed)
        if listed.null_count < len(listed):
            rows += _skipped(snapshot, source.id, "snapshot", is_null("archived_at"))
        rows += _skipped(chunks, source.id, "chunks", eq("archived", False))
    lost = [row for row in rows if row["reason"] not in _NOTHING_IN_IT]
    part, limit = share(len(lost), documents), settings.checks.skipped_share
    sentence = f"{len(lost)} of {documents} documents ({part:.1%}) could not be taken (allowed: {limit:.0%})"
    figures = {"share": part, "allowed": limit, "documents": documents, "empty": len(rows) - len(lost)}
    reasons = Counter(row["reason"] for row in lost)
    lost.sort(key=lambda row: (-reasons[row["reason"]], row["reason"], row["source"], row["uri"]))
    return Finding(part <= limit, sentence, sample(lost), figures)


def find_odd_sizes(lake: Lake, settings: Settings, source_type: SourceType) -> Finding:
    """The share of indexed chunks that the model cuts, or that hold next to nothing.

    Too large: more tokens than the model reads. Too small: under `FEW_TOKENS`, and not the
    last chunk of its document, which holds what is left over.
    """
    chunks, large, rows = 0, 0, list[dict[str, Any]]()
    for space in _spaces(settings, source_type):
        held = _indexed(lake, source_type, ["id", "source", "uri", "start_char", "tokens"], [space.name])
        over = held.filter(pc.field("tokens") > space.max_tokens).to_pylist()
        chunks, large = chunks + held.num_rows, large + len(over)
        rows += [_sized(row, f"over {space.max_tokens}") for row in over]
        rows += [_sized(row, f"under {FEW_TOKENS}") for row in _small(held)]
    part, limit = share(len(rows), chunks), settings.checks.outlier_share
    sentence = (
        f"{large} of {chunks} chunks are larger than their model reads, and {len(rows) - large} have "
        f"fewer than {FEW_TOKENS} tokens ({part:.1%} together; allowed: {limit:.0%})"
    )
    figures = {"share": part, "allowed": limit, "chunks": chunks, "large": large, "small": len(rows) - large}
    rows.sort(key=lambda row: -row["tokens"])
    return Finding(part <= limit, sentence, sample(rows), figures)


def find_orphaned_vectors(lake: Lake, settings: Settings, source_type: SourceType) -> Finding:
    """The share of stored vectors that no chunk uses, those of former models included."""
    models = dict.fromkeys(settings.embedding_of(source) for source in _sources(settings, source_type))
    spaces = {model: space_of(model) for model in models}
    known = lake.spaces() | {space.name: space.dimensions for space in spaces.values()}
    rows = [
        row
        for source in _sources(settings, source_type)
        for row in _vectors(lake, source, spaces[settings.embedding_of(source)].name, known)
    ]
    vectors, orphaned = sum(row["vectors"] for row in rows), sum(row["orphaned"] for row in rows)
    part, limit = share(orphaned, vectors), settings.checks.orphaned_share
    sentence = f"{orphaned} of {vectors} vectors ({part:.1%}) are used by no chunk (allowed: {limit:.0%})"
    figures = {"share": part, "allowed": limit, "vectors": vectors, "orphaned": orphaned}
    worst = sorted((row for row in rows if row["orphaned"]), key=lambda row: -row["orphaned"])
    return Finding(part <= limit, sentence, sample(worst), figures)


def find_unindexed(lake: Lake, settings: Settings, source_type: SourceType) -> Finding:
    """The share of rows of the type's spaces that full-text search finds by scanning.

    A tail that a refresh takes in by itself (`indexes.TAIL_ROWS`) is never too long.
    """
    rows: list[dict[str, Any]] = []
    for space in _spaces(settings, source_type):
        table = lake.index(space.name, space.dimensions)
        tail, held = indexes.unindexed_rows(table), table.count()
        rows.append({"space": space.name, "rows": held, "unindexed": tail, "share": share(tail, held)})
    limit = settings.checks.unindexed_share
    long = [row for row in rows if row["share"] > limit and row["unindexed"] > indexes.TAIL_ROWS]
    tail, held = sum(row["unindexed"] for row in rows), sum(row["rows"] for row in rows)
    sentence = f"{tail} of {held} rows are searched without an index (allowed: {limit:.0%} of a space)"
    figures = {"share": share(tail, held), "allowed": limit, "rows": held, "unindexed": tail}
    return Finding(not long, sentence, sample(long), figures)


def _sources(settings: Settings, source_type: SourceType) -> list[SourceConfig]:
    return [source for source in settings.sources if source.type == source_type]


def _spaces(settings: Settings, source_type: SourceType) -> list[Space]:
    models = dict.fromkeys(settings.embedding_of(source) for source in _sources(settings, source_type))
    return list({space.name: space for space in map(space_of, models)}.values())


def _skipped(table: Table, source: str, stage: str, live: Filter) -> Iterator[dict[str, Any]]:
    for row in table.rows(["uri", "skipped"], live & ~is_null("skipped")).to_pylist():
        yield {"source": source, "uri": row["uri"], "stage": stage, "reason": row["skipped"]}


def _vectors(
    lake: Lake, source: SourceConfig, space: str, spaces: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """One row per space that holds vectors of a source, whose own space uses those of its chunks."""
    used = lake.chunks(source.type, source.id).rows(["text_key"], is_null("skipped"))["text_key"].unique()
    for name, dimensions in spaces.items():
        table = lake.embeddings(name, source.id, dimensions)
        keys = table.rows(["text_key"])
        unused = keys.filter(~pc.field("text_key").isin(used)) if name == space else keys
        if keys.num_rows:
            counts = {"vectors": keys.num_rows, "orphaned": unused.num_rows}
            yield {"source": source.id, "space": name} | counts


def _indexed(
    lake: Lake, source_type: str, columns: list[str], spaces: Iterable[str] | None = None
) -> pa.Table:
    """Columns of the type's rows in the index; what search leaves out by default is left out here."""
    where = eq("source_type", source_type) & eq("archived", False)
    tables = [
        lake.index(space, dimensions).rows(columns, where)
        for space, dimensions in lake.spaces().items()
        if spaces is None or space in set(spaces)
    ]
    empty = lake.index("none", 1).schema.empty_table().select(columns)
    return pa.concat_tables([empty, *tables])


def _repeated_texts(lake: Lake, source_type: str, hashes: list[str]) -> Iterator[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {hash_: [] for hash_ in hashes}
    where = eq("source_type", source_type) & eq("archived", False) & one_of("content_hash", hashes)
    for space, dimensions in lake.spaces().items() if hashes else ():
        rows = lake.index(space, dimensions).rows(["content_hash", "source", "uri", "id", "text"], where)
        for row in rows.to_pylist():
            found[row["content_hash"]].append(row)
    for rows in filter(None, found.values()):
        first = min(rows, key=lambda row: (row["source"], row["uri"]))
        yield {
            "chunks": len(rows),
            "sources": len({row["source"] for row in rows}),
            "first_source": first["source"],
            "first_uri": first["uri"],
            "chunk_id": first["id"],
            "text": first["text"],
        }


def _small(held: pa.Table) -> list[dict[str, Any]]:
    small = held.filter(pc.field("tokens") < FEW_TOKENS)
    if not small.num_rows:
        return []
    last = held.group_by(["source", "uri"]).aggregate([("start_char", "max")])
    beside = small.join(last, keys=["source", "uri"])
    return beside.filter(pc.field("start_char") < pc.field("start_char_max")).to_pylist()


def _sized(row: dict[str, Any], wrong: str) -> dict[str, Any]:
    shown = {name: row[name] for name in ("source", "uri", "tokens")}
    return shown | {"wrong": wrong, "chunk_id": row["id"]}
