"""How easy the product is to inhabit: how much there is of it, and how much of it one question passes.

    python -m benchmarks.inhabit [--repo REPOSITORY] [--commit COMMIT] [--folder FOLDER] [--words] [--json]

Reads the text of the package, and asks an index of a repository, by default of this one, at a commit. FOLDER
keeps a clone of it and its index, which takes minutes; with `--words` one, and the index has no vectors and
no code graph, so that no edit is measured. Each piece of work is done once before it is counted, with
another question or edit. `--source` measures the text alone.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.figures import print_rows
from benchmarks.inhabit_calls import PRODUCT, CallRecorder, Calls

ROOT = Path(__file__).parent.parent
QUESTION = "how is a crash between two writes repaired"  # the second of `make demo`
WARMING = "what makes a release"  # the third
CONTEXT_TOKENS = 1_000
ODD_WORDS = frozenset(("each", "found", "known", "place", "named", "held", "given"))
MORE_ODD_WORDS = ODD_WORDS | {"asked", "told", "made", "taken", "beside"}

_MUTABLE = (
    "dict list set defaultdict OrderedDict Counter deque WeakKeyDictionary WeakValueDictionary WeakSet "
    "LRUCache TTLCache FIFOCache LFUCache"
)
_MUTATORS = (
    "add append appendleft clear discard extend insert move_to_end pop popitem popleft remove "
    "setdefault update"
)
_PLAIN = "str bytes int float bool None Literal tuple frozenset Sequence"
_CACHES = frozenset(("cache", "lru_cache"))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def count_import_lines(tree: ast.AST) -> int:
    """Lines of import statements, in functions and for types too."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)


def list_function_lengths(tree: ast.AST) -> list[int]:
    """Lines of each function, docstring and nested functions included, decorators not."""
    functions = (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
    return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions]


def list_variables(tree: ast.AST) -> list[str]:
    """Names that are assigned or looped over, once for each time; constants aside."""
    names = (
        node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    return [name.id for name in names if not name.id.isupper()]


def list_parameters(tree: ast.AST) -> list[str]:
    """Names of parameters, but for those of the object and the class."""
    names = (node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))
    return [name for name in names if name not in ("self", "cls")]


def find_global_caches(tree: ast.Module) -> list[str]:
    """Names at the module's level whose content, or which themselves, functions of the module change.

    A heuristic: a collection, or what a class called a cache makes, that a subscript or a method changes; any
    name that is declared `global`.
    """
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    changed = {name for function in functions for name in _list_changed(function)}
    rebound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return sorted(changed.intersection(_list_module_collections(tree)) | rebound)


def find_remembering_functions(tree: ast.Module) -> list[str]:
    """Functions with an `lru_cache` that have a parameter which is neither text nor a number."""
    return sorted(
        node.name for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) and _remembers_objects(node)
    )


def _list_module_collections(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value:
            targets = [node.target]
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        is_display = isinstance(
            value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
        )
        is_made = isinstance(value, ast.Call) and _is_collection(value.func)
        yield from (
            target.id for target in targets if isinstance(target, ast.Name) and (is_display or is_made)
        )


def _is_collection(made: ast.expr) -> bool:
    """Whether a call makes one of the library's collections, or something of the product named a cache."""
    name = _last_name(made)
    return name in _MUTABLE.split() or name.endswith("Cache")


def _last_name(node: ast.expr) -> str:
    """`c` of `a.b.c[d]`."""
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _list_changed(function: ast.AST) -> Iterator[str]:
    """Names whose items are set or deleted, or that a method changes."""
    for node in ast.walk(function):
        changed: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            changed = node.value
        elif isinstance(node, ast.AugAssign):
            changed = node.target
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _MUTATORS.split()
        ):
            changed = node.func.value
        while isinstance(changed, ast.Subscript):  # `a[b][c] = d` changes what `a` holds
            changed = changed.value
        if isinstance(changed, ast.Name):
            yield changed.id


