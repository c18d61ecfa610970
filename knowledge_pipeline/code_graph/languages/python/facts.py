"""What Python's statements say: imports, bindings, declared types, decorators."""

from __future__ import annotations

import builtins
import re

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import parent_scope
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Captures, ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.python.call_bindings import bind_call_arguments
from knowledge_pipeline.code_graph.languages.python.functions import (
    bind_annotation,
    read_definition,
    read_lambda,
    read_return,
    read_yield,
)
from knowledge_pipeline.code_graph.languages.python.values import EXPRESSIONS
from knowledge_pipeline.code_graph.languages.visibility import is_underscored
from knowledge_pipeline.code_graph.values import Values, iterated_values, step_values, values_at
from knowledge_pipeline.syntax.nodes import part_of

BUILTINS = frozenset(dir(builtins)) - {"super"}

_ADDING_METHODS = {
    **dict.fromkeys(("append", "add", "appendleft", "put", "put_nowait", "push"), 0),
    **dict.fromkeys(("insert", "setdefault", "__setitem__"), 1),
}
"""Methods that add an argument to their object, and its position."""

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
    source = part_of(node, "module_name")
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
    alias = part_of(node, "alias")
    name = part_of(node, "name") or node
    return "".join(builder.text(name).split()), builder.text(alias)


def _add_import(builder: FactsBuilder, node: Node, module: str, name: str, local: str) -> None:
    scope = builder.scope(node)
    exported = not scope and (builder.path.endswith("__init__.py") or local == "*")
    builder.imports.append(Import(module, name, local, node.start_point.row + 1, scope, exported))


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left = part_of(node, "left") or part_of(node, "name")
    if left is None:
        return
    scope, right = builder.scope(node), part_of(node, "right") or part_of(node, "value")
    declared = part_of(node, "type")
    if declared is not None:
        bind_annotation(builder, scope, builder.writer.path(left), declared)
    if node.type == "assignment":
        _define_variables(builder, scope, left, node)
    if right is not None or declared is None:
        while right is not None and right.type == "assignment":  # a = b = c
            right = part_of(right, "right")
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
        text = builder.text(part_of(node, "right"))
        if _PLAIN_LIST.fullmatch(text):
            builder.settings["__all__"] = " ".join(_QUOTED.findall(text))
    elif not scope or scope in builder.type_names:
        builder.add_definition(f"{scope}.{name}" if scope else name, "variable", node)


def _bind_target(builder: FactsBuilder, scope: str, target: Node, values: Values) -> None:
    """Bind a target to values; the parts of a tuple to the places of theirs."""
    if target.type in _PATTERNS:
        for place, each in enumerate(target.named_children):
            starred = each.type == "list_splat_pattern"
            _bind_target(builder, scope, each, [] if starred else step_values(values, f"[{place}]"))
    elif target.type in ("list_splat_pattern", "as_pattern_target", "parenthesized_expression"):
        for each in target.named_children[:1]:
            _bind_target(builder, scope, each, values)
    elif target.type in _TARGET_NODES:
        if target.type == "identifier":
            builder.skip_reference(target)
        builder.bind_name(scope, builder.writer.path(target), values)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    left, right = part_of(node, "left"), part_of(node, "right")
    if left is not None and right is not None:
        _bind_target(builder, builder.scope(node), left, iterated_values(builder.writer.values(right)))


def _read_alias(builder: FactsBuilder, node: Node) -> None:
    """`with f() as x`, `except Error as x`, `case Point() as x`."""
    target = part_of(node, "alias") or node.named_children[-1]
    value, parent = node.named_children[0], node.parent
    if parent is None or value.id == target.id:
        return
    scope, values = builder.scope(node), []
    if parent.type == "with_item":
        clause = parent.parent
        statement = clause.parent if clause is not None else None
        is_async = statement is not None and statement.children[0].type == "async"
        enter = ".__aenter__()" if is_async else ".__enter__()"
        values = values_at(builder.writer.values(value), enter)
    elif parent.type in ("except_clause", "except_group_clause"):
        errors = value.named_children if value.type == "tuple" else [value]
        values = [("", f"{path}()") for path in map(builder.writer.path, errors) if path]
    elif value.named_child_count and value.named_children[0].type == "class_pattern":
        values = [("", f"{builder.text(value.named_children[0].named_children[0])}()")]
    _bind_target(builder, scope, target, values)


def _read_class(builder: FactsBuilder, node: Node) -> None:
    bases = part_of(node, "superclasses")
    if bases is None:
        return
    scope = builder.scope(bases)
    for each in bases.named_children:
        given = part_of(each, "value") if each.type == "subscript" else each
        if given is not None and given.type in ("identifier", "attribute"):
            builder.add_use("extends", builder.writer.path(given), given, scope)
            builder.skip_reference(given)


def _read_decorator(builder: FactsBuilder, node: Node) -> None:
    """A decorator without arguments is called, too."""
    named = part_of(node, 0)
    if named is not None and named.type in ("identifier", "attribute"):
        builder.add_use("calls", builder.writer.path(named), named)
        builder.skip_reference(named)


def _read_call(builder: FactsBuilder, node: Node) -> None:
    """What a call puts into its object: `rows.append(row)`, `isinstance(row, Row)`."""
    called, given = part_of(node, "function"), part_of(node, "arguments")
    if called is None or given is None:
        return
    if called.type == "attribute":
        place = _ADDING_METHODS.get(builder.text(part_of(called, "attribute")))
        if place is None or given.named_child_count <= place:
            return
        path = builder.writer.path(part_of(called, "object"))
        if path:
            values = builder.writer.values(given.named_children[place])
            builder.bind_all(builder.scope(called), f"{path}[]", values)
    elif builder.text(called) == "isinstance" and given.named_child_count == 2:
        _read_isinstance(builder, node, *given.named_children)


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
    while parent is not None and parent.type in _NODES_WITHIN_TYPES:
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
        each._replace(exported=True) if not each.scope and each.local in names else each
        for each in builder.imports
    ]


EXTRACTION = ExtractionRules(
    is_private=is_underscored, expressions=EXPRESSIONS,
    handlers={
        "import": _read_import, "from": _read_from_import, "outer": _read_outer_names, "def": read_definition,
        "type": _read_class, "decorator": _read_decorator, "assignment": _read_assignment, "loop": _read_loop,
        "alias": _read_alias, "lambda": read_lambda, "return": read_return, "yield": read_yield,
        "call": _read_call, "string": _read_quoted_annotation,
    },
    builtins=BUILTINS, finish=_finish,
)  # fmt: skip
