"""Imports and exports of JavaScript and TypeScript: of ES modules, and of CommonJS."""

from __future__ import annotations

from functools import partial

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Reading
from knowledge_pipeline.code_graph.languages.ecmascript.values import bare, imported, module_name, string

_MODULE = "module.exports"


def of_import(reading: Reading, node: Node) -> None:
    """`import a, { b as c } from "./m"`, `import "./m"`, `import m = require("./m")`, `import a = b.c`."""
    if node.type == "import_alias":
        parts = node.named_children
        if len(parts) == 2:
            reading.bind(reading.scope(node), reading.text(parts[0]), reading.writer.path(parts[1]) or "")
        return
    clause = next((each for each in node.named_children if each.type.startswith("import_")), None)
    source = node.child_by_field_name("source") or (clause and clause.child_by_field_name("source"))
    module = string(reading.writer, source)
    if module is None:
        return
    if clause is None or clause.type == "import_attribute":
        _take(reading, node, module, "", "")
    elif clause.type == "import_require_clause":
        take_all(reading, node, module, reading.text(clause.named_children[0]))
    else:
        for each in clause.named_children:
            _clause(reading, each, module)


def _clause(reading: Reading, node: Node, module: str) -> None:
    if node.type == "identifier":
        _take(reading, node, module, "default", reading.text(node))
    elif node.type == "namespace_import":
        _take(reading, node, module, "", reading.text(node.named_children[0]))
    elif node.type == "named_imports":
        if not node.named_child_count:
            _take(reading, node, module, "", "")
        for each in node.named_children:
            name, local = _names(reading, each)
            if name:
                _take(reading, each, module, name, local)


def of_export(reading: Reading, node: Node) -> None:
    """`export { a as b }`, `export * from "./m"`, `export default a`, `export = a`."""
    module = string(reading.writer, node.child_by_field_name("source"))
    clause = next((each for each in node.named_children if each.type == "export_clause"), None)
    if module is not None:
        _re_export(reading, node, clause, module)
    elif clause is not None:
        for each in clause.named_children:
            name, other = _names(reading, each)
            if name and name != other:
                _rename(reading, reading.scope(node), other, name)
    elif any(each.type == "default" for each in node.children):
        _default(reading, node)
    elif any(each.type == "=" for each in node.children) and node.named_child_count:
        for path in (_MODULE, "default"):
            reading.bind_values("", path, node.named_children[-1])


def _re_export(reading: Reading, node: Node, clause: Node | None, module: str) -> None:
    space = next((each for each in node.named_children if each.type == "namespace_export"), None)
    if clause is not None:
        for each in clause.named_children:
            name, local = _names(reading, each)
            if name:
                _take(reading, each, module, name, local, exported=True)
    elif space is not None:
        _take(reading, node, module, "", reading.text(space.named_children[0]), exported=True)
    else:
        _take(reading, node, module, "*", "*", exported=True)


def _default(reading: Reading, node: Node) -> None:
    declared = node.child_by_field_name("declaration")
    if declared is not None:
        named = declared.child_by_field_name("name")
        if named is not None:
            _rename(reading, "", "default", reading.text(named))
        return
    value = bare(node.child_by_field_name("value"))
    if value is not None and value.type == "identifier":
        _rename(reading, "", "default", reading.text(value))
    elif value is not None and (value.start_byte, value.end_byte) not in reading.writer.defined:
        reading.bind_values("", "default", value)


def _rename(reading: Reading, scope: str, other: str, name: str) -> None:
    """Another name for what a file exports: the very same, rather than a value that it may have."""
    reading.bind(scope, other, name if scope else f"@file.{name}", declared=True)


