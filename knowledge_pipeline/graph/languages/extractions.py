"""How the files of each language are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from knowledge_pipeline.graph.languages import (
    bash_facts,
    c_family_facts,
    c_sharp_facts,
    ecmascript_facts,
    ecmascript_manifests,
    go_facts,
    go_modules,
    java_facts,
    kotlin_facts,
    php_facts,
    python_facts,
    ruby_facts,
    rust_crates,
    rust_facts,
    scala_facts,
    swift_facts,
    swift_modules,
)
from knowledge_pipeline.graph.reading import Extraction

EXTRACTIONS: Mapping[str, Extraction] = {
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
    (go_modules.is_manifest, go_modules.settings_of),
    (ecmascript_manifests.is_manifest, ecmascript_manifests.settings_of),
    (rust_crates.is_manifest, rust_crates.settings_of),
    (swift_modules.is_manifest, swift_modules.settings_of),
)
"""Files that tell how modules are named: by path, and what they say."""
