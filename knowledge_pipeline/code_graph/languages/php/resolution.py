"""How PHP's names lead to definitions: namespaces, imports, properties, traits."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.languages.package_language import PackageLanguage
from knowledge_pipeline.code_graph.languages.php.facts import BUILTINS
from knowledge_pipeline.code_graph.languages.words import map_words, split_words
from knowledge_pipeline.code_graph.project_layout import Layout, climb_path


class Php(PackageLanguage):
    """PHP, as its manual says: https://www.php.net/manual/en/language.namespaces.rules.php.

    Classes are found by the namespaces that files declare, which is where PSR-4 looks, too.
    """

    name = "php"
    receiver_keywords: Mapping[str, str] = {
        "$this": "@self",
        "self": "@class",
        "static": "@class",
        "parent": "@super",
    }
    builtins = BUILTINS
    members_in_scope = False
    members_in_body = False
    element_accessors = ("getIterator()[]", "current()", "offsetGet()")
    call_method = "__invoke"
    container_methods: Mapping[str, str] = map_words({"[]": "first last get pop current find"})
    common_methods = split_words(
        """
        get set add has remove all count first last map filter each push pop __construct toArray toString
        getName getId setName execute run handle save delete find create update load make render format
        """
    )

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A namespace; a file that is required."""
        if not name.endswith((".php", ".inc")):
            return super().find_modules(name, path, layout)
        return tuple(each for each in climb_path(path, name) if each in layout.paths)[:1]

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the namespace that define a name; of none, as functions are looked up."""
        return super().find_siblings(name, path, layout) or super().find_siblings(name, "/", layout)

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`Psr\\Log\\LoggerInterface`; a file that is not there is nothing."""
        if module.endswith((".php", ".inc")):
            return ""
        return "\\".join([*module.split("."), name]).strip("\\")

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`App\\Store::get`; the namespace for a file."""
        module = layout.facts(path).module.replace(".", "\\")
        return "\\".join(part for part in (module, name.replace(".", "::")) if part) or path