def take_required(reading: Reading, target: Node, value: Node | None) -> bool:
    """`const { a } = require("./m")`: whether a variable is given a module, or parts of one."""
    module, member = required(reading, value)
    if module is None or target.type not in (("identifier",) if member else ("identifier", "object_pattern")):
        return False
    reading.notes.setdefault("taken", set()).add(_call_within(value, member))
    _take(reading, target, module, "", "")
    if target.type == "identifier" and not member:
        take_all(reading, target, module, reading.text(target))
        return True
    taken = map(partial(_parts, reading), target.named_children)
    for name, local in [(member, reading.text(target))] if member else taken:
        for prefix in ("", f"{_MODULE}.") if name else ():
            _take(reading, target, module, prefix + name, local)
    return True


def _call_within(value: Node | None, member: str) -> int:
    """The byte at which the call starts that loads a module."""
    called = bare(value)
    if member and called is not None:
        called = bare(called.child_by_field_name("object"))
    return called.start_byte if called is not None else -1


def required(reading: Reading, value: Node | None) -> tuple[str | None, str]:
    """The module that an expression loads, and what it takes out of it: `require("./m").a`."""
    value = bare(value)
    member = ""
    if value is not None and value.type == "member_expression":
        named = value.child_by_field_name("property")
        member = reading.text(named) if named is not None else ""
        value = bare(value.child_by_field_name("object"))
    module = imported(reading.writer, value) if value is not None else None
    return module, member


def take_all(reading: Reading, node: Node, module: str, local: str) -> None:
    """A module as a value: its names, and what CommonJS makes of it."""
    _take(reading, node, module, "", local)
    _take(reading, node, module, _MODULE, local)


def of_call(reading: Reading, node: Node) -> None:
    """`require("./m")` and `import("./m")` within expressions."""
    module = imported(reading.writer, node)
    if module is not None and node.start_byte not in reading.notes.get("taken", ()):
        take_all(reading, node, module, module_name(module))


def of_assignment(reading: Reading, left: Node, right: Node) -> bool:
    """`module.exports = a`, `exports.b = c`: whether an assignment exports something."""
    text = reading.text(left) if left.end_byte - left.start_byte < 120 else ""
    owner, _, name = text.rpartition(".")
    if text in (_MODULE, "exports"):
        function = reading.writer.defined.get(_span(left.parent))
        named = bare(right)
        same = function or (reading.text(named) if named is not None and named.type == "identifier" else "")
        for path in (_MODULE, "default"):
            if same:
                _rename(reading, "", path, same)
            else:
                reading.bind_values("", path, right)
        return True
    if owner not in (_MODULE, "exports") or not name:
        return False
    function = reading.writer.defined.get(_span(left.parent))
    if function is None and bare(right) is not None:
        reading.bind_values("", f"{_MODULE}.{name}", right)
        if reading.text(right)[:200] != name:
            reading.bind_values("", name, right)
    else:
        reading.bind("", f"{_MODULE}.{name}", function or "")
    return True


def _span(node: Node | None) -> tuple[int, int]:
    return (node.start_byte, node.end_byte) if node is not None else (-1, -1)


def _parts(reading: Reading, node: Node) -> tuple[str, str]:
    """The name and the local name of a part of `{ a, b: c, d = 1 }`."""
    if node.type == "shorthand_property_identifier_pattern":
        return reading.text(node), reading.text(node)
    if node.type == "object_assignment_pattern" and (left := node.child_by_field_name("left")):
        return reading.text(left), reading.text(left)
    key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
    if node.type == "pair_pattern" and key is not None and value is not None and value.type == "identifier":
        return reading.text(key), reading.text(value)
    return "", ""


def _names(reading: Reading, node: Node) -> tuple[str, str]:
    named, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
    if named is None:
        return "", ""
    name = reading.text(named).strip("\"'")
    return name, reading.text(alias).strip("\"'") if alias is not None else name


def _take(
    reading: Reading, node: Node, module: str, name: str, local: str, *, exported: bool = False
) -> None:
    line = node.start_point.row + 1
    reading.imports.append(Import(module, name, local, line, reading.scope(node), exported))
