"""What Kotlin's types promise and its expressions hold."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, TypeSyntax
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Values, add_prefix
from knowledge_pipeline.syntax.nodes import ancestor_of_type, children_of_type, first_of_type, part_of

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
    transparent={"nullable_type": 0, "type_projection": -1, "parenthesized_type": 0, "non_nullable_type": 0},
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
    delegate = first_of_type(node, "property_delegate")
    if delegate is None:
        last = part_of(node, -1)
        return None if last is None or last.type in ("variable_declaration", "getter", "setter") else last
    inner: Node | None = delegate
    for part in (0, -1, 0):
        inner = part_of(inner, part)
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
        if around.type in ("function_declaration", "property_declaration") and find_receiver(around):
            return "@receiver"
        around = around.parent
    return "@self"


def _identifier_path(writer: PathWriter, node: Node) -> str | None:
    """`it` as what the function that it is given to hands to it."""
    text = writer.text(node)
    if text != "it":
        return text
    literal = ancestor_of_type(node, "lambda_literal")
    values = lambda_argument_values(writer, literal) if literal is not None else []
    return values[0][1] if values else text


def lambda_argument_values(writer: PathWriter, literal: Node) -> Values:
    """What a lambda is given by the function that it is an argument of."""
    call = literal.parent
    while call is not None and call.type in ("annotated_lambda", "value_argument", "value_arguments"):
        call = call.parent
    called = part_of(call, 0) if call is not None and call.type == "call_expression" else None
    if called is None or called.type != "navigation_expression":
        return []
    owner, name = part_of(called, 0), part_of(called, -1)
    if writer.text(name) in _SELF_CALLBACKS:
        path = writer.path(owner)
        return [("", path)] if path else []
    return writer.handed_values(owner, name, CALLBACK_METHODS)


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`x.also { … }` is x; None for other calls."""
    called = part_of(node, 0)
    if called is None or called.type != "navigation_expression":
        return None
    return writer.path(part_of(called, 0)) if writer.text(part_of(called, -1)) in _SELF_RETURNING else None


def _call_values(writer: PathWriter, node: Node) -> Values:
    """What `listOf<Item>(…)` and `listOf(item)` hold."""
    if writer.short_text(part_of(node, 0), 40) not in _COLLECTION_FACTORIES:
        return []
    kind = part_of(first_of_type(node, "type_arguments"), -1)
    if kind is not None:
        return add_prefix("[]", writer.values_of_type(kind))
    first = part_of(first_of_type(node, "value_arguments"), 0)
    return add_prefix("[]", writer.values(part_of(first, -1)))


EXPRESSIONS = ExpressionSyntax(
    names=frozenset(), calls={"call_expression": (0,), "infix_expression": (0, 1)},
    suffixed={"index_expression": (0, "[]"), "unary_expression": ("argument", "")},
    transparent={"parenthesized_expression": 0}, casts={"as_expression": "right"}, default_operator="?:",
    contents={"call_expression": _call_values},
    path_writers={
        "identifier": _identifier_path, "user_type": _user_type_path,
        "navigation_expression": _navigation_path, "this_expression": _this_path,
        "super_expression": lambda writer, node: "@super",
    },
    rewrite_call=_rewrite_call, types=TYPES,
)  # fmt: skip
