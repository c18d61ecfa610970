"""JavaScript and TypeScript: what statements, functions and classes say, and how names are resolved."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    UseKind,
    Values,
    called_values,
    iterated_values,
    parent_scope,
    step_values,
)
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.base import Language, load_words, split_words
from knowledge_pipeline.code_graph.languages.ecmascript_modules import (
    SUFFIXES,
    find_entry_file,
    find_module_files,
    find_package,
    find_required_module,
    read_dynamic_import,
    read_export,
    read_export_assignment,
    read_import,
    read_require_declaration,
)
from knowledge_pipeline.code_graph.languages.ecmascript_values import (
    CALLBACK_METHODS,
    EXPRESSIONS,
    MAX_PARAMETERS,
    callback_parameter_values,
    list_arguments,
    qualify_within,
    to_segment,
    unwrap_expression,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.visibility import is_not_exported
from knowledge_pipeline.code_graph.project import Layout
from knowledge_pipeline.syntax.grammars import children_of, first_of_type, has_child, part_of
from knowledge_pipeline.syntax.outline import TYPE_KINDS

_WORDS = load_words("ecmascript")

_MAX_DEPTH = 6
_NAME_NODES = frozenset({"identifier", "shorthand_property_identifier_pattern"})
_PLACE_NODES = frozenset({"member_expression", "subscript_expression"})


def _bind_pattern(
    builder: FactsBuilder, scope: str, target: Node, values: Values, *, declared: bool = False, depth: int = 0
) -> None:
    """Bind a target to values; the parts of a pattern to the parts of theirs."""
    kind = target.type
    if depth > _MAX_DEPTH:
        return
    if kind in _NAME_NODES or kind in _PLACE_NODES:
        path = builder.text(target) if kind in _NAME_NODES else builder.writer.path(target)
        builder.bind_name(scope, path, values, declared=declared)
        return
    for part, inner in _iter_parts(builder, target, values):
        _bind_pattern(builder, scope, part, inner, declared=declared, depth=depth + 1)


def _iter_declared_names(target: Node, depth: int = 0) -> Iterator[Node]:
    if target.type in _NAME_NODES:
        yield target
        return
    if depth > _MAX_DEPTH:
        return
    for child in target.named_children:
        if target.type == "pair_pattern" and child == part_of(target, "key"):
            continue
        if target.type in ("assignment_pattern", "object_assignment_pattern"):
            child = part_of(target, "left") or child
            yield from _iter_declared_names(child, depth + 1)
            return
        yield from _iter_declared_names(child, depth + 1)


def _iter_parts(builder: FactsBuilder, target: Node, values: Values) -> Iterator[tuple[Node, Values]]:
    kind = target.type
    if kind == "object_pattern":
        yield from _iter_properties(builder, target, values)
    elif kind == "array_pattern":
        for position, element in enumerate(target.named_children[:20]):
            yield element, [] if element.type == "rest_pattern" else step_values(values, f"[{position}]")
    elif kind in ("assignment_pattern", "object_assignment_pattern"):
        left = part_of(target, "left")
        if left is not None:
            yield left, values + builder.writer.values(part_of(target, "right"))
    elif kind in ("rest_pattern", "parenthesized_expression", "non_null_expression"):
        yield from ((child, values) for child in target.named_children[:1])


def _iter_properties(builder: FactsBuilder, target: Node, values: Values) -> Iterator[tuple[Node, Values]]:
    for child in target.named_children[:60]:
        if child.type == "shorthand_property_identifier_pattern":
            yield child, step_values(values, f".{builder.text(child)}")
        elif child.type == "object_assignment_pattern":
            left = part_of(child, "left")
            name = builder.text(left)
            yield child, step_values(values, f".{name}")
        elif child.type == "pair_pattern":
            key, value = part_of(child, "key"), part_of(child, "value")
            if key is not None and value is not None:
                yield (
                    value,
                    step_values(values, f".{builder.text(key)}") if key.type.endswith("identifier") else [],
                )
        elif child.type == "rest_pattern":
            yield child, [value for value in values if value[0][:1] in ("", ".")]


_MAX_OBJECTS = 3  # within each other
_MAX_PROPERTIES = 40
_DEFINED_FUNCTION_NODES = split_words(
    """
    function_declaration generator_function_declaration function_expression generator_function
    arrow_function method_definition
    """
)


def _read_function(builder: FactsBuilder, node: Node) -> None:
    """Bind a function's parameters, and its result if it is a definition."""
    body, parameters, single = (part_of(node, field) for field in ("body", "parameters", "parameter"))
    scope = builder.scope(parameters or body or node)
    if single is not None:
        _bind_pattern(builder, builder.scope(single), single, [])
    is_known = _is_definition(builder, node)
    builder.shared_state.setdefault("bodies", []).append((node.start_byte, node.end_byte, is_known))
    position = 0
    for parameter in children_of(parameters):
        pattern = part_of(parameter, "pattern") or parameter
        if pattern.type not in ("this", "comment"):
            values = _bind_parameter(builder, scope, parameter, pattern)
            if is_known and values and pattern.type == "identifier" and position < MAX_PARAMETERS:
                builder.bind(scope, f"@{position}", builder.text(pattern))
            elif is_known and position < MAX_PARAMETERS:
                builder.bind_all(scope, f"@{position}", values, declared=True)
            position += 1
    if is_known:
        declared = part_of(node, "return_type")
        builder.bind_all(scope, "@()", values_of_type(builder.writer, declared), declared=True)
        if node.type == "arrow_function" and body is not None and body.type != "statement_block":
            builder.bind_all(scope, "@()", builder.writer.values(body))
        if any(child.type == "get" for child in node.children[:6]):
            builder.bind(scope, "@", "@()")


