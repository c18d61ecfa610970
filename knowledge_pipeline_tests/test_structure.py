"""The package's shape: imports without cycles, folders that a reader can take in."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import knowledge_pipeline
from knowledge_pipeline_tests.parsed import iter_imports, parse

PACKAGE = Path(knowledge_pipeline.__file__).parent
MAX_MODULES = 30  # in one folder, its subfolders aside


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path, modules: set[str]) -> set[str]:
    """Modules of the package that a file imports: lazily and for types, too."""
    found: set[str] = set()
    for node in iter_imports(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= submodules & modules
            found |= {node.module} if submodules - modules else set()
    return found & modules


def test_no_module_imports_itself_by_way_of_others() -> None:
    paths = {_module_name(path): path for path in PACKAGE.rglob("*.py")}
    imports = {name: _imports(path, set(paths)) - {name} for name, path in paths.items()}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(f"import cycle: {' -> '.join(error.args[1])}") from None
    assert len(paths) > 300


def test_no_folder_holds_more_modules_than_a_reader_can_take_in() -> None:
    folders = Counter(path.parent.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py"))
    assert {str(folder): count for folder, count in folders.items() if count > MAX_MODULES} == {}


def test_a_class_name_means_one_thing() -> None:
    """Public classes of modules that are not interfaces of one another have names of their own."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners[node.name].add(_module_name(path))
    assert {name: sorted(found) for name, found in owners.items() if len(found) > 1} == {}
