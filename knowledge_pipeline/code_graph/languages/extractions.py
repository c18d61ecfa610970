"""How the files of each language are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from knowledge_pipeline.code_graph.facts_builder import ExtractionRules
from knowledge_pipeline.code_graph.languages.bash import facts as bash_facts
from knowledge_pipeline.code_graph.languages.c_family import facts as c_family_facts
from knowledge_pipeline.code_graph.languages.c_sharp import facts as c_sharp_facts
from knowledge_pipeline.code_graph.languages.ecmascript import facts as ecmascript_facts
from knowledge_pipeline.code_graph.languages.ecmascript import manifests as ecmascript_manifests
from knowledge_pipeline.code_graph.languages.go import facts as go_facts
from knowledge_pipeline.code_graph.languages.go import modules as go_modules
from knowledge_pipeline.code_graph.languages.java import facts as java_facts
from knowledge_pipeline.code_graph.languages.kotlin import facts as kotlin_facts
from knowledge_pipeline.code_graph.languages.php import facts as php_facts
from knowledge_pipeline.code_graph.languages.python import facts as python_facts
from knowledge_pipeline.code_graph.languages.ruby import facts as ruby_facts
from knowledge_pipeline.code_graph.languages.rust import crates as rust_crates
from knowledge_pipeline.code_graph.languages.rust import facts as rust_facts
from knowledge_pipeline.code_graph.languages.scala import facts as scala_facts
from knowledge_pipeline.code_graph.languages.swift import facts as swift_facts
from knowledge_pipeline.code_graph.languages.swift import modules as swift_modules

EXTRACTIONS: Mapping[str, ExtractionRules] = {
    "bash": bash_facts.EXTRACTION,
    "c": c_family_facts.EXTRACTION,
    "cpp": c_family_facts.EXTRACTION,
    "c_sharp": c_sharp_facts.EXTRACTION,
    "go": go_facts.EXTRACTION,
    "java": java_facts.EXTRACTION,
    "javascript": ecmascript_facts.EXTRACTION,
    "kotlin": kotlin_facts.EXTRACTION,
    "php": php_facts.EXTRACTION,
    "python": python_facts.EXTRACTION,
    "ruby": ruby_facts.EXTRACTION,
    "rust": rust_facts.EXTRACTION,
    "scala": scala_facts.EXTRACTION,
    "swift": swift_facts.EXTRACTION,
    "tsx": ecmascript_facts.EXTRACTION,
    "typescript": ecmascript_facts.EXTRACTION,
}
"""By the names of `knowledge_pipeline.languages`; of other languages, definitions alone are read."""

MANIFESTS: tuple[tuple[Callable[[str], bool], Callable[[str, str], dict[str, str]]], ...] = (
    (go_modules.is_manifest, go_modules.parse_manifest),
    (ecmascript_manifests.is_manifest, ecmascript_manifests.parse_manifest),
    (rust_crates.is_manifest, rust_crates.parse_manifest),
    (swift_modules.is_manifest, swift_modules.parse_manifest),
)
"""Files that tell how modules are named: by path, and what they say."""
