"""The languages: how their files are read, and how their names are resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from knowledge_pipeline.code_graph.facts_builder import ExtractionRules
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.bash import facts as bash
from knowledge_pipeline.code_graph.languages.bash.resolution import Bash
from knowledge_pipeline.code_graph.languages.c_family import facts as c_family
from knowledge_pipeline.code_graph.languages.c_family.resolution import CFamily
from knowledge_pipeline.code_graph.languages.c_sharp import facts as c_sharp
from knowledge_pipeline.code_graph.languages.c_sharp.resolution import CSharp
from knowledge_pipeline.code_graph.languages.ecmascript import facts as ecmascript
from knowledge_pipeline.code_graph.languages.ecmascript import manifests as ecmascript_manifests
from knowledge_pipeline.code_graph.languages.ecmascript.resolution import EcmaScript
from knowledge_pipeline.code_graph.languages.go import facts as go
from knowledge_pipeline.code_graph.languages.go import modules as go_modules
from knowledge_pipeline.code_graph.languages.go.resolution import Go
from knowledge_pipeline.code_graph.languages.java import facts as java
from knowledge_pipeline.code_graph.languages.java.resolution import Java
from knowledge_pipeline.code_graph.languages.kotlin import facts as kotlin
from knowledge_pipeline.code_graph.languages.kotlin.resolution import Kotlin
from knowledge_pipeline.code_graph.languages.php import facts as php
from knowledge_pipeline.code_graph.languages.php.resolution import Php
from knowledge_pipeline.code_graph.languages.python import facts as python
from knowledge_pipeline.code_graph.languages.python.resolution import Python
from knowledge_pipeline.code_graph.languages.ruby import facts as ruby
from knowledge_pipeline.code_graph.languages.ruby.resolution import Ruby
from knowledge_pipeline.code_graph.languages.rust import crates as rust_crates
from knowledge_pipeline.code_graph.languages.rust import facts as rust
from knowledge_pipeline.code_graph.languages.rust.resolution import Rust
from knowledge_pipeline.code_graph.languages.scala import facts as scala
from knowledge_pipeline.code_graph.languages.scala.resolution import Scala
from knowledge_pipeline.code_graph.languages.swift import facts as swift
from knowledge_pipeline.code_graph.languages.swift import modules as swift_modules
from knowledge_pipeline.code_graph.languages.swift.resolution import Swift

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
"""By the names of `knowledge_pipeline.languages`."""

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
