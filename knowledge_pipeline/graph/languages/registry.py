"""How names are resolved in each language."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.graph.languages.base import Language
from knowledge_pipeline.graph.languages.bash import Bash
from knowledge_pipeline.graph.languages.c_family import CFamily
from knowledge_pipeline.graph.languages.c_sharp import CSharp
from knowledge_pipeline.graph.languages.ecmascript import EcmaScript
from knowledge_pipeline.graph.languages.go import Go
from knowledge_pipeline.graph.languages.java import Java
from knowledge_pipeline.graph.languages.kotlin import Kotlin
from knowledge_pipeline.graph.languages.php import Php
from knowledge_pipeline.graph.languages.python import Python
from knowledge_pipeline.graph.languages.ruby import Ruby
from knowledge_pipeline.graph.languages.rust import Rust
from knowledge_pipeline.graph.languages.scala import Scala
from knowledge_pipeline.graph.languages.swift import Swift

_PLAIN = Language()
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


def language_of(name: str) -> Language:
    """The language of a name; one that resolves within a file alone, where there is none."""
    return LANGUAGES.get(name, _PLAIN)
