"""How Kotlin's names lead to definitions: packages, members, extensions."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.java.resolution import COLLECTION_METHODS, COMMON_METHODS
from knowledge_pipeline.code_graph.languages.kotlin.values import BUILTINS
from knowledge_pipeline.code_graph.languages.package_language import PackageLanguage
from knowledge_pipeline.code_graph.languages.words import map_words, split_words


class Kotlin(PackageLanguage):
    """Kotlin, as its specification says: https://kotlinlang.org/spec/."""

    name = "kotlin"
    builtins = BUILTINS
    has_extensions = True
    receiver_in_scope = True
    private_to_file = True
    call_method = "invoke"
    element_accessors = ("iterator().next()", "get()")
    container_methods: Mapping[str, str] = {
        **COLLECTION_METHODS,
        **map_words(
            {
                "[]": """
                first firstOrNull last lastOrNull single singleOrNull find findLast getOrNull getOrElse random
                maxByOrNull minByOrNull elementAt removeAt invoke getOrPut await component1 component2
                maxBy minBy value getValue
                """,
                "": """
                filter filterNot filterNotNull sortedBy sortedByDescending sortedWith take drop takeLast
                reversed shuffled distinctBy asSequence asIterable toMutableList toSet toList
                onEach plus minus orEmpty asReversed withIndex toSortedSet values
                """,
            }
        ),
    }
    common_methods = COMMON_METHODS | split_words(
        "let also apply run with to map forEach use invoke plus minus"
    )
    standard_prefixes = ("kotlin.", "kotlinx.", "java.", "javax.")
