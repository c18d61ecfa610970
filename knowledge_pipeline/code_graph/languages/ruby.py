"""Ruby: what its files say, and how its names lead to definitions.

An instance's variable `@rows` is written as its member "rows@".
Source: https://docs.ruby-lang.org/en/master/syntax_rdoc.html
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import SymbolKind
from knowledge_pipeline.code_graph.facts_builder import ExpressionSyntax, FactsBuilder, Handler
from knowledge_pipeline.code_graph.languages.base import Language, load_words
from knowledge_pipeline.code_graph.project import Layout, join_path
from knowledge_pipeline.syntax.grammars import children_of, children_of_type, has_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("ruby")

_LOAD_METHODS = frozenset({"require", "require_relative", "load", "autoload"})
_MIXIN_METHODS = frozenset({"include", "extend", "prepend"})
_ACCESSOR_MODES = {"attr_reader": "r", "attr_writer": "w", "attr_accessor": "rw"}


class RubyReader(FactsBuilder):
    """Reads files of Ruby."""

    @cached_property
    def _private_methods(self) -> dict[int, set[int]]:
        """Where the private methods of classes start, by the id of their bodies."""
        return {}

    def _is_private(self, node: Node, name: str) -> bool:
        """A method after `private`, or that it names."""
        body = node.parent
        if body is None or node.type != "method":
            return False
        if body.type == "argument_list":  # `private def get`
            return self.text(part_of(body.parent, "method")) in ("private", "private_class_method")
        if body.id not in self._private_methods:
            self._private_methods[body.id] = self._find_private_methods(body)
        return node.start_byte in self._private_methods[body.id]

    def _find_private_methods(self, body: Node) -> set[int]:
        starts: dict[str, int] = {}
        hidden: set[int] = set()
        is_private = False
        for child in body.named_children:
            if child.type == "method":
                starts[self.text(part_of(child, "name") or child)] = child.start_byte
                hidden.update([child.start_byte] if is_private else [])
            elif child.type == "identifier" and self.text(child) in ("private", "public", "protected"):
                is_private = self.text(child) == "private"
            elif child.type == "call" and self.text(child)[:8] == "private ":
                symbols = children_of_type(part_of(child, "arguments"), "simple_symbol")
                methods = (starts.get(self.text(symbol).lstrip(":")) for symbol in symbols)
                hidden.update(start for start in methods if start is not None)
        return hidden

    def _symbol_kind(self, definition: OutlineDefinition) -> SymbolKind | None:
        """A module has methods, and is taken in by classes."""
        if definition.kind == "module":
            return "interface"
        of_module = definition.parent is not None and definition.parent.kind == "module"
        return "method" if definition.kind == "function" and of_module else None

    def _scope_resolution_path(self, node: Node) -> str | None:
        """`Shop::Store` as `Shop.Store`."""
        parts = [part for part in "".join(self.short_text(node, 160).split()).split("::") if part]
        return ".".join(parts) if parts and all(part.isidentifier() for part in parts) else None

    def _variable_path(self, node: Node) -> str:
        return f"self.{self.text(node).lstrip('@')}@"

    def _instantiated_class(self, node: Node) -> str | None:
        """What `Store.new` makes an instance of."""
        of = part_of(node, "receiver")
        if self.text(part_of(node, "method")) != "new":
            return None
        return self.path(of) if of is not None else "@class"

    def _rewrite_call(self, node: Node) -> str | None:
        of = self._instantiated_class(node)
        return f"{of}()" if of else None

    expressions = ExpressionSyntax(
        names=frozenset({"identifier", "constant", "self"}),
        calls={"call": ("receiver", "method")},
        suffixed={"element_reference": ("object", "[]")},
        transparent={"parenthesized_statements": 0, "assignment": "right", "operator_assignment": "right"},
        choices={"conditional": ("consequence", "alternative"), "binary": ("left", "right")},
        path_writers={
            "scope_resolution": _scope_resolution_path, "instance_variable": _variable_path,
            "class_variable": _variable_path,
        },
        implicit_receiver="@around.",
    )  # fmt: skip

    def _read_superclass(self, node: Node) -> None:
        of = part_of(node, 0)
        if has_type(of, "constant", "scope_resolution"):
            self.add_use("extends", self.path(of), of)

    def _read_call(self, node: Node) -> None:
        """Calls that say something: of files, mixins, fields; and blocks, to which elements are given."""
        method, receiver, scope = part_of(node, "method"), part_of(node, "receiver"), self.scope(node)
        name, of = self.text(method), self._instantiated_class(node)
        callee = self.callee(node) if method is not None else None
        self.add_use("calls", of or callee, method or node)
        if of and receiver is not None:
            self.skip_reference(receiver)
        if receiver is not None:
            path = self.path(receiver) if name in _WORDS["callback_methods"] else None
            first = part_of(part_of(part_of(node, "block"), "parameters"), 0)
            if path and has_type(first, "identifier"):
                self.bind_observed(self.scope(first), self.text(first), [("", f"{path}[]")])
            return
        arguments = children_of(part_of(node, "arguments"))
        if name in _LOAD_METHODS:
            self._read_load(node, name, arguments)
        for argument in arguments if scope else ():
            if name in _MIXIN_METHODS and argument.type in ("constant", "scope_resolution"):
                self.add_base("implements", argument, scope)
            elif name in _ACCESSOR_MODES:
                self._read_accessor(scope, argument, _ACCESSOR_MODES[name])

    def _read_load(self, node: Node, name: str, arguments: list[Node]) -> None:
        if arguments and arguments[-1].type == "string":
            path = self.text(arguments[-1]).strip("\"'")
            if path and not {"\t", "\n"} & set(path):
                self.add_import(node, f"./{path}" if name == "require_relative" else path, "", "")

    def _read_accessor(self, scope: str, symbol: Node, modes: str) -> None:
        name = self.text(symbol).strip(":\"'")
        if name.isidentifier():
            self.add_definition(f"{scope}.{name}", "method", symbol)
            if "r" in modes:
                self.bind(f"{scope}.{name}", "@()", f"self.{name}@")

    def _read_method(self, node: Node) -> None:
        """A method gives what stands last in it."""
        body = part_of(node, "body")
        last = part_of(body, -1) if has_type(body, "body_statement") else body
        self.bind_all(self.scope(node), "@()", self.values(last))

    def _read_parameters(self, node: Node) -> None:
        for child in node.named_children:
            name = child if child.type == "identifier" else part_of(child, "name")
            self.bind_observed(self.scope(node), self.text(name), [])

    def _read_bare_name(self, node: Node) -> None:
        """A name that stands alone is a call, if it is no variable."""
        name = self.text(node)
        if (self.scope(node), name) not in self.local_variables:
            self.add_use("calls", f"@around.{name}", node)

    handlers: Mapping[str, Handler] = {
        "superclass": _read_superclass, "sent": _read_call, "method": _read_method,
        "parameters": _read_parameters,
        "assignment": lambda reader, node: reader.bind_assigned(
            node, ("identifier",), ("instance_variable", "class_variable")
        ),
        "return": lambda reader, node: reader.bind_all(
            reader.scope(node), "@()", reader.values(part_of(part_of(node, 0), 0))
        ),
        "alone": _read_bare_name,
    }  # fmt: skip
    builtins = _WORDS["builtins"] | frozenset(f"@around.{name}" for name in _WORDS["builtins"])
    sees_sibling_names = True


class Ruby(Language):
    """Ruby; see https://docs.ruby-lang.org/en/master/syntax/modules_and_classes_rdoc.html."""

    name = "ruby"
    receiver_keywords: Mapping[str, str] = {"self": "@self", "super": "@super"}
    reader = RubyReader
    builtins = _WORDS["builtins"]
    members_in_scope = True
    has_scattered_members = True
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _WORDS["common_methods"]

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The file beside another one, or on a path where libraries are looked for."""
        file = name if name.endswith(".rb") else f"{name}.rb"
        if name.startswith("."):
            joined = join_path(path.rpartition("/")[0], file)
            return (joined,) if joined in layout.paths else ()
        places = layout.get_or_build(_list_load_paths)
        return tuple(f"{folder}{file}" for folder in places if f"{folder}{file}" in layout.paths)[:1]

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files that define a constant, or a method of one that others open, too."""
        files = layout.project.files_defining(name)
        return tuple(sorted(file for file in files if file.endswith((".rb", ".rake"))))

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """The library as it is required; nothing for a file that is not there."""
        return "" if module.startswith(".") else module

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`Shop::Store#get`."""
        *around, last = name.split(".")
        if not name or not around:
            return name or path
        return f"{'::'.join(around)}{'::' if last[:1].isupper() else '#'}{last}"


def _list_load_paths(layout: Layout) -> tuple[str, ...]:
    """Where libraries lie: the source, and its folders `lib` and `app`'s."""
    names = {""}
    for path in layout.paths:
        if path.endswith(".rb") and "lib/" in path:
            names.add(f"{path.partition('lib/')[0]}lib/")
    return tuple(sorted(names))
