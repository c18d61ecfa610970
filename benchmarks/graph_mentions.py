"""How many mentions of classes the code graph has an edge for, by repository and language.

    python -m benchmarks.graph_mentions FOLDER… --work FOLDER [--missed N] [--json]

Each FOLDER is a working copy of a git repository. It is indexed by `knowledge index --words`, with a source
for its code and one for its documents, and its graph is built, unless `--work` holds its index already. Shown
are:

mentions    a class is named in code of a file that a source took and that does not define it: a whole word,
            outside of comments and strings. A class counts if no other has its name, it is not defined within
            another one, and its name begins with a capital letter and has at least three; a mention, if its
            file is in a language that could use the class. Each pair of a file and a class counts once.
with edge   mentions whose file has an edge to the class, or to a member of it
claimed     the share of uses that the graph itself counts as resolved
not taken   files of `git ls-files` that no source took, by kind
index       seconds of the clock and of the processor, and the peak memory in MB of the main process, of the
            first index; then the same of the graph

Classes and mentions are read from the text, so that a class that the graph does not know counts as missed. So
does a mention where a file means a library's class of that name.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from tree_sitter import Node

from benchmarks.figures import measure_peak_memory, print_rows
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.file_languages import GRAPH_LANGUAGES, detect_language
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.syntax.grammars import parse_root

_SCRIPT_LANGUAGES = ("vue", "svelte")
"""Languages whose code stands in elements `<script>`, in TypeScript or JavaScript."""

_FAMILIES = {
    **dict.fromkeys(("javascript", "typescript", "tsx", *_SCRIPT_LANGUAGES), "script"),
    **dict.fromkeys(("java", "kotlin", "scala"), "jvm"),
    **dict.fromkeys(("c", "cpp"), "c"),
}
"""Languages that use each other's classes; any other is alone."""

