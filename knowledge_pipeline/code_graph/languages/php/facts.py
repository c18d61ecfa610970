"""What PHP's declarations say: namespaces, imports, types of properties, parameters and results.

Variables keep their "$"; properties have none. Source: https://www.php.net/manual/en/langref.php
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Expressions, Writer, part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Extraction, Reading
from knowledge_pipeline.code_graph.languages.declared_types import (
    Types,
    Values,
    children,
    declare,
    elements,
    give,
    promised,
)
from knowledge_pipeline.code_graph.languages.visibility import said_private
from knowledge_pipeline.code_graph.languages.words import words
from knowledge_pipeline.syntax.outline import Definition

BUILTINS = words(
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
_FILE = re.compile(r"""['"]/?([^'"\s]+\.(?:php|inc))['"]""")
_NAMED = words("name qualified_name relative_scope namespace_name variable_name")


def dotted(text: str) -> str:
    """`\\App\\Store` as `App.Store`."""
    return ".".join(part.strip() for part in text.split("\\") if part.strip())


def qualified(each: Definition) -> str:
    """Names of the definitions around, without namespaces."""
    return ".".join(one.name.replace("\\", "") for one in each.scope if one.kind != "module")


def _own_type(writer: Writer, node: Node, depth: int) -> Values | None:
    if node.type == "union_type":
        return [one for each in node.named_children for one in promised(_TYPES, writer, each, depth + 1)]
    return [] if node.type in ("primitive_type", "bottom_type") else None


_TYPES = Types(
    generic={}, arrays={}, same={"named_type": 0, "optional_type": 0, "intersection_type": 0}, own=_own_type
)


def _qualified(writer: Writer, node: Node) -> str | None:
    return dotted(writer.text(node)) or None if node.end_byte - node.start_byte < 160 else None


def _made(writer: Writer, node: Node) -> str | None:
    of = part_of(node, 0)
    path = writer.path(of) if of is not None and of.type in _NAMED else None
    return f"{path}()" if path else None


def _constant_of(writer: Writer, node: Node) -> str | None:
    of, name = writer.path(part_of(node, 0)), part_of(node, 1)
    if of is None or name is None or name.type != "name":
        return None
    return of if writer.text(name) == "class" else f"{of}.{writer.text(name)}"


def _static(writer: Writer, node: Node) -> str | None:
    of, name = writer.path(node.child_by_field_name("scope")), node.child_by_field_name("name")
    return f"{of}.{writer.text(name).lstrip('$')}" if of and name is not None else None


def _element(writer: Writer, node: Node) -> str | None:
    path = writer.path(part_of(node, 0))
    return f"{path}[]" if path else None


def _of_list(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    for each in children(node, "array_element_initializer"):
        yield from ((f"[]{suffix}", value) for suffix, value in writer.values(part_of(each, -1)))


EXPRESSIONS = Expressions(
    names=words("name variable_name relative_scope"),
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
    same={"parenthesized_expression": 0, "clone_expression": 0, "assignment_expression": "right"},
    choices={"conditional_expression": ("body", "alternative")},
    contents={"array_creation_expression": _of_list},
    written={
        "qualified_name": _qualified,
        "namespace_name": _qualified,
        "object_creation_expression": _made,
        "class_constant_access_expression": _constant_of,
        "scoped_property_access_expression": _static,
        "subscript_expression": _element,
    },
)


def _namespace(reading: Reading, node: Node) -> None:
    name = node.child_by_field_name("name")
    module = dotted(reading.text(name)) if name is not None else ""
    known = reading.settings.get("namespaces", "").split()
    if module and module not in known:
        reading.settings["namespaces"] = " ".join([*known, module])
        reading.module = reading.module or module


def _import(reading: Reading, node: Node) -> None:
    before = next(children(node, "namespace_name"), None)
    prefix = dotted(reading.text(before)) if before is not None else ""
    group = node.child_by_field_name("body") or node
    for each in children(group, "namespace_use_clause"):
        alias = each.child_by_field_name("alias")
        named = next(children(each, "qualified_name", "name", "namespace_name"), None)
        path = ".".join(
            part for part in (prefix, dotted(reading.text(named)) if named is not None else "") if part
        )
        module, _, name = path.rpartition(".")
        local = reading.text(alias) if alias is not None else name
        if name:
            reading.imports.append(Import(module, name, local, each.start_point.row + 1))


def _require(reading: Reading, node: Node) -> None:
    found = _FILE.search(reading.text(node)[:300])
    if found:
        reading.imports.append(Import(found[1], "", "", node.start_point.row + 1))


def _bases(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    kind = "implements" if node.type == "class_interface_clause" else "extends"
    for each in children(node, "name", "qualified_name"):
        reading.use(kind, reading.writer.path(each), each, scope)


def _promised(reading: Reading, node: Node) -> Values:
    return promised(_TYPES, reading.writer, node.child_by_field_name("type"))


def _function(reading: Reading, node: Node) -> None:
    scope, kind = reading.scope(node), node.child_by_field_name("return_type")
    for suffix, value in promised(_TYPES, reading.writer, kind):
        reading.bind(scope, "@()" + suffix, value, declared=True)


def _field(reading: Reading, node: Node) -> None:
    """Properties are definitions, also those that the constructor's parameters make."""
    scope = reading.scope(node)
    if node.type == "property_promotion_parameter":
        scope = scope.rpartition(".")[0]
    if scope not in reading.types:
        return
    for each in [node] if node.type == "property_promotion_parameter" else children(node, "property_element"):
        name = each.child_by_field_name("name")
        if name is not None:
            text = reading.text(name).lstrip("$&")
            reading.define(f"{scope}.{text}", "variable", node)
            declare(reading, scope, text, _promised(reading, node), local=False)