def _remembers_objects(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = (each.func if isinstance(each, ast.Call) else each for each in function.decorator_list)
    if not any(_last_name(decorator) in _CACHES for decorator in decorators):
        return False
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return any(
        name not in _PLAIN.split()
        for parameter in parameters
        for name in (_list_type_names(parameter.annotation) if parameter.annotation else ("untyped",))
    )


def _list_type_names(annotation: ast.expr) -> list[str]:
    names = [_last_name(node) for node in ast.walk(annotation) if isinstance(node, ast.Name | ast.Attribute)]
    return [name for name in names if name]


def measure_source(package: Path) -> dict[str, float]:
    """The figures of a package's text."""
    texts = {path.relative_to(package): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    trees = [ast.parse(text) for text in texts.values()]
    lines = {path: text.count("\n") for path, text in texts.items()}
    query = {path: count for path, count in lines.items() if path.parts[0] == "query"}
    variables = [name for tree in trees for name in list_variables(tree)]
    bound = variables + [name for tree in trees for name in list_parameters(tree)]
    return {
        "lines": sum(lines.values()),
        "files": len(lines),
        "lines of query/": sum(query.values()),
        "files of query/": len(query),
        "imports, % of lines": _percent(sum(map(count_import_lines, trees)), sum(lines.values())),
        "lines of the median module": statistics.median(lines.values()),
        "lines of the longest module": max(lines.values()),
        "lines of the median function": statistics.median(
            length for tree in trees for length in list_function_lengths(tree)
        ),
        "odd words, % of variables": _percent_of_words(variables, ODD_WORDS),
        "the longer list of them, % of variables": _percent_of_words(variables, MORE_ODD_WORDS),
        "the longer list, % of variables and parameters": _percent_of_words(bound, MORE_ODD_WORDS),
    }


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1)


def _percent_of_words(names: Sequence[str], words: Collection[str]) -> float:
    return _percent(sum(map(Counter(names).__getitem__, words)), len(names))


def list_by_module(package: Path, find: Callable[[ast.Module], list[str]]) -> dict[str, list[str]]:
    """What a function finds in modules, by their path."""
    paths = sorted(package.rglob("*.py"))
    names = {str(path.relative_to(package)): find(ast.parse(path.read_text())) for path in paths}
    return {path: own for path, own in names.items() if own}


def prepare(repository: str, commit: str, folder: Path, *, words: bool) -> Path:
    """An indexed clone of a repository at a commit; its knowledge.yaml."""
    clone = folder / "clone"
    if not clone.is_dir():
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", repository, clone], check=True)
        subprocess.run(["git", "-C", clone, "checkout", "--quiet", "--detach", commit], check=True)
    config = clone / "knowledge.yaml"
    arguments = ["index"] if config.is_file() else ["index", "--repo", str(clone)]
    options = ["--quiet", "--words"] if words else ["--quiet"]
    command = [sys.executable, "-m", f"{PRODUCT}.cli", "--config", str(config), *arguments, *options]
    subprocess.run(command, check=True, cwd=ROOT)
    return config


def measure_calls(config: Path, *, words: bool) -> dict[str, Calls]:
    """What a question, a context and a request pass in this process, and two commands as processes."""
    recorder = CallRecorder()
    measured = _measure_questions(recorder, config)
    measured["POST /search"] = asyncio.run(_measure_http(recorder, config))
    for question in (WARMING, QUESTION):
        measured["knowledge search"] = _measure_process(config, "search", question)
    if not words:
        measured["knowledge refresh, one edit"] = _measure_edit(config)
    return measured


def _measure_questions(recorder: CallRecorder, config: Path) -> dict[str, Calls]:
    from knowledge_pipeline import KnowledgeBase

    with KnowledgeBase.open(config) as base:
        ask: Mapping[str, Callable[[str], object]] = {
            "a question": base.search,
            f"a context of {CONTEXT_TOKENS:,} tokens": partial(base.context, max_tokens=CONTEXT_TOKENS),
        }
        return {name: _count(recorder, work) for name, work in ask.items()}


def _count(recorder: CallRecorder, ask: Callable[[str], object]) -> Calls:
    ask(WARMING)
    with recorder.record():
        ask(QUESTION)
    return recorder.calls


async def _measure_http(recorder: CallRecorder, config: Path) -> Calls:
    import httpx2

    from knowledge_pipeline.config.file import load_settings
    from knowledge_pipeline.serve.http.app import create_app
    from knowledge_pipeline.serve.service import Service

    app = create_app(Service(load_settings(config), config=config))
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        for question in (WARMING, QUESTION):
            with recorder.record():
                response = await client.post("/api/v1/knowledge/search", json={"query": question})
                response.raise_for_status()
    return recorder.calls


def _measure_edit(config: Path) -> Calls:
    """One function more in a Python file of median length; the edit before it is another one."""
    command = ["git", "-C", config.parent, "ls-files", "*.py"]
    tracked = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    paths = sorted((config.parent / name for name in tracked), key=lambda path: (path.stat().st_size, path))
    path = paths[len(paths) // 2]
    text = path.read_text()
    measured = Calls()
    for number in range(2):
        path.write_text(f"{text}\n\ndef edited_{os.getpid()}_{number}(value):\n    return value\n")
        measured = _measure_process(config, "refresh", "--quiet")
    path.write_text(text)
    return measured


def _measure_process(config: Path, *arguments: str) -> Calls:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "calls.json"
        command = [sys.executable, "-m", "benchmarks.inhabit_calls", str(file), "--config", str(config)]
        subprocess.run([*command, *arguments], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        return Calls(**json.loads(file.read_text()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repo", default=str(ROOT), help="a folder or an address that git clones")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--folder", type=Path, help="keeps the clone and its index")
    parser.add_argument("--words", action="store_true", help="index words alone")
    parser.add_argument("--source", action="store_true", help="measure the source text alone")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.folder:
        try:
            options.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"the folder cannot be made: {error}")
    source = measure_source(ROOT / PRODUCT)
    finders = {"global caches": find_global_caches, "lru_cache of objects": find_remembering_functions}
    state = {name: list_by_module(ROOT / PRODUCT, find) for name, find in finders.items()}
    source |= {name: sum(map(len, modules.values())) for name, modules in state.items()}
    source["lines of docs/decisions"] = sum(
        path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "docs/decisions").glob("*.md")
    )
    calls: dict[str, Calls] = {}
    with ExitStack() as stack:
        if not options.source:
            folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            config = prepare(options.repo, options.commit, folder, words=options.words)
            calls = measure_calls(config, words=options.words)
    rows = [{"work": name, **asdict(figures)} for name, figures in calls.items()]
    if options.json:
        print(json.dumps({"source": source, **state, "calls": rows}, indent=2))
        return
    print_rows("The source", [{"what": name, "figure": figure} for name, figure in source.items()])
    for name, modules in state.items():
        listed = [{"module": path, "names": " ".join(own)} for path, own in modules.items()]
        print_rows(name, listed or [{"module": "", "names": ""}])
    if rows:
        print_rows("What runs, once warm", rows)


if __name__ == "__main__":
    main()
