"""What Go's declarations say: packages, imports, types of fields, parameters, variables and results.

Source: https://go.dev/ref/spec
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import first_segment
from knowledge_pipeline.code_graph.facts import Import, SymbolKind
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.go.modules import guess_package_names
from knowledge_pipeline.code_graph.languages.go.values import BUILTINS, EXPRESSIONS, TYPES
from knowledge_pipeline.code_graph.languages.visibility import is_lower_case
from knowledge_pipeline.code_graph.values import Values, add_prefix, element_values
from knowledge_pipeline.syntax.nodes import ancestor_of_type, children_of, children_of_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition


def _read_package(builder: FactsBuilder, node: Node) -> None:
    builder.module = builder.text(part_of(node, 0))


def _read_import(builder: FactsBuilder, node: Node) -> None:
    module, local = builder.text(part_of(node, "path")).strip('"`'), builder.text(part_of(node, "name"))
    if not module:
        return
    name = "*" if local == "." else ""
    for each in {".": ["*"], "_": [""], "": guess_package_names(module) or [""]}.get(local, [local]):
        builder.imports.append(Import(module, name, each, node.start_point.row + 1))


def _read_type(builder: FactsBuilder, node: Node) -> None:
    """What a defined type holds, or another name for one."""
    name, kind = part_of(node, "name"), part_of(node, "type")
    if name is None or kind is None:
        return
    scope, around = builder.scope(kind), builder.scope(name.parent or node)
    around = around.rpartition(".")[0] if around == scope else around
    if node.type == "type_alias" or kind.type in ("struct_type", "interface_type"):
        path = builder.writer.path(kind)
        if path:
            builder.bind(around, builder.text(name), path)
        return
    held = [value for value in builder.values_of_type(kind) if value[0]]
    builder.bind_all(scope, "@held", held, declared=True)


def _read_field(builder: FactsBuilder, node: Node) -> None:
    """Fields are definitions; a type without a name is embedded."""
    scope, kind = builder.scope(node), part_of(node, "type")
    names = node.children_by_field_name("name")
    if scope not in builder.type_names or kind is None or not _is_of_named_type(node):
        return
    for each in names:
        builder.add_definition(f"{scope}.{builder.text(each)}", "variable", each)
        builder.bind_declared(scope, builder.text(each), builder.values_of_type(kind), local=False)
    path = builder.writer.path(kind) if not names else None
    if path:
        builder.add_use("extends", path, kind, scope)
        builder.skip_reference(_unwrap_type(kind))
        name = path.rpartition(".")[2]
        builder.add_definition(f"{scope}.{name}", "variable", node)
        builder.bind_declared(scope, name, builder.values_of_type(kind), local=False)


def _is_of_named_type(field: Node) -> bool:
    """Whether a field is of a type with a name, rather than of one within it."""
    struct = field.parent.parent if field.parent is not None else None
    around = struct.parent if struct is not None else None
    return around is not None and around.type in ("type_spec", "type_alias")


def _unwrap_type(node: Node) -> Node:
    """The name in `*pkg.Type[T]`."""
    while node.type in ("pointer_type", "generic_type", "qualified_type") and node.named_child_count:
        node = node.named_children[0]
    return node


def _read_embedded(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    if scope in builder.type_names:
        builder.add_use("extends", builder.writer.path(node), node, scope)
        builder.skip_reference(_unwrap_type(node))


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    """`T` stands for what it is constrained to."""
    bound = next(iter(builder.values_of_type(part_of(node, "type"))), ("", ""))[1]
    for each in node.children_by_field_name("name"):
        builder.bind(builder.scope(node), builder.text(each), bound.removesuffix("()"))


def _read_parameter(builder: FactsBuilder, node: Node) -> None:
    parent = node.parent
    if parent is None or parent.parent is None or parent.parent.type in ("function_type", "method_elem"):
        return
    values = builder.values_of_type(part_of(node, "type"))
    if node.type == "variadic_parameter_declaration":
        values = add_prefix("[]", values)
    for each in node.children_by_field_name("name"):
        builder.bind_declared(builder.scope(node), builder.text(each), values)


def _read_variable(builder: FactsBuilder, node: Node) -> None:
    scope, kind = builder.scope(node), part_of(node, "type")
    names = [each for each in node.children_by_field_name("name") if builder.text(each) != "_"]
    function = ancestor_of_type(node, "func_literal", "source_file")
    is_local = bool(scope) or (function is not None and function.type == "func_literal")
    for each in names if not is_local else ():
        builder.add_definition(builder.text(each), "variable", node if len(names) == 1 else each)
    if kind is not None:
        for each in names:
            builder.bind_declared(scope, builder.text(each), builder.values_of_type(kind), local=is_local)
    elif (value := part_of(node, "value")) is not None:
        _bind_assignment(builder, scope, node.children_by_field_name("name"), value, declares=is_local)


def _read_constants(builder: FactsBuilder, node: Node) -> None:
    """A constant without type and value has those of the one before."""
    scope, last = builder.scope(node), None
    for each in children_of_type(node, "const_spec"):
        if part_of(each, "type") is not None or part_of(each, "value") is not None:
            last = each
        kind, value = part_of(last, "type"), part_of(last, "value")
        names = [name for name in each.children_by_field_name("name") if name.type == "identifier"]
        for name in names:
            if not scope:
                builder.add_definition(builder.text(name), "variable", each)
            if kind is not None:
                values = builder.values_of_type(kind)
                builder.bind_declared(scope, builder.text(name), values, local=bool(scope))
        if kind is None and value is not None:
            _bind_assignment(builder, scope, names, value, declares=bool(scope))


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left, right = part_of(node, "left"), part_of(node, "right")
    if left is not None and right is not None:
        declares = node.type != "assignment_statement"
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
    if scope and not known:
        return  # of the package: what it is declared as says more
    builder.bind_observed(scope, path, values, local=known)
    if declares and any(first_segment(value) == path for _, value in values):  # `url := url.Parse(…)`
        builder.bind(scope, path, f"@around.{path}")


def _read_range(builder: FactsBuilder, node: Node) -> None:
    names = children_of(part_of(node, "left"))
    held = element_values(builder.writer.values(part_of(node, "right")))
    for place, name in enumerate(names):
        given = held if place == len(names) - 1 else []
        _bind_name(builder, builder.scope(node), name, given, declares=True)
        if name.type == "identifier":
            builder.skip_reference(name)


def _read_type_switch(builder: FactsBuilder, node: Node) -> None:
    """`switch t := x.(type)`: t is what the cases say."""
    scope, name = builder.scope(node), builder.text(part_of(part_of(node, "alias"), 0))
    if not name:
        return
    for case in children_of_type(node, "type_case"):
        for kind in case.children_by_field_name("type"):
            if kind.is_named:
                builder.bind_all(scope, name, builder.values_of_type(kind), declared=True)
    builder.local_variables.add((scope, name))


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
    kind = part_of(literal, "type")
    path = builder.writer.path(kind) if kind is not None and kind.type not in TYPES.arrays else None
    if path:
        builder.skip_reference(name)
        builder.add_use("references", f"{path}().{builder.text(name)}", name)


def _symbol_kind(definition: OutlineDefinition) -> SymbolKind | None:
    """A type defined by another one has methods of its own; an alias is a name alone."""
    return "class" if definition.kind == "type" and definition.node.type == "type_spec" else None


EXTRACTION = ExtractionRules(
    is_private=is_lower_case, expressions=EXPRESSIONS,
    handlers={
        "package": _read_package, "import": _read_import, "type": _read_type, "field": _read_field,
        "embedded": _read_embedded,
        "function": lambda builder, node: builder.bind_result(builder.scope(node), part_of(node, "result")),
        "type.parameter": _read_type_parameter, "parameter": _read_parameter, "variable": _read_variable,
        "constants": _read_constants, "assignment": _read_assignment, "range": _read_range,
        "switch": _read_type_switch, "receive": _read_assignment, "keyed": _read_keyed_element,
    },
    builtins=BUILTINS, sees_sibling_names=True, symbol_kind=_symbol_kind,
)  # fmt: skip
