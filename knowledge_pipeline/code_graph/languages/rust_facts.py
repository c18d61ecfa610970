"""What Rust's declarations and patterns say: modules, imports, types of fields, parameters and results.

Source: https://doc.rust-lang.org/reference/
"""

from __future__ import annotations

import re
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
    tuple_values,
    values_at,
)
from knowledge_pipeline.code_graph.facts_builder import (
    Captures,
    ExpressionSyntax,
    ExtractionRules,
    FactsBuilder,
    PathWriter,
    TypeSyntax,
)
from knowledge_pipeline.code_graph.languages.base import load_words, split_scoped_name, split_words
from knowledge_pipeline.code_graph.languages.visibility import lacks_pub
from knowledge_pipeline.syntax.grammars import children_of, children_of_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("rust")

_TRANSPARENT_TYPES = _WORDS["transparent_types"]
_MAX_PATH = 160


def _special_type_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    """`Box<T>` is its `T`, `Result<T, E>` holds `T`, a tuple has places."""
    if node.type == "tuple_type":
        return tuple_values(writer.values_of_type(child, depth + 1) for child in node.named_children)
    if node.type != "generic_type":
        return None
    name = (writer.path(part_of(node, "type")) or "").rpartition(".")[2]
    arguments = [child for child in children_of(part_of(node, "type_arguments")) if child.type != "lifetime"]
    if name in _TRANSPARENT_TYPES and arguments:
        return writer.values_of_type(arguments[-1], depth + 1)
    if name.endswith("Result") and arguments:
        return [("", f"{name}()"), *add_prefix("[]", writer.values_of_type(arguments[0], depth + 1))]
    return None


TYPES = TypeSyntax(
    generic={"generic_type": "type_arguments"}, arrays={"array_type": "element"},
    transparent={
        "reference_type": "type", "pointer_type": "type", "dynamic_type": "trait", "abstract_type": "trait",
        "bounded_type": 0,
    },
    functions={"function_type": "return_type"}, read_special=_special_type_values,
)  # fmt: skip


def _absolute_path(node: Node, parts: list[str], writer: PathWriter, file_head: str) -> str:
    """A path with `self` and `super` as the file sees them, whatever modules are written within it."""
    if parts[0] not in ("self", "super"):
        return ".".join(parts)
    around: list[str] = []
    parent = node.parent
    while parent is not None:
        if parent.type == "mod_item" and (name := part_of(parent, "name")) is not None:
            around.insert(0, writer.text(name))
        parent = parent.parent
    rest = parts[1:] if parts[0] == "self" else parts
    while rest and rest[0] == "super" and around:
        around.pop()
        rest = rest[1:]
    inside = [] if rest and rest[0] == "super" else [file_head, *around]
    return ".".join([*inside, *rest])


def _scoped_path(writer: PathWriter, node: Node) -> str | None:
    parts = split_scoped_name(writer.short_text(node, _MAX_PATH + 1))
    return _absolute_path(node, parts, writer, "@file") if parts else None


def _closure_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    yield from add_prefix("()", writer.values_of_type(part_of(node, "return_type")))
    body = part_of(node, "body")
    if body is not None and body.type != "block":
        yield from add_prefix("()", writer.values(body))


def _call_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    """`Some(x)` and `Ok(x)` hold x; `Box::new(x)` is x."""
    name, values = writer.path(part_of(node, "function")), children_of(part_of(node, "arguments"))
    if name in ("Some", "Ok") and len(values) == 1:
        yield from add_prefix("[]", writer.values(values[0]))
    elif name and name.endswith(".new") and name[:-4] in _TRANSPARENT_TYPES and len(values) == 1:
        yield from writer.values(values[0])


EXPRESSIONS = ExpressionSyntax(
    names=split_words("identifier type_identifier self super crate shorthand_field_identifier"),
    members={"field_expression": ("value", "field")}, calls={"call_expression": ("function",)},
    suffixed={
        "try_expression": (0, "[]"), "struct_expression": ("name", "()"), "index_expression": (0, "[]"),
    },
    transparent={
        "generic_function": "function", "generic_type": "type", "generic_type_with_turbofish": "type",
        "reference_expression": "value", "unary_expression": 0, "parenthesized_expression": 0,
        "await_expression": 0, "reference_type": "type", "dynamic_type": "trait",
    },
    contents={"closure_expression": _closure_values, "call_expression": _call_values},
    path_writers={
        "scoped_identifier": _scoped_path, "scoped_type_identifier": _scoped_path,
        "type_cast_expression": lambda writer, node: own_value(writer.values_of_type(part_of(node, "type"))),
    },
    types=TYPES,
)  # fmt: skip


