"""What PHP's declarations say: namespaces, imports, types of properties, parameters and results.

Variables keep their "$"; properties have none. Source: https://www.php.net/manual/en/langref.php
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.declared_types import (
    TypeSyntax,
    Values,
    bind_declared,
    bind_observed,
    children_of_type,
    element_values,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.syntax.outline import OutlineDefinition

BUILTINS = split_words(
    """
    strlen count sprintf printf implode explode in_array array_map array_filter array_merge array_keys
    array_values isset empty is_array is_string is_null is_int str_replace trim substr strpos strtolower
    strtoupper json_encode json_decode file_get_contents file_put_contents preg_match preg_replace
    is_callable is_object is_numeric func_get_args array_key_exists array_shift array_pop array_push
    array_unshift array_slice array_splice array_reverse array_unique array_search usort ksort sort
    ucfirst lcfirst rtrim ltrim dirname basename file_exists is_dir is_file define defined function_exists
    class_exists method_exists get_class call_user_func call_user_func_array var_dump print_r intval
    floatval strval min max round floor ceil abs date time microtime rand mt_rand md5 sha1 hash
    """
)
_REQUIRED_FILE = re.compile(r"""['"]/?([^'"\s]+\.(?:php|inc))['"]""")
_NAME_NODES = split_words("name qualified_name relative_scope namespace_name variable_name")


def to_dotted(text: str) -> str:
    """`\\App\\Store` as `App.Store`."""
    return ".".join(part.strip() for part in text.split("\\") if part.strip())


def qualify(definition: OutlineDefinition) -> str:
    """Names of the definitions around, without namespaces."""
    return ".".join(one.name.replace("\\", "") for one in definition.scope if one.kind != "module")


def _special_type_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    if node.type == "union_type":
        return [
            one for each in node.named_children for one in values_of_type(_TYPES, writer, each, depth + 1)
        ]
    return [] if node.type in ("primitive_type", "bottom_type") else None


_TYPES = TypeSyntax(
    generic={},
    arrays={},
    transparent={"named_type": 0, "optional_type": 0, "intersection_type": 0},
    read_special=_special_type_values,
)


def _qualified_path(writer: PathWriter, node: Node) -> str | None:
    return to_dotted(writer.text(node)) or None if node.end_byte - node.start_byte < 160 else None


def _new_path(writer: PathWriter, node: Node) -> str | None:
    of = part_of(node, 0)
    path = writer.path(of) if of is not None and of.type in _NAME_NODES else None
    return f"{path}()" if path else None


def _class_constant_path(writer: PathWriter, node: Node) -> str | None:
    of, name = writer.path(part_of(node, 0)), part_of(node, 1)
    if of is None or name is None or name.type != "name":
        return None
    return of if writer.text(name) == "class" else f"{of}.{writer.text(name)}"


def _static_path(writer: PathWriter, node: Node) -> str | None:
    of, name = writer.path(node.child_by_field_name("scope")), node.child_by_field_name("name")
    return f"{of}.{writer.text(name).lstrip('$')}" if of and name is not None else None


def _element_path(writer: PathWriter, node: Node) -> str | None:
    path = writer.path(part_of(node, 0))
    return f"{path}[]" if path else None


def _array_values(writer: PathWriter, node: Node) -> Iterator[tuple[str, str]]:
    for each in children_of_type(node, "array_element_initializer"):
        yield from ((f"[]{suffix}", value) for suffix, value in writer.values(part_of(each, -1)))


EXPRESSIONS = ExpressionSyntax(
    names=split_words("name variable_name relative_scope"),
    members={
        "member_access_expression": ("object", "name"),
        "nullsafe_member_access_expression": ("object", "name"),
    },
    calls={
        "function_call_expression": ("function",),
        "member_call_expression": ("object", "name"),
        "nullsafe_member_call_expression": ("object", "name"),
        "scoped_call_expression": ("scope", "name"),
    },
    indexes={},
    transparent={"parenthesized_expression": 0, "clone_expression": 0, "assignment_expression": "right"},
    choices={"conditional_expression": ("body", "alternative")},
    contents={"array_creation_expression": _array_values},
    path_writers={
        "qualified_name": _qualified_path,
        "namespace_name": _qualified_path,
        "object_creation_expression": _new_path,
        "class_constant_access_expression": _class_constant_path,
        "scoped_property_access_expression": _static_path,
        "subscript_expression": _element_path,
    },
)


def _read_namespace(builder: FactsBuilder, node: Node) -> None:
    name = node.child_by_field_name("name")
    module = to_dotted(builder.text(name)) if name is not None else ""
    known = builder.settings.get("namespaces", "").split()
    if module and module not in known:
        builder.settings["namespaces"] = " ".join([*known, module])
        builder.module = builder.module or module


def _read_import(builder: FactsBuilder, node: Node) -> None:
    before = next(children_of_type(node, "namespace_name"), None)
    prefix = to_dotted(builder.text(before)) if before is not None else ""
    group = node.child_by_field_name("body") or node
    for each in children_of_type(group, "namespace_use_clause"):
        alias = each.child_by_field_name("alias")
        named = next(children_of_type(each, "qualified_name", "name", "namespace_name"), None)
        path = ".".join(
            part for part in (prefix, to_dotted(builder.text(named)) if named is not None else "") if part
        )
        module, _, name = path.rpartition(".")
        local = builder.text(alias) if alias is not None else name
        if name:
            builder.imports.append(Import(module, name, local, each.start_point.row + 1))


def _read_require(builder: FactsBuilder, node: Node) -> None:
    found = _REQUIRED_FILE.search(builder.text(node)[:300])
    if found:
        builder.imports.append(Import(found[1], "", "", node.start_point.row + 1))


def _read_bases(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    kind = "implements" if node.type == "class_interface_clause" else "extends"
    for each in children_of_type(node, "name", "qualified_name"):
        builder.add_use(kind, builder.writer.path(each), each, scope)


def _values_of_type(builder: FactsBuilder, node: Node) -> Values:
    return values_of_type(_TYPES, builder.writer, node.child_by_field_name("type"))


def _read_function(builder: FactsBuilder, node: Node) -> None:
    scope, kind = builder.scope(node), node.child_by_field_name("return_type")
    for suffix, value in values_of_type(_TYPES, builder.writer, kind):
        builder.bind(scope, "@()" + suffix, value, declared=True)


def _read_field(builder: FactsBuilder, node: Node) -> None:
    """Properties are definitions, also those that the constructor's parameters make."""
    scope = builder.scope(node)
    if node.type == "property_promotion_parameter":
        scope = scope.rpartition(".")[0]
    if scope not in builder.type_names:
        return
    for each in (
        [node] if node.type == "property_promotion_parameter" else children_of_type(node, "property_element")
    ):
        name = each.child_by_field_name("name")
        if name is not None:
            text = builder.text(name).lstrip("$&")
            builder.add_definition(f"{scope}.{text}", "variable", node)
            bind_declared(builder, scope, text, _values_of_type(builder, node), local=False)


