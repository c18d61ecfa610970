"""The languages: how their files are read, and how their names are resolved."""

from __future__ import annotations

from collections.abc import Callable

from knowledge_pipeline.code_graph.languages import (
    bash,
    c_family,
    c_sharp,
    ecmascript,
    ecmascript_modules,
    go,
    java,
    kotlin,
    php,
    python,
    ruby,
    rust,
    scala,
    swift,
)
from knowledge_pipeline.code_graph.languages.base import Language

_DEFAULT_LANGUAGE = Language()
_ECMASCRIPT = ecmascript.EcmaScript()
_C_FAMILY = c_family.CFamily()
_LANGUAGES = {
    "bash": bash.Bash(), "c": _C_FAMILY, "cpp": _C_FAMILY, "c_sharp": c_sharp.CSharp(), "go": go.Go(),
    "java": java.Java(), "javascript": _ECMASCRIPT, "kotlin": kotlin.Kotlin(), "php": php.Php(),
    "python": python.Python(), "ruby": ruby.Ruby(), "rust": rust.Rust(), "scala": scala.Scala(),
    "swift": swift.Swift(), "tsx": _ECMASCRIPT, "typescript": _ECMASCRIPT,
}  # fmt: skip
"""By the names of `knowledge_pipeline.file_languages`."""

_MANIFESTS = {
    "Cargo.toml": rust.parse_manifest, "Package.swift": swift.parse_manifest, "go.mod": go.parse_manifest,
    "package.json": ecmascript_modules.parse_manifest,
}  # fmt: skip


def find_manifest_parser(path: str) -> Callable[[str, str], dict[str, str]] | None:
    """What reads a file that says how modules are named, from its path and text; None for other files."""
    name = path.rpartition("/")[2]
    if name.startswith(("tsconfig", "jsconfig")) and name.endswith(".json"):
        return ecmascript_modules.parse_manifest
    return _MANIFESTS.get(name)


def get_language(name: str) -> Language:
    """How a language is read and its names are resolved; within a file alone, for an unknown one."""
    return _LANGUAGES.get(name, _DEFAULT_LANGUAGE)
