"""What C#'s declarations say: namespaces, usings, types of members, parameters and variables.

Source: https://learn.microsoft.com/dotnet/csharp/language-reference/language-specification/
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import last_segment, parent_scope
from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Captures, ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.c_sharp.values import (
    EXPRESSIONS,
    lambda_argument_values,
    values_of_type_name,
)
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    bind_declared,
    bind_observed,
    children_of_type,
    element_values,
)
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.syntax.outline import OutlineDefinition

BUILTINS = split_words(
    """
    var dynamic nameof string object bool byte sbyte char decimal double float int uint long ulong short
    ushort nint nuint void value field get set
    """
)
GLOBAL_USING = "shared using"
"""The setting of a file with a global using."""

_TYPE_NODES = frozenset(
    {"class_declaration", "record_declaration", "struct_declaration", "interface_declaration"}
)
_SPECIAL_NAMES = {
    "indexer_declaration": "this",
    "operator_declaration": "operator",
    "conversion_operator_declaration": "operator",
}
_NAMESPACES = ("namespace_declaration", "file_scoped_namespace_declaration")


def qualify(definition: OutlineDefinition) -> str:
    """A name within its namespace."""
    if definition.kind == "module":
        return ""
    return ".".join(
        _SPECIAL_NAMES.get(one.node.type, one.name) for one in definition.scope if one.kind != "module"
    )


def _read_namespaces(builder: FactsBuilder, captures: Captures) -> None:
    """All namespaces that something is defined in; the first is the file's."""
    found = [
        _namespace_name(builder, node) for node in captures.get("namespace", ()) if _contains_types(node)
    ]
    named = list(dict.fromkeys(each for each in found if each))
    builder.module = named[0] if named else ""
    if len(named) > 1:
        builder.settings["namespaces"] = " ".join(named)


def _contains_types(node: Node) -> bool:
    if node.type == "file_scoped_namespace_declaration":
        return True
    body = node.child_by_field_name("body")
    inner = body.named_children if body is not None else []
    return any(each.type.endswith("_declaration") and each.type not in _NAMESPACES for each in inner)


def _namespace_name(builder: FactsBuilder, node: Node) -> str:
    parts: list[str] = []
    around: Node | None = node
    while around is not None:
        name = around.child_by_field_name("name") if around.type in _NAMESPACES else None
        if name is not None:
            parts.append(builder.writer.path(name) or "")
        around = around.parent
    return ".".join(reversed(parts))


def _read_using(builder: FactsBuilder, node: Node) -> None:
    alias = node.child_by_field_name("name")
    kinds = [each for each in node.named_children if alias is None or each.id != alias.id]
    path = builder.writer.path(kinds[-1]) if kinds else None
    if not path:
        return
    line, shared = node.start_point.row + 1, any(each.type == "global" for each in node.children)
    if shared:
        builder.settings[GLOBAL_USING] = "yes"
    if alias is None:
        builder.imports.append(Import(path, "*", "*", line, exported=shared))
        return
    module, _, name = path.rpartition(".")
    builder.imports.append(
        Import(module or path, name if module else "", builder.text(alias), line, "", shared)
    )


def _values_of_type(builder: FactsBuilder, node: Node | None) -> Values:
    return values_of_type_name(builder.writer, node)


def _read_bases(builder: FactsBuilder, node: Node) -> None:
    """The first of a class may be a class; interfaces are told by the I of their names."""
    scope, around = builder.scope(node), node.parent
    is_interface = around is not None and around.type == "interface_declaration"
    for place, each in enumerate(node.named_children):
        kind = part_of(each, 0) if each.type == "primary_constructor_base_type" else each
        path = builder.writer.path(kind)
        if kind is None or not path:
            continue
        name = last_segment(path)
        looks_so = name[:1] == "I" and name[1:2].isupper()
        extends = is_interface or (
            place == 0 and not looks_so and around is not None and _is_class_like(around)
        )
        builder.add_use("extends" if extends else "implements", path, kind, scope)
        builder.skip_reference(kind)


def _is_class_like(node: Node) -> bool:
    return node.type in ("class_declaration", "record_declaration")


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    name = node.child_by_field_name("name")
    if name is not None:
        builder.bind(builder.scope(node), builder.text(name), "")


def _read_constraint(builder: FactsBuilder, node: Node) -> None:
    """`where T : Base`: T stands for it."""
    name = part_of(node, 0)
    for each in children_of_type(node, "type_parameter_constraint"):
        path = builder.writer.path(each.child_by_field_name("type"))
        if path and name is not None:
            builder.skip_reference(name)
            builder.bind(builder.scope(node), builder.text(name), path)


