"""What Rust's types promise and its expressions hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Expressions, Writer, part_of
from knowledge_pipeline.code_graph.languages.declared_types import Types, Values, promised, under
from knowledge_pipeline.code_graph.languages.words import words

_TRANSPARENT = words("Box Rc Arc Cow Pin Ref RefMut MutexGuard RwLockReadGuard RwLockWriteGuard NonNull")
_GENERICS = re.compile(r"(?:::)?<[^<>]*>")
_MAX_PATH = 160


def own_type(writer: Writer, node: Node, depth: int) -> Values | None:
    """`Box<T>` is its `T`, `Result<T, E>` holds `T`, a tuple has places."""
    if node.type == "tuple_type":
        places = (promised(TYPES, writer, each, depth + 1) for each in node.named_children)
        return [one for place, values in enumerate(places) for one in under(f"[{place}]", values)]
    if node.type != "generic_type":
        return None
    name = (writer.path(node.child_by_field_name("type")) or "").rpartition(".")[2]
    held = node.child_by_field_name("type_arguments")
    given = [each for each in held.named_children if each.type != "lifetime"] if held is not None else []
    if name in _TRANSPARENT and given:
        return promised(TYPES, writer, given[-1], depth + 1)
    if name.endswith("Result") and given:
        return [("", f"{name}()"), *under("[]", promised(TYPES, writer, given[0], depth + 1))]
    return None


TYPES = Types(
    generic={"generic_type": "type_arguments"},
    arrays={"array_type": "element"},
    same={
        "reference_type": "type",
        "pointer_type": "type",
        "dynamic_type": "trait",
        "abstract_type": "trait",
        "bounded_type": 0,
    },
    functions={"function_type": "return_type"},
    own=own_type,
)


def scoped(text: str) -> list[str] | None:
    """The segments of `a::b::<T>::c`; None for what is no plain path."""
    for _ in range(6):
        shorter = _GENERICS.sub("", text)
        if shorter == text:
            break
        text = shorter
    parts = ["".join(part.split()) for part in text.split("::")]
    parts = parts[1:] if parts and not parts[0] else parts
    return parts if parts and all(part.isidentifier() for part in parts) else None


def placed(node: Node, parts: list[str], writer: Writer, file: str) -> str:
    """A path with `self` and `super` as the file sees them, whatever modules are written within it."""
    if parts[0] not in ("self", "super"):
        return ".".join(parts)
    around, each = [], node.parent
    while each is not None:
        if each.type == "mod_item" and (name := each.child_by_field_name("name")) is not None:
            around.insert(0, writer.text(name))
        each = each.parent
    rest = parts[1:] if parts[0] == "self" else parts
    while rest and rest[0] == "super" and around:
        around.pop()
        rest = rest[1:]
    inside = [] if rest and rest[0] == "super" else [file, *around]
    return ".".join([*inside, *rest])


def _scoped(writer: Writer, node: Node) -> str | None:
    if node.end_byte - node.start_byte > _MAX_PATH:
        return None
    parts = scoped(writer.text(node))
    return placed(node, parts, writer, "@file") if parts else None


def _tried(writer: Writer, node: Node) -> str | None:
    path = writer.path(part_of(node, 0))
    return f"{path}[]" if path else None


def _made(writer: Writer, node: Node) -> str | None:
    path = writer.path(node.child_by_field_name("name"))
    return f"{path}()" if path else None


def _typed(writer: Writer, node: Node) -> str | None:
    values = promised(TYPES, writer, node.child_by_field_name("type"))
    return next((value for suffix, value in values if not suffix), None)


def _indexed(writer: Writer, node: Node) -> str | None:
    path = writer.path(part_of(node, 0))
    return f"{path}[]" if path else None


def _of_closure(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    yield from under("()", promised(TYPES, writer, node.child_by_field_name("return_type")))
    body = node.child_by_field_name("body")
    if body is not None and body.type != "block":
        yield from under("()", writer.values(body))


def _of_call(writer: Writer, node: Node) -> Iterator[tuple[str, str]]:
    """`Some(x)` and `Ok(x)` hold x; `Box::new(x)` is x."""
    called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    name = writer.path(called) if called is not None else None
    values = given.named_children if given is not None else []
    if name in ("Some", "Ok") and len(values) == 1:
        yield from under("[]", writer.values(values[0]))
    elif name and name.endswith(".new") and name[:-4] in _TRANSPARENT and len(values) == 1:
        yield from writer.values(values[0])


EXPRESSIONS = Expressions(
    names=words("identifier type_identifier self super crate shorthand_field_identifier"),
    members={"field_expression": ("value", "field")},
    calls={"call_expression": ("function",)},
    indexes={},
    same={
        "generic_function": "function",
        "generic_type": "type",
        "generic_type_with_turbofish": "type",
        "reference_expression": "value",
        "unary_expression": 0,
        "parenthesized_expression": 0,
        "await_expression": 0,
        "reference_type": "type",
        "dynamic_type": "trait",
    },
    contents={"closure_expression": _of_closure, "call_expression": _of_call},
    written={
        "scoped_identifier": _scoped,
        "scoped_type_identifier": _scoped,
        "try_expression": _tried,
        "struct_expression": _made,
        "type_cast_expression": _typed,
        "index_expression": _indexed,
    },
)
