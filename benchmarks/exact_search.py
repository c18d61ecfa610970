"""How exact and regular-expression search finds its chunks: by an index or by a scan, at 100,000 chunks.

    python -m benchmarks.exact_search FOLDER [--chunks N] [--table PATH] [--times N] [--ways WAY ...] [--json]

Cuts the Python files of a folder (a virtual environment has enough) into chunks, as `knowledge refresh` does,
and writes them to a table of Lance with what a caller may see beside the text. For each way the build time,
the size and the time to count and list all matching rows of a filtered table are measured, for rare, common
and short patterns; the median of several, the first left out. Build times are the processor's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import knowledge_pipeline
from benchmarks.figures import describe_machine, print_rows, time_work
from knowledge_pipeline.chunking.registry import chunk_document
from knowledge_pipeline.config.connections import LocalConnection
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.embedding.tokenizer import load_model_tokenizer
from knowledge_pipeline.records import Document
from knowledge_pipeline.store.filters import contains, format_literal
from knowledge_pipeline.text_matches import TextPattern, find_matches

BATCH = 2_000
VISIBLE = "visibility = 'public' AND archived = false"
LITERALS = {
    "rare": "def _core_submit_execution(",
    "some": "raise NotImplementedError",
    "common": "self.",
    "short": "if",
    "two lines": "return None\n",
    "nothing": "zzqx_no_such_text",
}
EXPRESSIONS = {
    "rare": r"def _core_submit_\w+\(",
    "some": r"raise \w+Error\(f?\"[^\"]*not found",
    "common": r"self\.\w+",
    "any case": r"(?i)deprecat(ed|ion)",
    "nothing": r"zzqx_\d+_none",
}


def main() -> None:
    """Build the table unless it is there, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--table", type=Path, default=Path(".knowledge/exact_search.lance"))
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--ways", nargs="+", default=[*WAYS], choices=[*WAYS])
    parser.add_argument("--json", action="store_true", help="a row a line")
    asked = parser.parse_args()
    table = asked.table if asked.table.exists() else _write(asked.folder, asked.table, asked.chunks)
    rows = list[Mapping[str, Any]]()
    for row in (row for way in asked.ways for row in WAYS[way](table, asked.times)):
        if asked.json:
            print(json.dumps(row), flush=True)  # some take minutes
        rows.append(row)
    if not asked.json:
        print_rows(f"Exact search, {describe_machine()}", rows, width=140)


def _write(folder: Path, table: Path, count: int) -> Path:
    import lance

    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("id", "source", "source_type", "uri", "path", "metadata")),
            ("visibility", pa.string()),
            *(("start_line", pa.int32()), ("text", pa.large_string()), ("archived", pa.bool_())),
            ("symbols", pa.list_(pa.string())),
        ]
    )
    lance.write_dataset(_batches(folder, count, schema), table, schema=schema)
    for column in ("visibility", "archived"):
        lance.dataset(table).create_scalar_index(column, "BITMAP")
    return table


def _batches(folder: Path, count: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    tokenize = load_model_tokenizer(Path(knowledge_pipeline.__path__[0]) / "embedding/static_v1")
    source = SourceConfig(id="code", type="code", connection=LocalConnection(type="local", path=folder))
    rows, written = list[dict[str, Any]](), 0
    for path in sorted(folder.rglob("*.py")):
        if path.stat().st_size > 200_000:
            continue
        name = path.relative_to(folder).as_posix()
        document = Document(name, path.read_text("utf-8", "replace"), name, language="python")
        for chunk in chunk_document(document, source, tokenize=tokenize, model_tokens=256):
            metadata = json.dumps({**chunk.metadata, "space_before": chunk.space_before}, default=str)
            own = {"id": f"{name}#{chunk.start_char}", "start_line": chunk.start_line, "text": chunk.text}
            symbols = list(filter(None, [chunk.metadata.get("symbol")]))
            rows.append(
                {**own, "source": "code", "uri": name, "path": name, "metadata": metadata}
                | {"source_type": "code", "visibility": "public", "archived": False, "symbols": symbols}
            )
        if len(rows) >= BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema)
            written, rows = written + len(rows), []
        if written >= count:
            return


