"""Ruby: what its files say, and how its names lead to definitions.

An instance's variable `@rows` is written as its member "rows@".
Source: https://docs.ruby-lang.org/en/master/syntax_rdoc.html
"""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Import, SymbolKind
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    ExtractionRules,
    FactsBuilder,
    PathWriter,
)
from knowledge_pipeline.code_graph.languages.base import Language, load_words, split_words
from knowledge_pipeline.code_graph.languages.visibility import follows_private
from knowledge_pipeline.code_graph.project import Layout, join_path
from knowledge_pipeline.syntax.grammars import children_of, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("ruby")

BUILTINS = _WORDS["builtins"]
_LOAD_METHODS = split_words("require require_relative load autoload")
_MIXIN_METHODS = split_words("include extend prepend")
_ACCESSOR_MODES = {"attr_reader": "r", "attr_writer": "w", "attr_accessor": "rw"}
_CALLBACK_METHODS = _WORDS["callback_methods"]


def _scope_resolution_path(writer: PathWriter, node: Node) -> str | None:
    """`Shop::Store` as `Shop.Store`."""
    text = "".join(writer.text(node).split()) if node.end_byte - node.start_byte < 160 else ""
    parts = [part for part in text.split("::") if part]
    return ".".join(parts) if parts and all(part.isidentifier() for part in parts) else None


def _variable_path(writer: PathWriter, node: Node) -> str:
    return f"self.{writer.text(node).lstrip('@')}@"


def _instantiated_class(writer: PathWriter, node: Node) -> str | None:
    """What `Store.new` makes an instance of."""
    of = part_of(node, "receiver")
    if writer.text(part_of(node, "method")) != "new":
        return None
    return writer.path(of) if of is not None else "@class"


def _rewrite_new(writer: PathWriter, node: Node) -> str | None:
    of = _instantiated_class(writer, node)
    return f"{of}()" if of else None


_EXPRESSIONS = ExpressionSyntax(
    names=split_words("identifier constant self"),
    calls={"call": ("receiver", "method")},
    suffixed={"element_reference": ("object", "[]")},
    transparent={"parenthesized_statements": 0, "assignment": "right", "operator_assignment": "right"},
    choices={"conditional": ("consequence", "alternative"), "binary": ("left", "right")},
    path_writers={
        "scope_resolution": _scope_resolution_path,
        "instance_variable": _variable_path,
        "class_variable": _variable_path,
    },
    rewrite_call=_rewrite_new,
    implicit_receiver="@around.",
)


def _symbol_kind(definition: OutlineDefinition) -> SymbolKind | None:
    """A module has methods, and is taken in by classes."""
    if definition.kind == "module":
        return "interface"
    of_module = definition.parent is not None and definition.parent.kind == "module"
    return "method" if definition.kind == "function" and of_module else None


def _read_superclass(builder: FactsBuilder, node: Node) -> None:
    of = part_of(node, 0)
    if of is not None and of.type in ("constant", "scope_resolution"):
        builder.add_use("extends", builder.writer.path(of), of, builder.scope(node))


def _list_arguments(node: Node) -> list[Node]:
    return children_of(part_of(node, "arguments"))


def _read_call(builder: FactsBuilder, node: Node) -> None:
    """Calls that say something: of files, mixins, fields; and blocks, to which elements are given."""
    method, name = part_of(node, "method"), builder.text(part_of(node, "method"))
    scope, receiver = builder.scope(node), part_of(node, "receiver")
    of = _instantiated_class(builder.writer, node)
    callee = builder.writer.callee(node) if method is not None else None
    builder.add_use("calls", of or callee, method or node)
    if of and receiver is not None:
        builder.skip_reference(receiver)
    if receiver is None:
        if name in _LOAD_METHODS:
            _read_load(builder, node, name)
        elif name in _MIXIN_METHODS and scope:
            for argument in _list_arguments(node):
                if argument.type in ("constant", "scope_resolution"):
                    builder.add_use("implements", builder.writer.path(argument), argument, scope)
                    builder.skip_reference(argument)
        elif name in _ACCESSOR_MODES and scope:
            for argument in _list_arguments(node):
                _read_accessor(builder, scope, argument, _ACCESSOR_MODES[name])
    elif name in _CALLBACK_METHODS:
        _read_block(builder, node)


