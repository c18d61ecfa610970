"""What must stay equal while modules move: answers by every interface, and tables after edits.

    python -m benchmarks.oracle record FOLDER --store FOLDER [--sets FOLDER] [--only NAME...]
    python -m benchmarks.oracle compare FOLDER

The store holds indexed checkouts, as `benchmarks.mixed` leaves them. They are copied into FOLDER, so that
both commands ask the same: questions in process, over HTTP, by MCP and, some, by the command line; contexts,
the code graph, documents. One checkout is indexed anew and edited thirty times; the tables after each refresh
are hashed, without times. `compare` does all of that again, prints what differs first, and then ends with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from benchmarks.oracle_asks import (
    GRAPH_METHODS,
    Question,
    list_files,
    list_questions,
    list_symbols,
    open_interfaces,
    run_git,
    search_by_command,
)

COMMANDS, CONTEXTS, SYMBOLS, DOCUMENTS = 10, 12, 12, 25  # of each checkout
SHOWN = 20  # differences
ItemT = TypeVar("ItemT")
_COUNTS = "counts.json"

_OF_ONE_RUN = frozenset(("query_id", "took_ms", "timings_ms", "cached", "run_id", "state"))
_OF_ONE_FOLDER = "revision"  # the column: of local files from the time when they were copied
_LISTED = ("results", "nodes", "excerpts", "chunks")
_NOW = datetime(2026, 1, 1, tzinfo=UTC)  # of edits


def condense(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What is listed, to be read, and a hash of every field, by its path: `results.metadata`."""
    if "error" in answer:
        return {"error": answer["error"]}
    plain = strip(answer)
    listed = [describe_item(item) for name in _LISTED for item in plain.get(name) or ()]
    fields: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            keys = sorted({key for item in value for key in item})
            fields |= {f"{name}.{key}": [item.get(key) for item in value] for key in keys}
        else:
            fields[name] = value
    return {"listed": listed, "fields": {name: hash_value(value) for name, value in fields.items()}}


def strip(value: Any) -> Any:
    """Without what differs from run to run; numbers with six digits."""
    if isinstance(value, Mapping):
        return {name: strip(part) for name, part in value.items() if name not in _OF_ONE_RUN}
    if isinstance(value, list | tuple):
        return [strip(part) for part in value]
    return round(value, 6) if isinstance(value, float) else value


def describe_item(item: Mapping[str, Any]) -> list[Any]:
    """Id, score and citation, as far as there are such."""
    citation = item.get("citation") or item
    cited = ":".join(str(citation[name]) for name in ("source", "path", "lines") if citation.get(name))
    return [item.get("id") or item.get("number"), item.get("score"), cited]


