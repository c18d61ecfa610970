"""What Go's declarations say: packages, imports, types of fields, parameters, variables and results.

Source: https://go.dev/ref/spec
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import first_segment
from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import, SymbolKind
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    add_prefix,
    bind_declared,
    bind_observed,
    children_of_type,
    element_values,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.go.modules import guess_package_names
from knowledge_pipeline.code_graph.languages.go.values import BUILTINS, EXPRESSIONS, TYPES
from knowledge_pipeline.code_graph.languages.visibility import is_lower_case
from knowledge_pipeline.syntax.outline import OutlineDefinition


def _read_package(builder: FactsBuilder, node: Node) -> None:
    name = part_of(node, 0)
    builder.module = builder.text(name) if name is not None else ""


def _read_import(builder: FactsBuilder, node: Node) -> None:
    path, alias = node.child_by_field_name("path"), node.child_by_field_name("name")
    module = builder.text(path).strip('"`') if path is not None else ""
    if not module:
        return
    local = builder.text(alias) if alias is not None else None
    name = "*" if local == "." else ""
    names = {".": ["*"], "_": [""], None: guess_package_names(module) or [""]}.get(local, [local or ""])
    for each in names:
        builder.imports.append(Import(module, name, each, node.start_point.row + 1))


def _values_of_type(builder: FactsBuilder, node: Node | None) -> Values:
    return values_of_type(TYPES, builder.writer, node)


def _read_type(builder: FactsBuilder, node: Node) -> None:
    """What a defined type holds, or another name for one."""
    name, kind = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is None or kind is None:
        return
    scope, around = builder.scope(kind), builder.scope(name.parent or node)
    around = around.rpartition(".")[0] if around == scope else around
    if node.type == "type_alias" or kind.type in ("struct_type", "interface_type"):
        path = builder.writer.path(kind)
        if path:
            builder.bind(around, builder.text(name), path)
        return
    for suffix, value in _values_of_type(builder, kind):
        if suffix:
            builder.bind(scope, "@held" + suffix, value, declared=True)


def _read_field(builder: FactsBuilder, node: Node) -> None:
    """Fields are definitions; a type without a name is embedded."""
    scope, kind = builder.scope(node), node.child_by_field_name("type")
    names = node.children_by_field_name("name")
    if scope not in builder.type_names or kind is None or not _is_of_named_type(node):
        return
    for each in names:
        builder.add_definition(f"{scope}.{builder.text(each)}", "variable", each)
        bind_declared(builder, scope, builder.text(each), _values_of_type(builder, kind), local=False)
    path = builder.writer.path(kind) if not names else None
    if path:
        builder.add_use("extends", path, kind, scope)
        builder.skip_reference(_unwrap_type(kind))
        name = path.rpartition(".")[2]
        builder.add_definition(f"{scope}.{name}", "variable", node)
        bind_declared(builder, scope, name, _values_of_type(builder, kind), local=False)


def _is_of_named_type(field: Node) -> bool:
    """Whether a field is of a type with a name, rather than of one within it."""
    struct = field.parent.parent if field.parent is not None else None
    return (
        struct is not None and struct.parent is not None and struct.parent.type in ("type_spec", "type_alias")
    )


def _unwrap_type(type_node: Node) -> Node:
    """The name in `*pkg.Type[T]`."""
    while (
        type_node.type in ("pointer_type", "generic_type", "qualified_type") and type_node.named_child_count
    ):
        type_node = type_node.named_children[0]
    return type_node


def _read_embedded(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    if scope in builder.type_names:
        builder.add_use("extends", builder.writer.path(node), node, scope)
        builder.skip_reference(_unwrap_type(node))


def _read_function(builder: FactsBuilder, node: Node) -> None:
    scope, result = builder.scope(node), node.child_by_field_name("result")
    for suffix, value in _values_of_type(builder, result):
        builder.bind(scope, "@()" + suffix, value, declared=True)


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    """`T` stands for what it is constrained to."""
    bound = next(iter(_values_of_type(builder, node.child_by_field_name("type"))), ("", ""))[1]
    for each in node.children_by_field_name("name"):
        builder.bind(builder.scope(node), builder.text(each), bound.removesuffix("()"))


def _read_parameter(builder: FactsBuilder, node: Node) -> None:
    parent = node.parent
    if parent is None or parent.parent is None or parent.parent.type in ("function_type", "method_elem"):
        return
    values = _values_of_type(builder, node.child_by_field_name("type"))
    if node.type == "variadic_parameter_declaration":
        values = add_prefix("[]", values)
    for each in node.children_by_field_name("name"):
        bind_declared(builder, builder.scope(node), builder.text(each), values)


def _read_variable(builder: FactsBuilder, node: Node) -> None:
    scope, kind = builder.scope(node), node.child_by_field_name("type")
    names = [each for each in node.children_by_field_name("name") if builder.text(each) != "_"]
    is_local = bool(scope) or _is_in_function_literal(node)
    for each in names if not is_local else ():
        builder.add_definition(builder.text(each), "variable", node if len(names) == 1 else each)
    if kind is not None:
        for each in names:
            bind_declared(builder, scope, builder.text(each), _values_of_type(builder, kind), local=is_local)
    elif (value := node.child_by_field_name("value")) is not None:
        _bind_assignment(builder, scope, node.children_by_field_name("name"), value, declares=is_local)


def _is_in_function_literal(node: Node) -> bool:
    """Whether a variable is of a function without a name."""
    around = node.parent
    while around is not None and around.type not in ("func_literal", "source_file"):
        around = around.parent
    return around is not None and around.type == "func_literal"


def _read_constants(builder: FactsBuilder, node: Node) -> None:
    """A constant without type and value has those of the one before."""
    scope, last = builder.scope(node), None
    for each in children_of_type(node, "const_spec"):
        if each.child_by_field_name("type") is not None or each.child_by_field_name("value") is not None:
            last = each
        kind = last.child_by_field_name("type") if last is not None else None
        value = last.child_by_field_name("value") if last is not None else None
        names = [name for name in each.children_by_field_name("name") if name.type == "identifier"]
        for name in names:
            if not scope:
                builder.add_definition(builder.text(name), "variable", each)
            if kind is not None:
                bind_declared(
                    builder, scope, builder.text(name), _values_of_type(builder, kind), local=bool(scope)
                )
        if kind is None and value is not None:
            _bind_assignment(builder, scope, names, value, declares=bool(scope))


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None:
        declares = node.type == "short_var_declaration"
        _bind_assignment(builder, builder.scope(node), left.named_children, right, declares=declares)


def _bind_assignment(
    builder: FactsBuilder, scope: str, names: list[Node], right: Node, *, declares: bool
) -> None:
    """Bind names to values, or to the results of one call."""
    values = right.named_children if right.type == "expression_list" else [right]
    for place, name in enumerate(names):
        if len(values) == len(names):
            given = builder.writer.values(values[place])
        elif len(values) == 1:
            given = _values_at_place(builder, values[0], place)
        else:
            given = []
        _bind_name(builder, scope, name, given, declares=declares)


def _values_at_place(builder: FactsBuilder, value: Node, position: int) -> Values:
    """What `a, b := f()` gives to the name in a place; `v, ok := m[k]` gives the value to the first."""
    if value.type != "call_expression":
        return builder.writer.values(value) if position == 0 else []
    path = builder.writer.path(value)
    return [("", f"{path}[{position}]")] if path else []


def _bind_name(builder: FactsBuilder, scope: str, name: Node, values: Values, *, declares: bool) -> None:
    if name.type != "identifier":
        return
    path = builder.text(name)
    if path == "_":
        return
    known = declares or (scope, path) in builder.local_variables
    if known:
        bind_observed(builder, scope, path, values)
    elif scope:
        return  # of the package: what it is declared as says more
    else:
        bind_observed(builder, scope, path, values, local=False)
    if declares and any(first_segment(value) == path for _, value in values):  # `url := url.Parse(…)`
        builder.bind(scope, path, f"@around.{path}")


def _read_range(builder: FactsBuilder, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    names = left.named_children if left is not None else []
    held = element_values(builder.writer.values(right))
    for place, name in enumerate(names):
        given = held if place == len(names) - 1 else []
        _bind_name(builder, builder.scope(node), name, given, declares=True)
        if name.type == "identifier":
            builder.skip_reference(name)


def _read_type_switch(builder: FactsBuilder, node: Node) -> None:
    """`switch t := x.(type)`: t is what the cases say."""
    alias = node.child_by_field_name("alias")
    name = part_of(alias, 0) if alias is not None else None
    if name is None:
        return
    for case in children_of_type(node, "type_case"):
        for kind in case.children_by_field_name("type"):
            if kind.is_named:
                for suffix, value in _values_of_type(builder, kind):
                    builder.bind(builder.scope(node), builder.text(name) + suffix, value, declared=True)
    builder.local_variables.add((builder.scope(node), builder.text(name)))


def _read_receive(builder: FactsBuilder, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None:
        _bind_assignment(builder, builder.scope(node), left.named_children, right, declares=True)


def _read_keyed_element(builder: FactsBuilder, node: Node) -> None:
    """`Store{rows: x}` names a field of `Store`."""
    key = part_of(node, 0)
    name = part_of(key, 0) if key is not None and key.type == "literal_element" else key
    body = node.parent
    literal = body.parent if body is not None else None
    if name is None or name.type != "identifier" or literal is None:
        return
    if literal.type != "composite_literal":  # an element of a list of them: of a type not written here
        builder.skip_reference(name)
        return
    kind = literal.child_by_field_name("type")
    path = builder.writer.path(kind) if kind is not None and kind.type not in TYPES.arrays else None
    if path:
        builder.skip_reference(name)
        builder.add_use("references", f"{path}().{builder.text(name)}", name)


def _symbol_kind(definition: OutlineDefinition) -> SymbolKind | None:
    """A type defined by another one has methods of its own; an alias is a name alone."""
    return "class" if definition.kind == "type" and definition.node.type == "type_spec" else None


EXTRACTION = ExtractionRules(
    is_private=is_lower_case,
    expressions=EXPRESSIONS,
    handlers={
        "package": _read_package,
        "import": _read_import,
        "type": _read_type,
        "field": _read_field,
        "embedded": _read_embedded,
        "function": _read_function,
        "type.parameter": _read_type_parameter,
        "parameter": _read_parameter,
        "variable": _read_variable,
        "constants": _read_constants,
        "assignment": _read_assignment,
        "range": _read_range,
        "switch": _read_type_switch,
        "receive": _read_receive,
        "keyed": _read_keyed_element,
    },
    builtins=BUILTINS,
    sees_sibling_names=True,
    symbol_kind=_symbol_kind,
)