_SCRIPT = re.compile(r"<script\b[^>]*>(.*?)</script>", re.DOTALL)
_LITERAL = re.compile(r"comment|haddock|string|char_literal|character_literal|heredoc_body|regex|jsx_text")
_CODE_IN_LITERAL = re.compile(r"interpolation|interpolated_expression|substitution")
_NAME = re.compile(r"\b[A-Z]\w{2,}\b")
_MARKED = r"(?:class\s+|struct\s+|[A-Z][A-Z0-9_]{3,}(?:\(\w*\))?\s+)?"  # `enum class`, `class LEVELDB_EXPORT`
_CLASS = re.compile(
    rf"\b(?:class|interface|struct|enum|trait|record|object|protocol|actor|union)\s+{_MARKED}([A-Z]\w{{2,}})"
)
_CLASS_OF_C = re.compile(_CLASS.pattern + r"\s*(?:final\s*)?(?=\{|:(?!:))")  # not a forward declaration
_CLASS_OF_GO = re.compile(r"^type\s+([A-Z]\w{2,})(?:\[[^\]\n]*\])?\s+(?:struct|interface)\b", re.MULTILINE)
_CLASS_PATTERNS = {"c": _CLASS_OF_C, "cpp": _CLASS_OF_C, "go": _CLASS_OF_GO}
_SEPARATOR = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a program took."""

    seconds: float
    processor_seconds: float  # of all its processes
    megabytes: float  # the peak of the main process


@dataclass(frozen=True, slots=True)
class LanguageRow:
    """The mentions in the files of one language."""

    language: str
    files: int
    mentions: int
    with_edge: int
    claimed: float | None  # None: the graph has no use in the language
    missed: list[tuple[str, str]]  # file and class

    @property
    def share(self) -> float | None:
        """The share of the mentions that have an edge."""
        return self.with_edge / self.mentions if self.mentions else None


@dataclass(frozen=True, slots=True)
class RepositoryRow:
    """What was found in one repository."""

    repository: str
    languages: list[LanguageRow]
    not_taken: dict[str, int]
    index: Cost
    graph: Cost


@dataclass(slots=True)
class Names:
    """The names in a repository's code."""

    definitions: defaultdict[str, list[tuple[str, str, bool]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Name -> of each class of that name the file, its family, and whether it is within another class."""
    files: dict[str, tuple[str, frozenset[str]]] = field(
        default_factory=dict[str, tuple[str, frozenset[str]]]
    )
    """File -> language and the names in it."""

    def list_mentions(self) -> Iterator[tuple[str, str, str]]:
        """Language, file and class of each mention."""
        unique = {name: places[0] for name, places in self.definitions.items() if len(places) == 1}
        for path, (language, names) in self.files.items():
            for name in sorted(names & unique.keys()):
                defined_in, family, is_nested = unique[name]
                if defined_in != path and family == _family(language) and not is_nested:
                    yield language, path, name


def _family(language: str) -> str:
    return _FAMILIES.get(language, language)


def read_names(folder: Path, paths: Iterable[str]) -> Names:
    """The classes that the code of some files defines, and the names that it mentions."""
    names = Names()
    for path in paths:
        file = folder / path
        if file.is_symlink() or not file.is_file() or detect_language(path) in (None, "json", "markdown"):
            continue
        text = file.read_bytes().decode("utf-8", "replace")
        language = detect_language(path, text) or ""
        if language not in GRAPH_LANGUAGES and language not in _SCRIPT_LANGUAGES:
            continue
        code = read_code(text, language)
        indents = dict(_list_classes(code, language))
        outermost = min(indents.values(), default=0)
        for name, indent in indents.items():
            names.definitions[name].append((path, _family(language), indent > outermost))
        names.files[path] = language, frozenset(_NAME.findall(code))
    return names


def _list_classes(code: str, language: str) -> Iterator[tuple[str, int]]:
    """The names of the classes that a file defines, and how far their lines are indented."""
    for match in _CLASS_PATTERNS.get(language, _CLASS).finditer(code):
        line = code[code.rfind("\n", 0, match.start()) + 1 : match.end()]
        yield match[1], len(line) - len(line.lstrip())


def read_code(text: str, language: str) -> str:
    """The text without comments, strings and what stands outside of scripts; whole where it has no syntax."""
    if language in _SCRIPT_LANGUAGES:
        return "\n".join(read_code(match[1], "typescript") for match in _SCRIPT.finditer(text))
    source = text.encode("utf-8", "replace")
    root = parse_root(source, language)
    if root is None:
        return text
    code = bytearray(source)
    for start, end in _list_literals(root):
        code[start:end] = bytes(byte if byte == 10 else 32 for byte in source[start:end])
    return code.decode("utf-8", "replace")


def _list_literals(root: Node) -> Iterator[tuple[int, int]]:
    """Where the leaves of comments and literals are, in bytes; code within them is none of theirs."""
    waiting = [(root, False)]
    while waiting:
        node, is_literal = waiting.pop()
        if _CODE_IN_LITERAL.search(node.type):
            is_literal = False
        elif node.is_named and _LITERAL.search(node.type):
            is_literal = True
        if is_literal and not any(map(_may_hold_code, node.children)):
            yield node.start_byte, node.end_byte
        else:
            waiting.extend((child, is_literal) for child in node.children)


def _may_hold_code(node: Node) -> bool:
    return bool(node.child_count) or bool(_CODE_IN_LITERAL.search(node.type))


def list_files(folder: Path) -> list[str]:
    """The files that git tracks. Raises CalledProcessError: the folder is no working copy."""
    command = ["git", "-C", folder, "ls-files", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout
    return [path for path in listed.decode("utf-8", "replace").split("\0") if path]


def read_taken(lake: Lake, sources: Iterable[tuple[str, str]]) -> set[str]:
    """The files that some sources (type, id) have read."""
    taken: set[str] = set()
    for type_, id_ in sources:
        rows = lake.snapshot(type_, id_).read_rows(["path", "skipped"])  # pyright: ignore[reportArgumentType]
        taken |= {row["path"] for row in rows.to_pylist() if row["skipped"] is None}
    return taken


def count_kinds(paths: Iterable[str]) -> dict[str, int]:
    """Files by the ends of their names, most first."""
    return dict(
        Counter(PurePosixPath(path).suffix or PurePosixPath(path).name for path in paths).most_common()
    )


def read_edges(lake: Lake, source: str) -> dict[str, set[str]]:
    """File -> the names that its edges lead to: those of definitions and of what these are in."""
    edges: defaultdict[str, set[str]] = defaultdict(set)
    rows = lake.graph_table("edges").read_rows(
        ["path", "kind", "target_id", "target_name"], eq("source", source)
    )
    for row in rows.to_pylist():
        if row["target_id"] is not None and row["kind"] not in ("contains", "depends"):
            edges[row["path"]].update(_SEPARATOR.split(row["target_name"]))
    return edges


def score(names: Names, edges: dict[str, set[str]], claimed: dict[str, float]) -> list[LanguageRow]:
    """One row a language, the one with most mentions first."""
    mentions: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for language, path, name in names.list_mentions():
        mentions[language].append((path, name))
    files = Counter(language for language, _ in names.files.values())
    rows: list[LanguageRow] = []
    for language, pairs in sorted(mentions.items(), key=lambda entry: -len(entry[1])):
        missed = [(path, name) for path, name in pairs if name not in edges.get(path, ())]
        counts = files[language], len(pairs), len(pairs) - len(missed)
        rows.append(LanguageRow(language, *counts, claimed.get(language), missed))
    return rows


def index(folder: Path, work: Path) -> tuple[Cost, Cost]:
    """Index a working copy and build its graph, each in a process of its own, unless that was done."""
    figures, config = work / "figures.json", work / "knowledge.yaml"
    if not figures.is_file():
        work.mkdir(parents=True, exist_ok=True)
        connection = f"connection: {{type: local, path: {json.dumps(str(folder))}}}"
        config.write_text(
            "version: 1\nstore: store\nsources:\n"
            f"  - {{id: code, type: code, {connection}}}\n  - {{id: docs, type: markdown, {connection}}}\n"
        )
        first = _time_program("knowledge_pipeline.cli", "index", "--words", "--quiet", "--config", config)
        graph = _time_program("benchmarks.graph_mentions", "--build-graph", config)
        figures.write_text(json.dumps([asdict(first), asdict(graph)]))
    first, graph = json.loads(figures.read_text())
    return Cost(**first), Cost(**graph)


def _time_program(module: str, *arguments: str | Path) -> Cost:
    """Run a module. Raises SystemExit: it failed."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-P", "-m", module, *map(str, arguments)], stdout=sys.stderr)
    peak = 0.0
    while True:  # `ru_maxrss` would begin with the peak of this process
        peak = max(peak, measure_peak_memory(process.pid))
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        time.sleep(0.05)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{module} ended with exit code {process.returncode}: see its messages above")
    worked = usage.ru_utime + usage.ru_stime
    return Cost(round(time.perf_counter() - started, 1), round(worked, 1), peak)