def hash_value(value: Any) -> str:
    """Twelve digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


async def iter_answers(checkout: Path, questions: Sequence[Question]) -> AsyncIterator[tuple[str, Any]]:
    """The answers of one checkout, each with what was asked."""
    config = checkout / "knowledge.yaml"
    async with open_interfaces(config) as (interfaces, get):
        for name, interface in interfaces.items():
            for question in questions:
                answer = await interface.search(question)
                yield f"{name} search {question.text!r} {json.dumps(question.how)}", answer
            for number, question in enumerate(pick(questions, CONTEXTS)):
                tokens = (1_000, 4_000)[number % 2]
                answer = await interface.context(question.text, tokens)
                yield f"{name} context {tokens} {question.text!r}", answer
            for symbol in list_symbols(checkout)[:SYMBOLS]:
                for method in GRAPH_METHODS:
                    yield f"{name} {method} {symbol}", await interface.graph(method, symbol)
        for path in ("collections", "status"):
            yield f"http {path}", await get(path)
        for id_ in await _list_documents(interfaces["python"], questions):
            yield f"http document {id_}", await get(f"docs/{quote(id_, safe='')}")
    for question in pick([each for each in questions if "filters" not in each.how], COMMANDS):
        answer = await search_by_command(config, question)
        yield f"command search {question.text!r} {json.dumps(question.how)}", answer


async def _list_documents(interface: Any, questions: Sequence[Question]) -> list[str]:
    """Ids of chunks, whose documents are read: the first results of some questions."""
    answers = [await interface.search(question) for question in pick(questions, DOCUMENTS)]
    return list(dict.fromkeys(answer["results"][0]["id"] for answer in answers if answer.get("results")))


def pick(items: Sequence[ItemT], count: int) -> list[ItemT]:
    """So many, from all over."""
    return list(items[:: max(1, len(items) // count)])[:count]


def hash_tables(store: Path, before: Mapping[str, Any]) -> dict[str, Any]:
    """Every table but logs, by name: version, rows, indexes, and a hash of each column of its sorted rows.

    Those of `before` that have the same version still are not read again.
    """
    import lance

    folders = (path.parent for path in store.rglob("_versions") if path.is_dir())
    names = sorted(path.relative_to(store).as_posix() for path in folders)
    tables: dict[str, Any] = {}
    for name in names:
        if not name.startswith("logs/"):
            dataset, previous = lance.dataset(str(store / name)), before.get(name)
            is_same = previous is not None and previous["version"] == dataset.version
            tables[name] = previous if is_same else _hash_table(dataset)
    return tables


def _hash_table(dataset: Any) -> dict[str, Any]:
    import pyarrow as pa

    names = [
        column.name
        for column in dataset.schema
        if not pa.types.is_timestamp(column.type) and column.name not in (*_OF_ONE_RUN, _OF_ONE_FOLDER)
    ]
    table = dataset.to_table(columns=names)
    rows = sorted(zip(*(map(_write_value, table[name].to_pylist()) for name in names), strict=True))
    columns = {name: hash_value([row[at] for row in rows]) for at, name in enumerate(names)}
    indexes = sorted(f"{index.name} {index.index_type}" for index in dataset.describe_indices())
    return {"version": dataset.version, "rows": len(rows), "indexes": indexes, "columns": columns}


def _write_value(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def iter_tables(checkout: Path, edits: int) -> Iterator[tuple[str, Any]]:
    """The tables after a first index, whose vectors are there already, and those that each edit changes."""
    for path in (checkout / ".knowledge").iterdir():
        if path.is_file():
            path.unlink()
        elif path.name != "embeddings":
            shutil.rmtree(path)
    before: dict[str, Any] = {}
    for number in range(edits + 1):
        edited = edit(checkout, number) if number else "the first index"
        _run_knowledge(checkout, "refresh" if number else "index")
        tables = hash_tables(checkout / ".knowledge", before)
        gone = dict.fromkeys(before.keys() - tables.keys())
        for name, figures in {**gone, **tables}.items():
            if figures != before.get(name):
                yield f"edit {number}, {edited}: {name}", figures
        before = tables


def edit(checkout: Path, number: int) -> str:
    """Make one of many edits, and commit every third; says what it was."""
    names = [name for name in list_files(checkout) if name.endswith((".py", ".js", ".cc", ".md"))]
    name = names[number * 7919 % len(names)]
    path = checkout / name
    text = path.read_text(encoding="utf-8")
    edits: tuple[tuple[str, str | None], ...] = (
        ("deleted", None),
        ("copied", text),
        ("changed all over", re.sub(r"\breturn\b", "return  ", text) + f"\n# Edit {number}\n"),
        ("pushed down", f"# Edit {number}\n\n{text}"),
        ("halved", text[: len(text) // 2]),
    )
    done, changed = edits[number % len(edits)]
    if changed is None:
        path.unlink()
    else:
        path = path.with_name(f"added_{number}{path.suffix}") if done == "copied" else path
        path.write_text(changed)
        os.utime(path, (_NOW.timestamp() + number,) * 2)  # rows have when a file was changed
    run_git(checkout, "add", "--all", "--", ":!.knowledge")
    if number % 3 == 0:
        who = ["-c", "user.name=Oracle", "-c", "user.email=oracle@example.org"]
        run_git(
            checkout,
            *who,
            "commit",
            "--quiet",
            f"--date={_NOW.isoformat()}",
            "-m",
            f"Edit {number}: {name} {done}",
        )
    return f"{name} {done}"


def _run_knowledge(checkout: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "knowledge_pipeline.cli", "--config", str(checkout / "knowledge.yaml")]
    subprocess.run([*command, *arguments, "--quiet"], check=True, stdout=subprocess.DEVNULL)


def record(folder: Path, target: Path) -> None:
    """Ask the frozen checkouts of a folder, and write one file for each and one of the tables."""
    counts = json.loads((folder / _COUNTS).read_text())
    os.environ["GIT_COMMITTER_DATE"] = _NOW.isoformat()
    frozen = sorted(path for path in (folder / "frozen").iterdir() if path.is_dir())
    work = folder / "work"  # the same at each recording: paths are in the tables
    for checkout in frozen:
        started = time.monotonic()
        copied = _copy(checkout, work)
        set_file = folder / "sets" / f"{checkout.name}.jsonl"
        questions = list_questions(copied, set_file, counts["questions"] // len(frozen))
        asyncio.run(_write_answers(target / f"{checkout.name}.jsonl.gz", copied, questions))
        print(f"{checkout.name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    started = time.monotonic()
    smallest = min(frozen, key=lambda checkout: len(list_files(checkout)))
    with _create(target / "tables.jsonl.gz") as file:
        for key, figures in iter_tables(_copy(smallest, work), counts["edits"]):
            file.write(_to_line(key, figures))
    shutil.rmtree(work)
    print(f"tables of {smallest.name}: {time.monotonic() - started:.0f} s", file=sys.stderr)


async def _write_answers(path: Path, checkout: Path, questions: Sequence[Question]) -> None:
    with _create(path) as file:
        async for key, answer in iter_answers(checkout, questions):
            file.write(_to_line(key, condense(answer)))


def _create(path: Path) -> gzip.GzipFile:
    """A file whose bytes depend on its content alone."""
    return gzip.GzipFile(filename="", fileobj=path.open("wb"), mode="wb", mtime=0)


def _to_line(key: str, value: Any) -> bytes:
    return f"{json.dumps([key, value])}\n".encode()


def _copy(checkout: Path, work: Path) -> Path:
    """A copy that may be changed, whose server answers as often as it is asked."""
    shutil.rmtree(work, ignore_errors=True)
    copied = Path(shutil.copytree(checkout, work / checkout.name, symlinks=True))
    with (copied / "knowledge.yaml").open("a") as file:
        file.write("\nserve: {requests_per_minute: 1000000, timeout_s: 3600}\n")
    return copied


def iter_differences(before: Iterable[bytes], after: Iterable[bytes]) -> Iterator[str]:
    """What was asked and is answered otherwise, in words."""
    expected, actual = (dict(map(json.loads, lines)) for lines in (before, after))
    for key in dict.fromkeys((*expected, *actual)):
        if (old := expected.get(key)) != (new := actual.get(key)):
            yield f"{key}\n" + "\n".join(f"    {line}" for line in describe_difference(old, new))


def describe_difference(old: Any, new: Any) -> list[str]:
    """The first rank that differs, and the fields, or columns, that do."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return ["no longer there" if old else "not there before"]
    lines = [f"{name}: {old.get(name)} -> {new.get(name)}" for name in ("error", "version", "rows", "indexes")
             if old.get(name) != new.get(name)]  # fmt: skip
    before, after = old.get("listed", []), new.get("listed", [])
    for rank in range(max(len(before), len(after))):
        pair = [items[rank] if rank < len(items) else None for items in (before, after)]
        if pair[0] != pair[1]:
            lines.append(f"rank {rank + 1}: {pair[0]} -> {pair[1]}")
            break
    for group in ("fields", "columns"):
        own, other = old.get(group, {}), new.get(group, {})
        if names := sorted(name for name in {*own, *other} if own.get(name) != other.get(name)):
            lines.append(f"{group}: {', '.join(names)}")
    return lines


