"""Imports and exports of JavaScript and TypeScript: of ES modules, and of CommonJS."""

from __future__ import annotations

from functools import partial

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.languages.ecmascript.values import (
    imported_module,
    loaded_module_name,
    string_value,
    unwrap_expression,
)
from knowledge_pipeline.syntax.nodes import has_child, part_of

_MODULE_EXPORTS = "module.exports"


def read_import(builder: FactsBuilder, node: Node) -> None:
    """`import a, { b as c } from "./m"`, `import "./m"`, `import m = require("./m")`, `import a = b.c`."""
    if node.type == "import_alias":
        parts = node.named_children
        if len(parts) == 2:
            builder.bind(builder.scope(node), builder.text(parts[0]), builder.writer.path(parts[1]) or "")
        return
    clause = next((each for each in node.named_children if each.type.startswith("import_")), None)
    source = part_of(node, "source") or (clause and part_of(clause, "source"))
    module = string_value(builder.writer, source)
    if module is None:
        return
    if clause is None or clause.type == "import_attribute":
        _add_import(builder, node, module, "", "")
    elif clause.type == "import_require_clause":
        add_module_import(builder, node, module, builder.text(clause.named_children[0]))
    else:
        for each in clause.named_children:
            _read_import_clause(builder, each, module)


def _read_import_clause(builder: FactsBuilder, node: Node, module: str) -> None:
    if node.type == "identifier":
        _add_import(builder, node, module, "default", builder.text(node))
    elif node.type == "namespace_import":
        _add_import(builder, node, module, "", builder.text(node.named_children[0]))
    elif node.type == "named_imports":
        if not node.named_child_count:
            _add_import(builder, node, module, "", "")
        for each in node.named_children:
            name, local = _import_names(builder, each)
            if name:
                _add_import(builder, each, module, name, local)


def read_export(builder: FactsBuilder, node: Node) -> None:
    """`export { a as b }`, `export * from "./m"`, `export default a`, `export = a`."""
    module = string_value(builder.writer, part_of(node, "source"))
    clause = next((each for each in node.named_children if each.type == "export_clause"), None)
    if module is not None:
        _read_re_export(builder, node, clause, module)
    elif clause is not None:
        for each in clause.named_children:
            name, other = _import_names(builder, each)
            if name and name != other:
                _bind_export_name(builder, builder.scope(node), other, name)
    elif has_child(node, "default"):
        _read_default_export(builder, node)
    elif has_child(node, "=") and node.named_child_count:
        for path in (_MODULE_EXPORTS, "default"):
            builder.bind_name("", path, builder.writer.values(node.named_children[-1]))


def _read_re_export(builder: FactsBuilder, node: Node, clause: Node | None, module: str) -> None:
    space = next((each for each in node.named_children if each.type == "namespace_export"), None)
    if clause is not None:
        for each in clause.named_children:
            name, local = _import_names(builder, each)
            if name:
                _add_import(builder, each, module, name, local, exported=True)
    elif space is not None:
        _add_import(builder, node, module, "", builder.text(space.named_children[0]), exported=True)
    else:
        _add_import(builder, node, module, "*", "*", exported=True)


def _read_default_export(builder: FactsBuilder, node: Node) -> None:
    declared = part_of(node, "declaration")
    if declared is not None:
        named = part_of(declared, "name")
        if named is not None:
            _bind_export_name(builder, "", "default", builder.text(named))
        return
    value = unwrap_expression(part_of(node, "value"))
    if value is not None and value.type == "identifier":
        _bind_export_name(builder, "", "default", builder.text(value))
    elif value is not None and (value.start_byte, value.end_byte) not in builder.writer.definition_names:
        builder.bind_name("", "default", builder.writer.values(value))


def _bind_export_name(builder: FactsBuilder, scope: str, exported_name: str, name: str) -> None:
    """Another name for what a file exports: the very same, rather than a value that it may have."""
    builder.bind(scope, exported_name, name if scope else f"@file.{name}", declared=True)


