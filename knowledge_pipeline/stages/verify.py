"""Verifies the store against itself, and repairs it: what cannot be read, and rows that say two things.

Lance checks no sums, so that zeroed bytes may read as other text. Whatever a row says twice is compared: a
text with its hash, a row of the index with its chunk and its vector, what results show with the row's own
columns, words with those that the text has, edges with the symbols they name. Each index is asked for some
rows. Tables are read by batches, of which hashes and uris are held: some 50 bytes a row. Nothing is written.

A repair leaves out what the verification found: the next refresh misses those rows, and makes them anew.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.records import build_embedded_text, hash_strings
from knowledge_pipeline.stages.index import iter_changed_words
from knowledge_pipeline.stages.index_probe import IndexProbes
from knowledge_pipeline.stages.progress import ProgressCallback, ignore_progress
from knowledge_pipeline.store import damage, graph, indexes, lance_storage
from knowledge_pipeline.store.fragments import StaleRows
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_internals import open_uncached
from knowledge_pipeline.store.lance_storage import StorePath, build_storage_options, has_version
from knowledge_pipeline.store.local_state import FILE, discard_damaged_state, find_damaged_state
from knowledge_pipeline.store.release import give_up_releases, list_releases
from knowledge_pipeline.store.search import PAYLOAD_COLUMNS, parse_payloads
from knowledge_pipeline.store.tables import Table, split_batches

_STAGES = ("snapshot", "chunks", "embeddings", "facts", "audiences")
_REPAIR = f"{damage.MEND}, then `knowledge refresh`"
_ROLL_BACK = "run `knowledge refresh`, or `knowledge rollback`"
_RESTORE = "restore it from a backup"
_COPIED = ("uri", "path", "header", "text", "content_hash", "text_key", "anchor", "symbol", "section")
_NOT_SHOWN_AS_STORED = frozenset({"url", "tags", "branch", "metadata", "last_modified", "repo"})


@dataclass(frozen=True, slots=True)
class Damage:
    """Something wrong with one table, and what mends it."""

    table: str  # "chunks/code/docs"
    problem: str
    remedy: str
    version: int | None = None  # none: the newest
    index: str | None = None  # the column whose index is damaged
    fragments: tuple[int, ...] = ()  # that cannot be read
    keys: tuple[str, ...] = field(default=(), repr=False)  # of rows that are wrong
    is_lost: bool = False  # the newest version cannot be opened

    def to_row(self) -> dict[str, Any]:
        """For people and programs, without the keys."""
        return {"table": self.table, "version": self.version, "problem": self.problem, "remedy": self.remedy}


@dataclass(slots=True)
class _Verification:
    lake: Lake
    probes: IndexProbes
    findings: list[Damage] = field(default_factory=list[Damage])
    unreadable: set[str] = field(default_factory=set[str])  # tables whose rows are not compared
    readable: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Fragments that were read: tables, and what they are made of. Versions share most."""

    def read_newest(self, name: str, path: StorePath) -> Any:
        """The newest version, every file of which was read; None where something of it cannot be."""
        dataset = self._read_version(name, path, None)
        if dataset is None:
            return None
        has_rows = name not in self.unreadable
        for column, problem in self.probes.find_damaged(dataset, has_rows=has_rows).items():
            self.findings.append(
                Damage(name, f"the index of {column!r} is damaged: {problem}", damage.MEND, index=column)
            )
        return None if name in self.unreadable else dataset

    def read_former(self, name: str, path: StorePath, released: Mapping[int, Collection[int]]) -> None:
        """Every version but the newest: whole where releases have it (`released`), else its manifest."""
        versions = lance_storage.list_versions(path)
        for version in sorted({*versions[:-1], *released} - {*versions[-1:]}):
            if releases := sorted(released.get(version, ())):
                is_live = 0 in releases
                numbers = ", ".join(map(str, releases[is_live:]))
                forget = f"{damage.MEND}, which gives release {numbers} up"
                self._read_version(name, path, version, _ROLL_BACK if is_live else forget)
            elif not self._is_version(path, version) and version in lance_storage.list_versions(path):
                problem = "its manifest cannot be read, though no release needs it"
                remedy = _RESTORE if _is_unique(name) else damage.MEND
                self.findings.append(Damage(name, problem, remedy, version))

    def _is_version(self, path: StorePath, version: int) -> bool:
        try:
            return bool(open_uncached(str(path), version, build_storage_options(path)).version)
        except BaseException as error:  # Rust's panic is no Exception
            if not damage.is_damage(error):
                raise
            return False

    def _read_version(self, name: str, path: StorePath, version: int | None, remedy: str = "") -> Any:
        remedy = _RESTORE if _is_unique(name) else remedy or _REPAIR
        try:
            dataset: Any = open_uncached(str(path), version, build_storage_options(path))
            if not dataset.version:  # as Lance reads a manifest of zeros
                raise OSError("its manifest is empty")
        except BaseException as error:  # Rust's panic is no Exception
            if not damage.is_damage(error):
                raise
            problem = f"it cannot be opened ({type(error).__name__})"
            self.findings.append(Damage(name, problem, remedy, version, is_lost=version is None))
            self.unreadable.add(name)
            return None
        broken = tuple(
            fragment.fragment_id
            for fragment in dataset.get_fragments()
            if not self._is_readable(name, fragment)
        )
        if broken:
            problem = f"{len(broken)} of its files with rows, or with deletions, cannot be read"
            self.findings.append(Damage(name, problem, remedy, version, fragments=broken))
            self.unreadable.add(name)
        return dataset

    def _is_readable(self, name: str, fragment: Any) -> bool:
        content = name, json.dumps(fragment.metadata.to_json(), default=str)
        if content in self.readable:
            return True
        try:
            for _ in fragment.to_batches():
                pass
        except BaseException as error:  # Rust's panic is no Exception
            if not damage.is_damage(error):
                raise
            return False
        self.readable.add(content)
        return True

    def add_rows(self, name: str, problem: str, keys: Collection[str]) -> None:
        """Rows that are wrong, if there are any."""
        if keys:
            self.findings.append(Damage(name, f"{len(keys)} {problem}", _REPAIR, keys=tuple(sorted(keys))))


