"""The checks that compare with `checks` of the settings: shares, age and cost; and those of the code graph.

The informational ones look at everything of a type, so a schedule runs them, not every refresh; those of time
and money know only what the logs record (`stages.run_log`). The check of dangling edges blocks a release: it
looks at the sources whose rows differ from the live one, and its caller holds the index lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.checks.integrity import (
    SAMPLE_ROWS,
    CheckResult,
    build_sample,
    compute_share,
    is_refreshing,
)
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import MAX_AGE_BY_TRIGGER, SourceConfig, Trigger, resolve_trigger
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.embedding.base import Space
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.llm.budgets import list_reached
from knowledge_pipeline.llm.spending import read_spending
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.filters import UNEMBEDDED, Filter, at_least, eq, is_null, one_of
from knowledge_pipeline.store.held_terms import ChangeTracker
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.reconcile import exclude_keys, find_changed_sources
from knowledge_pipeline.store.release import find_live_release, first_released_at
from knowledge_pipeline.store.tables import KEYS_PER_FILTER, Table

SMALL_CHUNK_TOKENS = 16  # a chunk of fewer tokens says hardly anything by itself
_EMPTY_REASONS = frozenset({"empty", "no text"})  # reasons for a skip that need no attention

_Rows = list[dict[str, Any]]


def check_duplicates(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check the share of indexed chunks whose text another chunk has, and show the most repeated texts."""
    rows_by_hash = _load_index_rows(lake, source_type, ["content_hash"])
    counted = rows_by_hash.group_by("content_hash").aggregate([([], "count_all")])
    repeated = counted.filter(pc.field("count_all") > 1).to_pylist()
    chunks, duplicates = rows_by_hash.num_rows, sum(row["count_all"] for row in repeated)
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
        indexed = _load_index_rows(lake, source_type, columns, [space.name])
        over = indexed.filter(pc.field("tokens") > space.max_tokens).to_pylist()
        chunks, large = chunks + indexed.num_rows, large + len(over)
        rows += [_build_size_row(row, f"over {space.max_tokens}") for row in over]
        rows += [_build_size_row(row, f"under {SMALL_CHUNK_TOKENS}") for row in _find_small_chunks(indexed)]
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
    dimensions_by_space = lake.list_spaces() | {space.name: space.dimensions for space in spaces.values()}
    rows = _Rows()
    for source in sources:
        present = spaces[settings.resolve_embedding(source)].name  # the only one with used vectors
        used = lake.chunks(source.type, source.id).read_rows(["text_key"], is_null("skipped"))["text_key"]
        for space, dimensions in dimensions_by_space.items():
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
    share = compute_share(unindexed, count)
    figures = {"share": share, "allowed": limit, "rows": count, "unindexed": unindexed}
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
    by_hash: dict[str, _Rows] = {hash_: [] for hash_ in content_hashes}
    where = eq("source_type", source_type) & eq("archived", False) & one_of("content_hash", content_hashes)
    for space, dimensions in lake.list_spaces().items() if content_hashes else ():
        rows = lake.index(space, dimensions).read_rows(["content_hash", "source", "uri", "id", "text"], where)
        for row in rows.to_pylist():
            by_hash[row["content_hash"]].append(row)
    repeated = _Rows()
    for rows in filter(None, by_hash.values()):
        first = min(rows, key=lambda row: (row["source"], row["uri"]))
        counts = {"chunks": len(rows), "sources": len({row["source"] for row in rows})}
        first_place = {"first_source": first["source"], "first_uri": first["uri"], "chunk_id": first["id"]}
        repeated.append(counts | first_place | {"text": first["text"]})
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


_BATCH_ROWS = 65_536
_DERIVED = frozenset({"contains", "depends", "declares", "uses", "owns"})  # always certain


@dataclass(frozen=True, slots=True)
class LanguageResolution:
    """The uses in one language: calls, references, inheritance, imports."""

    language: str
    internal: int  # lead to a definition of the source
    external: int  # have the full name of something outside
    unknown: int  # known only as they are written

    @property
    def uses(self) -> int:
        """All of them."""
        return self.internal + self.external + self.unknown

    @property
    def resolved_share(self) -> float:
        """The share with a known target; 1 where there are no uses."""
        return round((self.internal + self.external) / self.uses, 4) if self.uses else 1.0


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """Rows of some sources in the newest code graph."""

    symbols: Counter[str]  # by kind
    edges: Counter[str]  # by kind
    by_language: tuple[LanguageResolution, ...]  # the language with the most uses first


