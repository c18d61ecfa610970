"""C#: what its files say, and how its names lead to definitions.

Source: https://learn.microsoft.com/dotnet/csharp/language-reference/language-specification/
"""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Import, Values, element_values, last_segment, parent_scope
from knowledge_pipeline.code_graph.facts_builder import (
    Captures,
    ExpressionSyntax,
    ExtractionRules,
    FactsBuilder,
    PathWriter,
    TypeSyntax,
)
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, load_words
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.syntax.grammars import (
    ancestor_of_type,
    children_of,
    children_of_type,
    first_of_type,
    has_child,
    part_of,
)
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("c_sharp")

TYPES = TypeSyntax(
    generic={"generic_name": "type_argument_list"},
    arrays={"array_type": "type"},
    transparent={"nullable_type": "type", "ref_type": "type", "scoped_type": "type"},
    ignored=frozenset({"var", "dynamic", "object"}),
    prefix="@type.",  # a property may have the name of its type
)

_CALLBACK_METHODS = _WORDS["callback_methods"]


def _lambda_argument_values(writer: PathWriter, node: Node) -> Values:
    """What a lambda is given by the method that it is an argument of."""
    call = node.parent.parent.parent if node.parent is not None and node.parent.parent is not None else None
    called = part_of(call, "function")
    if called is None or called.type != "member_access_expression":
        return []
    return writer.handed_values(part_of(called, "expression"), part_of(called, "name"), _CALLBACK_METHODS)


def _qualified_path(writer: PathWriter, node: Node) -> str | None:
    parts = [writer.path(part_of(node, part)) for part in ("qualifier", "name")]
    return ".".join(part for part in parts if part) or None


def _access_path(writer: PathWriter, node: Node) -> str | None:
    of, member = (writer.path(part_of(node, part)) for part in ("expression", "name"))
    return f"{of}.{member}" if of and member else None


def _binding_path(writer: PathWriter, node: Node) -> str | None:
    """`.b` of `a?.b` as `a.b`."""
    name = writer.path(part_of(node, "name"))
    around, inner = node.parent, node
    while around is not None and around.type != "conditional_access_expression":
        around, inner = around.parent, around
    condition = part_of(around, "condition")
    of = writer.path(condition) if condition is not None and condition.id != inner.id else None
    return f"{of}.{name}" if of and name else None


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "this", "base"}),
    calls={"invocation_expression": ("function",), "object_creation_expression": ("type",)},
    suffixed={
        "generic_name": (0, ""), "alias_qualified_name": ("name", ""),
        "conditional_access_expression": (-1, ""),  # the part after `?` knows what is before it
        "element_access_expression": ("expression", "[]"),
        "await_expression": (0, "[]"),  # what a task gives
    },
    transparent={
        "parenthesized_expression": 0, "postfix_unary_expression": 0, "checked_expression": 0,
        "nullable_type": "type", "ref_expression": 0,
    },
    choices={"conditional_expression": ("consequence", "alternative")},
    casts={"cast_expression": "type", "as_expression": "right"}, default_operator="??",
    contents={
        "array_creation_expression": lambda writer, node: writer.values_of_type(
            first_of_type(node, "array_type")
        ),
        "object_creation_expression": lambda writer, node: writer.values_of_type(part_of(node, "type")),
    },
    path_writers={
        "qualified_name": _qualified_path, "member_access_expression": _access_path,
        "member_binding_expression": _binding_path,
    },
    types=TYPES,
)  # fmt: skip


BUILTINS = _WORDS["builtins"]
GLOBAL_USING = "shared using"
"""The setting of a file with a global using."""

_CLASS_NODES = ("class_declaration", "record_declaration")
_TYPE_NODES = (*_CLASS_NODES, "struct_declaration", "interface_declaration")
_SPECIAL_NAMES = {
    "indexer_declaration": "this",
    "operator_declaration": "operator",
    "conversion_operator_declaration": "operator",
}
_NAMESPACES = ("namespace_declaration", "file_scoped_namespace_declaration")


def _qualify(definition: OutlineDefinition) -> str:
    """A name within its namespace."""
    if definition.kind == "module":
        return ""
    return ".".join(
        _SPECIAL_NAMES.get(one.node.type, one.name) for one in definition.scope if one.kind != "module"
    )