def _is_unique(name: str) -> bool:
    """Whether nothing can make a table anew."""
    return name in ("releases", "tokens", "receipts") or name.startswith("logs/")


def verify(lake: Lake, report: ProgressCallback = ignore_progress) -> list[Damage]:
    """What is wrong with the newest versions of all tables, with those of releases, and the local state."""
    with closing(IndexProbes()) as probes:
        return _verify(_Verification(lake, probes), report)


def _verify(run: _Verification, report: ProgressCallback) -> list[Damage]:
    lake = run.lake
    patterns = [
        *(f"{stage}/*/*.lance" for stage in _STAGES),
        "index/*.lance",
        "graph/*.lance",
        "logs/*.lance",
    ]
    paths = [path for pattern in (*patterns, "*.lance") for path in sorted(lake.root.glob(pattern), key=str)]
    datasets: dict[str, Any] = {}
    for done, path in enumerate(paths):
        report("tables", done, len(paths))
        name = lake.relative_name(path).removesuffix(".lance")
        if not has_version(path) and lance_storage.has_data(path):
            remedy = _RESTORE if _is_unique(name) else _REPAIR
            run.findings.append(Damage(name, "it has lost all its versions", remedy, is_lost=True))
            run.unreadable.add(name)
        elif has_version(path) and (dataset := run.read_newest(name, path)) is not None:
            datasets[name] = dataset
    released = _list_released(run)
    for path in paths:
        name = lake.relative_name(path).removesuffix(".lance")
        run.read_former(name, path, released.get(name, {}))
    if problem := find_damaged_state(lake.folder):
        run.findings.append(Damage(FILE, problem, damage.MEND))
    steps: list[Callable[[_Verification, Mapping[str, Any]], None]] = [
        _verify_chunks,
        _verify_index,
        _verify_graph,
    ]
    for done, step in enumerate(steps):
        report("rows", done, len(steps))
        step(run, datasets)
    report("rows", len(steps), len(steps))
    return run.findings


def _list_released(run: _Verification) -> dict[str, dict[int, list[int]]]:
    """By table and version the releases that have it; the live one has the number 0, too."""
    try:
        releases = [] if "releases" in run.unreadable else list_releases(run.lake)
    except StoreError as error:  # its files are read, and say something that cannot be
        run.findings.append(Damage("releases", str(error), _RESTORE))
        return {}
    released = defaultdict[str, defaultdict[int, list[int]]](lambda: defaultdict(list))
    for release in releases:
        tables = [(f"index/{space}", version) for space, version in release.tables.items()]
        tables += [(f"graph/{name}", version) for name, version in release.graph.items()]
        for name, version in tables:
            released[name][version] += [release.release, *([0] if release is releases[-1] else [])]
    return {name: dict(versions) for name, versions in released.items()}


