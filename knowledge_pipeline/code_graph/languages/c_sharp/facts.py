"""What C#'s declarations say: namespaces, usings, types of members, parameters and variables.

Source: https://learn.microsoft.com/dotnet/csharp/language-reference/language-specification/
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import last_of, parent_of
from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Captures, Extraction, Reading
from knowledge_pipeline.code_graph.languages.c_sharp.values import EXPRESSIONS, handed_to, types_of
from knowledge_pipeline.code_graph.languages.declared_types import Values, children, declare, elements, give
from knowledge_pipeline.code_graph.languages.visibility import said_private
from knowledge_pipeline.code_graph.languages.words import words
from knowledge_pipeline.syntax.outline import Definition

BUILTINS = words(
    """
    var dynamic nameof string object bool byte sbyte char decimal double float int uint long ulong short
    ushort nint nuint void value field get set
    """
)
SHARED = "shared using"
"""The setting of a file with a global using."""

_TYPES = frozenset({"class_declaration", "record_declaration", "struct_declaration", "interface_declaration"})
_SPECIAL = {
    "indexer_declaration": "this",
    "operator_declaration": "operator",
    "conversion_operator_declaration": "operator",
}
_NAMESPACES = ("namespace_declaration", "file_scoped_namespace_declaration")


def qualified(each: Definition) -> str:
    """A name within its namespace."""
    if each.kind == "module":
        return ""
    return ".".join(_SPECIAL.get(one.node.type, one.name) for one in each.scope if one.kind != "module")


def _namespaces(reading: Reading, captures: Captures) -> None:
    """All namespaces that something is defined in; the first is the file's."""
    found = [_namespace(reading, node) for node in captures.get("namespace", ()) if _holds_types(node)]
    named = list(dict.fromkeys(each for each in found if each))
    reading.module = named[0] if named else ""
    if len(named) > 1:
        reading.settings["namespaces"] = " ".join(named)


def _holds_types(node: Node) -> bool:
    if node.type == "file_scoped_namespace_declaration":
        return True
    body = node.child_by_field_name("body")
    inner = body.named_children if body is not None else []
    return any(each.type.endswith("_declaration") and each.type not in _NAMESPACES for each in inner)


def _namespace(reading: Reading, node: Node) -> str:
    parts: list[str] = []
    around: Node | None = node
    while around is not None:
        name = around.child_by_field_name("name") if around.type in _NAMESPACES else None
        if name is not None:
            parts.append(reading.writer.path(name) or "")
        around = around.parent
    return ".".join(reversed(parts))


def _using(reading: Reading, node: Node) -> None:
    alias = node.child_by_field_name("name")
    kinds = [each for each in node.named_children if alias is None or each.id != alias.id]
    path = reading.writer.path(kinds[-1]) if kinds else None
    if not path:
        return
    line, shared = node.start_point.row + 1, any(each.type == "global" for each in node.children)
    if shared:
        reading.settings[SHARED] = "yes"
    if alias is None:
        reading.imports.append(Import(path, "*", "*", line, exported=shared))
        return
    module, _, name = path.rpartition(".")
    reading.imports.append(
        Import(module or path, name if module else "", reading.text(alias), line, "", shared)
    )


def _promised(reading: Reading, node: Node | None) -> Values:
    return types_of(reading.writer, node)


def _bases(reading: Reading, node: Node) -> None:
    """The first of a class may be a class; interfaces are told by the I of their names."""
    scope, around = reading.scope(node), node.parent
    is_interface = around is not None and around.type == "interface_declaration"
    for place, each in enumerate(node.named_children):
        kind = part_of(each, 0) if each.type == "primary_constructor_base_type" else each
        path = reading.writer.path(kind)
        if kind is None or not path:
            continue
        name = last_of(path)
        looks_so = name[:1] == "I" and name[1:2].isupper()
        extends = is_interface or (place == 0 and not looks_so and around is not None and _may_extend(around))
        reading.use("extends" if extends else "implements", path, kind, scope)
        reading.skip(kind)


def _may_extend(node: Node) -> bool:
    return node.type in ("class_declaration", "record_declaration")


def _type_parameter(reading: Reading, node: Node) -> None:
    name = node.child_by_field_name("name")
    if name is not None:
        reading.bind(reading.scope(node), reading.text(name), "")


def _constraint(reading: Reading, node: Node) -> None:
    """`where T : Base`: T stands for it."""
    name = part_of(node, 0)
    for each in children(node, "type_parameter_constraint"):
        path = reading.writer.path(each.child_by_field_name("type"))
        if path and name is not None:
            reading.skip(name)
            reading.bind(reading.scope(node), reading.text(name), path)


