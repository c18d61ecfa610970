"""Swift's types and expressions.

What a function's parameter is declared to be is bound to `@LABEL` in its scope, `@0` where it has no
label; what it hands to a closure to `@LABEL.@0`, and to `@closure.@0` if that may follow the call.
"""

from __future__ import annotations

from itertools import chain

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Values, add_prefix, own_value, tuple_values
from knowledge_pipeline.code_graph.facts_builder import ExpressionSyntax, FactsBuilder, TypeSyntax
from knowledge_pipeline.code_graph.languages.base import load_words
from knowledge_pipeline.syntax.grammars import (
    ancestor_of_type,
    children_of,
    children_of_type,
    first_of_type,
    has_type,
    iter_ancestors,
    part_of,
)

_WORDS = load_words("swift")

_MAX_PARTS = 8


def find_result_type(function: Node) -> Node | None:
    """The type that a function gives: it has the same field as its name."""
    names = function.children_by_field_name("name")
    has_name = function.type != "subscript_declaration"
    return names[-1] if len(names) > has_name else None


def find_parameter_type(node: Node) -> Node | None:
    """The type of a parameter: what is named last."""
    names = node.children_by_field_name("name")
    return names[-1] if len(names) > 1 else None


_MAX_UP = 12
_COMPARISONS = ("equality_expression", "comparison_expression")
_RESULT_NODES = (
    "control_transfer_statement", "function_body", "computed_property", "computed_getter"
)  # fmt: skip

_FUNCTION_NODES = (
    "function_declaration", "property_declaration", "subscript_declaration", "lambda_literal"
)  # fmt: skip


def _find_called(node: Node) -> Node | None:
    """What the call around an argument calls."""
    within = ("value_argument", "value_arguments", "call_suffix", "constructor_suffix")
    around = next((around for around in iter_ancestors(node) if around.type not in within), None)
    return part_of(around, 0) if has_type(around, "call_expression", "constructor_expression") else None


_FIRST_CHILD_NODES = ("call_expression", "navigation_expression", "postfix_expression")
_TRANSPARENT_NODES = (
    *_FIRST_CHILD_NODES, "nil_coalescing_expression", "ternary_expression", "tuple_expression",
    "try_expression", "await_expression", "statements",
)  # fmt: skip

_COLLECTION_CONSTRUCTORS = frozenset({"Array", "Set", "Optional", "ContiguousArray", "ArraySlice"})


