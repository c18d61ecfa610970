"""What Kotlin's types promise and its expressions hold."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, part_of
from knowledge_pipeline.code_graph.languages.declared_types import (
    TypeSyntax,
    Values,
    add_prefix,
    children_of_type,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.words import split_words

BUILTINS = split_words(
    """
    Any Unit Nothing Int Long Short Byte Char Boolean Float Double String CharSequence Number Comparable
    Array IntArray LongArray ByteArray CharArray BooleanArray DoubleArray FloatArray List MutableList Set
    MutableSet Map MutableMap Collection MutableCollection Iterable MutableIterable Iterator ListIterator
    Sequence Pair Triple Throwable Exception RuntimeException Error IllegalArgumentException
    IllegalStateException NullPointerException UnsupportedOperationException IndexOutOfBoundsException
    NoSuchElementException NumberFormatException ClassCastException AssertionError ArrayList HashMap HashSet
    LinkedHashMap LinkedHashSet StringBuilder Regex Lazy Result Function Enum Annotation Deprecated Suppress
    JvmStatic JvmField JvmOverloads JvmName JvmInline Throws Volatile Synchronized OptIn println print
    require requireNotNull check checkNotNull error TODO run with apply also let takeIf takeUnless repeat
    lazy listOf mutableListOf arrayListOf setOf mutableSetOf mapOf mutableMapOf hashMapOf hashSetOf emptyList
    emptySet emptyMap arrayOf arrayOfNulls intArrayOf sequenceOf sequence buildList buildMap buildString
    maxOf minOf to it field this super null true false synchronized runCatching assert listOfNotNull
    """
)

TYPES = TypeSyntax(
    generic={"user_type": "type_arguments"},
    arrays={},
    transparent={
        "nullable_type": 0,
        "type_projection": -1,
        "parenthesized_type": 0,
        "non_nullable_type": 0,
    },
    functions={"function_type": -1},
)
TYPE_NODES = frozenset(
    {"user_type", "nullable_type", "function_type", "parenthesized_type", "non_nullable_type"}
)

_SELF_RETURNING = frozenset({"also", "apply", "takeIf", "takeUnless", "onEach"})
_SELF_CALLBACKS = frozenset({"let", "also", "takeIf", "takeUnless"})
CALLBACK_METHODS = split_words(
    """
    map forEach filter filterNot any all none first firstOrNull last lastOrNull find single singleOrNull
    flatMap mapNotNull associateBy associateWith associate groupBy sortedBy sortedByDescending sumOf
    maxByOrNull minByOrNull maxOf minOf partition count takeWhile dropWhile onEach distinctBy indexOfFirst
    mapIndexed forEachIndexed filterIsInstance removeIf joinToString
    """
)
_COLLECTION_FACTORIES = split_words(
    """
    listOf mutableListOf arrayListOf setOf mutableSetOf hashSetOf arrayOf sequenceOf emptyList emptySet
    mapOf mutableMapOf hashMapOf linkedMapOf emptyMap listOfNotNull ArrayList HashMap HashSet LinkedHashMap
    """
)


def find_type(node: Node) -> Node | None:
    """The type that stands after a name."""
    return next((each for each in node.named_children if each.type in TYPE_NODES), None)


def find_receiver(function: Node) -> Node | None:
    """`Item` of `fun Item.heavy()`."""
    for each in function.children:
        if each.type in TYPE_NODES:
            return each
        if each.type in ("identifier", "variable_declaration", ":", "function_value_parameters"):
            return None
    return None


def find_value(node: Node) -> Node | None:
    """What a property is given; of `by lazy { … }` the last expression."""
    delegate = next(children_of_type(node, "property_delegate"), None)
    if delegate is None:
        last = part_of(node, -1)
        return None if last is None or last.type in ("variable_declaration", "getter", "setter") else last
    inner: Node | None = delegate
    for part in (0, -1, 0):
        inner = part_of(inner, part) if inner is not None else None
    return part_of(inner, -1) if inner is not None and inner.type == "lambda_literal" else None


def _user_type_path(writer: PathWriter, node: Node) -> str | None:
    return ".".join(writer.text(each) for each in children_of_type(node, "identifier")) or None


def _navigation_path(writer: PathWriter, node: Node) -> str | None:
    of, name = part_of(node, 0), part_of(node, -1)
    path = writer.path(of)
    return f"{path}.{writer.text(name)}" if path and name is not None and name.type == "identifier" else None


def _this_path(writer: PathWriter, node: Node) -> str | None:
    """The instance; that of a type around by its name; an extension's receiver."""
    label = part_of(node, 0)
    if label is not None:
        return f"{writer.text(label)}()"
    around = node.parent
    while around is not None and around.type not in ("class_body", "source_file"):
        if (
            around.type in ("function_declaration", "property_declaration")
            and find_receiver(around) is not None
        ):
            return "@receiver"
        around = around.parent
    return "@self"