def _read_method(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    result = node.child_by_field_name("returns") or node.child_by_field_name("type")
    for suffix, value in _values_of_type(builder, result):
        builder.bind(scope, "@()" + suffix, value, declared=True)


def _read_property(builder: FactsBuilder, node: Node) -> None:
    """A property is read like a field."""
    scope = builder.scope(node)
    for suffix, value in _values_of_type(builder, node.child_by_field_name("type")):
        builder.bind(scope, "@()" + suffix, value, declared=True)
        if node.type == "indexer_declaration":
            builder.bind(parent_scope(scope), "@held[]" + suffix, value, declared=True)
        elif suffix:
            builder.bind(parent_scope(scope), scope.rpartition(".")[2] + suffix, value, declared=True)
    builder.bind(scope, "@", "@()")


def _read_field(builder: FactsBuilder, node: Node) -> None:
    """Fields are definitions."""
    scope = builder.scope(node)
    for declaration in children_of_type(node, "variable_declaration"):
        for name, values in _list_variables(builder, declaration):
            bind_declared(builder, scope, name, values, local=False)
            if scope in builder.type_names:
                builder.add_definition(f"{scope}.{name}", "variable", declaration)


def _read_local(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    for declaration in children_of_type(node, "variable_declaration"):
        kind = declaration.child_by_field_name("type")
        is_seen = kind is not None and kind.type == "implicit_type"
        for name, values in _list_variables(builder, declaration):
            (bind_observed if is_seen else bind_declared)(builder, scope, name, values)
        for each in children_of_type(declaration, "variable_declarator"):
            for pattern in children_of_type(each, "tuple_pattern"):
                for name in pattern.children_by_field_name("name"):
                    bind_observed(builder, scope, builder.text(name), [])


def _list_variables(builder: FactsBuilder, declaration: Node) -> list[tuple[str, Values]]:
    """Names, with what their type promises, or their value where the type is left to it."""
    kind = declaration.child_by_field_name("type")
    found: list[tuple[str, Values]] = []
    for each in children_of_type(declaration, "variable_declarator"):
        name = each.child_by_field_name("name")
        if name is None:
            continue
        if kind is not None and kind.type == "implicit_type":
            value = part_of(each, -1)
            given = builder.writer.values(value) if value is not None and value.id != name.id else []
            found.append((builder.text(name), given))
        else:
            found.append((builder.text(name), _values_of_type(builder, kind)))
    return found


def _read_enum_member(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), node.child_by_field_name("name")
    if name is not None and scope in builder.type_names:
        builder.add_definition(f"{scope}.{builder.text(name)}", "variable", node)
        builder.bind(scope, builder.text(name), "@class()", declared=True)


def _read_parameters(builder: FactsBuilder, node: Node) -> None:
    """Bind parameters; those of a record are properties, too."""
    scope, around = builder.scope(node), node.parent
    of_type = around is not None and around.type in _TYPE_NODES
    of_record = around is not None and around.type == "record_declaration"
    for each in children_of_type(node, "parameter"):
        name = each.child_by_field_name("name")
        values = _values_of_type(builder, each.child_by_field_name("type"))
        if name is None:
            continue
        bind_declared(builder, scope, builder.text(name), values, local=not of_type)
        if of_record:
            builder.add_definition(f"{scope}.{builder.text(name)}", "variable", each)
        if any(builder.text(one) == "this" for one in children_of_type(each, "modifier")):
            for suffix, value in values:
                builder.bind(scope, "@receiver" + suffix, value, declared=True)
    _read_rest_parameter(builder, node, scope)


def _read_rest_parameter(builder: FactsBuilder, node: Node, scope: str) -> None:
    """`params Item[] more`, which the grammar lays flat into the list."""
    name = node.child_by_field_name("name")
    if name is not None and name.type == "identifier":
        builder.skip_reference(name)
        bind_declared(
            builder, scope, builder.text(name), _values_of_type(builder, node.child_by_field_name("type"))
        )


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    given = node.child_by_field_name("parameters")
    if given is not None and given.type == "implicit_parameter":
        bind_observed(
            builder, builder.scope(node), builder.text(given), lambda_argument_values(builder.writer, node)
        )


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), node.child_by_field_name("left")
    kind = node.child_by_field_name("type")
    if name is None or name.type != "identifier":
        return
    if kind is not None and kind.type == "implicit_type":
        held = element_values(builder.writer.values(node.child_by_field_name("right")))
        bind_observed(builder, scope, builder.text(name), held)
    else:
        bind_declared(builder, scope, builder.text(name), _values_of_type(builder, kind))


def _read_pattern(builder: FactsBuilder, node: Node) -> None:
    name, kind = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is not None and name.type == "identifier":
        bind_declared(builder, builder.scope(node), builder.text(name), _values_of_type(builder, kind))


def _read_attribute(builder: FactsBuilder, node: Node) -> None:
    """`[Mark]` means the class `MarkAttribute`, too."""
    name = node.child_by_field_name("name")
    path = builder.writer.path(name)
    if path and name is not None:
        builder.add_use("references", f"{path}Attribute", name)


def _read_constructor_call(builder: FactsBuilder, node: Node) -> None:
    """`base(…)` calls what the class extends, `this(…)` the class itself."""
    scope, around = builder.scope(node), node.parent
    if any(each.type == "this" for each in node.children):
        builder.add_use("calls", last_segment(parent_scope(scope)), node)
        return
    while around is not None and around.type not in _TYPE_NODES:
        around = around.parent
    bases = next(children_of_type(around, "base_list"), None)
    if bases is not None:
        builder.add_use("calls", builder.writer.path(part_of(bases, 0)), node)


EXTRACTION = ExtractionRules(
    is_private=has_private_modifier,
    expressions=EXPRESSIONS,
    handlers={
        "using": _read_using,
        "bases": _read_bases,
        "type.parameter": _read_type_parameter,
        "constraint": _read_constraint,
        "method": _read_method,
        "property": _read_property,
        "field": _read_field,
        "local": _read_local,
        "enum.member": _read_enum_member,
        "parameters": _read_parameters,
        "lambda": _read_lambda,
        "loop": _read_loop,
        "pattern": _read_pattern,
        "attribute": _read_attribute,
        "constructed": _read_constructor_call,
    },
    builtins=BUILTINS,
    sees_sibling_names=True,
    qualify=qualify,
    finish=_read_namespaces,
)