def _method(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    result = node.child_by_field_name("returns") or node.child_by_field_name("type")
    for suffix, value in _promised(reading, result):
        reading.bind(scope, "@()" + suffix, value, declared=True)


def _property(reading: Reading, node: Node) -> None:
    """A property is read like a field."""
    scope = reading.scope(node)
    for suffix, value in _promised(reading, node.child_by_field_name("type")):
        reading.bind(scope, "@()" + suffix, value, declared=True)
        if node.type == "indexer_declaration":
            reading.bind(parent_of(scope), "@held[]" + suffix, value, declared=True)
        elif suffix:
            reading.bind(parent_of(scope), scope.rpartition(".")[2] + suffix, value, declared=True)
    reading.bind(scope, "@", "@()")


def _field(reading: Reading, node: Node) -> None:
    """Fields are definitions."""
    scope = reading.scope(node)
    for declaration in children(node, "variable_declaration"):
        for name, values in _variables(reading, declaration):
            declare(reading, scope, name, values, local=False)
            if scope in reading.types:
                reading.define(f"{scope}.{name}", "variable", declaration)


def _local(reading: Reading, node: Node) -> None:
    scope = reading.scope(node)
    for declaration in children(node, "variable_declaration"):
        kind = declaration.child_by_field_name("type")
        is_seen = kind is not None and kind.type == "implicit_type"
        for name, values in _variables(reading, declaration):
            (give if is_seen else declare)(reading, scope, name, values)
        for each in children(declaration, "variable_declarator"):
            for pattern in children(each, "tuple_pattern"):
                for name in pattern.children_by_field_name("name"):
                    give(reading, scope, reading.text(name), [])


def _variables(reading: Reading, declaration: Node) -> list[tuple[str, Values]]:
    """Names, with what their type promises, or their value where the type is left to it."""
    kind = declaration.child_by_field_name("type")
    found: list[tuple[str, Values]] = []
    for each in children(declaration, "variable_declarator"):
        name = each.child_by_field_name("name")
        if name is None:
            continue
        if kind is not None and kind.type == "implicit_type":
            value = part_of(each, -1)
            given = reading.writer.values(value) if value is not None and value.id != name.id else []
            found.append((reading.text(name), given))
        else:
            found.append((reading.text(name), _promised(reading, kind)))
    return found


def _enum_member(reading: Reading, node: Node) -> None:
    scope, name = reading.scope(node), node.child_by_field_name("name")
    if name is not None and scope in reading.types:
        reading.define(f"{scope}.{reading.text(name)}", "variable", node)
        reading.bind(scope, reading.text(name), "@class()", declared=True)


def _parameters(reading: Reading, node: Node) -> None:
    """Bind parameters; those of a record are properties, too."""
    scope, around = reading.scope(node), node.parent
    of_type = around is not None and around.type in _TYPES
    of_record = around is not None and around.type == "record_declaration"
    for each in children(node, "parameter"):
        name = each.child_by_field_name("name")
        values = _promised(reading, each.child_by_field_name("type"))
        if name is None:
            continue
        declare(reading, scope, reading.text(name), values, local=not of_type)
        if of_record:
            reading.define(f"{scope}.{reading.text(name)}", "variable", each)
        if any(reading.text(one) == "this" for one in children(each, "modifier")):
            for suffix, value in values:
                reading.bind(scope, "@receiver" + suffix, value, declared=True)
    _rest(reading, node, scope)


def _rest(reading: Reading, node: Node, scope: str) -> None:
    """`params Item[] more`, which the grammar lays flat into the list."""
    name = node.child_by_field_name("name")
    if name is not None and name.type == "identifier":
        reading.skip(name)
        declare(reading, scope, reading.text(name), _promised(reading, node.child_by_field_name("type")))


def _lambda(reading: Reading, node: Node) -> None:
    given = node.child_by_field_name("parameters")
    if given is not None and given.type == "implicit_parameter":
        give(reading, reading.scope(node), reading.text(given), handed_to(reading.writer, node))


def _loop(reading: Reading, node: Node) -> None:
    scope, name = reading.scope(node), node.child_by_field_name("left")
    kind = node.child_by_field_name("type")
    if name is None or name.type != "identifier":
        return
    if kind is not None and kind.type == "implicit_type":
        held = elements(reading.writer.values(node.child_by_field_name("right")))
        give(reading, scope, reading.text(name), held)
    else:
        declare(reading, scope, reading.text(name), _promised(reading, kind))


def _pattern(reading: Reading, node: Node) -> None:
    name, kind = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is not None and name.type == "identifier":
        declare(reading, reading.scope(node), reading.text(name), _promised(reading, kind))


def _attribute(reading: Reading, node: Node) -> None:
    """`[Mark]` means the class `MarkAttribute`, too."""
    name = node.child_by_field_name("name")
    path = reading.writer.path(name)
    if path and name is not None:
        reading.use("references", f"{path}Attribute", name)


def _constructed(reading: Reading, node: Node) -> None:
    """`base(…)` calls what the class extends, `this(…)` the class itself."""
    scope, around = reading.scope(node), node.parent
    if any(each.type == "this" for each in node.children):
        reading.use("calls", last_of(parent_of(scope)), node)
        return
    while around is not None and around.type not in _TYPES:
        around = around.parent
    bases = next(children(around, "base_list"), None)
    if bases is not None:
        reading.use("calls", reading.writer.path(part_of(bases, 0)), node)


EXTRACTION = Extraction(
    private=said_private,
    expressions=EXPRESSIONS,
    handlers={
        "using": _using,
        "bases": _bases,
        "type.parameter": _type_parameter,
        "constraint": _constraint,
        "method": _method,
        "property": _property,
        "field": _field,
        "local": _local,
        "enum.member": _enum_member,
        "parameters": _parameters,
        "lambda": _lambda,
        "loop": _loop,
        "pattern": _pattern,
        "attribute": _attribute,
        "constructed": _constructed,
    },
    builtins=BUILTINS,
    hides_siblings=True,
    qualified=qualified,
    finish=_namespaces,
)
