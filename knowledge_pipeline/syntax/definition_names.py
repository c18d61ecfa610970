"""What a definition's node is called, where its body starts, and whom it belongs to.

Most grammars say it with a field `name` and a field `body`; the rest is here, or in queries whose
patterns capture `@name` and `@body` beside the definition.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from knowledge_pipeline.syntax.grammars import SyntaxTree

_NAME_FIELDS = ("name", "property", "left", "key", "declarator", "type", "pattern")
_NAME_TYPES = frozenset(
    {"identifier", "name", "simple_identifier", "type_identifier", "variable_declaration"}
)
_IMPLICIT_NAMES = {
    "init_declaration": "init", "deinit_declaration": "deinit", "subscript_declaration": "subscript",
    "secondary_constructor": "constructor", "companion_object": "Companion", "indexer_declaration": "this",
    "given_definition": "given", "extension_definition": "extension",
    "conversion_operator_declaration": "operator", "package_object": "package",
}  # fmt: skip
_BODY_TYPES = frozenset(
    {"class_body", "enum_class_body", "function_body", "field_declaration_list", "block", "getter"}
)
_ANNOTATIONS = frozenset({"annotation", "attribute", "attribute_list", "decorator", "marker_annotation"})
_MAX_ATTRIBUTES = 20
_NOT_OWNERS = frozenset({"prototype", "exports", "module", "this", "window", "self", "globalThis"})
_OWNED_NAMES = frozenset({"dot_index_expression", "method_index_expression"})
_GENERICS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")
_WORDS = re.compile(r"[^\W\d]\w*")


def name_of(tree: SyntaxTree, node: Node) -> tuple[str, str]:
    """The owner and the name of a definition: `("Circle", "area")` for `double Circle::area()`.

    The owner is empty unless it is written into the definition itself; the name is
    empty for what has none.
    """
    if (parts := tree.named.get(node.id)) is not None:
        return _join_names(tree, parts.names)
    named = _find_name_node(node)
    if named is None:
        return "", _IMPLICIT_NAMES.get(node.type, "default" if _is_default(tree, node) else "")
    text = " ".join(tree.slice(named)[:200].split()).strip("\"'`")
    if named.type == "computed_property_name":  # [Symbol.iterator]
        return "", text
    if named.type == "member_expression":
        # `Cart.prototype.clear` belongs to `Cart`, `exports.total` to nobody
        *owners, name = text.split(".")
        owners = [owner for owner in owners if owner not in _NOT_OWNERS]
        return (owners[-1] if owners else ""), name
    if text.startswith("operator"):
        return "", text
    owner, _, name = _strip_generics(text).rpartition("::")
    return owner or _receiver_type(tree, node), name.strip("&*")


def head_start(tree: SyntaxTree, node: Node) -> int:
    """Character at which a definition starts, its attributes and annotations left off."""
    for child in node.children[:_MAX_ATTRIBUTES]:
        if child.type == "modifiers":
            inner = next((each for each in child.children if each.type not in _ANNOTATIONS), None)
            if inner is not None:
                return tree.start(inner)
        elif child.type not in _ANNOTATIONS:
            return tree.start(child)
    return tree.start(node)


def body_start(tree: SyntaxTree, node: Node) -> int | None:
    """Character at which the body of a definition starts, if it has one."""
    if (parts := tree.named.get(node.id)) is not None and parts.body is not None:
        return tree.start(parts.body)
    body = node.child_by_field_name("body") or node.child_by_field_name("computed_value")
    for field in ("value", "right", "type"):
        inner = None if body else node.child_by_field_name(field)
        body = body or (inner and (inner.child_by_field_name("body") or _find_body_child(inner)))
    body = body or _find_body_child(node)
    return tree.start(body) if body else None


def _join_names(tree: SyntaxTree, names: list[Node]) -> tuple[str, str]:
    """The owner and the name that a pattern captured: `("Session", "add")` for Lua's `Session:add`."""
    texts = (" ".join(tree.slice(each)[:200].split()).strip("\"'`") for each in names)
    name = ".".join(text for text in texts if text)
    if len(names) == 1 and names[0].type in _OWNED_NAMES:
        owner, _, name = name.replace(":", ".").rpartition(".")
        return owner, name
    return "", name


def _find_body_child(node: Node) -> Node | None:
    return next((child for child in node.children if child.type in _BODY_TYPES), None)


def _find_name_node(node: Node) -> Node | None:
    for field in _NAME_FIELDS:
        found = node.child_by_field_name(field)
        if found is not None:
            return _unwrap_declarator(found) if field == "declarator" else found
    if node.type in _IMPLICIT_NAMES:
        return None
    return next((child for child in node.named_children if child.type in _NAME_TYPES), None)


def _unwrap_declarator(node: Node) -> Node:
    """The name inside C's declarators: `*name(void)`, `(&name)[3]`."""
    for _ in range(20):
        inner = node.child_by_field_name("declarator")
        if inner is None and node.type.endswith("_declarator"):
            inner = next(iter(node.named_children), None)
        if inner is None:
            return node
        node = inner
    return node


def _receiver_type(tree: SyntaxTree, node: Node) -> str:
    """`Server` of Go's `func (s *Server) Listen()`."""
    receiver = node.child_by_field_name("receiver") if node.type == "method_declaration" else None
    words = _WORDS.findall(_strip_generics(tree.slice(receiver))) if receiver else []
    return words[-1] if words else ""


def _strip_generics(text: str) -> str:
    for _ in range(10):
        shorter = _GENERICS.sub("", text)
        if shorter == text:
            break
        text = shorter
    return text.strip()


def _is_default(tree: SyntaxTree, node: Node) -> bool:
    start = tree.start(node)
    return tree.text[max(0, start - 20) : start].rstrip().endswith("default")
