"""What Python's statements say: imports, bindings, declared types, decorators."""

from __future__ import annotations

import builtins
import re
from dataclasses import replace

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import parent_scope
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Captures, ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.python.call_bindings import bind_call_arguments
from knowledge_pipeline.code_graph.languages.python.functions import (
    Values,
    bind_annotation,
    bind_values,
    read_definition,
    read_lambda,
    read_return,
    read_yield,
)
from knowledge_pipeline.code_graph.languages.python.values import EXPRESSIONS, element_values, place_values
from knowledge_pipeline.code_graph.languages.visibility import is_underscored

BUILTINS = frozenset(dir(builtins)) - {"super"}

_METHODS_ADDING_FIRST_ARGUMENT = frozenset({"append", "add", "appendleft", "put", "put_nowait", "push"})
_METHODS_ADDING_SECOND_ARGUMENT = frozenset({"insert", "setdefault", "__setitem__"})
_QUOTED = re.compile(r"""["']([^\W\d]\w*)["']""")
_PLAIN_LIST = re.compile(r"""[\[(](?:\s*["']\w+["']\s*,?|\s*\#[^\n]*\n)*\s*[\])]""")
_ANNOTATION = re.compile(r"""[^\W\d][\w.]*(?:\[[\w., \[\]|]*\])?(?:\s*\|\s*[\w.\[\], ]+)*""")
_NAME = re.compile(r"[^\W\d][\w.]*")
_PATTERNS = frozenset({"pattern_list", "tuple_pattern", "tuple", "list_pattern", "list"})
_TARGET_NODES = frozenset({"identifier", "attribute", "subscript"})
_NODES_WITHIN_TYPES = frozenset({"type_parameter", "generic_type", "binary_operator", "subscript"})


def _read_import(builder: FactsBuilder, node: Node) -> None:
    for each in node.named_children:
        module, local = _names_of_import(builder, each)
        top, dot, _ = module.partition(".")
        if local or dot:
            _add_import(builder, node, module, "", local)
        if not local:
            _add_import(builder, node, top, "", top)


def _read_from_import(builder: FactsBuilder, node: Node) -> None:
    source = node.child_by_field_name("module_name")
    if source is None:
        return
    module = "".join(builder.text(source).split())
    for each in node.named_children:
        if each.type == "wildcard_import":
            _add_import(builder, node, module, "*", "*")
        elif each.start_byte != source.start_byte and each.type in ("dotted_name", "aliased_import"):
            name, local = _names_of_import(builder, each)
            _add_import(builder, node, module, name, local or name)


def _names_of_import(builder: FactsBuilder, node: Node) -> tuple[str, str]:
    alias = node.child_by_field_name("alias")
    name = node.child_by_field_name("name") or node
    return "".join(builder.text(name).split()), builder.text(alias) if alias is not None else ""


def _add_import(builder: FactsBuilder, node: Node, module: str, name: str, local: str) -> None:
    scope = builder.scope(node)
    exported = not scope and (builder.path.endswith("__init__.py") or local == "*")
    builder.imports.append(Import(module, name, local, node.start_point.row + 1, scope, exported))


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left = node.child_by_field_name("left") or node.child_by_field_name("name")
    if left is None:
        return
    scope, right = builder.scope(node), node.child_by_field_name("right") or node.child_by_field_name("value")
    declared = node.child_by_field_name("type")
    if declared is not None:
        bind_annotation(builder, scope, builder.writer.path(left), declared)
    if node.type == "assignment":
        _define_variables(builder, scope, left, node)
    if right is not None or declared is None:
        while right is not None and right.type == "assignment":  # a = b = c
            right = right.child_by_field_name("right")
        _bind_target(builder, scope, left, builder.writer.values(right))


def _define_variables(builder: FactsBuilder, scope: str, left: Node, node: Node) -> None:
    """Variables of a module or a class are definitions."""
    if left.type in _PATTERNS:
        for each in left.named_children:
            _define_variables(builder, scope, each, node)
    if left.type != "identifier":
        return
    builder.skip_reference(left)
    name = builder.text(left)
    if name == "__all__":
        listed = node.child_by_field_name("right")
        text = builder.text(listed) if listed is not None else ""
        if _PLAIN_LIST.fullmatch(text):
            builder.settings["__all__"] = " ".join(_QUOTED.findall(text))
    elif not scope or scope in builder.type_names:
        builder.add_definition(f"{scope}.{name}" if scope else name, "variable", node)


def _bind_target(builder: FactsBuilder, scope: str, target: Node, values: Values) -> None:
    """Bind a target to values; the parts of a tuple to the places of theirs."""
    if target.type in _PATTERNS:
        for place, each in enumerate(target.named_children):
            starred = each.type == "list_splat_pattern"
            _bind_target(builder, scope, each, [] if starred else list(place_values(values, place)))
    elif target.type in ("list_splat_pattern", "as_pattern_target", "parenthesized_expression"):
        for each in target.named_children[:1]:
            _bind_target(builder, scope, each, values)
    elif target.type in _TARGET_NODES:
        if target.type == "identifier":
            builder.skip_reference(target)
        bind_values(builder, scope, builder.writer.path(target), values)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None:
        _bind_target(builder, builder.scope(node), left, list(element_values(builder.writer.values(right))))