_WRAPPER_VARIANTS = split_words("Some Ok Option.Some Result.Ok")
_TRANSPARENT_NODES = split_words("ref_pattern mut_pattern reference_pattern match_pattern")
_MAX_DEPTH = 8


def _bind_pattern(
    builder: FactsBuilder, node: Node | None, values: Values, *, declared: bool = False, depth: int = 0
) -> None:
    """Give the names of a pattern what the value's parts are."""
    if node is None or depth > _MAX_DEPTH:
        return
    kind = node.type
    if kind in ("identifier", "shorthand_field_identifier"):
        name = builder.text(node)
        if name[:1].isupper() or name == "_":  # a constant, or a variant
            return
        builder.skip_reference(node)
        scope = builder.scope(node)
        if declared:
            builder.bind_declared(scope, name, values)
        else:
            builder.bind_observed(scope, name, [value for value in values if first_segment(value[1]) != name])
    elif kind in _TRANSPARENT_NODES:
        inner = [child for child in node.named_children if child.type != "mutable_specifier"]
        _bind_pattern(builder, inner[0] if inner else None, values, declared=declared, depth=depth + 1)
    elif kind == "tuple_pattern":
        for position, part in enumerate(node.named_children):
            part_values = values_at(values, f"[{position}]")
            _bind_pattern(builder, part, part_values, declared=declared, depth=depth + 1)
    elif kind == "tuple_struct_pattern":
        of = builder.writer.path(part_of(node, "type"))
        inner = element_values(values) if of in _WRAPPER_VARIANTS else []
        for part in node.named_children[1:]:
            _bind_pattern(builder, part, inner, declared=declared, depth=depth + 1)
    elif kind == "struct_pattern":
        _bind_fields(builder, node, depth)
    elif kind == "or_pattern":
        for part in node.named_children:
            _bind_pattern(builder, part, values, declared=declared, depth=depth + 1)
    elif kind == "captured_pattern":
        _bind_pattern(builder, part_of(node, 0), values, declared=declared, depth=depth + 1)


def _bind_fields(builder: FactsBuilder, node: Node, depth: int) -> None:
    """`Point { x, y: Some(z) }` gives fields of a `Point`."""
    of = builder.writer.path(part_of(node, "type"))
    for child in node.named_children:
        name = part_of(child, "name") if child.type == "field_pattern" else None
        if name is None:
            continue
        values = [("", f"{of}().{builder.text(name)}")] if of else []
        _bind_pattern(builder, part_of(child, "pattern") or name, values, depth=depth + 1)


def _read_import(builder: FactsBuilder, node: Node) -> None:
    """What a `use` takes, each of a group by itself; another crate."""
    exported = any(children_of_type(node, "visibility_modifier"))
    scope, line = builder.scope(node), node.start_point.row + 1
    if node.type == "extern_crate_declaration":
        name = builder.text(part_of(node, "name"))
        local = builder.text(part_of(node, "alias")) or name
        builder.imports.append(Import(name, "", local, line, scope, exported))
        return
    for parts, local in _iter_use_paths(builder, part_of(node, "argument"), [], 0):
        if parts[0][:1].isupper():
            parts = ["self", *parts]
        path = _absolute_path(node, parts, builder.writer, "self")
        module, _, name = path.rpartition(".")
        if not module:
            module, name = name, ""
        builder.imports.append(Import(module, name, "*" if name == "*" else local, line, scope, exported))


def _iter_use_paths(
    builder: FactsBuilder, node: Node | None, prefix: list[str], depth: int
) -> Iterator[tuple[list[str], str]]:
    """The paths of a `use`, with their local names."""
    if node is None or depth > 12:
        return
    path = part_of(node, "path")
    if node.type == "scoped_use_list":
        parts = split_scoped_name(builder.text(path))
        for child in children_of_type(part_of(node, "list"), *_USE_NODES):
            yield from _iter_use_paths(builder, child, [*prefix, *parts], depth + 1)
    elif node.type == "use_list":
        for child in children_of_type(node, *_USE_NODES):
            yield from _iter_use_paths(builder, child, prefix, depth + 1)
    elif node.type == "use_wildcard":
        parts = split_scoped_name(builder.text(part_of(node, 0)))
        if prefix or parts:
            yield [*prefix, *parts, "*"], "*"
    elif node.type == "use_as_clause":
        alias = builder.text(part_of(node, "alias"))
        for parts, _ in _iter_use_paths(builder, path, prefix, depth + 1):
            yield parts, alias if alias != "_" else ""
    elif parts := split_scoped_name(builder.text(node)):
        parts = prefix if parts == ["self"] and prefix else [*prefix, *parts]
        yield parts, parts[-1]


