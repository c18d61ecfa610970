"""Kotlin: what its files say, and how its names lead to definitions.

Source: https://kotlinlang.org/spec/
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Import,
    Values,
    add_prefix,
    element_values,
    first_segment,
    parent_scope,
)
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    ExtractionRules,
    FactsBuilder,
    PathWriter,
    TypeSyntax,
)
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, load_words
from knowledge_pipeline.code_graph.languages.java import COLLECTION_METHODS, COMMON_METHODS
from knowledge_pipeline.code_graph.languages.visibility import has_private_modifier
from knowledge_pipeline.syntax.grammars import (
    ancestor_of_type,
    children_of_type,
    first_of_type,
    has_child,
    part_of,
)
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("kotlin")

BUILTINS = _WORDS["builtins"]

TYPES = TypeSyntax(
    generic={"user_type": "type_arguments"},
    transparent={"nullable_type": 0, "type_projection": -1, "parenthesized_type": 0, "non_nullable_type": 0},
    functions={"function_type": -1},
)
TYPE_NODES = frozenset(
    {"user_type", "nullable_type", "function_type", "parenthesized_type", "non_nullable_type"}
)

_SELF_RETURNING = frozenset({"also", "apply", "takeIf", "takeUnless", "onEach"})
_SELF_CALLBACKS = frozenset({"let", "also", "takeIf", "takeUnless"})
CALLBACK_METHODS = _WORDS["callback_methods"]
_COLLECTION_FACTORIES = _WORDS["collection_factories"]


def _find_type(node: Node) -> Node | None:
    """The type that stands after a name."""
    return next((child for child in node.named_children if child.type in TYPE_NODES), None)


def _find_receiver(function: Node) -> Node | None:
    """`Item` of `fun Item.heavy()`."""
    for child in function.children:
        if child.type in TYPE_NODES:
            return child
        if child.type in ("identifier", "variable_declaration", ":", "function_value_parameters"):
            return None
    return None


def _find_value(node: Node) -> Node | None:
    """What a property is given; of `by lazy { … }` the last expression."""
    delegate = first_of_type(node, "property_delegate")
    if delegate is None:
        last = part_of(node, -1)
        return None if last is None or last.type in ("variable_declaration", "getter", "setter") else last
    inner: Node | None = delegate
    for part in (0, -1, 0):
        inner = part_of(inner, part)
    return part_of(inner, -1) if inner is not None and inner.type == "lambda_literal" else None


def _user_type_path(writer: PathWriter, node: Node) -> str | None:
    return ".".join(writer.text(identifier) for identifier in children_of_type(node, "identifier")) or None


def _navigation_path(writer: PathWriter, node: Node) -> str | None:
    of, name = part_of(node, 0), part_of(node, -1)
    path = writer.path(of)
    return f"{path}.{writer.text(name)}" if path and name is not None and name.type == "identifier" else None


def _this_path(writer: PathWriter, node: Node) -> str | None:
    """The instance; that of a type around by its name; an extension's receiver."""
    label = part_of(node, 0)
    if label is not None:
        return f"{writer.text(label)}()"
    around = node.parent
    while around is not None and around.type not in ("class_body", "source_file"):
        if around.type in ("function_declaration", "property_declaration") and _find_receiver(around):
            return "@receiver"
        around = around.parent
    return "@self"


def _identifier_path(writer: PathWriter, node: Node) -> str | None:
    """`it` as what the function that it is given to hands to it."""
    text = writer.text(node)
    if text != "it":
        return text
    literal = ancestor_of_type(node, "lambda_literal")
    values = _lambda_argument_values(writer, literal) if literal is not None else []
    return values[0][1] if values else text


