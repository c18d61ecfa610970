"""What Swift's declarations say: imports, bases, types of properties, parameters and results.

Source: https://docs.swift.org/swift-book/documentation/the-swift-programming-language/aboutthelanguagereference
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.swift.context import closure_argument_path
from knowledge_pipeline.code_graph.languages.swift.patterns import (
    read_catch,
    read_conditions,
    read_loop,
    read_switch,
)
from knowledge_pipeline.code_graph.languages.swift.properties import (
    bind_receiver,
    read_property,
    read_requirement,
)
from knowledge_pipeline.code_graph.languages.swift.types import find_parameter_type, find_result_type
from knowledge_pipeline.code_graph.languages.swift.values import BUILTINS, EXPRESSIONS
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.code_graph.values import Value, add_prefix
from knowledge_pipeline.syntax.nodes import children_of_type, first_of_type, has_child, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition


def qualify_within(definition: OutlineDefinition, enclosing: str) -> str:
    """`Store.get`; a subscript has no other name than that."""
    name = "subscript" if definition.node.type == "subscript_declaration" else definition.name
    return f"{enclosing}.{name}" if enclosing else name


def _read_import(builder: FactsBuilder, node: Node) -> None:
    """A module brings all that it exports; `import struct Shop.Item` one thing."""
    path = builder.writer.dotted_text(next(children_of_type(node, "identifier"), node))
    if not path:
        return
    line, exported = node.start_point.row + 1, "@_exported" in builder.text(node)
    module, _, name = path.rpartition(".")
    if module and has_child(node, *_IMPORT_KINDS):
        builder.imports.append(Import(module, name, name, line, exported=exported))
    else:
        builder.imports.append(Import(path, "*", "*", line, exported=exported))
        builder.imports.append(Import(path, "", path, line))


_IMPORT_KINDS = ("struct", "class", "enum", "protocol", "typealias", "func", "let", "var")


def _read_base(builder: FactsBuilder, node: Node) -> None:
    """What a type extends or conforms to: which of both, the kind of what is named says."""
    kind, scope = part_of(node, "inherits_from"), builder.scope(node)
    path = builder.writer.path(kind)
    around = node.parent
    if kind is None or not path or around is None:
        return
    if scope not in builder.type_names:  # an extension of another file's type
        builder.add_use("references", path, kind, "")
    else:
        extends = around.type == "protocol_declaration" or _is_first_of_class(around, node)
        builder.add_use("extends" if extends else "implements", path, kind, scope)
    builder.skip_reference(kind)


def _is_first_of_class(declaration: Node, node: Node) -> bool:
    declared = part_of(declaration, "declaration_kind")
    first = first_of_type(declaration, "inheritance_specifier")
    return declared is not None and declared.type == "class" and first is not None and first.id == node.id


def _read_bound(builder: FactsBuilder, node: Node) -> None:
    """`T: Item` stands for its bound."""
    name = part_of(node, "constrained_type") or part_of(node, 0)
    kinds = node.children_by_field_name("name")
    kind = kinds[-1] if kinds and kinds[-1].type != "type_identifier" else None
    text = builder.writer.dotted_text(name)
    if name is not None and text and text.isidentifier():
        builder.skip_reference(name)
        builder.bind(builder.scope(node), text, builder.writer.path(kind) or "")


def _read_function(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    bind_receiver(builder, scope, node)
    if node.type == "init_declaration":
        builder.bind(scope, "@()", "@class()", declared=True)
    builder.bind_result(scope, find_result_type(node))
    listed = list(children_of_type(node, "parameter"))
    for place, each in enumerate(listed):
        _read_parameter(builder, scope, each, place, is_last=place == len(listed) - 1)


def _read_parameter(builder: FactsBuilder, scope: str, node: Node, position: int, *, is_last: bool) -> None:
    name, kind = part_of(node, "name"), find_parameter_type(node)
    if name is None:
        return
    values = builder.values_of_type(kind)
    if has_child(node, "...") or builder.text(node).endswith("..."):
        values = add_prefix("[]", values)
    builder.bind_declared(scope, builder.text(name), values)
    label = builder.text(part_of(node, "external_name") or name)
    key = str(position) if label == "_" else label
    known = [value for value in values if value[1].removesuffix("()") not in BUILTINS]
    handed = list(_closure_parameter_values(builder, kind))
    builder.bind_all(scope, f"@{key}", [*known, *handed], declared=True)
    if is_last:
        builder.bind_all(scope, "@closure", handed, declared=True)


def _closure_parameter_values(builder: FactsBuilder, type_node: Node | None) -> Iterator[Value]:
    """What a function hands to a closure that it is given: (".@0", "Item()")."""
    if type_node is not None and type_node.type == "optional_type":
        type_node = part_of(type_node, "wrapped")
    if type_node is not None and type_node.type == "tuple_type":
        type_node = part_of(part_of(type_node, 0) or type_node, -1)
    given = part_of(type_node, "params") if type_node and type_node.type == "function_type" else None
    for place, item in enumerate(children_of_type(given, "tuple_type_item")):
        yield from add_prefix(f".@{place}", builder.values_of_type(part_of(item, -1)))


def _read_enum_entry(builder: FactsBuilder, node: Node) -> None:
    """The cases of an enum: instances of it, and what goes with them."""
    scope = builder.scope(node)
    name = ""
    for at, each in enumerate(node.children):
        if node.field_name_for_child(at) == "name" and scope in builder.type_names:
            name = builder.text(each).strip("`")
            builder.add_definition(f"{scope}.{name}", "variable", each)
            builder.bind(scope, name, "@class()", declared=True)
        elif each.type == "enum_type_parameters" and name:
            builder.bind(scope, f"{name}()", "@class()", declared=True)
            for place, kind in enumerate(each.children_by_field_name("name")):
                builder.bind_all(scope, f"{name}@{place}", builder.values_of_type(kind), declared=True)


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    scope, kind = builder.scope(node), part_of(node, "type")
    listed = first_of_type(kind, "lambda_function_type_parameters")
    for place, each in enumerate(children_of_type(listed, "lambda_parameter")):
        name, declared = part_of(each, "name"), find_parameter_type(each)
        if name is None or builder.text(name) == "_":
            continue
        if declared is not None:
            builder.bind_declared(scope, builder.text(name), builder.values_of_type(declared))
            continue
        handed = closure_argument_path(builder.writer, node, place)
        builder.bind_observed(scope, builder.text(name), [("", handed)] if handed else [])


def _read_implicit_member(builder: FactsBuilder, node: Node) -> None:
    """`.fast` refers to what it names; `.custom(…)` is read as a call."""
    around = node.parent
    if around is None or around.type != "call_expression":
        builder.add_use("references", builder.writer.path(node), node)


EXTRACTION = ExtractionRules(
    expressions=EXPRESSIONS,
    handlers={
        "import": _read_import, "base": _read_base,
        "alias": lambda builder, node: builder.bind_result(builder.scope(node), find_parameter_type(node)),
        "bound": _read_bound, "function": _read_function, "property": read_property,
        "requirement": read_requirement, "entry": _read_enum_entry, "lambda": _read_lambda,
        "implicit": _read_implicit_member, "loop": read_loop, "conditions": read_conditions,
        "switch": read_switch, "catch": read_catch,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify_within=qualify_within,
    type_part_kinds=frozenset({"extension"}), is_private=has_private_modifier,
)  # fmt: skip