def _bind_callback_parameters(builder: FactsBuilder, argument: Node, values: Values, depth: int = 0) -> None:
    """Give the parameters of a function, or of those in an object, what a declared type says."""
    function = unwrap_expression(argument)
    if function is None or depth > _MAX_OBJECTS:
        return
    if function.type == "object":
        for child in function.named_children[:_MAX_PROPERTIES]:
            key = part_of(child, "key") or part_of(child, "name")
            value = part_of(child, "value") if child.type == "pair" else child
            if key is not None and value is not None and key.type == "property_identifier":
                inner = step_values(values, f".{builder.text(key)}")
                _bind_callback_parameters(builder, value, inner, depth + 1)
    elif function.type in _DEFINED_FUNCTION_NODES:
        scope = builder.scope(part_of(function, "body") or function)
        for position, child in enumerate(_iter_untyped_patterns(function)):
            if child is not None:
                _bind_pattern(builder, scope, child, step_values(values, f".@{position}"))


def _iter_untyped_patterns(function: Node) -> Iterator[Node | None]:
    """Patterns of a function's parameters; None for those that declare a type."""
    single, several = part_of(function, "parameter"), part_of(function, "parameters")
    parameters = [single] if single is not None else children_of(several)
    for parameter in parameters[:MAX_PARAMETERS]:
        typed = part_of(parameter, "type") is not None
        yield None if typed else part_of(parameter, "pattern") or parameter


def _read_return(builder: FactsBuilder, node: Node) -> None:
    """What the function gives that a statement returns from, if it is a definition."""
    value = part_of(node, 0)
    if value is not None and _returns_from_definition(builder, node):
        builder.bind_all(builder.scope(node), "@()", builder.writer.values(value))


def _read_yield(builder: FactsBuilder, node: Node) -> None:
    """What a generator gives one by one."""
    values = builder.writer.values(part_of(node, 0))
    elements = iterated_values(values) if has_child(node, "*") else values
    builder.bind_all(builder.scope(node), "@()[]", elements)


def _is_definition(builder: FactsBuilder, node: Node) -> bool:
    """Whether a function has a name by which it is found."""
    spans = builder.shared_state.get("functions")
    if spans is None:  # of functions that are definitions, or the values of such
        nodes = (definition.node for definition in builder.outline.definitions)
        values = (part_of(node, "value") or part_of(node, "right") or node for node in nodes)
        spans = builder.shared_state["functions"] = {(value.start_byte, value.end_byte) for value in values}
    return (node.start_byte, node.end_byte) in spans


def _bind_parameter(builder: FactsBuilder, scope: str, node: Node, pattern: Node) -> Values:
    """Bind a parameter; gives what its type promises."""
    declared = part_of(node, "type")
    if pattern.type == "rest_pattern":
        pattern = part_of(pattern, 0) or pattern
    values = values_of_type(builder.writer, declared)
    if declared is not None:
        _bind_pattern(builder, scope, pattern, values, declared=True)
    value = part_of(node, "value")
    if value is not None or not values:
        _bind_pattern(builder, scope, pattern, builder.writer.values(value))
    is_field = has_child(node, "accessibility_modifier", "readonly", "override_modifier")
    owner = parent_scope(scope)  # `constructor(private store: Store)` declares a field, too
    if is_field and pattern.type == "identifier" and owner in builder.type_names:
        name = to_segment(builder.text(pattern))
        builder.add_definition(f"{owner}.{name}", "variable", node)
        builder.bind_all(owner, name, values, declared=True)
    return values


