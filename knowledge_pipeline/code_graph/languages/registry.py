"""The languages: how their files are read, and how their names are resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from knowledge_pipeline.code_graph.facts_builder import ExtractionRules
from knowledge_pipeline.code_graph.languages import (
    bash,
    c_family,
    c_sharp,
    ecmascript,
    go,
    java,
    kotlin,
    php,
    python,
    ruby,
    scala,
)
from knowledge_pipeline.code_graph.languages import ecmascript_modules as ecmascript_manifests
from knowledge_pipeline.code_graph.languages import go as go_modules
from knowledge_pipeline.code_graph.languages import rust as rust_crates
from knowledge_pipeline.code_graph.languages import rust_facts as rust
from knowledge_pipeline.code_graph.languages import swift as swift_modules
from knowledge_pipeline.code_graph.languages import swift_facts as swift
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.bash import Bash
from knowledge_pipeline.code_graph.languages.c_family import CFamily
from knowledge_pipeline.code_graph.languages.c_sharp import CSharp
from knowledge_pipeline.code_graph.languages.ecmascript import EcmaScript
from knowledge_pipeline.code_graph.languages.go import Go
from knowledge_pipeline.code_graph.languages.java import Java
from knowledge_pipeline.code_graph.languages.kotlin import Kotlin
from knowledge_pipeline.code_graph.languages.php import Php
from knowledge_pipeline.code_graph.languages.python import Python
from knowledge_pipeline.code_graph.languages.ruby import Ruby
from knowledge_pipeline.code_graph.languages.rust import Rust
from knowledge_pipeline.code_graph.languages.scala import Scala
from knowledge_pipeline.code_graph.languages.swift import Swift

_DEFAULT_LANGUAGE = Language()
_ECMASCRIPT = (ecmascript.EXTRACTION, EcmaScript())
_C_FAMILY = (c_family.EXTRACTION, CFamily())
_LANGUAGES: Mapping[str, tuple[ExtractionRules, Language]] = {
    "bash": (bash.EXTRACTION, Bash()),
    "c": _C_FAMILY,
    "cpp": _C_FAMILY,
    "c_sharp": (c_sharp.EXTRACTION, CSharp()),
    "go": (go.EXTRACTION, Go()),
    "java": (java.EXTRACTION, Java()),
    "javascript": _ECMASCRIPT,
    "kotlin": (kotlin.EXTRACTION, Kotlin()),
    "php": (php.EXTRACTION, Php()),
    "python": (python.EXTRACTION, Python()),
    "ruby": (ruby.EXTRACTION, Ruby()),
    "rust": (rust.EXTRACTION, Rust()),
    "scala": (scala.EXTRACTION, Scala()),
    "swift": (swift.EXTRACTION, Swift()),
    "tsx": _ECMASCRIPT,
    "typescript": _ECMASCRIPT,
}
"""By the names of `knowledge_pipeline.text`."""

MANIFESTS: tuple[tuple[Callable[[str], bool], Callable[[str, str], dict[str, str]]], ...] = (
    (go_modules.is_manifest, go_modules.parse_manifest),
    (ecmascript_manifests.is_manifest, ecmascript_manifests.parse_manifest),
    (rust_crates.is_manifest, rust_crates.parse_manifest),
    (swift_modules.is_manifest, swift_modules.parse_manifest),
)
"""Files that say how modules are named: by path, and what they say."""


def get_extraction(name: str) -> ExtractionRules | None:
    """How files of a language are read; None where only definitions are."""
    return _LANGUAGES[name][0] if name in _LANGUAGES else None


def get_language(name: str) -> Language:
    """How names of a language are resolved; within a file alone, for an unknown one."""
    return _LANGUAGES[name][1] if name in _LANGUAGES else _DEFAULT_LANGUAGE
