"""How C#'s names lead to definitions: namespaces within namespaces, partial types, extension methods."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.c_sharp.facts import BUILTINS, GLOBAL_USING
from knowledge_pipeline.code_graph.languages.package_language import PackageLanguage
from knowledge_pipeline.code_graph.languages.words import map_words, split_words


class CSharp(PackageLanguage):
    """C#, as its specification says, chapters 7, 14 and 15."""

    name = "c_sharp"
    receiver_keywords: Mapping[str, str] = {"this": "@self", "base": "@super"}
    builtins = BUILTINS
    constructors_named_after_type = True
    nested_packages = True
    has_scattered_members = True
    has_extensions = True
    shared_imports = GLOBAL_USING
    element_accessors = ("@held[]", "GetEnumerator().Current")
    container_methods: Mapping[str, str] = map_words(
        {
            "[]": """
                First FirstOrDefault Last LastOrDefault Single SingleOrDefault ElementAt Find FindLast Max Min
                MaxBy MinBy Pop Peek Dequeue Value Result GetValueOrDefault Invoke Current GetOrAdd Aggregate
                GetAwaiter GetResult
                """,
            "": """
                Where OrderBy OrderByDescending ThenBy Distinct Skip Take Reverse ToList ToArray AsEnumerable
                Values Concat Union Except Append Prepend ToHashSet AsQueryable ConfigureAwait FindAll
                """,
        }
    )
    common_methods = split_words(
        """
        Add Remove Clear Contains ContainsKey TryGetValue ToString Equals GetHashCode GetType CompareTo
        Dispose Close Read Write WriteLine ReadLine Select Where First FirstOrDefault ToList ToArray Any All
        Count Max Min Sum Join Split Trim Replace Substring StartsWith EndsWith IndexOf Format Parse TryParse
        Invoke Run Start Stop Wait Get Set Insert Sort Append Open Create Delete Exists Copy Next Reset
        Load Save Execute Send Name Value Key Push Pop Peek Enqueue Dequeue Find Concat Clone
        """
    )
    standard_prefixes = ("System.", "Microsoft.")
