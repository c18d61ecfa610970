"""How Swift's names lead to definitions: modules, members in any extension, protocols."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.code_graph.facts import Facts
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.swift.modules import name_of, root_of, roots_named
from knowledge_pipeline.code_graph.languages.swift.values import BUILTINS
from knowledge_pipeline.code_graph.languages.words import words
from knowledge_pipeline.code_graph.project_layout import Layout

_MEMBERS = "members of "


class Swift(Language):
    """Swift, as its language reference says: https://docs.swift.org/swift-book/."""

    name = "swift"
    heads: Mapping[str, str] = {"Self": "@class"}
    builtins = BUILTINS
    members_in_scope = True
    scattered = True
    named_alike = True
    extensions = True
    receiver_in_scope = True
    bases_by_kind = True
    private_to_file = True
    constructor = "init"
    memberwise = True
    when_called = "callAsFunction"
    elements = ("subscript()", "makeIterator().next()")
    properties: Mapping[str, str] = {
        **dict.fromkeys(words("first last wrappedValue randomElement value projectedValue"), "[]"),
        **dict.fromkeys(words("values lazy indices"), ""),
    }
    containers: Mapping[str, str] = {
        **dict.fromkeys(
            words("first last popLast popFirst removeFirst removeLast remove min max randomElement next"),
            "[]",
        ),
        **dict.fromkeys(
            words(
                """
                filter sorted reversed prefix suffix dropFirst dropLast shuffled enumerated union subtracting
                intersection drop lazy values makeIterator
                """
            ),
            "",
        ),
    }
    common = words(
        """
        append insert remove removeAll removeFirst removeLast contains map filter forEach reduce compactMap
        flatMap sorted sort joined split components replacingOccurrences hasPrefix hasSuffix lowercased
        uppercased trimmingCharacters index firstIndex min max first last count isEmpty init encode decode
        hash next add addSubview set get update start stop resume cancel close open read write print send
        sink store assign async sync perform present dismiss push pop reversed enumerated prefix suffix zip
        value values keys description sleep wait signal lock unlock post addObserver removeObserver
        """
    )

    def by_star(self, name: str) -> bool:
        """All that a module exports is brought."""
        return True

    def holds(self, facts: Facts) -> str:
        """All files: extensions lie anywhere."""
        return f"{_MEMBERS}{facts.path}"

    def modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The folder of a module; of several of one name, in other packages, all."""
        return tuple(f"{root}/" for root in roots_named(name, layout))

    def siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the module that define a name; of any module, for members of a type."""
        found = (each for each in layout.project.defining(name) if each.endswith(".swift"))
        if path.startswith(_MEMBERS):
            return tuple(sorted(found))
        root = path.rstrip("/") if path.endswith("/") else root_of(path, layout)
        return tuple(sorted(each for each in found if root_of(each, layout) == root))

    def outside(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`Foundation.URL`; the module itself for all that is in it."""
        return f"{module}.{name}" if name not in ("", "*") else module

    def beyond(self, outside: str, step: str) -> str:
        """Of what unknown functions hand to closures nothing is known."""
        return "" if step.startswith(".@") else outside + step

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`Shop.Store.get`; the path for a file."""
        module = name_of(root_of(path, layout), layout)
        return ".".join(part for part in (module, name) if part) if name else path
