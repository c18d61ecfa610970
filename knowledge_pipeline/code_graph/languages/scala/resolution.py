"""How Scala's names lead to definitions: packages within packages, companions, extensions."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.java.resolution import COLLECTION_METHODS, COMMON_METHODS
from knowledge_pipeline.code_graph.languages.package_language import PackageLanguage
from knowledge_pipeline.code_graph.languages.scala.values import BUILTINS
from knowledge_pipeline.code_graph.languages.words import map_words, split_words


class Scala(PackageLanguage):
    """Scala 2 and 3, as https://docs.scala-lang.org says."""

    name = "scala"
    receiver_keywords: Mapping[str, str] = {"this": "@self", "super": "@super"}
    builtins = BUILTINS
    nested_packages = True
    has_extensions = True
    calls_index = True
    call_method = "apply"
    element_accessors = ("iterator().next()",)
    container_methods: Mapping[str, str] = {
        **COLLECTION_METHODS,
        **map_words(
            {
                "[]": """
                head headOption last lastOption find getOrElse get apply maxBy minBy max min next reduce
                getOrElseUpdate _2 value
                """,
                "": """
                filter filterNot tail init take drop reverse sorted sortBy sortWith distinct toList toSeq
                toSet toVector toArray iterator values par view takeWhile dropWhile withFilter toIndexedSeq
                """,
            }
        ),
    }
    common_methods = COMMON_METHODS | split_words(
        "map flatMap foreach filter apply unapply foldLeft mkString exists toList head"
    )
    standard_prefixes = ("scala.", "java.", "javax.")
