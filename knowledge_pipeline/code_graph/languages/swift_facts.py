"""What Swift's declarations and patterns say: imports, bases, types of properties, parameters and results.

Source: https://docs.swift.org/swift-book/documentation/the-swift-programming-language/aboutthelanguagereference
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Import,
    Value,
    Values,
    add_prefix,
    element_values,
    first_segment,
    own_value,
)
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.swift import (
    BUILTINS,
    EXPRESSIONS,
    closure_argument_path,
    find_parameter_type,
    find_result_type,
)
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.syntax.grammars import children_of_type, first_of_type, has_child, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_MAX_DEPTH = 8


def _bind_pattern(builder: FactsBuilder, scope: str, node: Node, values: Values, depth: int = 0) -> None:
    """Bind the names of a pattern to parts of what it is matched with."""
    if depth > _MAX_DEPTH:
        return
    kind = part_of(node, "name")
    if kind is not None:
        for name in _iter_names(node, depth):
            builder.bind_declared(scope, builder.text(name), builder.values_of_type(kind))
            builder.skip_reference(name)
        if has_child(node, "is"):
            # `case is Special` says more of what is switched over
            path = own_value(values)
            if path is not None and path.isidentifier():
                builder.bind_all(scope, path, builder.values_of_type(kind), declared=True)
        return
    case, inner = _find_case_name(node), list(children_of_type(node, "pattern"))
    if case is not None:
        for name, after in zip(node.children, node.children[1:], strict=False):
            if after.type == ":":
                builder.skip_reference(name)
        builder.skip_reference(case)
        _bind_case(builder, scope, case, inner, values, depth)
        return
    for name in _iter_bound_names(node, depth):
        _bind_name(builder, scope, name, values)
    for at, name in enumerate(inner):
        _bind_pattern(builder, scope, name, _values_at_place(values, at, len(inner)), depth + 1)


def _read_conditions(builder: FactsBuilder, node: Node) -> None:
    """`if let x = y`, `guard case let .found(x) = y`, `while let …`."""
    scope = builder.scope(node)
    waiting: list[Node] = []
    declared: Node | None = None
    for at, child in enumerate(node.children):
        field = node.field_name_for_child(at)
        if field == "bound_identifier" or child.type in ("pattern", "simple_identifier", "."):
            waiting.append(child)
        elif child.type == "type_annotation":
            declared = child
        elif child.type == "=" and at + 1 < len(node.children):
            _read_condition(builder, scope, waiting, declared, node.children[at + 1])
            waiting, declared = [], None
        elif waiting and waiting[0].type == ".":  # a comma between the patterns of a case: `.found(a, b)`
            continue
        elif child.type in (",", "case", "if", "guard", "while"):
            waiting, declared = [], None


def _read_switch(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    values = builder.writer.values(part_of(node, "expr"))
    for entry in children_of_type(node, "switch_entry"):
        for alternative in children_of_type(entry, "switch_pattern"):
            for pattern in children_of_type(alternative, "pattern"):
                _bind_pattern(builder, scope, pattern, values)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    """`for item in items`, `for (key, value) in table`."""
    item, scope = part_of(node, "item"), builder.scope(node)
    if item is None:
        return
    elements = element_values(builder.writer.values(part_of(node, "collection")))
    inner = list(children_of_type(item, "pattern"))
    if len(inner) == 2 and _find_case_name(item) is None and part_of(item, "name") is None:
        _bind_pattern(builder, scope, inner[0], [], 1)
        _bind_pattern(builder, scope, inner[1], elements, 1)  # the value of a dictionary, or after a number
        return
    _bind_pattern(builder, scope, item, elements)


def _read_catch(builder: FactsBuilder, node: Node) -> None:
    """`catch let problem as StoreError`; `error` where nothing is written."""
    scope, pattern = builder.scope(node), part_of(node, "error")
    if pattern is None:
        builder.bind_observed(scope, "error", [])
    else:
        _bind_pattern(builder, scope, pattern, [])


def _read_condition(
    builder: FactsBuilder, scope: str, pending: list[Node], declared: Node | None, value: Node
) -> None:
    values = builder.writer.values(value)
    if pending and pending[0].type == "." and len(pending) > 1:
        builder.skip_reference(pending[1])
        inner = [child for child in pending[2:] if child.type == "pattern"]
        for label in pending[2:]:
            if label.type == "simple_identifier":
                builder.skip_reference(label)
        _bind_case(builder, scope, pending[1], inner, values, 0)
        return
    for child in pending:
        if child.type == "pattern":
            _bind_pattern(builder, scope, child, values)
        elif declared is not None:
            builder.bind_declared(scope, builder.text(child), builder.values_of_type(declared))
        elif child.type == "simple_identifier":
            _bind_name(builder, scope, child, values)


def _bind_case(
    builder: FactsBuilder, scope: str, case: Node, patterns: list[Node], values: Values, depth: int
) -> None:
    """`.found(x)`: a case of the type that is matched, and what goes with it."""
    name = builder.text(case)
    of = own_value(values)
    if of and name not in ("some", "none"):
        builder.add_use("references", f"{of}.{name}", case)
    for at, pattern in enumerate(patterns):
        payload = values if name == "some" else [("", f"{of}.{name}@{at}")] if of else []
        # a name alone, within a case that is matched by `let`, is bound, too
        only = pattern.named_children
        if len(only) == 1 and only[0].type == "simple_identifier" and _find_case_name(pattern) is None:
            _bind_name(builder, scope, only[0], payload)
        else:
            _bind_pattern(builder, scope, pattern, payload, depth + 1)


def _find_case_name(pattern: Node) -> Node | None:
    """`found` of the pattern `.found(x)`."""
    for before, child in zip(pattern.children, pattern.children[1:], strict=False):
        if before.type == "." and child.type == "simple_identifier":
            return child
    return None


def _iter_bound_names(pattern: Node, depth: int) -> Iterator[Node]:
    """Names that a pattern itself binds; in a tuple, `a` of `let (a, b)`, too."""
    yield from pattern.children_by_field_name("bound_identifier")
    parts = pattern.named_children
    is_name = len(parts) == 1 and parts[0].type == "simple_identifier"
    if depth and is_name and part_of(pattern, "bound_identifier") is None:
        yield parts[0]


def _iter_names(pattern: Node, depth: int) -> Iterator[Node]:
    yield from pattern.children_by_field_name("bound_identifier")
    if depth <= _MAX_DEPTH:
        for part in children_of_type(pattern, "pattern"):
            yield from _iter_names(part, depth + 1)


def _bind_name(builder: FactsBuilder, scope: str, name: Node, values: Values) -> None:
    """Bind a name; where its value starts with the same name, to what that means around."""
    text = builder.text(name).strip("`")
    builder.skip_reference(name)
    if text in ("self", "_"):
        return
    values = [(suffix, f"@around.{path}" if first_segment(path) == text else path) for suffix, path in values]
    builder.bind_observed(scope, text, values)


def _values_at_place(values: Values, position: int, count: int) -> Values:
    if count == 1:
        return values
    step = f"[{position}]"
    inner = [(suffix.removeprefix(step), path) for suffix, path in values if suffix.startswith(step)]
    return inner + [("", path + step) for suffix, path in values if not suffix]


_BODIES = ("class_body", "enum_class_body", "protocol_body")


def _read_property(builder: FactsBuilder, node: Node) -> None:
    """Properties of files and types are definitions; others are local variables."""
    scope = builder.scope(node)
    if part_of(node, "computed_value") is not None:
        _read_computed_property(builder, node, scope)
        return
    owner = _owner_of(scope, node)
    for at, child in enumerate(node.children):
        if node.field_name_for_child(at) == "name":
            after = node.children[at + 1 : at + 4]  # of several names: `var a: Item, b = Item()`
            end = next((at for at, other in enumerate(after) if other.type == ","), len(after))
            _bind_property(builder, scope, owner, child, node, after[:end])


def _bind_property(
    builder: FactsBuilder, scope: str, owner: str | None, pattern: Node, node: Node, following: list[Node]
) -> None:
    kind = next((child for child in following if child.type == "type_annotation"), None)
    equals = next((at for at, child in enumerate(following) if child.type == "="), None)
    value = following[equals + 1] if equals is not None and equals + 1 < len(following) else None
    name = part_of(pattern, "bound_identifier")
    if name is None:
        _bind_pattern(builder, scope if owner is None else owner, pattern, builder.writer.values(value))
        return
    text, at = builder.text(name).strip("`"), scope if owner is None else owner
    if owner is not None:
        builder.add_definition(f"{owner}.{text}" if owner else text, "variable", node)
    if kind is not None:
        builder.bind_declared(at, text, builder.values_of_type(kind), local=owner is None)
    elif owner is None and builder.writer.path(value) == text:  # `let parent = parent`
        builder.bind(scope, text, f"@around.{text}")
    else:
        builder.bind_observed(at, text, builder.writer.values(value), local=owner is None)


def _owner_of(scope: str, node: Node) -> str | None:
    """The type that a property belongs to, "" for the file; None for a local variable."""
    parent = node.parent
    if parent is not None and parent.type == "source_file":
        return ""
    return scope if parent is not None and parent.type in _BODIES else None


def _read_computed_property(builder: FactsBuilder, node: Node, scope: str) -> None:
    """A property with a getter is read like a field."""
    kind = first_of_type(node, "type_annotation")
    if node.parent is None or node.parent.type not in (*_BODIES, "source_file"):
        pattern = part_of(node, "name")
        builder.bind_declared(scope, builder.text(pattern), builder.values_of_type(kind))
        return
    _bind_receiver(builder, scope, node)
    builder.bind(scope, "@", "@()")
    builder.bind_result(scope, kind)


def _read_requirement(builder: FactsBuilder, node: Node) -> None:
    """A property that a protocol asks for."""
    scope, name = builder.scope(node), part_of(part_of(node, "name"), "bound_identifier")
    if name is not None and scope in builder.type_names:
        builder.add_definition(f"{scope}.{builder.text(name)}", "variable", node)
        kind = first_of_type(node, "type_annotation")
        builder.bind_declared(scope, builder.text(name), builder.values_of_type(kind), local=False)


def _bind_receiver(builder: FactsBuilder, scope: str, node: Node) -> None:
    """A member in an extension has what is extended as its receiver."""
    body = node.parent
    around = body.parent if body is not None and body.type in _BODIES else None
    if around is not None and any(child.type == "extension" for child in around.children[:4]):
        path = builder.writer.path(part_of(around, "name"))
        builder.bind(scope, "@receiver", f"{path}()" if path else "", declared=True)


def _qualify_within(definition: OutlineDefinition, enclosing: str) -> str:
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
    _bind_receiver(builder, scope, node)
    if node.type == "init_declaration":
        builder.bind(scope, "@()", "@class()", declared=True)
    builder.bind_result(scope, find_result_type(node))
    listed = list(children_of_type(node, "parameter"))
    for position, parameter in enumerate(listed):
        _read_parameter(builder, scope, parameter, position, is_last=position == len(listed) - 1)


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
    own_values = [value for value in values if value[1].removesuffix("()") not in BUILTINS]
    handed = list(_closure_parameter_values(builder, kind))
    builder.bind_all(scope, f"@{key}", [*own_values, *handed], declared=True)
    if is_last:
        builder.bind_all(scope, "@closure", handed, declared=True)


def _closure_parameter_values(builder: FactsBuilder, type_node: Node | None) -> Iterator[Value]:
    """What a function hands to a closure that it is given: (".@0", "Item()")."""
    if type_node is not None and type_node.type == "optional_type":
        type_node = part_of(type_node, "wrapped")
    if type_node is not None and type_node.type == "tuple_type":
        type_node = part_of(part_of(type_node, 0) or type_node, -1)
    parameters = part_of(type_node, "params") if type_node and type_node.type == "function_type" else None
    for position, item in enumerate(children_of_type(parameters, "tuple_type_item")):
        yield from add_prefix(f".@{position}", builder.values_of_type(part_of(item, -1)))


def _read_enum_entry(builder: FactsBuilder, node: Node) -> None:
    """The cases of an enum: instances of it, and what goes with them."""
    scope = builder.scope(node)
    name = ""
    for at, child in enumerate(node.children):
        if node.field_name_for_child(at) == "name" and scope in builder.type_names:
            name = builder.text(child).strip("`")
            builder.add_definition(f"{scope}.{name}", "variable", child)
            builder.bind(scope, name, "@class()", declared=True)
        elif child.type == "enum_type_parameters" and name:
            builder.bind(scope, f"{name}()", "@class()", declared=True)
            for position, kind in enumerate(child.children_by_field_name("name")):
                builder.bind_all(scope, f"{name}@{position}", builder.values_of_type(kind), declared=True)


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    scope, kind = builder.scope(node), part_of(node, "type")
    listed = first_of_type(kind, "lambda_function_type_parameters")
    for position, parameter in enumerate(children_of_type(listed, "lambda_parameter")):
        name, declared = part_of(parameter, "name"), find_parameter_type(parameter)
        if name is None or builder.text(name) == "_":
            continue
        if declared is not None:
            builder.bind_declared(scope, builder.text(name), builder.values_of_type(declared))
            continue
        handed = closure_argument_path(builder.writer, node, position)
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
        "bound": _read_bound, "function": _read_function, "property": _read_property,
        "requirement": _read_requirement, "entry": _read_enum_entry, "lambda": _read_lambda,
        "implicit": _read_implicit_member, "loop": _read_loop, "conditions": _read_conditions,
        "switch": _read_switch, "catch": _read_catch,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify_within=_qualify_within,
    type_part_kinds=frozenset({"extension"}), is_private=has_private_modifier,
)  # fmt: skip
