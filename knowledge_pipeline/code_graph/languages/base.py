"""What resolution asks of a language, and words as tables and code write them.

The answers of `Language` are those of most languages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from knowledge_pipeline.code_graph.facts import FileFacts
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.project import Layout, package_name


class Language:
    """How names lead to definitions. One instance a language, without state."""

    name: str = ""
    receiver_keywords: Mapping[str, str] = {}
    """Names that mean `@self`, `@class` or `@super` wherever they are not otherwise bound."""
    reader: type[FactsBuilder] = FactsBuilder  # how its files are read
    builtins: frozenset[str] = frozenset()  # names that the language itself defines
    members_in_scope = False
    """Whether a method sees members of its class, and of what that extends, without `self`."""
    element_accessors: tuple[str, ...] = ()
    """What indexing or iterating an instance reads: ("__getitem__()", "__iter__()[]")."""
    call_method: str = ""  # the method that calling an instance calls
    container_methods: Mapping[str, str] = {}
    """Methods of containers by what they give: {"values": "", "pop": "[]"}."""
    container_properties: Mapping[str, str] = {}
    """What is read of containers without a call, by what it is: {"first": "[]"}."""
    constructor: str = "constructor"  # the method that making an instance of a type calls
    has_memberwise_constructor = False
    """Whether a type without a constructor is made of its fields by name: Swift's structs."""
    common_methods: frozenset[str] = frozenset()
    """Methods of the language's own types: too common to be known by their names alone."""

    has_dotted_modules = False
    """Whether names of modules are paths of the program, too, and go on into types: `java.util.Map.Entry`."""
    constructors_named_after_type = False
    """Whether a method with the name of its type makes instances, and cannot be named."""

    has_scattered_members = False
    """Whether members of a type may lie in other files of its package: Go's methods, partial classes."""
    has_duplicate_type_names = False
    """Whether files that see each other's members may have several types of one name."""
    members_in_body = True  # whether what stands directly in a type names its members without more
    private_to_file = False
    """Whether what is not exported is of its file alone: C's `static`; not what is of its package."""
    infers_implements = False
    """Whether a base that is an interface is implemented, however it is written: Swift's protocols."""
    type_calls_convert = False
    """Whether calling a type converts a value, which is no call, rather than making an instance."""

    calls_index = False  # whether calling a value reads one of its elements: `rows(0)`
    has_extensions = False
    """Whether functions are called as members of types that they do not belong to, their `@receiver`."""
    receiver_in_scope = False  # whether such a function names the receiver's members without more
    shared_imports: str = ""  # the setting of files whose exported imports hold for others: siblings

    has_includes = False
    """Whether `import *` of a file brings what it defines, and what all files do that it includes."""

    star_exports_all = False
    """Whether an import of everything brings all names of a module that lists none, `_private` ones too."""
    submodule_prefix: str = ""
    """How a module names one within it: "." in Python, for ".store"; "" where modules are files alone."""
    root_prefix: str = ""
    """What goes before the path of a module that is asked for what other files give it: Rust's macros."""
    sight_prefix: str = ""  # what goes before the path of a file that asks for names of whatever package
    members_prefix: str = ""
    """What goes before the path of a file that asks for members which are defined anywhere."""

    nested_methods_in_scope = True  # whether a method that a function's scope holds is a name there

    def is_star_exported(self, name: str) -> bool:
        """Whether an import of everything brings a name, where the module lists none."""
        return self.star_exports_all or not name.startswith("_")

    def lookup_home(self, facts: FileFacts) -> str:
        """From where a file asks for names without import: itself, or its package ("com.acme.app/")."""
        return facts.path

    def member_home(self, facts: FileFacts) -> str:
        """From where a type's members are asked for that other files define."""
        return f"{self.members_prefix}{facts.path}" if self.members_prefix else self.lookup_home(facts)

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The files, or folders (with "/" last), that a module's name means within a file.

        Args:
            name: as it is written: "..store.tables", "./forms", "java.util.List".
            path: the file, or folder, that it is written in.
            layout: the source's files.

        Returns:
            Empty for what is outside of the source. Several where a module has many files.
        """
        return ()

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files whose own definitions a file, or package, sees without import, and that may define a name.

        Args:
            name: the first segment of a name.
            path: what `lookup_home` says; or a package, as `find_modules` names it.
            layout: the source's files.
        """
        return ()

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """The full name of what is imported from outside of the source."""
        return f"{module}.{name}" if name else module

    def extend_external_name(self, external: str, step: str) -> str:
        """The name of what a step leads to from something outside of the source; "": nothing is known."""
        return external + step

    def is_standard_library(self, external: str) -> bool:
        """Whether a full name is of the language's own library: references to it are no edges."""
        return False

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """By which name other repositories import a definition; of a file, where `name` is empty."""
        return f"{path}:{name}" if name else path