def _read_load(builder: FactsBuilder, node: Node, name: str) -> None:
    arguments = _list_arguments(node)
    if arguments and arguments[-1].type == "string":
        path = builder.text(arguments[-1]).strip("\"'")
        if path and not {"\t", "\n"} & set(path):
            path = f"./{path}" if name == "require_relative" else path
            builder.imports.append(Import(path, "", "", node.start_point.row + 1))


def _read_accessor(builder: FactsBuilder, scope: str, symbol: Node, modes: str) -> None:
    name = builder.text(symbol).strip(":\"'")
    if not name.isidentifier():
        return
    builder.add_definition(f"{scope}.{name}", "method", symbol)
    if "r" in modes:
        builder.bind(f"{scope}.{name}", "@()", f"self.{name}@")


def _read_block(builder: FactsBuilder, node: Node) -> None:
    of = builder.writer.path(part_of(node, "receiver"))
    first = part_of(part_of(part_of(node, "block"), "parameters"), 0)
    if of and first is not None and first.type == "identifier":
        builder.bind_observed(builder.scope(first), builder.text(first), [("", f"{of}[]")])


def _read_method(builder: FactsBuilder, node: Node) -> None:
    """A method gives what stands last in it."""
    body = part_of(node, "body")
    last = part_of(body, -1) if body is not None and body.type == "body_statement" else body
    builder.bind_all(builder.scope(node), "@()", builder.writer.values(last))


def _read_return(builder: FactsBuilder, node: Node) -> None:
    values = builder.writer.values(part_of(part_of(node, 0), 0))
    builder.bind_all(builder.scope(node), "@()", values)


def _read_parameters(builder: FactsBuilder, node: Node) -> None:
    for child in node.named_children:
        name = child if child.type == "identifier" else part_of(child, "name")
        if name is not None:
            builder.bind_observed(builder.scope(node), builder.text(name), [])


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left, right = part_of(node, "left"), part_of(node, "right")
    if left is None or right is None:
        return
    scope, values = builder.scope(node), builder.writer.values(right)
    if left.type == "identifier":
        name = builder.text(left)
        builder.bind_observed(scope, name, [one for one in values if not one[1].startswith(name)])
    elif left.type in ("instance_variable", "class_variable"):
        builder.bind_all(scope, builder.writer.path(left), values)


def _read_bare_name(builder: FactsBuilder, node: Node) -> None:
    """A name that stands alone is a call, if it is no variable."""
    name = builder.text(node)
    if (builder.scope(node), name) not in builder.local_variables:
        builder.add_use("calls", f"@around.{name}", node)


EXTRACTION = ExtractionRules(
    is_private=follows_private, expressions=_EXPRESSIONS,
    handlers={
        "superclass": _read_superclass, "sent": _read_call, "method": _read_method,
        "parameters": _read_parameters, "assignment": _read_assignment, "return": _read_return,
        "alone": _read_bare_name,
    },
    builtins=BUILTINS | frozenset(f"@around.{name}" for name in BUILTINS), sees_sibling_names=True,
    symbol_kind=_symbol_kind,
)  # fmt: skip


class Ruby(Language):
    """Ruby; see https://docs.ruby-lang.org/en/master/syntax/modules_and_classes_rdoc.html."""

    name = "ruby"
    receiver_keywords: Mapping[str, str] = {"self": "@self", "super": "@super"}
    builtins = BUILTINS
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
        return tuple(
            sorted(file for file in layout.project.files_defining(name) if file.endswith((".rb", ".rake")))
        )

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