def _identifier_path(writer: PathWriter, node: Node) -> str | None:
    """`it` as what the function that it is given to hands to it."""
    text = writer.text(node)
    if text != "it":
        return text
    around = node.parent
    while around is not None and around.type != "lambda_literal":
        around = around.parent
    values = lambda_argument_values(writer, around) if around is not None else []
    return values[0][1] if values else text


def lambda_argument_values(writer: PathWriter, literal: Node) -> Values:
    """What a lambda is given by the function that it is an argument of."""
    call = literal.parent
    while call is not None and call.type in ("annotated_lambda", "value_argument", "value_arguments"):
        call = call.parent
    called = part_of(call, 0) if call is not None and call.type == "call_expression" else None
    name = part_of(called, -1) if called is not None and called.type == "navigation_expression" else None
    of = writer.path(part_of(called, 0)) if called is not None and name is not None else None
    if not of or name is None:
        return []
    if writer.text(name) in _SELF_CALLBACKS:
        return [("", of)]
    return [("", f"{of}[]")] if writer.text(name) in CALLBACK_METHODS else []


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`x.also { … }` is x; None for other calls."""
    called = part_of(node, 0)
    name = part_of(called, -1) if called is not None and called.type == "navigation_expression" else None
    if called is None or name is None or writer.text(name) not in _SELF_RETURNING:
        return None
    return writer.path(part_of(called, 0))


def _indexed_path(writer: PathWriter, node: Node) -> str | None:
    path = writer.path(part_of(node, 0))
    return f"{path}[]" if path else None


def _unary_path(writer: PathWriter, node: Node) -> str | None:
    return writer.path(node.child_by_field_name("argument"))


def _cast_path(writer: PathWriter, node: Node) -> str | None:
    values = values_of_type(TYPES, writer, node.child_by_field_name("right"))
    return next((value for suffix, value in values if not suffix), None)


def _call_values(writer: PathWriter, node: Node) -> Values:
    """What `listOf<Item>(…)` and `listOf(item)` hold."""
    called = part_of(node, 0)
    name = writer.text(called) if called is not None and called.end_byte - called.start_byte < 40 else ""
    if name not in _COLLECTION_FACTORIES:
        return []
    arguments = next(children_of_type(node, "type_arguments"), None)
    if arguments is not None and arguments.named_child_count:
        return add_prefix("[]", values_of_type(TYPES, writer, arguments.named_children[-1]))
    given = next(children_of_type(node, "value_arguments"), None)
    first = part_of(given, 0) if given is not None else None
    return add_prefix("[]", writer.values(part_of(first, -1))) if first is not None else []


def _elvis_values(writer: PathWriter, node: Node) -> Values:
    parts = [node.child_by_field_name(side) for side in ("left", "right")]
    return [value for part in parts for value in writer.values(part)]


EXPRESSIONS = ExpressionSyntax(
    names=frozenset(),
    members={},
    calls={"call_expression": (0,), "infix_expression": (0, 1)},
    indexes={},
    transparent={"parenthesized_expression": 0},
    contents={
        "call_expression": _call_values,
        "binary_expression": lambda writer, node: _elvis_values(writer, node) if _is_elvis(node) else [],
        "as_expression": lambda writer, node: values_of_type(
            TYPES, writer, node.child_by_field_name("right")
        ),
    },
    path_writers={
        "identifier": _identifier_path,
        "user_type": _user_type_path,
        "navigation_expression": _navigation_path,
        "this_expression": _this_path,
        "super_expression": lambda writer, node: "@super",
        "index_expression": _indexed_path,
        "unary_expression": _unary_path,
        "as_expression": _cast_path,
        "binary_expression": lambda writer, node: (
            writer.path(node.child_by_field_name("left")) if _is_elvis(node) else None
        ),
    },
    rewrite_call=_rewrite_call,
)


def _is_elvis(node: Node) -> bool:
    operator = node.child_by_field_name("operator")
    return operator is not None and operator.type == "?:"