def _scan(table: Path, times: int) -> Iterator[Mapping[str, Any]]:
    """Lance's filter, evaluated by DataFusion for each row."""
    yield from _measure("scan by Lance", table, times, 0.0, 0)


def _by_ngrams(table: Path, times: int) -> Iterator[Mapping[str, Any]]:
    yield from _with_index("NGRAM", table, times)


def _by_fm(table: Path, times: int) -> Iterator[Mapping[str, Any]]:
    yield from _with_index("FM", table, times)


def _with_index(kind: str, table: Path, times: int) -> Iterator[Mapping[str, Any]]:
    import lance

    before, started = _size(table), time.process_time()
    if kind == "FM":
        import lancedb
        from lancedb.index import Fm

        lancedb.connect(table.parent).open_table(table.stem).create_index("text", config=Fm())
    else:
        lance.dataset(table).create_scalar_index("text", kind)
    took = time.process_time() - started
    yield from _measure(f"index {kind}", table, times, took, _size(table) - before)
    dataset = lance.dataset(table)
    for index in dataset.describe_indices():
        if "text" in index.field_names:
            dataset.drop_index(index.name)


def _measure(way: str, table: Path, times: int, built_s: float, size: int) -> Iterator[Mapping[str, Any]]:
    import lance

    dataset = lance.dataset(table)
    conditions = {
        **{f"literal, {name}": f"contains(text, {format_literal(it)})" for name, it in LITERALS.items()},
        **{f"regex, {name}": f"regexp_like(text, {format_literal(it)})" for name, it in EXPRESSIONS.items()},
    }
    for name, condition in conditions.items():

        def ask(condition: str = condition) -> int:
            where = f"{VISIBLE} AND {condition}"
            return len(dataset.to_table(columns=["path", "start_line"], filter=where, with_row_id=True))

        yield {"way": way, "built_s": round(built_s, 1), "MB": size // 10**6, "pattern": name} | _time(
            ask, times
        )


def _by_arrow(table: Path, times: int) -> Iterator[Mapping[str, Any]]:
    """Lance reads what the caller may see, and Arrow's RE2 compares it."""
    yield from _by_matches("scan by Arrow", table, times, is_required=False)


def _by_both(table: Path, times: int) -> Iterator[Mapping[str, Any]]:
    """As the product does it: Lance reads what has the text that every match has."""
    yield from _by_matches("scan by both", table, times, is_required=True)


def _by_matches(way: str, table: Path, times: int, *, is_required: bool) -> Iterator[Mapping[str, Any]]:
    import lance

    dataset = lance.dataset(table)
    patterns = [(f"literal, {name}", TextPattern(it)) for name, it in LITERALS.items()]
    patterns += [(f"regex, {name}", TextPattern(it, is_regex=True)) for name, it in EXPRESSIONS.items()]
    for name, pattern in patterns:
        required = pattern.find_required_text() if is_required else ""
        where = f"{VISIBLE} AND {contains('text', required).sql}" if required else VISIBLE

        def ask(pattern: TextPattern = pattern, where: str = where) -> int:
            return find_matches(dataset, pattern, where, limit=10).chunks

        yield {"way": way, "built_s": 0.0, "MB": 0, "pattern": name} | _time(ask, times)


def _time(ask: Callable[[], int], times: int) -> dict[str, Any]:
    found, taken = ask(), [time_work(ask) for _ in range(times)]
    clock, processor = (statistics.median(seconds) * 1_000 for seconds in zip(*taken, strict=True))
    return {"found": found, "ms": round(clock, 1), "processor_ms": round(processor, 1)}


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


WAYS: Mapping[str, Callable[[Path, int], Iterator[Mapping[str, Any]]]] = {
    **{"both": _by_both, "arrow": _by_arrow, "lance": _scan, "ngram": _by_ngrams, "fm": _by_fm}
}


if __name__ == "__main__":
    main()