def compare(folder: Path) -> int:
    """Record again, and print the first differences; how many there are."""
    count = 0
    with tempfile.TemporaryDirectory() as recorded:
        record(folder, Path(recorded))
        for path in sorted(folder.glob("*.jsonl.gz")):
            with gzip.open(path) as before, gzip.open(Path(recorded) / path.name) as after:
                differences = list(iter_differences(before, after))
            print(f"{path.name.removesuffix('.jsonl.gz')}: {len(differences)} differences")
            print(*islice(differences, SHOWN), sep="\n")
            count += len(differences)
    return count


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("folder", type=Path, help="of the recording")
    parser.add_argument("--store", type=Path, help="folder of indexed checkouts; as the rest for `record`")
    parser.add_argument("--sets", type=Path, help="folder with <checkout>.jsonl of more questions")
    parser.add_argument("--only", nargs="+", help="names of checkouts")
    parser.add_argument("--questions", type=int, default=2_000, help="of all checkouts together")
    parser.add_argument("--edits", type=int, default=30)
    options = parser.parse_args()
    folder = options.folder.resolve()
    if options.action == "compare":
        if not (folder / _COUNTS).is_file():
            parser.error(f"nothing was recorded in {folder}: run record first")
        sys.exit(1 if compare(folder) else 0)
    if options.store is None:
        parser.error("record needs --store, a folder of indexed checkouts")
    if not options.store.is_dir():
        parser.error(f"there is no folder {options.store}: name one of indexed checkouts")
    freeze(folder, options.store, options.sets, options.only)
    (folder / _COUNTS).write_text(json.dumps({"questions": options.questions, "edits": options.edits}))
    record(folder, folder)


def freeze(folder: Path, store: Path, sets: Path | None, only: Collection[str] | None) -> None:
    """Copy indexed checkouts, and the sets of questions on them. Raises FileExistsError: it is done."""
    (folder / "sets").mkdir(parents=True)
    for path in sorted(store.iterdir()):
        if (path / "knowledge.yaml").is_file() and (not only or path.name in only):
            shutil.copytree(path, folder / "frozen" / path.name, symlinks=True)
            if sets:
                shutil.copy(sets / f"{path.name}.jsonl", folder / "sets")


if __name__ == "__main__":
    main()
