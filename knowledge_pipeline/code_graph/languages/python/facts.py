"""What Python's statements say: imports, bindings, declared types, decorators."""

from __future__ import annotations

import builtins
import re
from dataclasses import replace

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import parent_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Captures, Extraction, Reading
from knowledge_pipeline.code_graph.languages.python.call_bindings import hand_over
from knowledge_pipeline.code_graph.languages.python.functions import (
    Values,
    bind,
    declare,
    read_definition,
    read_lambda,
    read_return,
    read_yield,
)
from knowledge_pipeline.code_graph.languages.python.values import EXPRESSIONS, of_elements, of_place
from knowledge_pipeline.code_graph.languages.visibility import underscored

BUILTINS = frozenset(dir(builtins)) - {"super"}

_ADDS_FIRST = frozenset({"append", "add", "appendleft", "put", "put_nowait", "push"})
_ADDS_SECOND = frozenset({"insert", "setdefault", "__setitem__"})
_QUOTED = re.compile(r"""["']([^\W\d]\w*)["']""")
_PLAIN_LIST = re.compile(r"""[\[(](?:\s*["']\w+["']\s*,?|\s*\#[^\n]*\n)*\s*[\])]""")
_ANNOTATION = re.compile(r"""[^\W\d][\w.]*(?:\[[\w., \[\]|]*\])?(?:\s*\|\s*[\w.\[\], ]+)*""")
_NAME = re.compile(r"[^\W\d][\w.]*")
_PATTERNS = frozenset({"pattern_list", "tuple_pattern", "tuple", "list_pattern", "list"})
_SIMPLE = frozenset({"identifier", "attribute", "subscript"})
_WITHIN_TYPES = frozenset({"type_parameter", "generic_type", "binary_operator", "subscript"})


def _import(reading: Reading, node: Node) -> None:
    for each in node.named_children:
        module, local = _aliased(reading, each)
        top, dot, _ = module.partition(".")
        if local or dot:
            _take(reading, node, module, "", local)
        if not local:
            _take(reading, node, top, "", top)


def _from(reading: Reading, node: Node) -> None:
    source = node.child_by_field_name("module_name")
    if source is None:
        return
    module = "".join(reading.text(source).split())
    for each in node.named_children:
        if each.type == "wildcard_import":
            _take(reading, node, module, "*", "*")
        elif each.start_byte != source.start_byte and each.type in ("dotted_name", "aliased_import"):
            name, local = _aliased(reading, each)
            _take(reading, node, module, name, local or name)


def _aliased(reading: Reading, node: Node) -> tuple[str, str]:
    alias = node.child_by_field_name("alias")
    name = node.child_by_field_name("name") or node
    return "".join(reading.text(name).split()), reading.text(alias) if alias is not None else ""


def _take(reading: Reading, node: Node, module: str, name: str, local: str) -> None:
    scope = reading.scope(node)
    exported = not scope and (reading.path.endswith("__init__.py") or local == "*")
    reading.imports.append(Import(module, name, local, node.start_point.row + 1, scope, exported))


def _assignment(reading: Reading, node: Node) -> None:
    left = node.child_by_field_name("left") or node.child_by_field_name("name")
    if left is None:
        return
    scope, right = reading.scope(node), node.child_by_field_name("right") or node.child_by_field_name("value")
    declared = node.child_by_field_name("type")
    if declared is not None:
        declare(reading, scope, reading.writer.path(left), declared)
    if node.type == "assignment":
        _name_variables(reading, scope, left, node)
    if right is not None or declared is None:
        while right is not None and right.type == "assignment":  # a = b = c
            right = right.child_by_field_name("right")
        _give(reading, scope, left, reading.writer.values(right))


def _name_variables(reading: Reading, scope: str, left: Node, node: Node) -> None:
    """Variables of a module or a class are definitions."""
    if left.type in _PATTERNS:
        for each in left.named_children:
            _name_variables(reading, scope, each, node)
    if left.type != "identifier":
        return
    reading.skip(left)
    name = reading.text(left)
    if name == "__all__":
        listed = node.child_by_field_name("right")
        text = reading.text(listed) if listed is not None else ""
        if _PLAIN_LIST.fullmatch(text):
            reading.settings["__all__"] = " ".join(_QUOTED.findall(text))
    elif not scope or scope in reading.types:
        reading.define(f"{scope}.{name}" if scope else name, "variable", node)


def _give(reading: Reading, scope: str, target: Node, values: Values) -> None:
    """Bind a target to values; the parts of a tuple to the places of theirs."""
    if target.type in _PATTERNS:
        for place, each in enumerate(target.named_children):
            starred = each.type == "list_splat_pattern"
            _give(reading, scope, each, [] if starred else list(of_place(values, place)))
    elif target.type in ("list_splat_pattern", "as_pattern_target", "parenthesized_expression"):
        for each in target.named_children[:1]:
            _give(reading, scope, each, values)
    elif target.type in _SIMPLE:
        if target.type == "identifier":
            reading.skip(target)
        bind(reading, scope, reading.writer.path(target), values)


