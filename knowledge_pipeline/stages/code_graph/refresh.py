"""The code graph: the symbols of a source and the edges between them. Key: path.

First every file's facts, then its edges, in the tables that all sources share. A file is resolved
again when its facts, the source's configuration or the resolver changed, or the answer to a question
that was asked about other files when it was resolved last: its `trace`. So an edit costs what it can
affect, and nothing where nothing changed. Where a file that was asked has changed, but not in what it was
asked for, the trace alone is written again.

A file's own row is the last that is written of it and the last that is removed: a crash before leaves
work to do, never a hole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from knowledge_pipeline.code_graph.extract import facts_version
from knowledge_pipeline.code_graph.resolve import Trace
from knowledge_pipeline.records import digest
from knowledge_pipeline.stages.code_graph.facts import Read, refresh_facts
from knowledge_pipeline.stages.code_graph.project import StoredProject
from knowledge_pipeline.stages.code_graph.rows import FileRows, RowMaker, trace_text
from knowledge_pipeline.stages.code_graph.writer import Made
from knowledge_pipeline.stages.context import Pass, Stats, at_once, measured
from knowledge_pipeline.stages.index import TURN_ROWS, context_of
from knowledge_pipeline.store.filters import eq, one_of
from knowledge_pipeline.store.reconcile import Difference, difference, fingerprints
from knowledge_pipeline.store.tables import Table, portions

VERSION = "1"  # of how facts become rows; what `graph` itself changes is in `facts_version`
_PORTION = 128  # traces that are in memory at a time
_FEW = 50  # files that are resolved without reading the facts of all into memory


def refresh(this: Pass) -> Stats:
    """Bring the code graph of one source up to date with its snapshot.

    Raises:
        Busy: another process kept the index for too long.
    """
    with measured("graph", this.source.id) as stats:
        read = refresh_facts(this)
        symbols, facts = this.lake.graph("symbols"), this.lake.facts(this.source.type, this.source.id)
        context = context_of(this)
        mark = digest(VERSION, facts_version(), json.dumps(context, sort_keys=True))
        desired = _desired(facts, mark)
        held = _held(symbols, this.source.id)
        made_of = {path: file.made_of for path, file in held.items()}
        planned = difference(desired, made_of, full=this.full)
        if planned:
            project = StoredProject(facts)
            resolved = {path: made_of.get(path) for path in (*planned.write, *planned.removed)}
            if {path: digest(of_facts, mark) for path, of_facts in read.before.items()} != resolved:
                read = replace(read, names=None)  # a refresh was killed between facts and edges
            unchanged = _unchanged(desired, made_of)
            touched = _Touched() if this.full else _touched(this, project, unchanged, read)
            stats.notes = _write(this, project, desired, held, planned, touched)
            planned = _counting(planned, touched.affected)
        stats.seen = len(desired)
        stats.count(planned)
        stats.rows, stats.version = symbols.count(eq("source", this.source.id)), symbols.version
    return stats


@dataclass(frozen=True, slots=True)
class _Held:
    """What the table says of one file."""

    made_of: str
    fingerprint: str


def _desired(facts: Table, mark: str) -> dict[str, str]:
    held = fingerprints(facts, "path", "fingerprint")
    return {path: digest(of_facts, mark) for path, of_facts in sorted(held.items())}


def _held(symbols: Table, source: str) -> dict[str, _Held]:
    where = eq("source", source) & eq("kind", "file")
    rows = symbols.rows(["path", "made_of", "fingerprint"], where).to_pylist()
    return {row["path"]: _Held(row["made_of"], row["fingerprint"]) for row in rows}


def _unchanged(desired: dict[str, str], made_of: dict[str, str]) -> set[str]:
    return {path for path, mark in desired.items() if made_of.get(path) == mark}


def _counting(planned: Difference, affected: list[str]) -> Difference:
    changed = [*planned.changed, *affected]
    return Difference(planned.added, changed, planned.removed, planned.unchanged - len(affected))


@dataclass(frozen=True, slots=True)
class _Touched:
    """Files that did not change themselves, but what they were resolved by."""

    affected: list[str] = field(default_factory=list[str])  # a question about others has another answer now
    spared: list[str] = field(default_factory=list[str])  # another file changed, but not in what it was asked


def _touched(this: Pass, project: StoredProject, unchanged: Collection[str], read: Read) -> _Touched:
    """Look through the traces of the files that did not change."""
    found, may_matter = _Touched(), _mentioning(read)
    where = eq("source", this.source.id) & eq("kind", "file")
    for batch in this.lake.graph("symbols").batches(["path", "trace"], where):
        for path, trace in zip(batch["path"].to_pylist(), batch["trace"].to_pylist(), strict=True):
            if path not in unchanged or not may_matter(trace):
                continue
            asked: Trace = json.loads(trace)
            now = project.renewed(asked, read.names)
            if now is None:
                found.affected.append(path)
            elif now != asked:
                found.spared.append(path)
    return _Touched(sorted(found.affected), sorted(found.spared))


def _mentioning(read: Read) -> Callable[[str], bool]:
    """Whether a trace, as it is stored, names a file or a definition that an edit touched; or any may."""
    if read.names is None:
        return lambda trace: True
    named = [json.dumps(each)[1:-1] for each in (*read.before, *read.names)]
    return lambda trace: any(each in trace for each in named)


def _write(
    this: Pass,
    project: StoredProject,
    desired: dict[str, str],
    held: dict[str, _Held],
    planned: Difference,
    touched: _Touched,
) -> Counter[str]:
    """Resolve first, into files beside the store, so that the lock is held for the writing alone."""
    context = context_of(this)
    web_prefix = context.pop("web_prefix")
    maker = RowMaker(project, context, web_prefix, datetime.now(UTC))
    paths = [*touched.affected, *planned.write]
    if len(paths) > _FEW:
        project.read_ahead()
    known = {} if this.full else {path: file.fingerprint for path, file in held.items()}
    marks = {path: desired[path] for path in paths}
    with Made(this.lake) as made:
        _resolve(this, maker, marks, known, made)
        _renew(this, project, touched.spared, made)
        turn = at_once if made.rows <= TURN_ROWS else this.turn
        with turn("index"), this.lake.index_lock():
            made.write(
                this.source.id, maker.now, removed=planned.removed, everything=len(paths) == len(desired)
            )
    return maker.notes


def _resolve(this: Pass, maker: RowMaker, marks: dict[str, str], known: dict[str, str], made: Made) -> None:
    uris = _uris(this.lake.facts(this.source.type, this.source.id), marks)
    for done, (path, mark) in enumerate(marks.items(), start=1):
        rows = maker.rows(path, uris[path], mark)
        made.add(rows, same=known.get(path) == rows.file["fingerprint"])
        this.report("graph", done, len(marks))


def _renew(this: Pass, project: StoredProject, paths: list[str], made: Made) -> None:
    """Bring traces up to date: the files' own rows as they are, but for that."""
    symbols = this.lake.graph("symbols")
    for portion in portions(paths, _PORTION):
        where = eq("source", this.source.id) & eq("kind", "file") & one_of("path", portion)
        for row in symbols.rows(symbols.schema.names, where).to_pylist():
            trace = trace_text(project.renewed(json.loads(row["trace"])) or {})
            made.add(FileRows({**row, "trace": trace}, [], []), same=True)


def _uris(facts: Table, paths: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for rows in facts.rows_of("path", paths, ["path", "uri"]):
        found.update(zip(rows["path"].to_pylist(), rows["uri"].to_pylist(), strict=True))
    return found