class PackageLanguage(Language):
    """A language whose files say which package they belong to: Java, Kotlin, Scala, C#.

    A package is named by its path with "/" last ("com.acme.app/"); its files are found by what they say,
    wherever they lie, so files of several such languages meet in one package.
    """

    members_in_scope = True
    has_dotted_modules = True
    submodule_prefix = "."
    standard_prefixes: tuple[str, ...] = ()  # how the packages of the language's own library start: "java."
    nested_packages = False  # whether a file also sees what the packages around its own define

    def lookup_home(self, facts: FileFacts) -> str:
        """The package."""
        return f"{facts.module}/"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A package that has files, or packages within it."""
        if name.startswith("."):
            name = path.rstrip("/") + name
        packages = (
            (f"{name}/",) if layout.project.files_defining(package_name("within", self.name, name)) else ()
        )
        if not packages and self.nested_packages and path.endswith("/"):
            around = path.rstrip("/")
            while around and not packages:
                packages = self.find_modules(f"{around}.{name}", "", layout)
                around = around.rpartition(".")[0]
        return packages

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the package that define a name; of the nearest around it, where those are seen."""
        package = path.rstrip("/")
        while True:
            files = layout.get_or_build(list_package_files, self.name, package).intersection(
                layout.project.files_defining(name)
            )
            if files or not self.nested_packages or not package:
                return tuple(sorted(files))
            package = package.rpartition(".")[0]

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`java.util.List`; the package itself for all that is in it."""
        return f"{module}.{name}" if name not in ("", "*") else module

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of a package of the language's own library."""
        return external.startswith(self.standard_prefixes) if self.standard_prefixes else False

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`com.acme.app.Type.member`; the package for a file."""
        module = layout.facts(path).module
        return ".".join(part for part in (module, name) if part) or path


def list_package_files(layout: Layout, language: str, package: str) -> frozenset[str]:
    """The files that say that they belong to a package."""
    return frozenset(layout.project.files_defining(package_name("package", language, package)))


_GENERICS = re.compile(r"(?:::)?<[^<>]*>")


def split_words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


class Words:
    """The names in a language's file of `words/`: what its library defines, what its containers give."""

    def __init__(self, language: str) -> None:
        file = resources.files("knowledge_pipeline.code_graph") / "words" / f"{language}.toml"
        self._tables: dict[str, Any] = tomllib.loads(file.read_text("utf-8"))
        self._lists = {name: split_words(of) for name, of in self._tables.items() if isinstance(of, str)}

    def __getitem__(self, name: str) -> frozenset[str]:
        """The words of a list."""
        return self._lists[name]

    def by_word(self, name: str) -> dict[str, str]:
        """The words of a table's lists, each with the key of its list; the last list with a word counts."""
        return {word: key for key, text in self._tables[name].items() for word in text.split()}


load_words = cache(Words)


def split_scoped_name(text: str) -> list[str]:
    """The segments of `a::b::<T>::c`; none of what is not a plain path."""
    for _ in range(6):
        shorter = _GENERICS.sub("", text)
        if shorter == text:
            break
        text = shorter
    parts = ["".join(part.split()) for part in text.split("::")]
    parts = parts[1:] if parts and not parts[0] else parts
    return parts if all(part.isidentifier() for part in parts) else []
