"""What Swift's types promise and its expressions hold."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter
from knowledge_pipeline.code_graph.languages.swift.context import closure_argument_path, expected_path
from knowledge_pipeline.code_graph.languages.swift.types import TYPES
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Values, add_prefix, own_value, tuple_values
from knowledge_pipeline.syntax.nodes import ancestor_of_type, children_of_type, first_of_type, part_of

BUILTINS = split_words(
    """
    Any AnyObject Void Never Int Int8 Int16 Int32 Int64 UInt UInt8 UInt16 UInt32 UInt64 Double Float Float80
    CGFloat Bool String Substring Character Array ArraySlice ContiguousArray Dictionary Set Optional Result
    Range ClosedRange Sequence Collection BidirectionalCollection RandomAccessCollection MutableCollection
    IteratorProtocol AnySequence AnyCollection AnyIterator Equatable Hashable Comparable Codable Encodable
    Decodable Encoder Decoder CodingKey Identifiable CaseIterable RawRepresentable CustomStringConvertible
    CustomDebugStringConvertible Error LocalizedError Sendable Actor MainActor Task TaskGroup AsyncSequence
    AsyncStream AsyncIteratorProtocol Hasher ObjectIdentifier KeyPath WritableKeyPath Mirror
    UnsafePointer UnsafeMutablePointer UnsafeRawPointer UnsafeMutableRawPointer UnsafeBufferPointer
    ExpressibleByStringLiteral ExpressibleByIntegerLiteral ExpressibleByArrayLiteral BinaryInteger Numeric
    FixedWidthInteger FloatingPoint Strideable StringProtocol print debugPrint dump fatalError assert
    assertionFailure precondition preconditionFailure min max abs zip stride swap type numericCast
    repeatElement withUnsafePointer withUnsafeBytes unsafeBitCast
    isKnownUniquelyReferenced withCheckedContinuation
    withCheckedThrowingContinuation withTaskGroup withThrowingTaskGroup available objc escaping
    autoclosure discardableResult inlinable usableFromInline propertyWrapper
    dynamicMemberLookup resultBuilder main
    testable frozen unchecked Published State Binding ObservedObject nil true false newValue oldValue
    """
)

_COLLECTION_CONSTRUCTORS = frozenset({"Array", "Set", "Optional", "ContiguousArray", "ArraySlice"})


def _identifier_path(writer: PathWriter, node: Node) -> str | None:
    """`$0` as what the function that its closure is given to hands to it."""
    text = writer.text(node)
    if not text.startswith("$"):
        return text.strip("`")
    closure = ancestor_of_type(node, "lambda_literal")
    known = closure is not None and text[1:].isdigit()
    return closure_argument_path(writer, closure, int(text[1:])) if closure is not None and known else None


def _navigation_path(writer: PathWriter, node: Node) -> str | None:
    """`a.b`, `a?.b`; `a.0` by place; `Item.init` as `Item`, `Item.self` too."""
    of, member = part_of(node, "target"), part_of(part_of(node, "suffix"), "suffix")
    path = writer.path(of)
    if not path or member is None or of is None:
        return None
    text = writer.text(member).strip("`")
    if member.type == "integer_literal":
        return f"{path}[{text}]"
    if text == "self" or (text == "init" and of.type not in ("self_expression", "super_expression")):
        return path
    return f"{path}.{text}" if member.type == "simple_identifier" else None


def _implicit_member_path(writer: PathWriter, node: Node) -> str | None:
    """`.fast`: of the type that is expected where it stands; what an operator is put before."""
    target = part_of(node, "target")
    if writer.text(node)[:1] != ".":
        return writer.path(target)
    of, name = (expected_path(writer, node) or "").removesuffix("()"), writer.text(target)
    if not of or not name:
        return None
    return of if name == "init" else f"{of}.{name}"


def _tuple_path(writer: PathWriter, node: Node) -> str | None:
    """`(x)` is x."""
    values = node.children_by_field_name("value")
    return writer.path(values[0]) if len(values) == 1 else None


def is_call(node: Node) -> bool:
    """Whether a call is one: `rows[0]` is not."""
    given = part_of(first_of_type(node, "call_suffix"), 0)
    return given is None or given.type != "value_arguments" or given.children[0].type != "["


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`rows[0]` as an element; what a closure gives that is called where it stands."""
    called = part_of(node, 0)
    if not is_call(node):
        path = writer.path(called)
        return f"{path}[]" if path else None
    if called is not None and called.type == "lambda_literal":
        return own_value(_closure_result_values(writer, called))
    return None


def _closure_result_values(writer: PathWriter, node: Node) -> Values:
    """A closure of one expression gives it; else what it returns last."""
    last = part_of(first_of_type(node, "statements"), -1)
    returns = last is not None and last.type == "control_transfer_statement"
    return writer.values(part_of(last, "result") if returns else last)


def _call_values(writer: PathWriter, node: Node) -> Values:
    """What `Array(items)` holds."""
    if writer.short_text(part_of(node, 0), 21) not in _COLLECTION_CONSTRUCTORS:
        return []
    given = first_of_type(part_of(first_of_type(node, "call_suffix"), 0), "value_argument")
    return [("[]", f"{path}[]") for suffix, path in writer.values(part_of(given, "value")) if not suffix]


def _collection_values(writer: PathWriter, node: Node) -> Values:
    field = "element" if node.type == "array_literal" else "value"
    elements = node.children_by_field_name(field)[:8]
    return [value for each in elements for value in add_prefix("[]", writer.values(each))]


def _tuple_values(writer: PathWriter, node: Node) -> Values:
    parts = node.children_by_field_name("value")
    if len(parts) == 1:
        return writer.values(parts[0])
    return tuple_values(map(writer.values, parts[:8]))


def _branch_values(writer: PathWriter, node: Node) -> Values:
    """`if` and `switch` as expressions: the last one of each branch."""
    entries = list(children_of_type(node, "switch_entry"))[:20] or [node]
    bodies = [body for each in entries for body in children_of_type(each, "statements", "if_statement")]
    last = [body if body.type == "if_statement" else part_of(body, -1) for body in bodies]
    return [value for each in last for value in writer.values(each)]


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"type_identifier"}),
    calls={"call_expression": (0,), "constructor_expression": ("constructed_type",)},
    transparent={
        "try_expression": "expr", "await_expression": "expr", "postfix_expression": "target",
        "directly_assignable_expression": 0, "key_path_expression": 0,
    },
    choices={"nil_coalescing_expression": ("value", "if_nil"), "ternary_expression": ("if_true", "if_false")},
    suffixed={"nil_coalescing_expression": ("value", "")}, casts={"as_expression": "name"},
    contents={
        "array_literal": _collection_values, "dictionary_literal": _collection_values,
        "tuple_expression": _tuple_values, "call_expression": _call_values, "if_statement": _branch_values,
        "switch_statement": _branch_values,
    },
    path_writers={
        "simple_identifier": _identifier_path, "self_expression": lambda writer, node: "@self",
        "super_expression": lambda writer, node: "@super",
        "user_type": lambda writer, node: (
            ".".join(map(writer.text, children_of_type(node, "type_identifier"))) or None
        ),
        "navigation_expression": _navigation_path, "prefix_expression": _implicit_member_path,
        "tuple_expression": _tuple_path,
    },
    rewrite_call=_rewrite_call, is_call=is_call, types=TYPES,
)  # fmt: skip