def count_graph(lake: Lake, where: Filter) -> GraphCounts:
    """Count the matching symbols and edges, in bounded memory."""
    symbols, edges, uses = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for batch in lake.graph_table("symbols").iter_batches(["kind"], where, batch_rows=_BATCH_ROWS):
        symbols.update(batch.to_pydict()["kind"])
    columns = ["language", "kind", "target_id", "confidence"]
    for batch in lake.graph_table("edges").iter_batches(columns, where, batch_rows=_BATCH_ROWS):
        is_internal = batch["target_id"].is_valid().to_pylist()
        others = batch.select(["language", "kind", "confidence"]).to_pydict().values()
        for inside, language, kind, confidence in zip(is_internal, *others, strict=True):
            edges[kind] += 1
            if kind not in _DERIVED:
                uses[language, "inside" if inside else "outside" if confidence > 0 else "unknown"] += 1
    by_language = [
        LanguageResolution(language, *(uses[language, end] for end in ("inside", "outside", "unknown")))
        for language in dict.fromkeys(language for language, _ in uses)
    ]
    by_language.sort(key=lambda resolution: -resolution.uses)
    return GraphCounts(symbols, edges, tuple(by_language))


_MIN_USES = 100  # of a language, to judge by


def check_dangling_edges(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check that the edges of the changed sources end at existing definitions."""
    del settings
    released, changed = find_live_release(lake), set[str]()
    since = first_released_at(lake, released)
    for name, table in lake.graph_tables().items():
        version = released.graph.get(name) if released else None
        if version != table.version:
            sources = find_changed_sources(table, version, since, time_column="indexed_at")
            changed.update(source for type_, source in sources if type_ == source_type)
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
    return CheckResult(False, message, build_sample(rows), figures, not settled, (source,))


def _find_dangling(lake: Lake, source: str) -> list[str]:
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


_BUDGET_DAYS = 30
_MAX_BUDGETS_NAMED = 5


def check_freshness(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check that the last completed refresh of each source is not older than its trigger allows."""
    now = datetime.now(UTC)
    sources = _list_sources(settings, source_type)
    triggers: dict[str, Trigger] = {source.id: resolve_trigger(source) for source in sources}
    triggers = {source: trigger for source, trigger in triggers.items() if trigger != "manual"}
    last = _load_refresh_times(lake, source_type, since=now - max(MAX_AGE_BY_TRIGGER.values()))
    if triggers.keys() - last.keys():  # the log is long, so its end is read first
        last = _load_refresh_times(lake, source_type)
    stale: list[dict[str, Any]] = []
    for source, trigger in triggers.items():
        at, max_age = last.get(source), MAX_AGE_BY_TRIGGER[trigger]
        if at is None or now - at > max_age:
            hours = None if at is None else round((now - at).total_seconds() / 3600, 1)
            refreshed = "never" if at is None else f"{at:%Y-%m-%d %H:%M}"
            row = {"source": source, "trigger": trigger, "hours": hours}
            stale.append(row | {"allowed_hours": max_age.total_seconds() / 3600, "refreshed": refreshed})
    stale.sort(key=lambda row: (row["hours"] is not None, -(row["hours"] or 0)))
    message = f"{len(stale)} of {len(triggers)} sources were not refreshed in time"
    never = len(triggers.keys() - last.keys())
    figures = {"sources": len(triggers), "stale": len(stale), "never_refreshed": never}
    return CheckResult(not stale, message, build_sample(stale), figures)


def check_cost(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check the cost of all models in the last 30 days and all budgets; name the most expensive sources."""
    del source_type  # all types share the budgets
    now = datetime.now(UTC)
    since = now - timedelta(days=_BUDGET_DAYS)
    calls = open_log(lake, "llm_calls").read_rows(["kind", "model", "source", "cost"], at_least("at", since))
    by_source = calls.group_by(["source", "kind", "model"]).aggregate([("cost", "sum")])
    costs = [row for row in by_source.rename_columns({"cost_sum": "cost"}).to_pylist() if row["cost"]]
    total, budget = float(sum(calls.select(["cost"]).to_pydict()["cost"])), settings.checks.monthly_budget
    figures = {"cost": round(total, 4)} | ({} if budget is None else {"allowed": budget})
    sample = build_sample(sorted(costs, key=lambda row: -row["cost"]))
    message = f"models cost {total:.2f} in the last {_BUDGET_DAYS} days"
    budgets = settings.costs.budgets
    reached = list_reached(budgets, read_spending(lake, now)[0], now) if budgets else []
    if budget is not None:
        message += f" (allowed: {budget:.2f})"
    elif not budgets:
        message += "; no budget is set"
    message = "; ".join((message, *(state.describe() for state in reached[:_MAX_BUDGETS_NAMED])))
    figures |= {"budgets_reached": len(reached)} if budgets else {}
    return CheckResult(not reached and (budget is None or total <= budget), message, sample, figures)


def _load_refresh_times(
    lake: Lake, source_type: str, *, since: datetime | None = None
) -> dict[str, datetime]:
    where = eq("source_type", source_type) & eq("stage", "index")
    where = where & at_least("at", since) if since else where
    rows = open_log(lake, "refreshes").read_rows(["source", "at"], where)
    last = rows.group_by("source").aggregate([("at", "max")])
    return {row["source"]: row["at_max"] for row in last.to_pylist()}