class SwiftExpressions(FactsBuilder):
    """Reads the expressions of Swift."""

    def _special_type_values(self, node: Node, depth: int) -> Values | None:
        """`Self`, metatypes, tuples and compositions; None for all others."""
        if node.type == "user_type":
            names = [self.text(identifier) for identifier in children_of_type(node, "type_identifier")]
            arguments = first_of_type(node, "type_arguments")
            if names == ["Optional"] and arguments is not None:
                return self.values_of_type(part_of(arguments, 0), depth + 1)
            if len(names) > 1 and names[-1] in ("Type", "Protocol"):
                return [("", ".".join(names[:-1]))]
            return [("", "@class()")] if names == ["Self"] else None
        if node.type == "tuple_type":
            items = [part_of(item, -1) for item in children_of_type(node, "tuple_type_item")][:_MAX_PARTS]
            places = [self.values_of_type(item, depth + 1) for item in items]
            return places[0] if len(places) == 1 else tuple_values(places)
        if node.type == "protocol_composition_type":
            parts = node.named_children[:_MAX_PARTS]
            return [value for part in parts for value in self.values_of_type(part, depth + 1)]
        return None

    def _expected_path(self, node: Node) -> str | None:
        """A path that is worth what is expected where a node stands."""
        inner, around = node, node.parent
        for _ in range(_MAX_UP):
            if around is None:
                return None
            kind = around.type
            if kind in _COMPARISONS:
                sides = [part_of(around, side) for side in ("lhs", "rhs")]
                others = (side for side in sides if side is not None and side.id != inner.id)
                return self.path(next(others, None))
            if kind == "value_argument":
                path = self.path(_find_called(around))
                return f"{path}.@{self._argument_label(around)}" if path else None
            if kind == "assignment":
                return self.path(part_of(around, "target"))
            if kind in ("property_declaration", *_RESULT_NODES):
                return self._declared_path(around)
            if kind in _FIRST_CHILD_NODES and around.children[0].id != inner.id:
                return None
            if kind not in _TRANSPARENT_NODES:
                return None
            inner, around = around, around.parent
        return None

    def _declared_path(self, node: Node) -> str | None:
        """What the property or function around a node, or that it is, declares to give."""
        ancestors = chain((node,), iter_ancestors(node))
        around = next((around for around in ancestors if around.type in _FUNCTION_NODES), None)
        if around is None or around.type == "lambda_literal":
            return None
        is_property = around.type == "property_declaration"
        kind = first_of_type(around, "type_annotation") if is_property else find_result_type(around)
        return own_value(self.values_of_type(kind))

    def _closure_argument_path(self, closure: Node, position: int) -> str | None:
        """What a closure is given by the function that it is an argument of."""
        key, label = "closure", closure.prev_named_sibling
        if has_type(closure.parent, "value_argument"):
            key = self._argument_label(closure.parent)
        elif has_type(label, "simple_identifier"):
            key = self.text(label)
        path = self.path(_find_called(closure))
        if not path:
            return None
        of, _, name = path.rpartition(".")
        if of and name in _WORDS["callback_methods"]:
            return f"{of}[]" if not position else None
        return f"{path}.@{key}.@{position}"

    def _argument_label(self, argument: Node) -> str:
        label = part_of(argument, "name")
        if label is not None:
            return self.text(label)
        listed = enumerate(children_of(argument.parent)[:20])
        return str(next((at for at, child in listed if child.id == argument.id), 0))

    def _identifier_path(self, node: Node) -> str | None:
        """`$0` as what the function that its closure is given to hands to it."""
        text = self.text(node)
        if not text.startswith("$"):
            return text.strip("`")
        closure = ancestor_of_type(node, "lambda_literal") if text[1:].isdigit() else None
        return self._closure_argument_path(closure, int(text[1:])) if closure is not None else None

    def _navigation_path(self, node: Node) -> str | None:
        """`a.b`, `a?.b`; `a.0` by place; `Item.init` as `Item`, `Item.self` too."""
        of, member = part_of(node, "target"), part_of(part_of(node, "suffix"), "suffix")
        path = self.path(of)
        if not path or member is None or of is None:
            return None
        text = self.text(member).strip("`")
        if member.type == "integer_literal":
            return f"{path}[{text}]"
        if text == "self" or (text == "init" and of.type not in ("self_expression", "super_expression")):
            return path
        return f"{path}.{text}" if member.type == "simple_identifier" else None

    def _implicit_member_path(self, node: Node) -> str | None:
        """`.fast`: of the type that is expected where it stands; what an operator is put before."""
        target = part_of(node, "target")
        if self.text(node)[:1] != ".":
            return self.path(target)
        of, name = (self._expected_path(node) or "").removesuffix("()"), self.text(target)
        return (of if name == "init" else f"{of}.{name}") if of and name else None

    def _is_call(self, node: Node) -> bool:
        """Whether a call is one: `rows[0]` is not."""
        argument = part_of(first_of_type(node, "call_suffix"), 0)
        return not has_type(argument, "value_arguments") or argument.children[0].type != "["

    def _rewrite_call(self, node: Node) -> str | None:
        """`rows[0]` as an element; what a closure gives that is called where it stands."""
        called = part_of(node, 0)
        if not self._is_call(node):
            path = self.path(called)
            return f"{path}[]" if path else None
        if not has_type(called, "lambda_literal"):
            return None
        last = part_of(first_of_type(called, "statements"), -1)  # its only expression, or what it returns
        returns = has_type(last, "control_transfer_statement")
        return own_value(self.values(part_of(last, "result") if returns else last))

    def _call_values(self, node: Node) -> Values:
        """What `Array(items)` holds."""
        if self.short_text(part_of(node, 0), 21) not in _COLLECTION_CONSTRUCTORS:
            return []
        argument = first_of_type(part_of(first_of_type(node, "call_suffix"), 0), "value_argument")
        return [("[]", f"{path}[]") for suffix, path in self.values(part_of(argument, "value")) if not suffix]

    def _tuple_values(self, node: Node) -> Values:
        parts = node.children_by_field_name("value")
        return self.values(parts[0]) if len(parts) == 1 else tuple_values(map(self.values, parts[:8]))

    def _tuple_path(self, node: Node) -> str | None:
        """`(x)` is x."""
        parts = node.children_by_field_name("value")
        return self.path(parts[0]) if len(parts) == 1 else None

    def _collection_values(self, node: Node) -> Values:
        parts = node.children_by_field_name("element" if node.type == "array_literal" else "value")[:8]
        return add_prefix("[]", [value for part in parts for value in self.values(part)])

    def _branch_values(self, node: Node) -> Values:
        """`if` and `switch` as expressions: the last one of each branch."""
        entries = list(children_of_type(node, "switch_entry"))[:20] or [node]
        bodies = [body for entry in entries for body in children_of_type(entry, "statements", "if_statement")]
        last = [body if body.type == "if_statement" else part_of(body, -1) for body in bodies]
        return [value for statement in last for value in self.values(statement)]

    expressions = ExpressionSyntax(
        names=frozenset({"type_identifier"}),
        calls={"call_expression": (0,), "constructor_expression": ("constructed_type",)},
        transparent={
            "try_expression": "expr", "await_expression": "expr", "postfix_expression": "target",
            "directly_assignable_expression": 0, "key_path_expression": 0,
        },
        choices={
            "nil_coalescing_expression": ("value", "if_nil"),
            "ternary_expression": ("if_true", "if_false"),
        },
        suffixed={"nil_coalescing_expression": ("value", "")}, casts={"as_expression": "name"},
        contents={
            "array_literal": _collection_values, "dictionary_literal": _collection_values,
            "tuple_expression": _tuple_values, "call_expression": _call_values,
            "if_statement": _branch_values, "switch_statement": _branch_values,
        },
        path_writers={
            "simple_identifier": _identifier_path, "self_expression": lambda reader, node: "@self",
            "super_expression": lambda reader, node: "@super",
            "user_type": lambda reader, node: (
                ".".join(map(reader.text, children_of_type(node, "type_identifier"))) or None
            ),
            "navigation_expression": _navigation_path, "prefix_expression": _implicit_member_path,
            "tuple_expression": _tuple_path,
        },
        types=TypeSyntax(
            generic={"user_type": "type_arguments"}, arrays={"array_type": "name", "dictionary_type": -1},
            transparent={
                "optional_type": "wrapped", "opaque_type": 0, "existential_type": 0,
                "type_annotation": "name", "metatype": 0,
            },
            functions={"function_type": -1},
        ),
    )  # fmt: skip
