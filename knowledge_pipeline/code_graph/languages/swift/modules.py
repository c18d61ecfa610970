"""Which of a source's files make a module of Swift: a folder in `Sources`, or what Package.swift says.

Source: https://docs.swift.org/swiftpm/documentation/packagedescription/target/
"""

from __future__ import annotations

import re

from knowledge_pipeline.code_graph.project_layout import Layout
from knowledge_pipeline.code_graph.values import Values

_FOLDERS = ("Sources", "Source", "Tests", "Plugins")
_TARGET = re.compile(r"\.(?:executableTarget|testTarget|target|macro|plugin)\s*\(\s*name:\s*\"([^\"]+)\"")
_PATH = re.compile(r"\bpath:\s*\"([^\"]*)\"")
_TARGET_PREFIX = "target "


def is_manifest(path: str) -> bool:
    """Whether a file is a package's."""
    return path.rpartition("/")[2] == "Package.swift"


def parse_manifest(path: str, text: str) -> dict[str, str]:
    """The folders of targets that lie elsewhere than usual: {"target Alamofire": "Source"}."""
    found: dict[str, str] = {}
    starts = list(_TARGET.finditer(text))
    for each, end in zip(starts, [*(one.start() for one in starts[1:]), len(text)], strict=True):
        written = _PATH.search(text, each.end(), end)
        if written is not None:
            found[_TARGET_PREFIX + each[1]] = written[1].strip("/")
    return found


def find_module_folder(path: str, layout: Layout) -> str:
    """The folder of the module that a file is of; "" for all files that are of none."""
    for folder, _ in layout.get_or_build(_list_targets):
        if path.startswith(f"{folder}/") or not folder:
            return folder
    parts = path.split("/")
    at = next((at for at in range(len(parts) - 2, -1, -1) if parts[at] in _FOLDERS), None)
    if at is None:
        return ""
    return "/".join(parts[: min(at + 2, len(parts) - 1)])


def list_module_folders(name: str, layout: Layout) -> tuple[str, ...]:
    """The folders of the modules of a name."""
    return layout.get_or_build(_index_modules).get(name, ())


def module_name_of(root: str, layout: Layout) -> str:
    """The name of the module in a folder."""
    return next(
        (name for folder, name in layout.get_or_build(_list_targets) if folder == root),
        root.rpartition("/")[2],
    )


def _list_targets(layout: Layout) -> Values:
    found: Values = []
    for path in sorted(each for each in layout.paths if is_manifest(each)):
        of = path.rpartition("/")[0]
        for key, folder in layout.facts(path).settings.items():
            if key.startswith(_TARGET_PREFIX):
                root = f"{of}/{folder}".strip("/").removesuffix("/.")
                found.append((root, key.removeprefix(_TARGET_PREFIX)))
    return sorted(found, key=lambda each: (-len(each[0]), each))


def _index_modules(layout: Layout) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for path in layout.paths:
        if path.endswith(".swift") and (root := find_module_folder(path, layout)):
            found.setdefault(module_name_of(root, layout), set()).add(root)
    return {name: tuple(sorted(roots)) for name, roots in found.items()}
