"""What Rust's types promise and its expressions hold."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, TypeSyntax
from knowledge_pipeline.code_graph.languages.words import split_scoped_name, split_words
from knowledge_pipeline.code_graph.values import Value, Values, add_prefix, own_value, tuple_values
from knowledge_pipeline.syntax.nodes import children_of, part_of

_TRANSPARENT_TYPES = split_words(
    "Box Rc Arc Cow Pin Ref RefMut MutexGuard RwLockReadGuard RwLockWriteGuard NonNull"
)
_MAX_PATH = 160


def special_type_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    """`Box<T>` is its `T`, `Result<T, E>` holds `T`, a tuple has places."""
    if node.type == "tuple_type":
        return tuple_values(writer.values_of_type(each, depth + 1) for each in node.named_children)
    if node.type != "generic_type":
        return None
    name = (writer.path(part_of(node, "type")) or "").rpartition(".")[2]
    given = [each for each in children_of(part_of(node, "type_arguments")) if each.type != "lifetime"]
    if name in _TRANSPARENT_TYPES and given:
        return writer.values_of_type(given[-1], depth + 1)
    if name.endswith("Result") and given:
        return [("", f"{name}()"), *add_prefix("[]", writer.values_of_type(given[0], depth + 1))]
    return None


TYPES = TypeSyntax(
    generic={"generic_type": "type_arguments"}, arrays={"array_type": "element"},
    transparent={
        "reference_type": "type", "pointer_type": "type", "dynamic_type": "trait", "abstract_type": "trait",
        "bounded_type": 0,
    },
    functions={"function_type": "return_type"}, read_special=special_type_values,
)  # fmt: skip


def absolute_path(node: Node, parts: list[str], writer: PathWriter, file_head: str) -> str:
    """A path with `self` and `super` as the file sees them, whatever modules are written within it."""
    if parts[0] not in ("self", "super"):
        return ".".join(parts)
    around: list[str] = []
    each = node.parent
    while each is not None:
        if each.type == "mod_item" and (name := part_of(each, "name")) is not None:
            around.insert(0, writer.text(name))
        each = each.parent
    rest = parts[1:] if parts[0] == "self" else parts
    while rest and rest[0] == "super" and around:
        around.pop()
        rest = rest[1:]
    inside = [] if rest and rest[0] == "super" else [file_head, *around]
    return ".".join([*inside, *rest])


def _scoped_path(writer: PathWriter, node: Node) -> str | None:
    parts = split_scoped_name(writer.short_text(node, _MAX_PATH + 1))
    return absolute_path(node, parts, writer, "@file") if parts else None


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