def _read_constant(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), node.child_by_field_name("name")
    if node.type == "enum_case" and name is not None and scope in builder.type_names:
        builder.add_definition(f"{scope}.{builder.text(name)}", "variable", node)
        builder.bind(scope, builder.text(name), "@class()", declared=True)


def _read_parameter(builder: FactsBuilder, node: Node) -> None:
    name, values = node.child_by_field_name("name"), _values_of_type(builder, node)
    if node.type == "variadic_parameter":
        values = [("[]" + suffix, value) for suffix, value in values]
    if name is not None:
        builder.skip_reference(name)
        bind_declared(builder, builder.scope(node), builder.text(name), values)


def _read_catch(builder: FactsBuilder, node: Node) -> None:
    name = node.child_by_field_name("name")
    listed = node.child_by_field_name("type")
    kinds = listed.named_children if listed is not None else []
    values = [value for each in kinds for value in values_of_type(_TYPES, builder.writer, each)]
    if name is not None:
        bind_declared(builder, builder.scope(node), builder.text(name), values)


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None:
        return
    scope, values = builder.scope(node), builder.writer.values(right)
    if left.type == "variable_name":
        bind_observed(
            builder,
            scope,
            builder.text(left),
            [one for one in values if not one[1].startswith(builder.text(left))],
        )
    elif left.type in ("member_access_expression", "scoped_property_access_expression"):
        path = builder.writer.path(left)
        for suffix, value in values if path else ():
            builder.bind(scope, f"{path}{suffix}", value)
    elif left.type == "subscript_expression" and (path := builder.writer.path(left)):
        for suffix, value in values:
            builder.bind(scope, f"{path}{suffix}", value)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    of, target = part_of(node, 0), part_of(node, 1)
    if target is not None and target.type == "pair":
        target = part_of(target, -1)
    if target is not None and target.type == "variable_name":
        bind_observed(
            builder, builder.scope(node), builder.text(target), element_values(builder.writer.values(of))
        )


def _read_new(builder: FactsBuilder, node: Node) -> None:
    of = part_of(node, 0)
    if of is not None and of.type in _NAME_NODES:
        builder.add_use("calls", builder.writer.path(of), of)


def _read_return(builder: FactsBuilder, node: Node) -> None:
    for suffix, value in builder.writer.values(part_of(node, 0)):
        builder.bind(builder.scope(node), "@()" + suffix, value)


EXTRACTION = ExtractionRules(
    is_private=has_private_modifier,
    expressions=EXPRESSIONS,
    handlers={
        "namespace": _read_namespace,
        "import": _read_import,
        "require": _read_require,
        "bases": _read_bases,
        "function": _read_function,
        "field": _read_field,
        "constant": _read_constant,
        "parameter": _read_parameter,
        "caught": _read_catch,
        "assignment": _read_assignment,
        "loop": _read_loop,
        "new": _read_new,
        "return": _read_return,
    },
    builtins=BUILTINS,
    sees_sibling_names=True,
    qualify=qualify,
)
