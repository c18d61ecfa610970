"""How Kotlin's names lead to definitions: packages, members, extensions."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.java.resolution import COLLECTIONS, COMMON
from knowledge_pipeline.code_graph.languages.kotlin.values import BUILTINS
from knowledge_pipeline.code_graph.languages.package_language import Packaged
from knowledge_pipeline.code_graph.languages.words import words


class Kotlin(Packaged):
    """Kotlin, as its specification says: https://kotlinlang.org/spec/."""

    name = "kotlin"
    builtins = BUILTINS
    extensions = True
    receiver_in_scope = True
    private_to_file = True
    when_called = "invoke"
    elements = ("iterator().next()", "get()")
    containers: Mapping[str, str] = {
        **COLLECTIONS,
        **dict.fromkeys(
            words(
                """
                first firstOrNull last lastOrNull single singleOrNull find findLast getOrNull getOrElse random
                maxByOrNull minByOrNull elementAt removeAt invoke getOrPut await component1 component2
                maxBy minBy value getValue
                """
            ),
            "[]",
        ),
        **dict.fromkeys(
            words(
                """
                filter filterNot filterNotNull sortedBy sortedByDescending sortedWith take drop takeLast
                reversed shuffled distinctBy asSequence asIterable toMutableList toSet toList
                onEach plus minus orEmpty asReversed withIndex toSortedSet values
                """
            ),
            "",
        ),
    }
    common = COMMON | words("let also apply run with to map forEach use invoke plus minus")
    standard = ("kotlin.", "kotlinx.", "java.", "javax.")