def _lambda_argument_values(writer: PathWriter, literal: Node) -> Values:
    """What a lambda is given by the function that it is an argument of."""
    call = literal.parent
    while call is not None and call.type in ("annotated_lambda", "value_argument", "value_arguments"):
        call = call.parent
    called = part_of(call, 0) if call is not None and call.type == "call_expression" else None
    if called is None or called.type != "navigation_expression":
        return []
    owner, name = part_of(called, 0), part_of(called, -1)
    if writer.text(name) in _SELF_CALLBACKS:
        path = writer.path(owner)
        return [("", path)] if path else []
    return writer.handed_values(owner, name, CALLBACK_METHODS)


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`x.also { … }` is x; None for other calls."""
    called = part_of(node, 0)
    if called is None or called.type != "navigation_expression":
        return None
    return writer.path(part_of(called, 0)) if writer.text(part_of(called, -1)) in _SELF_RETURNING else None


def _call_values(writer: PathWriter, node: Node) -> Values:
    """What `listOf<Item>(…)` and `listOf(item)` hold."""
    if writer.short_text(part_of(node, 0), 40) not in _COLLECTION_FACTORIES:
        return []
    kind = part_of(first_of_type(node, "type_arguments"), -1)
    if kind is not None:
        return add_prefix("[]", writer.values_of_type(kind))
    first = part_of(first_of_type(node, "value_arguments"), 0)
    return add_prefix("[]", writer.values(part_of(first, -1)))


EXPRESSIONS = ExpressionSyntax(
    names=frozenset(), calls={"call_expression": (0,), "infix_expression": (0, 1)},
    suffixed={"index_expression": (0, "[]"), "unary_expression": ("argument", "")},
    transparent={"parenthesized_expression": 0}, casts={"as_expression": "right"}, default_operator="?:",
    contents={"call_expression": _call_values},
    path_writers={
        "identifier": _identifier_path, "user_type": _user_type_path,
        "navigation_expression": _navigation_path, "this_expression": _this_path,
        "super_expression": lambda writer, node: "@super",
    },
    rewrite_call=_rewrite_call, types=TYPES,
)  # fmt: skip


_LOOP_HEADER_NODES = frozenset({"label", "variable_declaration", "multi_variable_declaration", "annotation"})
_RESULT_TYPES = ("user_type", "nullable_type", "function_type", "parenthesized_type")


def _qualify(definition: OutlineDefinition) -> str:
    """What a companion object holds is a member of its class."""
    *around, last = definition.scope
    kept = [one for one in around if one.node.type != "companion_object"]
    parts = (part.partition(":")[0].strip() for one in (*kept, last) for part in (one.owner, one.name))
    return ".".join(part for part in parts if part)


def _read_package(builder: FactsBuilder, node: Node) -> None:
    builder.module = builder.writer.dotted_text(part_of(node, -1)) or ""


def _read_import(builder: FactsBuilder, node: Node) -> None:
    """One name of a package, by another name if it says so, or all."""
    path = builder.writer.dotted_text(first_of_type(node, "qualified_identifier"))
    if not path:
        return
    line, alias = node.start_point.row + 1, first_of_type(node, "identifier")
    if has_child(node, "*"):
        builder.imports.append(Import(path, "*", "*", line))
        return
    module, _, name = path.rpartition(".")
    builder.imports.append(Import(module, name, builder.text(alias) if alias is not None else name, line))


def _read_base(builder: FactsBuilder, node: Node) -> None:
    """A class that is constructed is extended, all others are interfaces; in an interface, extended."""
    inner = part_of(node, 0)
    if inner is None or node.parent is None or node.parent.parent is None:
        return
    around = node.parent.parent
    kind = inner if inner.type == "user_type" else first_of_type(inner, "user_type")
    path = builder.writer.path(kind)
    if kind is None or not path or around.type == "object_literal":
        return
    scope, constructed = builder.scope(node), inner.type == "constructor_invocation"
    extends = constructed or has_child(around, "interface")
    builder.add_use("extends" if extends else "implements", path, kind, scope)
    builder.skip_reference(kind)
    if constructed:
        builder.add_use("calls", path, kind, scope)


def _read_alias(builder: FactsBuilder, node: Node) -> None:
    if part_of(node, "type") is not None:
        builder.bind_result(builder.scope(node), _find_type(node))


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    """`T` stands for its bound."""
    name, bound = part_of(node, 0), _find_type(node)
    if name is not None and name.type == "identifier":
        builder.bind(builder.scope(node), builder.text(name), builder.writer.path(bound) or "")


def _read_function(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    _bind_receiver(builder, scope, node)
    listed = list(children_of_type(node, "function_value_parameters", *_RESULT_TYPES))
    after = [at for at, child in enumerate(listed) if child.type == "function_value_parameters"]
    result = (
        next((child for child in listed[after[0] :] if child.type in _RESULT_TYPES), None) if after else None
    )
    builder.bind_result(scope, result)
    expression = part_of(first_of_type(node, "function_body"), -1)
    if result is None and expression is not None and expression.type != "block":
        builder.bind_all(scope, "@()", builder.writer.values(expression))


def _bind_receiver(builder: FactsBuilder, scope: str, node: Node) -> None:
    builder.bind_all(scope, "@receiver", builder.values_of_type(_find_receiver(node)), declared=True)


def _read_property(builder: FactsBuilder, node: Node) -> None:
    """Properties of files and types are definitions; others are local variables."""
    scope = builder.scope(node)
    declaration = first_of_type(node, "variable_declaration", "multi_variable_declaration")
    if declaration is None:
        return
    value = _find_value(node)
    if declaration.type == "multi_variable_declaration":
        path = builder.writer.path(value)
        for position, variable in enumerate(children_of_type(declaration, "variable_declaration"), start=1):
            values = [("", f"{path}.component{position}()")] if path else []  # of `val (a, b) = pair`
            _bind_variable(builder, scope, variable, values, local=True)
        return
    name = builder.text(declaration.named_children[0])
    if scope.rpartition(".")[2] == name and any(children_of_type(node, "getter")):
        _bind_receiver(builder, scope, node)
        builder.bind(scope, "@", "@()")  # a property with a getter is read like a field
        builder.bind_result(scope, _find_type(declaration))
        return
    owner = _owner_of(builder, scope, node)
    if owner is not None:
        builder.add_definition(f"{owner}.{name}" if owner else name, "variable", node)
    at = scope if owner is None else owner
    _bind_variable(builder, at, declaration, builder.writer.values(value), local=owner is None)


def _owner_of(builder: FactsBuilder, scope: str, node: Node) -> str | None:
    """The type that a property belongs to, "" for the file; None for a local variable."""
    parent = node.parent
    if parent is not None and parent.type == "source_file":
        return ""
    of_type = parent is not None and parent.type in ("class_body", "enum_class_body")
    if parent is None or not of_type or scope not in builder.type_names:
        return None
    is_companion = parent.parent is not None and parent.parent.type == "companion_object"
    return parent_scope(scope) if is_companion else scope


def _bind_variable(builder: FactsBuilder, scope: str, node: Node, values: Values, *, local: bool) -> None:
    name, kind = builder.text(node.named_children[0]), _find_type(node)
    if kind is not None:
        builder.bind_declared(scope, name, builder.values_of_type(kind), local=local)
    else:
        builder.bind_observed(scope, name, values, local=local)
        if local and any(first_segment(value) == name for _, value in values):  # `val parent = parent()`
            builder.bind(scope, name, f"@around.{name}")


def _read_class_parameter(builder: FactsBuilder, node: Node) -> None:
    """A parameter with `val` or `var` is a property; of data classes also a component."""
    scope, name = builder.scope(node), first_of_type(node, "identifier")
    if name is None:
        return
    text, values = builder.text(name), builder.values_of_type(_find_type(node))
    builder.bind_declared(scope, text, values, local=False)
    if has_child(node, "val", "var"):
        builder.add_definition(f"{scope}.{text}", "variable", node)
        listed = enumerate(children_of_type(node.parent, "class_parameter"), start=1)
        position = next((at for at, parameter in listed if parameter.id == node.id), 0)
        builder.bind_all(scope, f"component{position}()", values, declared=True)


def _read_parameters(builder: FactsBuilder, node: Node) -> None:
    scope, many = builder.scope(node), False
    for child in node.named_children:
        if child.type == "parameter_modifiers":
            many = "vararg" in builder.text(child)
            continue
        name = part_of(child, 0)
        if child.type == "parameter" and name is not None:
            values = builder.values_of_type(_find_type(child))
            builder.bind_declared(scope, builder.text(name), add_prefix("[]", values) if many else values)
        many = False


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    parameters = list(children_of_type(first_of_type(node, "lambda_parameters"), "variable_declaration"))
    handed = _lambda_argument_values(builder.writer, node) if len(parameters) == 1 else []
    for parameter in parameters:
        _bind_variable(builder, builder.scope(node), parameter, handed, local=True)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    declaration = first_of_type(node, "variable_declaration")
    iterated = next((child for child in node.named_children if child.type not in _LOOP_HEADER_NODES), None)
    elements, scope = element_values(builder.writer.values(iterated)), builder.scope(node)
    if declaration is not None:
        _bind_variable(builder, scope, declaration, elements, local=True)
        return
    for several in children_of_type(node, "multi_variable_declaration"):
        for position, variable in enumerate(children_of_type(several, "variable_declaration")):
            _bind_variable(builder, scope, variable, elements if position else [], local=True)


def _read_catch(builder: FactsBuilder, node: Node) -> None:
    name = part_of(node, 0)
    if name is not None and name.type == "identifier":
        values = builder.values_of_type(_find_type(node))
        builder.bind_declared(builder.scope(node), builder.text(name), values)


def _read_type_check(builder: FactsBuilder, node: Node) -> None:
    """`x is Special` says more of x."""
    if node.type == "is_expression":
        _bind_narrowed(builder, node, part_of(node, "left"), part_of(node, "right"))
        return
    subject = part_of(first_of_type(node, "when_subject"), -1)
    for entry in children_of_type(node, "when_entry"):
        for condition in entry.children_by_field_name("condition"):
            if condition.type == "type_test":
                _bind_narrowed(builder, node, subject, part_of(condition, -1))


def _bind_narrowed(builder: FactsBuilder, node: Node, subject: Node | None, kind: Node | None) -> None:
    path = builder.writer.path(subject)
    if path and path.isidentifier():
        builder.bind_all(builder.scope(node), path, builder.values_of_type(kind), declared=True)


def _read_when_subject(builder: FactsBuilder, node: Node) -> None:
    declaration = first_of_type(node, "variable_declaration")
    if declaration is not None:
        values = builder.writer.values(part_of(node, -1))
        _bind_variable(builder, builder.scope(node), declaration, values, local=True)


EXTRACTION = ExtractionRules(
    is_private=has_private_modifier, expressions=EXPRESSIONS,
    handlers={
        "package": _read_package, "import": _read_import, "base": _read_base, "alias": _read_alias,
        "type.parameter": _read_type_parameter, "function": _read_function, "property": _read_property,
        "class.parameter": _read_class_parameter,
        "enum.entry": lambda builder, node: builder.add_enum_constant(node, part_of(node, 0)),
        "parameters": _read_parameters, "lambda": _read_lambda, "loop": _read_loop, "catch": _read_catch,
        "check": _read_type_check, "subject": _read_when_subject,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify=_qualify,
)  # fmt: skip


class Kotlin(PackageLanguage):
    """Kotlin, as its specification says: https://kotlinlang.org/spec/."""

    name = "kotlin"
    builtins = BUILTINS
    has_extensions = True
    receiver_in_scope = True
    private_to_file = True
    call_method = "invoke"
    element_accessors = ("iterator().next()", "get()")
    container_methods = COLLECTION_METHODS | _WORDS.by_word("container_methods")
    common_methods = COMMON_METHODS | _WORDS["common_methods"]
    standard_prefixes = ("kotlin.", "kotlinx.", "java.", "javax.")