def _returns_from_definition(builder: FactsBuilder, node: Node) -> bool:
    """Whether the innermost function around a node is a definition; asked after all functions were read."""
    if "spans" not in builder.shared_state:
        builder.shared_state["spans"] = _build_function_spans(builder.shared_state.get("bodies", []))
    starts, are_functions = builder.shared_state["spans"]
    return are_functions[bisect_right(starts, node.start_byte) - 1]


def _build_function_spans(bodies: list[tuple[int, int, bool]]) -> tuple[list[int], list[bool]]:
    """From which bytes on the innermost function is a definition, or none; functions in their order."""
    starts, are_functions = [0], [False]
    around: list[tuple[int, bool]] = []

    def leave(offset: int) -> None:
        while around and around[-1][0] <= offset:
            starts.append(around.pop()[0])
            are_functions.append(around[-1][1] if around else False)

    for start, end, is_known in bodies:
        leave(start)
        around.append((end, is_known))
        starts.append(start)
        are_functions.append(is_known)
    leave(2**62)
    return starts, are_functions


_NAMES = frozenset({"identifier", "type_identifier", "member_expression", "nested_type_identifier"})


def _read_heritage(builder: FactsBuilder, node: Node) -> None:
    """`extends A.B<C> implements D`, of classes and interfaces."""
    scope = builder.scope(node)
    if node.type == "extends_type_clause":
        _read_bases(builder, scope, node.children_by_field_name("type"), "extends")
        return
    for clause in node.named_children:
        if clause.type == "extends_clause":
            _read_bases(builder, scope, clause.children_by_field_name("value"), "extends")
        elif clause.type == "implements_clause":
            _read_bases(builder, scope, clause.named_children, "implements")
        else:
            _read_bases(builder, scope, [clause], "extends")


def _read_bases(builder: FactsBuilder, scope: str, bases: list[Node], kind: UseKind) -> None:
    for base in bases:
        name_node = unwrap_expression(part_of(base, "name") if base.type == "generic_type" else base)
        if name_node is not None and name_node.type in _NAMES:
            builder.add_use(kind, "".join((builder.writer.path(name_node) or "").split()), name_node, scope)
            builder.skip_reference(name_node)


def _read_super_call(builder: FactsBuilder, node: Node) -> None:
    """`super(…)` calls what the class extends."""
    around = builder.outline.innermost_definition(builder.syntax.start(node))
    while around is not None and around.kind not in TYPE_KINDS:
        around = around.parent
    body = around.node if around is not None else None
    if body is not None and body.type == "variable_declarator":
        body = part_of(body, "value")
    clause = part_of(first_of_type(body, "class_heritage"), 0)
    base = part_of(clause, "value") if clause is not None and clause.type == "extends_clause" else clause
    builder.add_use("calls", builder.writer.path(base), node)


def _read_field(builder: FactsBuilder, node: Node) -> None:
    name_node = part_of(node, "name") or part_of(node, "property")
    scope, name = builder.scope(node), to_segment(builder.text(name_node))
    declared, value = part_of(node, "type"), part_of(node, "value")
    if (
        name_node is None
        or (node.start_byte, node.end_byte) in builder.writer.definition_names
        or scope not in builder.type_names
    ):
        return
    builder.add_definition(f"{scope}.{name}", "variable", node)
    builder.bind_all(scope, name, values_of_type(builder.writer, declared), declared=True)
    builder.bind_all(scope, name, builder.writer.values(value))


def _read_type_name(builder: FactsBuilder, node: Node) -> None:
    """`bigint` is TypeScript's own, though its grammar takes it for a name."""
    if builder.writer.short_text(node, 7) == "bigint":
        builder.skip_reference(node)


def _read_property(builder: FactsBuilder, node: Node) -> None:
    """A property that an interface, or a type of an object, declares."""
    name_node, scope = part_of(node, "name"), builder.scope(node)
    if name_node is None or not scope:
        return
    name = to_segment(builder.text(name_node))
    builder.add_definition(f"{scope}.{name}", "variable", node)
    builder.bind_all(scope, name, values_of_type(builder.writer, part_of(node, "type")), declared=True)


def _read_call_signature(builder: FactsBuilder, node: Node) -> None:
    """What an interface says of its instances when they are called: `(store: Store): Rows`."""
    scope = builder.scope(node)
    if scope not in builder.type_names:
        return
    result = values_of_type(builder.writer, part_of(node, "return_type"))
    builder.bind_all(scope, "@call()", result, declared=True)
    for suffix, path in callback_parameter_values(builder.writer, node):
        builder.bind(scope, suffix[1:], path, declared=True)


