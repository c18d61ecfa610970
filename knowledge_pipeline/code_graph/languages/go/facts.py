"""What Go's declarations say: packages, imports, types of fields, parameters, variables and results.

Source: https://go.dev/ref/spec
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import head_of
from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import, SymbolKind
from knowledge_pipeline.code_graph.facts_builder import Extraction, Reading
from knowledge_pipeline.code_graph.languages.declared_types import (
    Values,
    children,
    declare,
    elements,
    give,
    promised,
    under,
)
from knowledge_pipeline.code_graph.languages.go.modules import local_names
from knowledge_pipeline.code_graph.languages.go.values import BUILTINS, EXPRESSIONS, TYPES
from knowledge_pipeline.code_graph.languages.visibility import lower_case
from knowledge_pipeline.syntax.outline import Definition


def _package(reading: Reading, node: Node) -> None:
    name = part_of(node, 0)
    reading.module = reading.text(name) if name is not None else ""


def _import(reading: Reading, node: Node) -> None:
    path, alias = node.child_by_field_name("path"), node.child_by_field_name("name")
    module = reading.text(path).strip('"`') if path is not None else ""
    if not module:
        return
    local = reading.text(alias) if alias is not None else None
    name = "*" if local == "." else ""
    names = {".": ["*"], "_": [""], None: local_names(module) or [""]}.get(local, [local or ""])
    for each in names:
        reading.imports.append(Import(module, name, each, node.start_point.row + 1))


def _promised(reading: Reading, node: Node | None) -> Values:
    return promised(TYPES, reading.writer, node)


def _type(reading: Reading, node: Node) -> None:
    """What a defined type holds, or another name for one."""
    name, kind = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is None or kind is None:
        return
    scope, around = reading.scope(kind), reading.scope(name.parent or node)
    around = around.rpartition(".")[0] if around == scope else around
    if node.type == "type_alias" or kind.type in ("struct_type", "interface_type"):
        path = reading.writer.path(kind)
        if path:
            reading.bind(around, reading.text(name), path)
        return
    for suffix, value in _promised(reading, kind):
        if suffix:
            reading.bind(scope, "@held" + suffix, value, declared=True)


def _field(reading: Reading, node: Node) -> None:
    """Fields are definitions; a type without a name is embedded."""
    scope, kind = reading.scope(node), node.child_by_field_name("type")
    names = node.children_by_field_name("name")
    if scope not in reading.types or kind is None or not _is_of_type(node):
        return
    for each in names:
        reading.define(f"{scope}.{reading.text(each)}", "variable", each)
        declare(reading, scope, reading.text(each), _promised(reading, kind), local=False)
    path = reading.writer.path(kind) if not names else None
    if path:
        reading.use("extends", path, kind, scope)
        reading.skip(_bare(kind))
        name = path.rpartition(".")[2]
        reading.define(f"{scope}.{name}", "variable", node)
        declare(reading, scope, name, _promised(reading, kind), local=False)


def _is_of_type(field: Node) -> bool:
    """Whether a field is of a type with a name, rather than of one within it."""
    struct = field.parent.parent if field.parent is not None else None
    return (
        struct is not None and struct.parent is not None and struct.parent.type in ("type_spec", "type_alias")
    )


def _bare(kind: Node) -> Node:
    """The name in `*pkg.Type[T]`."""
    while kind.type in ("pointer_type", "generic_type", "qualified_type") and kind.named_child_count:
        kind = kind.named_children[0]
    return kind


def _embedded(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    if scope in reading.types:
        reading.use("extends", reading.writer.path(node), node, scope)
        reading.skip(_bare(node))


def _function(reading: Reading, node: Node) -> None:
    scope, result = reading.scope(node), node.child_by_field_name("result")
    for suffix, value in _promised(reading, result):
        reading.bind(scope, "@()" + suffix, value, declared=True)


def _type_parameter(reading: Reading, node: Node) -> None:
    """`T` stands for what it is constrained to."""
    bound = next(iter(_promised(reading, node.child_by_field_name("type"))), ("", ""))[1]
    for each in node.children_by_field_name("name"):
        reading.bind(reading.scope(node), reading.text(each), bound.removesuffix("()"))


def _parameter(reading: Reading, node: Node) -> None:
    parent = node.parent
    if parent is None or parent.parent is None or parent.parent.type in ("function_type", "method_elem"):
        return
    values = _promised(reading, node.child_by_field_name("type"))
    if node.type == "variadic_parameter_declaration":
        values = under("[]", values)
    for each in node.children_by_field_name("name"):
        declare(reading, reading.scope(node), reading.text(each), values)


def _variable(reading: Reading, node: Node) -> None:
    scope, kind = reading.scope(node), node.child_by_field_name("type")
    names = [each for each in node.children_by_field_name("name") if reading.text(each) != "_"]
    is_local = bool(scope) or _is_in_literal(node)
    for each in names if not is_local else ():
        reading.define(reading.text(each), "variable", node if len(names) == 1 else each)
    if kind is not None:
        for each in names:
            declare(reading, scope, reading.text(each), _promised(reading, kind), local=is_local)
    elif (value := node.child_by_field_name("value")) is not None:
        _assign(reading, scope, node.children_by_field_name("name"), value, declares=is_local)


def _is_in_literal(node: Node) -> bool:
    """Whether a variable is of a function without a name."""
    around = node.parent
    while around is not None and around.type not in ("func_literal", "source_file"):
        around = around.parent
    return around is not None and around.type == "func_literal"


def _constants(reading: Reading, node: Node) -> None:
    """A constant without type and value has those of the one before."""
    scope, last = reading.scope(node), None
    for each in children(node, "const_spec"):
        if each.child_by_field_name("type") is not None or each.child_by_field_name("value") is not None:
            last = each
        kind = last.child_by_field_name("type") if last is not None else None
        value = last.child_by_field_name("value") if last is not None else None
        names = [name for name in each.children_by_field_name("name") if name.type == "identifier"]
        for name in names:
            if not scope:
                reading.define(reading.text(name), "variable", each)
            if kind is not None:
                declare(reading, scope, reading.text(name), _promised(reading, kind), local=bool(scope))
        if kind is None and value is not None:
            _assign(reading, scope, names, value, declares=bool(scope))


def _assignment(reading: Reading, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None:
        declares = node.type == "short_var_declaration"
        _assign(reading, reading.scope(node), left.named_children, right, declares=declares)


def _assign(reading: Reading, scope: str, names: list[Node], right: Node, *, declares: bool) -> None:
    """Bind names to values, or to the results of one call."""
    values = right.named_children if right.type == "expression_list" else [right]
    for place, name in enumerate(names):
        if len(values) == len(names):
            given = reading.writer.values(values[place])
        elif len(values) == 1:
            given = _of_several(reading, values[0], place)
        else:
            given = []
        _bind(reading, scope, name, given, declares=declares)


def _of_several(reading: Reading, value: Node, place: int) -> Values:
    """What `a, b := f()` gives to the name in a place; `v, ok := m[k]` gives the value to the first."""
    if value.type != "call_expression":
        return reading.writer.values(value) if place == 0 else []
    path = reading.writer.path(value)
    return [("", f"{path}[{place}]")] if path else []


def _bind(reading: Reading, scope: str, name: Node, values: Values, *, declares: bool) -> None:
    if name.type != "identifier":
        return
    path = reading.text(name)
    if path == "_":
        return
    known = declares or (scope, path) in reading.locals
    if known:
        give(reading, scope, path, values)
    elif scope:
        return  # of the package: what it is declared as says more
    else:
        give(reading, scope, path, values, local=False)
    if declares and any(head_of(value) == path for _, value in values):  # `url := url.Parse(…)`
        reading.bind(scope, path, f"@around.{path}")


def _range(reading: Reading, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    names = left.named_children if left is not None else []
    held = elements(reading.writer.values(right))
    for place, name in enumerate(names):
        given = held if place == len(names) - 1 else []
        _bind(reading, reading.scope(node), name, given, declares=True)
        if name.type == "identifier":
            reading.skip(name)


def _switch(reading: Reading, node: Node) -> None:
    """`switch t := x.(type)`: t is what the cases say."""
    alias = node.child_by_field_name("alias")
    name = part_of(alias, 0) if alias is not None else None
    if name is None:
        return
    for case in children(node, "type_case"):
        for kind in case.children_by_field_name("type"):
            if kind.is_named:
                for suffix, value in _promised(reading, kind):
                    reading.bind(reading.scope(node), reading.text(name) + suffix, value, declared=True)
    reading.locals.add((reading.scope(node), reading.text(name)))


def _receive(reading: Reading, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None:
        _assign(reading, reading.scope(node), left.named_children, right, declares=True)


def _keyed(reading: Reading, node: Node) -> None:
    """`Store{rows: x}` names a field of `Store`."""
    key = part_of(node, 0)
    name = part_of(key, 0) if key is not None and key.type == "literal_element" else key
    body = node.parent
    literal = body.parent if body is not None else None
    if name is None or name.type != "identifier" or literal is None:
        return
    if literal.type != "composite_literal":  # an element of a list of them: of a type not written here
        reading.skip(name)
        return
    kind = literal.child_by_field_name("type")
    path = reading.writer.path(kind) if kind is not None and kind.type not in TYPES.arrays else None
    if path:
        reading.skip(name)
        reading.use("references", f"{path}().{reading.text(name)}", name)


def _kind(each: Definition) -> SymbolKind | None:
    """A type defined by another one has methods of its own; an alias is a name alone."""
    return "class" if each.kind == "type" and each.node.type == "type_spec" else None


EXTRACTION = Extraction(
    private=lower_case,
    expressions=EXPRESSIONS,
    handlers={
        "package": _package,
        "import": _import,
        "type": _type,
        "field": _field,
        "embedded": _embedded,
        "function": _function,
        "type.parameter": _type_parameter,
        "parameter": _parameter,
        "variable": _variable,
        "constants": _constants,
        "assignment": _assignment,
        "range": _range,
        "switch": _switch,
        "receive": _receive,
        "keyed": _keyed,
    },
    builtins=BUILTINS,
    hides_siblings=True,
    kind=_kind,
)