def _iter_rows(dataset: Any, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    for batch in dataset.to_batches(columns=list(columns), batch_size=1024):
        yield from batch.to_pylist()


def _list_named(datasets: Mapping[str, Any], folder: str) -> dict[str, Any]:
    return {name: dataset for name, dataset in datasets.items() if name.startswith(f"{folder}/")}


def _digest(row: Mapping[str, Any]) -> str:
    return hash_strings(*(str(row[name]) for name in _COPIED), str(row["start_char"]), str(row["archived"]))


@dataclass(frozen=True, slots=True)
class _Digests:
    """What stands in rows, by their keys: 16 bytes a row."""

    keys: np.ndarray  # uint64, ascending
    values: np.ndarray  # uint64

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str | bytes]]) -> _Digests:
        numbers = np.fromiter((_to_number(part) for row in rows for part in row), np.uint64).reshape(-1, 2)
        numbers = numbers[numbers[:, 0].argsort(kind="stable")]
        return cls(numbers[:, 0], numbers[:, 1])

    def contradicts(self, key: str, value: str | bytes) -> bool:
        """Whether something else stands under a key."""
        return self.has(key) and int(self.values[self._find(key)]) != _to_number(value)

    def has(self, key: str) -> bool:
        at = self._find(key)
        return at < len(self.keys) and int(self.keys[at]) == _to_number(key)

    def _find(self, key: str) -> int:
        return int(self.keys.searchsorted(np.uint64(_to_number(key))))


def _to_number(content: str | bytes) -> int:
    content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return int.from_bytes(blake2b(content, digest_size=8).digest())


def _find_repeated(dataset: Any, column: str = "id") -> set[str]:
    """Values that more than one row has: 8 bytes a row are held."""
    numbers = np.fromiter((_to_number(row[column]) for row in _iter_rows(dataset, [column])), np.uint64)
    numbers.sort()
    repeated = set[int](numbers[1:][numbers[1:] == numbers[:-1]].tolist())
    values = (row[column] for row in _iter_rows(dataset, [column]) if repeated)
    return {value for value in values if _to_number(value) in repeated}


def _verify_chunks(run: _Verification, datasets: Mapping[str, Any]) -> None:
    """Texts and their hashes; keys are unique."""
    columns = ["id", "header", "text", "content_hash", "text_key", "skipped"]
    for name, dataset in _list_named(datasets, "chunks").items():
        wrong = _find_repeated(dataset)
        for row in _iter_rows(dataset, columns):
            text_key = hash_strings(build_embedded_text(row["header"], row["text"]))
            is_whole = (row["content_hash"], row["text_key"]) == (hash_strings(row["text"]), text_key)
            if not (is_whole or row["skipped"]):
                wrong.add(row["id"])
        run.add_rows(name, "chunks are there twice, or their text is not what its hash says", wrong)


def _verify_index(run: _Verification, datasets: Mapping[str, Any]) -> None:
    """Each row says what its chunk and its vector say, once, and shows what it says."""
    copied = ["id", *_COPIED, "start_char", "archived", "skipped"]
    for name, dataset in _list_named(datasets, "index").items():
        chunks, vectors = dict[str, _Digests](), dict[str, _Digests]()
        wrong, documents = _find_repeated(dataset), dict[tuple[str, str], set[str]]()
        columns = ["id", "source", "source_type", *_COPIED, "start_char", "archived", "vector", "shown"]
        for batch in dataset.to_batches(columns=columns, batch_size=1024):
            own = [*_to_bytes(batch["vector"])]
            for row, vector in zip(batch.drop_columns("vector").to_pylist(), own, strict=True):
                source, source_type = row["source"], row["source_type"]
                documents.setdefault((source, source_type), set()).add(row["uri"])
                if source not in chunks:
                    stored = datasets.get(f"chunks/{source_type}/{source}")
                    rows = _iter_rows(stored, copied) if stored else ()
                    chunks[source] = _Digests.of((it["id"], _digest(it)) for it in rows if not it["skipped"])
                    vectors[source] = _Digests.of(_iter_vectors(datasets, name, source))
                is_other = chunks[source].contradicts(row["id"], _digest(row))
                is_other |= vector is not None and vectors[source].contradicts(row["text_key"], vector)
                if is_other or not _shows_itself(row):
                    wrong.add(row["id"])
        table = run.lake.index(name.partition("/")[2], dataset.schema.field("vector").type.list_size)
        for words in iter_changed_words(table, documents):
            wrong |= words.keys()
        run.add_rows(name, "rows are there twice, or say something else than their chunk or vector", wrong)