def _read_enum_member(builder: FactsBuilder, node: Node) -> None:
    """A member of an enumeration."""
    scope = builder.scope(node)
    builder.add_definition(f"{scope}.{to_segment(builder.text(node))}", "variable", node)


def _read_type_alias(builder: FactsBuilder, node: Node) -> None:
    """What a name for a type stands for; one for a type of an object is itself what has its members."""
    value, scope = part_of(node, "value"), builder.scope(node)
    if value is None or not scope:
        return
    parts = value.named_children if value.type == "intersection_type" else [value]
    if any(part.type == "object_type" for part in parts):
        builder.bind(scope, "@()", "@", declared=True)
    for part in parts:
        if part.type != "object_type":
            builder.bind_all(scope, "@()", values_of_type(builder.writer, part), declared=True)


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    """A type's parameter is what it extends, as far as is known."""
    name_node, limit = part_of(node, "name"), part_of(node, "constraint")
    if name_node is None:
        return
    scope, name = builder.scope(node), builder.text(name_node)
    values = [value for suffix, value in values_of_type(builder.writer, limit) if not suffix]
    for value in values:
        if value.endswith("()"):
            builder.bind(scope, name, value[:-2], declared=True)
        else:
            builder.bind(scope, f"{name}()", value, declared=True)
    if not values:
        builder.bind(scope, name, "")


BUILTINS = _WORDS["builtins"]
_MAX_CHAINED_ASSIGNMENTS = 8  # a = b = c
_FUNCTION_NODES = frozenset({"arrow_function", "function_expression", "generator_function"})
_CALLBACK_NODES = _FUNCTION_NODES | {"object"}


def _read_variable(builder: FactsBuilder, node: Node) -> None:
    target, value = part_of(node, "name"), part_of(node, "value")
    if target is None or read_require_declaration(builder, target, value):
        return
    scope, declared = builder.scope(target), part_of(node, "type")
    is_function = (node.start_byte, node.end_byte) in builder.writer.definition_names
    if declared is not None:  # `const f: Handler = …`: the variable, what it gives, and its parameters
        values = values_of_type(builder.writer, declared)
        if is_function:
            builder.bind_all(scope, "@()", called_values(values), declared=True)
        else:
            _bind_pattern(builder, scope, target, values, declared=True)
        if value is not None:
            _bind_callback_parameters(builder, value, values)
    if value is not None and not is_function:
        _bind_pattern(builder, scope, target, builder.writer.values(value))
        # a local object with functions of its own is a definition, for they are named after it
        literal = unwrap_expression(value)
        if not scope or target.type != "identifier" or literal is None or literal.type != "object":
            return
        defined = builder.writer.definition_names
        if any((child.start_byte, child.end_byte) in defined for child in literal.named_children):
            builder.add_definition(f"{scope}.{builder.text(target)}", "variable", target)
    elif value is None and declared is None:
        _bind_pattern(builder, scope, target, [])


def _read_global(builder: FactsBuilder, node: Node) -> None:
    target = part_of(node, "name")
    if target is None or (node.start_byte, node.end_byte) in builder.writer.definition_names:
        return
    if find_required_module(builder, part_of(node, "value"))[0] is not None:
        return  # an import
    scope = builder.scope(target)
    for declared_name in _iter_declared_names(target):
        name = to_segment(builder.text(declared_name))
        builder.add_definition(f"{scope}.{name}" if scope else name, "variable", node)


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left, right = part_of(node, "left"), part_of(node, "right")
    if left is None or right is None:
        return
    value: Node = right
    for _ in range(_MAX_CHAINED_ASSIGNMENTS):
        if value.type != "assignment_expression":
            break
        value = part_of(value, "right") or value
    defines = (node.start_byte, node.end_byte) in builder.writer.definition_names
    if defines:
        builder.skip_reference(left)
    if read_export_assignment(builder, left, value) or defines:
        return
    _bind_pattern(builder, builder.scope(node), left, builder.writer.values(value))


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    left, right = part_of(node, "left"), part_of(node, "right")
    if left is None:
        return
    sign = part_of(node, "operator")
    is_iteration = sign is not None and sign.type == "of"
    elements = iterated_values(builder.writer.values(right)) if is_iteration else []
    _bind_pattern(builder, builder.scope(node), left, elements)


def _read_decorator(builder: FactsBuilder, node: Node) -> None:
    """A decorator without arguments is called, too."""
    name_node = part_of(node, 0)
    if name_node is not None and name_node.type in ("identifier", "member_expression"):
        builder.add_use("calls", builder.writer.path(name_node), name_node)
        builder.skip_reference(name_node)