def _loop(reading: Reading, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None:
        _give(reading, reading.scope(node), left, list(of_elements(reading.writer.values(right))))


def _alias(reading: Reading, node: Node) -> None:
    """`with f() as x`, `except Error as x`, `case Point() as x`."""
    target = node.child_by_field_name("alias") or node.named_children[-1]
    value, parent = node.named_children[0], node.parent
    if parent is None or value.id == target.id:
        return
    scope, values = reading.scope(node), []
    if parent.type == "with_item":
        values = _entered(reading.writer.values(value), _is_async(parent))
    elif parent.type in ("except_clause", "except_group_clause"):
        errors = value.named_children if value.type == "tuple" else [value]
        values = [("", f"{path}()") for path in map(reading.writer.path, errors) if path]
    elif value.named_child_count and value.named_children[0].type == "class_pattern":
        values = [("", f"{reading.text(value.named_children[0].named_children[0])}()")]
    _give(reading, scope, target, values)


def _entered(values: Values, is_async: bool) -> Values:
    enter = ".__aenter__()" if is_async else ".__enter__()"
    under = [(suffix.removeprefix(enter), value) for suffix, value in values if suffix.startswith(enter)]
    return under or [("", value + enter) for suffix, value in values if not suffix]


def _is_async(item: Node) -> bool:
    clause = item.parent
    statement = clause.parent if clause is not None else None
    return statement is not None and statement.children[0].type == "async"


def _class(reading: Reading, node: Node) -> None:
    bases = node.child_by_field_name("superclasses")
    if bases is None:
        return
    scope = reading.scope(bases)
    for each in bases.named_children:
        given = each.child_by_field_name("value") if each.type == "subscript" else each
        if given is not None and given.type in ("identifier", "attribute"):
            reading.use("extends", reading.writer.path(given), given, scope)
            reading.skip(given)


def _decorator(reading: Reading, node: Node) -> None:
    """A decorator without arguments is called, too."""
    named = node.named_children[0] if node.named_child_count else None
    if named is not None and named.type in ("identifier", "attribute"):
        reading.use("calls", reading.writer.path(named), named)
        reading.skip(named)


def _call(reading: Reading, node: Node) -> None:
    """What a call puts into its object: `rows.append(row)`, `isinstance(row, Row)`."""
    called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if called is None or given is None:
        return
    if called.type == "attribute":
        _added(reading, called, given)
    elif reading.text(called) == "isinstance" and given.named_child_count == 2:
        _checked(reading, node, *given.named_children)


def _added(reading: Reading, called: Node, given: Node) -> None:
    attribute = called.child_by_field_name("attribute")
    name = reading.text(attribute) if attribute is not None else ""
    place = 0 if name in _ADDS_FIRST else 1 if name in _ADDS_SECOND else None
    if place is None or given.named_child_count <= place:
        return
    path = reading.writer.path(called.child_by_field_name("object"))
    for suffix, value in reading.writer.values(given.named_children[place]) if path else ():
        reading.bind(reading.scope(called), f"{path}[]{suffix}", value)


def _checked(reading: Reading, node: Node, subject: Node, kinds: Node) -> None:
    path = reading.writer.path(subject) if subject.type in _SIMPLE else None
    for kind in kinds.named_children if kinds.type == "tuple" else [kinds]:
        found = reading.writer.path(kind)
        if found and path:
            reading.bind(reading.scope(node), path, f"{found}()")


def _outer(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    of = "" if node.type == "global_statement" else parent_of(scope)
    for each in node.named_children:
        reading.elsewhere[scope, reading.text(each)] = of


def _string(reading: Reading, node: Node) -> None:
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
    text = reading.text(node).strip("\"'")
    if _ANNOTATION.fullmatch(text):
        for name in _NAME.findall(text):
            reading.use("references", name, node)


def _finish(reading: Reading, captures: Captures) -> None:
    """What `__all__` lists is handed on; what calls give to functions of the file becomes known."""
    hand_over(reading, captures)
    names = reading.settings.get("__all__", "").split()
    reading.imports[:] = [
        replace(each, exported=True) if not each.scope and each.local in names else each
        for each in reading.imports
    ]


EXTRACTION = Extraction(
    private=underscored,
    expressions=EXPRESSIONS,
    handlers={
        "import": _import,
        "from": _from,
        "outer": _outer,
        "def": read_definition,
        "type": _class,
        "decorator": _decorator,
        "assignment": _assignment,
        "loop": _loop,
        "alias": _alias,
        "lambda": read_lambda,
        "return": read_return,
        "yield": read_yield,
        "call": _call,
        "string": _string,
    },
    builtins=BUILTINS,
    finish=_finish,
)