def read_require_declaration(builder: FactsBuilder, target: Node, value: Node | None) -> bool:
    """`const { a } = require("./m")`: whether a variable is given a module, or parts of one."""
    module, member = find_required_module(builder, value)
    if module is None or target.type not in (("identifier",) if member else ("identifier", "object_pattern")):
        return False
    builder.shared_state.setdefault("taken", set()).add(_find_call_start(value, member))
    _add_import(builder, target, module, "", "")
    if target.type == "identifier" and not member:
        add_module_import(builder, target, module, builder.text(target))
        return True
    taken = map(partial(_names_in_pattern, builder), target.named_children)
    for name, local in [(member, builder.text(target))] if member else taken:
        for prefix in ("", f"{_MODULE_EXPORTS}.") if name else ():
            _add_import(builder, target, module, prefix + name, local)
    return True


def _find_call_start(value: Node | None, member: str) -> int:
    """The byte at which the call starts that loads a module."""
    called = unwrap_expression(value)
    if member and called is not None:
        called = unwrap_expression(part_of(called, "object"))
    return called.start_byte if called is not None else -1


def find_required_module(builder: FactsBuilder, value: Node | None) -> tuple[str | None, str]:
    """The module that an expression loads, and what it takes out of it: `require("./m").a`."""
    value = unwrap_expression(value)
    member = ""
    if value is not None and value.type == "member_expression":
        member = builder.text(part_of(value, "property"))
        value = unwrap_expression(part_of(value, "object"))
    module = imported_module(builder.writer, value) if value is not None else None
    return module, member


def add_module_import(builder: FactsBuilder, node: Node, module: str, local: str) -> None:
    """A module as a value: its names, and what CommonJS makes of it."""
    _add_import(builder, node, module, "", local)
    _add_import(builder, node, module, _MODULE_EXPORTS, local)


def read_dynamic_import(builder: FactsBuilder, node: Node) -> None:
    """`require("./m")` and `import("./m")` within expressions."""
    module = imported_module(builder.writer, node)
    if module is not None and node.start_byte not in builder.shared_state.get("taken", ()):
        add_module_import(builder, node, module, loaded_module_name(module))


def read_export_assignment(builder: FactsBuilder, left: Node, right: Node) -> bool:
    """`module.exports = a`, `exports.b = c`: whether an assignment exports something."""
    text = builder.text(left) if left.end_byte - left.start_byte < 120 else ""
    owner, _, name = text.rpartition(".")
    if text in (_MODULE_EXPORTS, "exports"):
        function = builder.writer.definition_names.get(_span_of(left.parent))
        named = unwrap_expression(right)
        same = function or (builder.text(named) if named is not None and named.type == "identifier" else "")
        for path in (_MODULE_EXPORTS, "default"):
            if same:
                _bind_export_name(builder, "", path, same)
            else:
                builder.bind_name("", path, builder.writer.values(right))
        return True
    if owner not in (_MODULE_EXPORTS, "exports") or not name:
        return False
    function = builder.writer.definition_names.get(_span_of(left.parent))
    if function is None and unwrap_expression(right) is not None:
        builder.bind_name("", f"{_MODULE_EXPORTS}.{name}", builder.writer.values(right))
        if builder.text(right)[:200] != name:
            builder.bind_name("", name, builder.writer.values(right))
    else:
        builder.bind("", f"{_MODULE_EXPORTS}.{name}", function or "")
    return True


def _span_of(node: Node | None) -> tuple[int, int]:
    return (node.start_byte, node.end_byte) if node is not None else (-1, -1)


def _names_in_pattern(builder: FactsBuilder, node: Node) -> tuple[str, str]:
    """The name and the local name of a part of `{ a, b: c, d = 1 }`."""
    if node.type == "shorthand_property_identifier_pattern":
        return builder.text(node), builder.text(node)
    if node.type == "object_assignment_pattern" and (left := part_of(node, "left")):
        return builder.text(left), builder.text(left)
    key, value = part_of(node, "key"), part_of(node, "value")
    if node.type == "pair_pattern" and key is not None and value is not None and value.type == "identifier":
        return builder.text(key), builder.text(value)
    return "", ""


def _import_names(builder: FactsBuilder, node: Node) -> tuple[str, str]:
    named, alias = part_of(node, "name"), part_of(node, "alias")
    if named is None:
        return "", ""
    name = builder.text(named).strip("\"'")
    return name, builder.text(alias).strip("\"'") if alias is not None else name


def _add_import(
    builder: FactsBuilder, node: Node, module: str, name: str, local: str, *, exported: bool = False
) -> None:
    line = node.start_point.row + 1
    builder.imports.append(Import(module, name, local, line, builder.scope(node), exported))