def _read_jsx_element(builder: FactsBuilder, node: Node) -> None:
    """`<Button/>` calls Button; `<div>` is the browser's."""
    name_node = part_of(node, "name")
    if name_node is None:
        return
    path = builder.writer.path(name_node) or ""
    builder.skip_reference(name_node)
    if "." in path or not path[:1].islower():
        builder.add_use("calls", path, name_node)


def _read_call(builder: FactsBuilder, node: Node) -> None:
    read_dynamic_import(builder, node)
    called, arguments = part_of(node, "function"), list_arguments(node)
    if called is None or not arguments:
        return
    _bind_callbacks(builder, called, arguments)
    if called.type != "member_expression":
        return
    name, of = builder.writer.short_text(part_of(called, "property"), 24), part_of(called, "object")
    if name in ("push", "unshift", "add", "set"):
        call_arguments = arguments[1 if name == "set" else 0 :]
        path = builder.writer.path(of)
        if call_arguments and path:
            added = call_arguments[0]
            builder.bind_all(builder.scope(added), f"{path}[]", builder.writer.values(added))
    elif arguments[0].type in _FUNCTION_NODES and (name in CALLBACK_METHODS or name == "then"):
        values = builder.writer.values(of)
        _bind_first_parameter(builder, arguments[0], values if name == "then" else iterated_values(values))


def _bind_callbacks(builder: FactsBuilder, callee: Node | None, call_arguments: list[Node]) -> None:
    """What is called says with its types what it gives to functions that it is given."""
    for position, argument in enumerate(call_arguments[:MAX_PARAMETERS]):
        if argument.type in _CALLBACK_NODES and (path := builder.writer.path(callee)):
            _bind_callback_parameters(builder, argument, [("", f"{path}.@{position}")])


def _read_new(builder: FactsBuilder, node: Node) -> None:
    _bind_callbacks(builder, part_of(node, "constructor"), list_arguments(node))


def _bind_first_parameter(builder: FactsBuilder, function: Node, values: Values) -> None:
    """Give the first parameter of a function values, where it declares no type."""
    target = part_of(function, "parameter") or part_of(part_of(function, "parameters"), 0)
    if target is None or part_of(target, "type") is not None:
        return
    _bind_pattern(builder, builder.scope(function), part_of(target, "pattern") or target, values)


EXTRACTION = ExtractionRules(
    is_private=is_not_exported, expressions=EXPRESSIONS,
    handlers={
        "import": read_import, "export": read_export, "global": _read_global, "variable": _read_variable,
        "assignment": _read_assignment, "loop": _read_loop, "function": _read_function,
        "return": _read_return, "yield": _read_yield, "heritage": _read_heritage, "super": _read_super_call,
        "field": _read_field, "property": _read_property, "member": _read_enum_member,
        "alias": _read_type_alias, "typename": _read_type_name, "parameter": _read_type_parameter,
        "decorator": _read_decorator, "element": _read_jsx_element, "invoked": _read_call,
        "made": _read_new, "signature": _read_call_signature,
    },
    builtins=BUILTINS, qualify_within=qualify_within,
)  # fmt: skip


_COMMON = _WORDS["common_methods"]
_NODE_MODULES = _WORDS["node_modules"]


class EcmaScript(Language):
    """JavaScript, TypeScript and TSX, which import each other: one language to the resolver."""

    name = "typescript"
    nested_methods_in_scope = False
    receiver_keywords: Mapping[str, str] = {"this": "@self", "super": "@super"}
    builtins = BUILTINS
    call_method = "@call"
    element_accessors = ("@@iterator()[]",)
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _COMMON

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A module's file."""
        return find_module_files(name, path, layout)

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`zod.ZodError`, `react.useState`; nothing for a file that should lie in the source."""
        if module.startswith((".", "/")):
            return ""
        module = module.removeprefix("node:")
        return f"{module}.{name}" if name not in ("", "default", "module.exports") else module

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of a module that Node brings along."""
        return external.partition(".")[0].partition("/")[0] in _NODE_MODULES

    def is_star_exported(self, name: str) -> bool:
        """All but the default."""
        return name != "default"

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`package/folder/file.Class.method`; `package.Class` in the file that a package is known by."""
        folder, package = find_package(path, layout)
        inner = path[len(folder) :].lstrip("/")
        stem = next((inner.removesuffix(suffix) for suffix in sorted(SUFFIXES, key=len, reverse=True)
                     if inner.endswith(suffix)), inner)  # fmt: skip
        module = f"{package}/{stem}".strip("/")
        if package and find_entry_file(folder, layout) == path:
            module = package
        return f"{module}.{name}" if name else module