def _read_alias(builder: FactsBuilder, node: Node) -> None:
    """`with f() as x`, `except Error as x`, `case Point() as x`."""
    target = node.child_by_field_name("alias") or node.named_children[-1]
    value, parent = node.named_children[0], node.parent
    if parent is None or value.id == target.id:
        return
    scope, values = builder.scope(node), []
    if parent.type == "with_item":
        values = _context_values(builder.writer.values(value), _is_async(parent))
    elif parent.type in ("except_clause", "except_group_clause"):
        errors = value.named_children if value.type == "tuple" else [value]
        values = [("", f"{path}()") for path in map(builder.writer.path, errors) if path]
    elif value.named_child_count and value.named_children[0].type == "class_pattern":
        values = [("", f"{builder.text(value.named_children[0].named_children[0])}()")]
    _bind_target(builder, scope, target, values)


def _context_values(values: Values, is_async: bool) -> Values:
    enter = ".__aenter__()" if is_async else ".__enter__()"
    under = [(suffix.removeprefix(enter), value) for suffix, value in values if suffix.startswith(enter)]
    return under or [("", value + enter) for suffix, value in values if not suffix]


def _is_async(item: Node) -> bool:
    clause = item.parent
    statement = clause.parent if clause is not None else None
    return statement is not None and statement.children[0].type == "async"


def _read_class(builder: FactsBuilder, node: Node) -> None:
    bases = node.child_by_field_name("superclasses")
    if bases is None:
        return
    scope = builder.scope(bases)
    for each in bases.named_children:
        given = each.child_by_field_name("value") if each.type == "subscript" else each
        if given is not None and given.type in ("identifier", "attribute"):
            builder.add_use("extends", builder.writer.path(given), given, scope)
            builder.skip_reference(given)


def _read_decorator(builder: FactsBuilder, node: Node) -> None:
    """A decorator without arguments is called, too."""
    named = node.named_children[0] if node.named_child_count else None
    if named is not None and named.type in ("identifier", "attribute"):
        builder.add_use("calls", builder.writer.path(named), named)
        builder.skip_reference(named)


def _read_call(builder: FactsBuilder, node: Node) -> None:
    """What a call puts into its object: `rows.append(row)`, `isinstance(row, Row)`."""
    called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if called is None or given is None:
        return
    if called.type == "attribute":
        _read_addition(builder, called, given)
    elif builder.text(called) == "isinstance" and given.named_child_count == 2:
        _read_isinstance(builder, node, *given.named_children)


def _read_addition(builder: FactsBuilder, callee: Node, call_arguments: Node) -> None:
    attribute = callee.child_by_field_name("attribute")
    name = builder.text(attribute) if attribute is not None else ""
    place = (
        0
        if name in _METHODS_ADDING_FIRST_ARGUMENT
        else 1
        if name in _METHODS_ADDING_SECOND_ARGUMENT
        else None
    )
    if place is None or call_arguments.named_child_count <= place:
        return
    path = builder.writer.path(callee.child_by_field_name("object"))
    for suffix, value in builder.writer.values(call_arguments.named_children[place]) if path else ():
        builder.bind(builder.scope(callee), f"{path}[]{suffix}", value)


def _read_isinstance(builder: FactsBuilder, node: Node, subject: Node, kinds: Node) -> None:
    path = builder.writer.path(subject) if subject.type in _TARGET_NODES else None
    for kind in kinds.named_children if kinds.type == "tuple" else [kinds]:
        found = builder.writer.path(kind)
        if found and path:
            builder.bind(builder.scope(node), path, f"{found}()")


def _read_outer_names(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    of = "" if node.type == "global_statement" else parent_scope(scope)
    for each in node.named_children:
        builder.outer_scopes[scope, builder.text(each)] = of


def _read_quoted_annotation(builder: FactsBuilder, node: Node) -> None:
    """A quoted annotation names what it means."""
    parent = node.parent
    while parent is not None and parent.type in (
        "type_parameter",
        "generic_type",
        "binary_operator",
        "subscript",
    ):
        parent = parent.parent
    if parent is None or parent.type != "type":
        return
    text = builder.text(node).strip("\"'")
    if _ANNOTATION.fullmatch(text):
        for name in _NAME.findall(text):
            builder.add_use("references", name, node)


def _finish(builder: FactsBuilder, captures: Captures) -> None:
    """What `__all__` lists is handed on; what calls give to functions of the file becomes known."""
    bind_call_arguments(builder, captures)
    names = builder.settings.get("__all__", "").split()
    builder.imports[:] = [
        replace(each, exported=True) if not each.scope and each.local in names else each
        for each in builder.imports
    ]


EXTRACTION = ExtractionRules(
    is_private=is_underscored,
    expressions=EXPRESSIONS,
    handlers={
        "import": _read_import,
        "from": _read_from_import,
        "outer": _read_outer_names,
        "def": read_definition,
        "type": _read_class,
        "decorator": _read_decorator,
        "assignment": _read_assignment,
        "loop": _read_loop,
        "alias": _read_alias,
        "lambda": read_lambda,
        "return": read_return,
        "yield": read_yield,
        "call": _read_call,
        "string": _read_quoted_annotation,
    },
    builtins=BUILTINS,
    finish=_finish,
)
