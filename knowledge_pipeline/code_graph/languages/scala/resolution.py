"""How Scala's names lead to definitions: packages within packages, companions, extensions."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.java.resolution import COLLECTIONS, COMMON
from knowledge_pipeline.code_graph.languages.package_language import Packaged
from knowledge_pipeline.code_graph.languages.scala.values import BUILTINS
from knowledge_pipeline.code_graph.languages.words import words


class Scala(Packaged):
    """Scala 2 and 3, as https://docs.scala-lang.org says."""

    name = "scala"
    heads: Mapping[str, str] = {"this": "@self", "super": "@super"}
    builtins = BUILTINS
    nested_packages = True
    extensions = True
    calls_index = True
    when_called = "apply"
    elements = ("iterator().next()",)
    containers: Mapping[str, str] = {
        **COLLECTIONS,
        **dict.fromkeys(
            words(
                """
                head headOption last lastOption find getOrElse get apply maxBy minBy max min next reduce
                getOrElseUpdate _2 value
                """
            ),
            "[]",
        ),
        **dict.fromkeys(
            words(
                """
                filter filterNot tail init take drop reverse sorted sortBy sortWith distinct toList toSeq
                toSet toVector toArray iterator values par view takeWhile dropWhile withFilter toIndexedSeq
                """
            ),
            "",
        ),
    }
    common = COMMON | words("map flatMap foreach filter apply unapply foldLeft mkString exists toList head")
    standard = ("scala.", "java.", "javax.")
