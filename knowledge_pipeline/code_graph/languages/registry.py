"""How names are resolved in each language."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.bash.resolution import Bash
from knowledge_pipeline.code_graph.languages.c_family.resolution import CFamily
from knowledge_pipeline.code_graph.languages.c_sharp.resolution import CSharp
from knowledge_pipeline.code_graph.languages.ecmascript.resolution import EcmaScript
from knowledge_pipeline.code_graph.languages.go.resolution import Go
from knowledge_pipeline.code_graph.languages.java.resolution import Java
from knowledge_pipeline.code_graph.languages.kotlin.resolution import Kotlin
from knowledge_pipeline.code_graph.languages.php.resolution import Php
from knowledge_pipeline.code_graph.languages.python.resolution import Python
from knowledge_pipeline.code_graph.languages.ruby.resolution import Ruby
from knowledge_pipeline.code_graph.languages.rust.resolution import Rust
from knowledge_pipeline.code_graph.languages.scala.resolution import Scala
from knowledge_pipeline.code_graph.languages.swift.resolution import Swift

_DEFAULT_LANGUAGE = Language()
_ECMASCRIPT = EcmaScript()
_C_FAMILY = CFamily()
LANGUAGES: Mapping[str, Language] = {
    **{
        each.name: each
        for each in (
            Python(),
            Java(),
            Go(),
            Kotlin(),
            CSharp(),
            Scala(),
            Rust(),
            Php(),
            Ruby(),
            Swift(),
            Bash(),
        )
    },
    **dict.fromkeys(("javascript", "typescript", "tsx"), _ECMASCRIPT),
    **dict.fromkeys(("c", "cpp"), _C_FAMILY),
}
"""By the names of `knowledge_pipeline.languages`."""


def get_language(name: str) -> Language:
    """The language of a name; one that resolves within a file alone, where there is none."""
    return LANGUAGES.get(name, _DEFAULT_LANGUAGE)
