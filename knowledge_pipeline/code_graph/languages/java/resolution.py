"""How Java's names lead to definitions: packages, types within types, inherited members."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.java.values import BUILTINS
from knowledge_pipeline.code_graph.languages.package_language import PackageLanguage
from knowledge_pipeline.code_graph.languages.words import map_words, split_words

COLLECTION_METHODS: Mapping[str, str] = map_words(
    {
        "[]": """
            get getFirst getLast getOrDefault getValue next previous poll pop peek remove take element
            first last pollFirst pollLast peekFirst peekLast removeFirst removeLast orElse orElseGet
            orElseThrow computeIfAbsent computeIfPresent putIfAbsent put merge join apply call acquire
            getAndSet set elementAt firstElement lastElement getPlain getNow resultNow floor ceiling
            higher lower
            """,
        "": """
            values entrySet iterator listIterator stream parallelStream filter sorted distinct limit skip
            peek findFirst findAny min max toList subList headSet tailSet descendingIterator reversed
            takeWhile dropWhile firstEntry lastEntry descendingMap clone
            """,
    }
)
"""What methods of collections, optionals, suppliers and futures give of what they hold."""

COMMON_METHODS = split_words(
    """
    add addAll append apply accept asList call charAt clear clone close collect compareTo compare
    contains containsKey containsAll copyOf count create delete endsWith entrySet equals equalsIgnoreCase
    exists filter find finalize findFirst first flatMap flush forEach format get getAndIncrement
    getBytes getClass getKey getMessage getName getOrDefault getPath getValue group hasNext hashCode
    indexOf insert intValue isEmpty isInstance isPresent iterator join keySet last lastIndexOf length
    limit list lock longValue map match matcher matches max merge min name newInstance next notify of
    offer orElse ordinal parse peek poll pop print printStackTrace println printf push put putAll read
    readLine remove removeIf replace replaceAll reset reverse run set setName size skip sort sorted
    split start startsWith stop stream submit substring sum test toArray toByteArray toList toLowerCase
    toString toUpperCase trim unlock update valueOf values wait write
    """
)


class Java(PackageLanguage):
    """Java, as its specification says, chapters 6 to 9: https://docs.oracle.com/javase/specs/."""

    name = "java"
    receiver_keywords: Mapping[str, str] = {"this": "@self", "super": "@super"}
    builtins = BUILTINS
    constructors_named_after_type = True
    container_methods = COLLECTION_METHODS
    element_accessors = ("iterator().next()", "get()")
    common_methods = COMMON_METHODS
    standard_prefixes = ("java.", "javax.")