_USE_NODES = (
    "scoped_use_list", "use_list", "use_wildcard", "use_as_clause", "scoped_identifier", "identifier", "self",
    "crate", "super",
)  # fmt: skip


def _read_module(builder: FactsBuilder, node: Node) -> None:
    """`mod a;` is another file."""
    name = part_of(node, "name")
    if name is None or part_of(node, "body") is not None:
        return
    path = _absolute_path(node, ["self", builder.text(name)], builder.writer, "self")
    exported = any(children_of_type(node, "visibility_modifier"))
    scope, line = builder.scope(node).rpartition(".")[0], node.start_point.row + 1
    builder.imports.append(Import(path, "", builder.text(name), line, scope, exported))


BUILTINS = _WORDS["builtins"]
_WORD = re.compile(r"[^\W\d]\w*")
_CALLBACK_METHODS = _WORDS["callback_methods"]


def _qualify(definition: OutlineDefinition) -> str:
    """Names of the definitions around; an `impl` goes by the last name of its type."""
    return ".".join(_simple_name(one) for one in definition.scope)


def _simple_name(definition: OutlineDefinition) -> str:
    if definition.kind != "impl":
        return definition.name
    words = _WORD.findall(definition.name)
    return words[-1] if words else "impl"


def _read_impl(builder: FactsBuilder, node: Node) -> None:
    """`impl Trait for Store`: within it, `Self` is `Store`, and `self` one of them."""
    kind, trait = part_of(node, "type"), part_of(node, "trait")
    path, scope = builder.writer.path(kind), builder.scope(node)
    for function in _iter_functions(node):
        if path:
            inner = builder.scope(function)
            builder.bind(inner, "Self", path)
            builder.bind(inner, "self", f"{path}()", declared=True)
    if trait is not None:
        is_type = path == scope.rpartition(".")[2] and scope in builder.type_names
        use, of = ("implements", scope) if is_type else ("references", "")
        builder.add_use(use, builder.writer.path(trait), trait, of)
        builder.skip_reference(trait)


def _iter_functions(node: Node) -> Iterator[Node]:
    yield from children_of_type(part_of(node, "body"), "function_item", "function_signature_item")