def _read_namespaces(builder: FactsBuilder, captures: Captures) -> None:
    """All namespaces that define something; the first is the file's."""
    names = (
        _namespace_name(builder, node) for node in captures.get("namespace", ()) if _contains_types(node)
    )
    namespaces = [name for name in dict.fromkeys(names) if name]
    builder.module = namespaces[0] if namespaces else ""
    if len(namespaces) > 1:
        builder.settings["namespaces"] = " ".join(namespaces)


def _contains_types(node: Node) -> bool:
    return node.type == "file_scoped_namespace_declaration" or any(
        member.type.endswith("_declaration") and member.type not in _NAMESPACES
        for member in children_of(part_of(node, "body"))
    )


def _namespace_name(builder: FactsBuilder, node: Node) -> str:
    parts: list[str] = []
    around: Node | None = node
    while around is not None:
        name = part_of(around, "name") if around.type in _NAMESPACES else None
        if name is not None:
            parts.append(builder.writer.path(name) or "")
        around = around.parent
    return ".".join(reversed(parts))


def _read_using(builder: FactsBuilder, node: Node) -> None:
    alias = part_of(node, "name")
    kinds = [child for child in node.named_children if alias is None or child.id != alias.id]
    path = builder.writer.path(kinds[-1]) if kinds else None
    if not path:
        return
    line, shared = node.start_point.row + 1, has_child(node, "global")
    if shared:
        builder.settings[GLOBAL_USING] = "yes"
    module, _, name = path.rpartition(".")
    if alias is None:
        builder.imports.append(Import(path, "*", "*", line, exported=shared))
    else:
        target = (module, name) if module else (path, "")
        builder.imports.append(Import(*target, builder.text(alias), line, exported=shared))


def _read_bases(builder: FactsBuilder, node: Node) -> None:
    """The first of a class may be a class; interfaces are told by the I of their names."""
    scope, around = builder.scope(node), node.parent
    is_interface = around is not None and around.type == "interface_declaration"
    for position, child in enumerate(node.named_children):
        kind = part_of(child, 0) if child.type == "primary_constructor_base_type" else child
        path = builder.writer.path(kind)
        if kind is None or not path:
            continue
        name = last_segment(path)
        is_class = position == 0 and around is not None and around.type in _CLASS_NODES
        extends = is_interface or (is_class and not (name[:1] == "I" and name[1:2].isupper()))
        builder.add_use("extends" if extends else "implements", path, kind, scope)
        builder.skip_reference(kind)


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    builder.bind(builder.scope(node), builder.text(part_of(node, "name")), "")


def _read_constraint(builder: FactsBuilder, node: Node) -> None:
    """`where T : Base`: T stands for it."""
    name = part_of(node, 0)
    for constraint in children_of_type(node, "type_parameter_constraint"):
        path = builder.writer.path(part_of(constraint, "type"))
        if path and name is not None:
            builder.skip_reference(name)
            builder.bind(builder.scope(node), builder.text(name), path)


def _read_method(builder: FactsBuilder, node: Node) -> None:
    builder.bind_result(builder.scope(node), part_of(node, "returns") or part_of(node, "type"))


def _read_property(builder: FactsBuilder, node: Node) -> None:
    """A property is read like a field."""
    scope, values = builder.scope(node), builder.values_of_type(part_of(node, "type"))
    builder.bind_all(scope, "@()", values, declared=True)
    if node.type == "indexer_declaration":
        builder.bind_all(parent_scope(scope), "@held[]", values, declared=True)
    else:
        elements = [value for value in values if value[0]]
        builder.bind_all(parent_scope(scope), scope.rpartition(".")[2], elements, declared=True)
    builder.bind(scope, "@", "@()")


