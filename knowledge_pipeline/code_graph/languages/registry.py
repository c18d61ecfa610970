"""The languages: how their files are read, and how their names are resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from knowledge_pipeline.code_graph.facts_builder import ExtractionRules
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
    rust_facts,
    scala,
    swift,
    swift_facts,
)
from knowledge_pipeline.code_graph.languages.base import Language

_DEFAULT_LANGUAGE = Language()
_ECMASCRIPT = (ecmascript.EXTRACTION, ecmascript.EcmaScript())
_C_FAMILY = (c_family.EXTRACTION, c_family.CFamily())
_LANGUAGES: Mapping[str, tuple[ExtractionRules, Language]] = {
    "bash": (bash.EXTRACTION, bash.Bash()),
    "c": _C_FAMILY,
    "cpp": _C_FAMILY,
    "c_sharp": (c_sharp.EXTRACTION, c_sharp.CSharp()),
    "go": (go.EXTRACTION, go.Go()),
    "java": (java.EXTRACTION, java.Java()),
    "javascript": _ECMASCRIPT,
    "kotlin": (kotlin.EXTRACTION, kotlin.Kotlin()),
    "php": (php.EXTRACTION, php.Php()),
    "python": (python.EXTRACTION, python.Python()),
    "ruby": (ruby.EXTRACTION, ruby.Ruby()),
    "rust": (rust_facts.EXTRACTION, rust.Rust()),
    "scala": (scala.EXTRACTION, scala.Scala()),
    "swift": (swift_facts.EXTRACTION, swift.Swift()),
    "tsx": _ECMASCRIPT,
    "typescript": _ECMASCRIPT,
}
"""By the names of `knowledge_pipeline.file_languages`."""

MANIFESTS: tuple[tuple[Callable[[str], bool], Callable[[str, str], dict[str, str]]], ...] = (
    (go.is_manifest, go.parse_manifest),
    (ecmascript_modules.is_manifest, ecmascript_modules.parse_manifest),
    (rust.is_manifest, rust.parse_manifest),
    (swift.is_manifest, swift.parse_manifest),
)
"""Files that say how modules are named: by path, and what they say."""


def get_extraction(name: str) -> ExtractionRules | None:
    """How files of a language are read; None where only definitions are."""
    return _LANGUAGES[name][0] if name in _LANGUAGES else None


def get_language(name: str) -> Language:
    """How names of a language are resolved; within a file alone, for an unknown one."""
    return _LANGUAGES[name][1] if name in _LANGUAGES else _DEFAULT_LANGUAGE