def _read_trait(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    for function in _iter_functions(node):
        builder.bind(builder.scope(function), "Self", "@class")
        builder.bind(builder.scope(function), "self", "@self")
    for bound in children_of(part_of(node, "bounds")):
        if bound.type != "lifetime":
            builder.add_use("extends", builder.writer.path(bound), bound, scope)
            builder.skip_reference(bound)


def _read_bound(builder: FactsBuilder, node: Node) -> None:
    """`T: Store` stands for a `Store`."""
    name = part_of(node, "name") or part_of(node, "left")
    if name is None or name.type != "type_identifier":
        return
    paths = [builder.writer.path(bound) for bound in children_of(part_of(node, "bounds"))]
    for path in [path for path in paths if path and path != builder.text(name)] or [""]:
        builder.bind(builder.scope(node), builder.text(name), path)


def _read_field(builder: FactsBuilder, node: Node) -> None:
    scope, name = builder.scope(node), part_of(node, "name")
    if scope not in builder.type_names or name is None:
        return
    around = node.parent.parent if node.parent is not None else None
    if around is not None and around.type == "enum_variant":
        return
    builder.add_definition(f"{scope}.{builder.text(name)}", "variable", node)
    values = builder.values_of_type(part_of(node, "type"))
    builder.bind_declared(scope, builder.text(name), values, local=False)


def _read_constant(builder: FactsBuilder, node: Node) -> None:
    name, kind = part_of(node, "name"), part_of(node, "type")
    around = builder.scope(node)
    if name is not None:
        scope = around.rpartition(".")[0] if around.rpartition(".")[2] == builder.text(name) else around
        builder.bind_declared(scope, builder.text(name), builder.values_of_type(kind), local=False)


def _read_alias(builder: FactsBuilder, node: Node) -> None:
    name, kind = part_of(node, "name"), part_of(node, "type")
    for suffix, value in builder.values_of_type(kind):
        if not suffix and first_segment(value) != builder.text(name):
            scope = builder.scope(node).rpartition(".")[0]
            builder.bind(scope, builder.text(name), value.removesuffix("()"))


def _read_parameter(builder: FactsBuilder, node: Node) -> None:
    values = builder.values_of_type(part_of(node, "type"))
    around = node.parent.parent if node.parent is not None else None
    if around is not None and around.type != "function_type":
        _bind_pattern(builder, part_of(node, "pattern"), values, declared=True)


def _read_closure(builder: FactsBuilder, node: Node) -> None:
    called = part_of(node.parent.parent, "function") if node.parent is not None else None
    handed: Values = []
    if called is not None and called.type == "field_expression":
        owner, method = part_of(called, "value"), part_of(called, "field")
        handed = builder.writer.handed_values(owner, method, _CALLBACK_METHODS)
    for parameter in children_of(part_of(node, "parameters")):
        if parameter.type != "parameter":
            _bind_pattern(builder, parameter, handed)


def _read_let(builder: FactsBuilder, node: Node) -> None:
    kind, value = part_of(node, "type"), part_of(node, "value")
    values = builder.values_of_type(kind) if kind is not None else builder.writer.values(value)
    _bind_pattern(builder, part_of(node, "pattern"), values, declared=kind is not None)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    elements = element_values(builder.writer.values(part_of(node, "value")))
    _bind_pattern(builder, part_of(node, "pattern"), elements)


def _read_match(builder: FactsBuilder, node: Node) -> None:
    values = builder.writer.values(part_of(node, "value"))
    for arm in children_of_type(part_of(node, "body"), "match_arm"):
        _bind_pattern(builder, part_of(arm, "pattern"), values)


def _read_struct_literal(builder: FactsBuilder, node: Node) -> None:
    """`Store { rows }` makes a `Store`, and names its fields."""
    path = builder.writer.path(part_of(node, "name"))
    if not path:
        return
    for initializer in children_of_type(part_of(node, "body"), "field_initializer"):
        field = part_of(initializer, "field")
        if field is not None:
            builder.add_use("references", f"{path}().{builder.text(field)}", initializer)


def _read_macro(builder: FactsBuilder, node: Node) -> None:
    name = part_of(node, "macro")
    if name is not None:
        builder.skip_reference(name)
        builder.add_use("references", builder.writer.path(name), name)


def _read_macro_tokens(builder: FactsBuilder, node: Node) -> None:
    """Calls within a macro's arguments, which are read as mere tokens."""
    path, last = "", node
    for child in node.children:
        text = builder.text(child) if child.type in ("identifier", "self", "super", "crate") else ""
        if text and (not path or path.endswith(".")):
            path, last = f"{path}{text}", child
        elif text:
            path, last = text, child
        elif child.type in (".", "::") and path:
            path += "."
        elif child.type == "token_tree" and path and not path.endswith(".") and child.children[0].type == "(":
            builder.add_use("calls", path, last)
            path = f"{path}()" if len(path) < 100 else ""
        else:
            path = ""


def _add_crate_imports(builder: FactsBuilder, captures: Captures) -> None:
    """`serde_json::from_str()` takes from a crate that no `use` names."""
    if any(imported.name == "*" for imported in builder.imports):
        return
    names = set(map(builder.name, builder.outline.definitions))
    names.update(imported.local for imported in builder.imports)
    for node in captures.get("crate", ()):
        name = builder.text(node)
        if name not in names and name[:1].islower():
            names.add(name)
            builder.imports.append(Import(name, "", name, node.start_point.row + 1))


EXTRACTION = ExtractionRules(
    is_private=lacks_pub, expressions=EXPRESSIONS,
    handlers={
        "import": _read_import, "module": _read_module, "impl": _read_impl, "trait": _read_trait,
        "function": lambda builder, node: builder.bind_result(
            builder.scope(node), part_of(node, "return_type")
        ),
        "bound": _read_bound, "field": _read_field,
        "variant": lambda builder, node: builder.add_enum_constant(node, part_of(node, "name")),
        "constant": _read_constant, "alias": _read_alias, "parameter": _read_parameter,
        "closure": _read_closure, "let": _read_let, "loop": _read_loop, "match": _read_match,
        "literal": _read_struct_literal, "macro": _read_macro, "tokens": _read_macro_tokens,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify=_qualify, type_part_kinds=frozenset({"impl"}),
    finish=_add_crate_imports,
)  # fmt: skip