def build_graph(config: Path) -> None:
    """Build the graph of every source of code, without vectors."""
    from knowledge_pipeline.stages import code_graph
    from knowledge_pipeline.stages.context import RefreshContext

    settings = load_settings(config)
    for source in settings.sources:
        if source.type == "code":
            code_graph.refresh(RefreshContext(Lake(settings.store), settings, source))


def measure(folder: Path, work: Path) -> RepositoryRow:
    """Index a working copy where it is not, and count."""
    from knowledge_pipeline.checks.thresholds import count_graph

    costs = index(folder, work)
    settings = load_settings(work / "knowledge.yaml")
    lake, paths = Lake(settings.store), list_files(folder)
    counts = count_graph(lake, eq("source", "code"))
    claimed = {row.language: round(row.resolved_share, 4) for row in counts.by_language if row.uses}
    taken = read_taken(lake, [(source.type, source.id) for source in settings.sources])
    rows = score(read_names(folder, sorted(taken)), read_edges(lake, "code"), claimed)
    return RepositoryRow(folder.name, rows, count_kinds({*paths} - taken), *costs)


def show(rows: Sequence[RepositoryRow], missed: int) -> None:
    """Print tables; of each language, some mentions without an edge."""
    languages = [
        {
            "repository": row.repository, "language": it.language, "files": it.files,
            "mentions": it.mentions, "with edge": it.with_edge,
            "share": _format_share(it.share), "claimed": _format_share(it.claimed),
        }
        for row in rows for it in row.languages
    ]  # fmt: skip
    print_rows("mentions of classes in other files", languages, width=120)
    repositories = [
        {
            "repository": row.repository, "index, s": row.index.seconds,
            "processor, s": row.index.processor_seconds, "MB": row.index.megabytes,
            "graph, s": row.graph.seconds, "of processor, s": row.graph.processor_seconds,
            "in MB": row.graph.megabytes,
            "not taken": ", ".join(f"{kind} {count}" for kind, count in [*row.not_taken.items()][:6]),
        }
        for row in rows
    ]  # fmt: skip
    print_rows("first index", repositories, width=160)
    for row in rows:
        for it in row.languages:
            step = max(1, len(it.missed) // missed) if missed else 1
            for path, name in it.missed[::step][:missed]:
                print(f"{row.repository} {it.language}: {path} names {name}")


def _format_share(share: float | None) -> str:
    return "" if share is None else f"{share:.3f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    parser.add_argument("--work", type=Path, help="folder for the indexes, one in each")
    parser.add_argument(
        "--missed", type=int, default=0, help="print so many mentions without an edge of each"
    )
    parser.add_argument("--json", action="store_true", help="print for programs")
    parser.add_argument("--build-graph", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build_graph:
        build_graph(options.build_graph)
        return
    if not options.folders or not options.work:
        parser.error("name working copies of repositories, and a folder for their indexes with --work")
    rows = [measure(folder.resolve(), options.work.resolve() / folder.name) for folder in options.folders]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        show(rows, options.missed)


if __name__ == "__main__":
    main()