def _constant(reading: Reading, node: Node) -> None:
    scope, name = reading.scope(node), node.child_by_field_name("name")
    if node.type == "enum_case" and name is not None and scope in reading.types:
        reading.define(f"{scope}.{reading.text(name)}", "variable", node)
        reading.bind(scope, reading.text(name), "@class()", declared=True)


def _parameter(reading: Reading, node: Node) -> None:
    name, values = node.child_by_field_name("name"), _promised(reading, node)
    if node.type == "variadic_parameter":
        values = [("[]" + suffix, value) for suffix, value in values]
    if name is not None:
        reading.skip(name)
        declare(reading, reading.scope(node), reading.text(name), values)


def _caught(reading: Reading, node: Node) -> None:
    name = node.child_by_field_name("name")
    listed = node.child_by_field_name("type")
    kinds = listed.named_children if listed is not None else []
    values = [value for each in kinds for value in promised(_TYPES, reading.writer, each)]
    if name is not None:
        declare(reading, reading.scope(node), reading.text(name), values)


def _assignment(reading: Reading, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None:
        return
    scope, values = reading.scope(node), reading.writer.values(right)
    if left.type == "variable_name":
        give(
            reading,
            scope,
            reading.text(left),
            [one for one in values if not one[1].startswith(reading.text(left))],
        )
    elif left.type in ("member_access_expression", "scoped_property_access_expression"):
        path = reading.writer.path(left)
        for suffix, value in values if path else ():
            reading.bind(scope, f"{path}{suffix}", value)
    elif left.type == "subscript_expression" and (path := reading.writer.path(left)):
        for suffix, value in values:
            reading.bind(scope, f"{path}{suffix}", value)


def _loop(reading: Reading, node: Node) -> None:
    of, target = part_of(node, 0), part_of(node, 1)
    if target is not None and target.type == "pair":
        target = part_of(target, -1)
    if target is not None and target.type == "variable_name":
        give(reading, reading.scope(node), reading.text(target), elements(reading.writer.values(of)))


def _new(reading: Reading, node: Node) -> None:
    of = part_of(node, 0)
    if of is not None and of.type in _NAMED:
        reading.use("calls", reading.writer.path(of), of)


def _return(reading: Reading, node: Node) -> None:
    for suffix, value in reading.writer.values(part_of(node, 0)):
        reading.bind(reading.scope(node), "@()" + suffix, value)


EXTRACTION = Extraction(
    private=said_private,
    expressions=EXPRESSIONS,
    handlers={
        "namespace": _namespace,
        "import": _import,
        "require": _require,
        "bases": _bases,
        "function": _function,
        "field": _field,
        "constant": _constant,
        "parameter": _parameter,
        "caught": _caught,
        "assignment": _assignment,
        "loop": _loop,
        "new": _new,
        "return": _return,
    },
    builtins=BUILTINS,
    hides_siblings=True,
    qualified=qualified,
)