def _to_bytes(vectors: Any) -> Iterator[bytes | None]:
    width = vectors.type.list_size
    matrix = np.asarray(vectors.flatten(), np.float32).reshape(-1, width)
    rows = iter(matrix)
    return (next(rows).tobytes() if valid else None for valid in vectors.is_valid().to_pylist())


def _iter_vectors(datasets: Mapping[str, Any], index: str, source: str) -> Iterator[tuple[str, bytes]]:
    dataset = datasets.get(f"embeddings/{index.partition('/')[2]}/{source}")
    for batch in dataset.to_batches(batch_size=1024) if dataset else ():
        keys, own = batch["text_key"].to_pylist(), _to_bytes(batch["vector"])
        yield from ((key, vector) for key, vector in zip(keys, own, strict=True) if vector)


def _shows_itself(row: Mapping[str, Any]) -> bool:
    """Whether what results show of a row is what its columns say."""
    try:
        (shown,) = parse_payloads([row["shown"]], PAYLOAD_COLUMNS)
    except ValueError:
        return False
    return all(
        row[name] == value for name, value in shown.items() if name in row.keys() - _NOT_SHOWN_AS_STORED
    )


def _verify_graph(run: _Verification, datasets: Mapping[str, Any]) -> None:
    """Symbols show what their columns say, and edges name symbols that there are."""
    symbols, edges = datasets.get("graph/symbols"), datasets.get("graph/edges")
    if symbols is None or edges is None:
        return
    shown = [name for name in graph.PAYLOAD_COLUMNS if name != "url"]
    wrong = set[str]()
    for row in _iter_rows(symbols, ["id", "shown", *shown]):
        try:
            (payload,) = parse_payloads([row["shown"]], graph.PAYLOAD_COLUMNS)
        except ValueError:
            payload = {}
        if any(payload.get(name) != row[name] for name in shown):
            wrong.add(row["id"])
    run.add_rows("graph/symbols", "symbols show something else than they are", wrong)
    ends = ("source_id", "target_id")
    nodes = _Digests.of((row["node"], "") for row in _iter_rows(symbols, ["node"]))
    rows = _iter_rows(edges, ["id", *ends])
    loose = {row["id"] for row in rows if any(row[end] and not nodes.has(row[end]) for end in ends)}
    run.add_rows("graph/edges", "edges name symbols that there are not", loose)


def repair(lake: Lake, finding: Damage) -> None:
    """Build an index anew, or leave out what cannot be read or is wrong. Needs the table's lock."""
    path = locate(lake, finding)
    if finding.table == FILE:
        return discard_damaged_state(lake.folder)
    if finding.is_lost:
        return indexes.discard_path(lake, path)
    if finding.version is not None:  # without it, a cleanup cannot tell what is in use
        give_up_releases(lake, finding.table, finding.version)
        return lance_storage.remove_version(path, finding.version)
    table = _open_table(lake, finding.table)
    if finding.index:
        indexes.rebuild_index(table, finding.index)
    elif finding.fragments:
        table.drop_fragments(finding.fragments)
    for keys in split_batches(finding.keys):
        table.replace_rows([StaleRows(table.key, keys)])


def locate(lake: Lake, finding: Damage) -> StorePath:
    """The table, or the file, that a finding is about."""
    return lake.folder / FILE if finding.table == FILE else lake.root / f"{finding.table}.lance"


@contextmanager
def lock(lake: Lake, finding: Damage) -> Generator[None]:
    """What keeps others from writing there meanwhile; the local state locks itself. Raises `Busy`."""
    if finding.table == FILE:
        yield
    elif finding.table.startswith(("index/", "graph/")):
        with lake.lock_index():
            yield
    else:
        with lake.lock_source(finding.table.rpartition("/")[2]):
            yield


def list_repairs(findings: Sequence[Damage]) -> list[Damage]:
    """What a repair can mend."""
    return [finding for finding in findings if finding.remedy.startswith(damage.MEND)]


def _open_table(lake: Lake, name: str) -> Table:
    folder, _, rest = name.partition("/")
    group, _, source = rest.partition("/")
    path = lake.root / f"{name}.lance"
    if folder == "index":
        return lake.index(rest, lake.read_dimensions(path))
    if folder == "graph":
        return lake.graph_table(rest)
    if folder == "embeddings":
        return lake.embeddings(group, source, lake.read_dimensions(path))
    opened: dict[str, Callable[[str, str], Table]] = {
        "snapshot": lake.snapshot,
        "chunks": lake.chunks,
        "facts": lake.facts,
        "audiences": lake.audiences,
    }
    return opened[folder](group, source)
