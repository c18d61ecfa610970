"""The languages: how their files are read, and how their names are resolved; imported once they are met."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from knowledge_pipeline.code_graph.facts import FileFacts
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.file_languages import is_tsconfig

_LANGUAGES = {
    "bash": "bash.Bash", "c": "c_family.CFamily", "cpp": "c_family.CFamily", "c_sharp": "c_sharp.CSharp",
    "go": "go.Go", "java": "java.Java", "javascript": "ecmascript.EcmaScript", "kotlin": "kotlin.Kotlin",
    "php": "php.Php", "python": "python.Python", "ruby": "ruby.Ruby", "rust": "rust.Rust",
    "scala": "scala.Scala", "swift": "swift.Swift", "tsx": "ecmascript.EcmaScript",
    "typescript": "ecmascript.EcmaScript", "vue": "ecmascript.EcmaScript", "svelte": "ecmascript.EcmaScript",
    "astro": "ecmascript.EcmaScript", "notebook": "python.Python",
}  # fmt: skip
"""Module and class, by the names of `knowledge_pipeline.file_languages`."""

_MANIFESTS = {
    "Cargo.toml": "rust", "Directory.Build.props": "c_sharp", "Package.swift": "swift", "go.mod": "go",
    "package.json": "ecmascript_modules",
}  # fmt: skip
"""The modules whose `parse_manifest` reads a file."""


def find_manifest_parser(path: str) -> Callable[[str, str], dict[str, str] | FileFacts] | None:
    """What reads a file that says how modules are named, from its path and text; None for other files."""
    name = path.rpartition("/")[2]
    module = "ecmascript_modules" if is_tsconfig(path) else _MANIFESTS.get(name)
    module = "c_sharp" if name.endswith(".csproj") else module
    return import_module(f"{__package__}.{module}").parse_manifest if module else None


@cache
def get_language(name: str) -> Language:
    """How a language is read and its names are resolved; within a file alone, for an unknown one."""
    return _open_language(_LANGUAGES.get(name, "base.Language"))


@cache
def _open_language(name: str) -> Language:
    module, _, of_class = name.partition(".")
    return getattr(import_module(f"{__package__}.{module}"), of_class)()