def _read_field(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    for declaration in children_of_type(node, "variable_declaration"):
        for name, values in _list_variables(builder, declaration):
            builder.bind_declared(scope, name, values, local=False)
            if scope in builder.type_names:
                builder.add_definition(f"{scope}.{name}", "variable", declaration)


def _read_local(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    for declaration in children_of_type(node, "variable_declaration"):
        kind = part_of(declaration, "type")
        is_seen = kind is not None and kind.type == "implicit_type"
        bind = builder.bind_observed if is_seen else builder.bind_declared
        for name, values in _list_variables(builder, declaration):
            bind(scope, name, values)
        for declarator in children_of_type(declaration, "variable_declarator"):
            for pattern in children_of_type(declarator, "tuple_pattern"):
                for name in pattern.children_by_field_name("name"):
                    builder.bind_observed(scope, builder.text(name), [])


def _list_variables(builder: FactsBuilder, declaration: Node) -> list[tuple[str, Values]]:
    """Names, with what their type promises, or their value where the type is left to it."""
    kind = part_of(declaration, "type")
    result: list[tuple[str, Values]] = []
    for declarator in children_of_type(declaration, "variable_declarator"):
        name = part_of(declarator, "name")
        if name is None:
            continue
        if kind is not None and kind.type == "implicit_type":
            value = part_of(declarator, -1)
            values = builder.writer.values(value) if value is not None and value.id != name.id else []
            result.append((builder.text(name), values))
        else:
            result.append((builder.text(name), builder.values_of_type(kind)))
    return result


def _read_parameters(builder: FactsBuilder, node: Node) -> None:
    """Bind parameters; those of a record are properties, too."""
    scope, around = builder.scope(node), node.parent
    of_type = around is not None and around.type in _TYPE_NODES
    of_record = around is not None and around.type == "record_declaration"
    for parameter in children_of_type(node, "parameter"):
        name = part_of(parameter, "name")
        values = builder.values_of_type(part_of(parameter, "type"))
        if name is None:
            continue
        builder.bind_declared(scope, builder.text(name), values, local=not of_type)
        if of_record:
            builder.add_definition(f"{scope}.{builder.text(name)}", "variable", parameter)
        if any(builder.text(one) == "this" for one in children_of_type(parameter, "modifier")):
            builder.bind_all(scope, "@receiver", values, declared=True)
    name = part_of(node, "name")  # `params Item[] more`, which the grammar lays flat into the list
    if name is not None and name.type == "identifier":
        builder.skip_reference(name)
        builder.bind_declared(scope, builder.text(name), builder.values_of_type(part_of(node, "type")))


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    parameters = part_of(node, "parameters")
    if parameters is not None and parameters.type == "implicit_parameter":
        handed = _lambda_argument_values(builder.writer, node)
        builder.bind_observed(builder.scope(node), builder.text(parameters), handed)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), part_of(node, "left")
    kind = part_of(node, "type")
    if name is None or name.type != "identifier":
        return
    if kind is not None and kind.type == "implicit_type":
        elements = element_values(builder.writer.values(part_of(node, "right")))
        builder.bind_observed(scope, builder.text(name), elements)
    else:
        builder.bind_declared(scope, builder.text(name), builder.values_of_type(kind))


def _read_pattern(builder: FactsBuilder, node: Node) -> None:
    name, kind = part_of(node, "name"), part_of(node, "type")
    if name is not None and name.type == "identifier":
        builder.bind_declared(builder.scope(node), builder.text(name), builder.values_of_type(kind))


def _read_attribute(builder: FactsBuilder, node: Node) -> None:
    """`[Mark]` means the class `MarkAttribute`, too."""
    name = part_of(node, "name")
    path = builder.writer.path(name)
    if path and name is not None:
        builder.add_use("references", f"{path}Attribute", name)


def _read_constructor_call(builder: FactsBuilder, node: Node) -> None:
    """`base(…)` calls what the class extends, `this(…)` the class itself."""
    if has_child(node, "this"):
        builder.add_use("calls", last_segment(parent_scope(builder.scope(node))), node)
        return
    bases = first_of_type(ancestor_of_type(node, *_TYPE_NODES), "base_list")
    builder.add_use("calls", builder.writer.path(part_of(bases, 0)), node)


EXTRACTION = ExtractionRules(
    is_private=has_private_modifier, expressions=EXPRESSIONS,
    handlers={
        "using": _read_using, "bases": _read_bases, "type.parameter": _read_type_parameter,
        "constraint": _read_constraint, "method": _read_method, "property": _read_property,
        "field": _read_field, "local": _read_local,
        "enum.member": lambda builder, node: builder.add_enum_constant(node, part_of(node, "name")),
        "parameters": _read_parameters, "lambda": _read_lambda, "loop": _read_loop, "pattern": _read_pattern,
        "attribute": _read_attribute, "constructed": _read_constructor_call,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify=_qualify, finish=_read_namespaces,
)  # fmt: skip


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
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _WORDS["common_methods"]
    standard_prefixes = ("System.", "Microsoft.")
