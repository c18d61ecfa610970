"""How Swift's names lead to definitions: modules, members in any extension, protocols."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.facts import FileFacts
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.swift.modules import (
    find_module_folder,
    list_module_folders,
    module_name_of,
)
from knowledge_pipeline.code_graph.languages.swift.values import BUILTINS
from knowledge_pipeline.code_graph.languages.words import map_words, split_words
from knowledge_pipeline.code_graph.project_layout import Layout

_MEMBERS_PREFIX = "members of "


class Swift(Language):
    """Swift, as its language reference says: https://docs.swift.org/swift-book/."""

    name = "swift"
    receiver_keywords: Mapping[str, str] = {"Self": "@class"}
    builtins = BUILTINS
    members_in_scope = True
    has_scattered_members = True
    has_duplicate_type_names = True
    has_extensions = True
    receiver_in_scope = True
    infers_implements = True
    private_to_file = True
    constructor = "init"
    has_memberwise_constructor = True
    call_method = "callAsFunction"
    element_accessors = ("subscript()", "makeIterator().next()")
    container_properties: Mapping[str, str] = map_words(
        {"[]": "first last wrappedValue randomElement value projectedValue", "": "values lazy indices"}
    )
    container_methods: Mapping[str, str] = map_words(
        {
            "[]": "first last popLast popFirst removeFirst removeLast remove min max randomElement next",
            "": """
                filter sorted reversed prefix suffix dropFirst dropLast shuffled enumerated union subtracting
                intersection drop lazy values makeIterator
                """,
        }
    )
    common_methods = split_words(
        """
        append insert remove removeAll removeFirst removeLast contains map filter forEach reduce compactMap
        flatMap sorted sort joined split components replacingOccurrences hasPrefix hasSuffix lowercased
        uppercased trimmingCharacters index firstIndex min max first last count isEmpty init encode decode
        hash next add addSubview set get update start stop resume cancel close open read write print send
        sink store assign async sync perform present dismiss push pop reversed enumerated prefix suffix zip
        value values keys description sleep wait signal lock unlock post addObserver removeObserver
        """
    )

    def is_star_exported(self, name: str) -> bool:
        """All that a module exports is brought."""
        return True

    def member_home(self, facts: FileFacts) -> str:
        """All files: extensions lie anywhere."""
        return f"{_MEMBERS_PREFIX}{facts.path}"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The folder of a module; of several of one name, in other packages, all."""
        return tuple(f"{root}/" for root in list_module_folders(name, layout))

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the module that define a name; of any module, for members of a type."""
        found = (each for each in layout.project.files_defining(name) if each.endswith(".swift"))
        if path.startswith(_MEMBERS_PREFIX):
            return tuple(sorted(found))
        root = path.rstrip("/") if path.endswith("/") else find_module_folder(path, layout)
        return tuple(sorted(each for each in found if find_module_folder(each, layout) == root))

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`Foundation.URL`; the module itself for all that is in it."""
        return f"{module}.{name}" if name not in ("", "*") else module

    def extend_external_name(self, external: str, step: str) -> str:
        """Of what unknown functions hand to closures nothing is known."""
        return "" if step.startswith(".@") else external + step

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`Shop.Store.get`; the path for a file."""
        module = module_name_of(find_module_folder(path, layout), layout)
        return ".".join(part for part in (module, name) if part) if name else path
