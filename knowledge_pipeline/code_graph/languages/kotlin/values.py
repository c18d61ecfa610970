"""What Kotlin's types promise and its expressions hold."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Expressions, Writer, part_of
from knowledge_pipeline.code_graph.languages.declared_types import Types, Values, children, promised, under
from knowledge_pipeline.code_graph.languages.words import words

BUILTINS = words(
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

TYPES = Types(
    generic={"user_type": "type_arguments"},
    arrays={},
    same={
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

_SAME = frozenset({"also", "apply", "takeIf", "takeUnless", "onEach"})
_OF_ITSELF = frozenset({"let", "also", "takeIf", "takeUnless"})
HANDS_OUT = words(
    """
    map forEach filter filterNot any all none first firstOrNull last lastOrNull find single singleOrNull
    flatMap mapNotNull associateBy associateWith associate groupBy sortedBy sortedByDescending sumOf
    maxByOrNull minByOrNull maxOf minOf partition count takeWhile dropWhile onEach distinctBy indexOfFirst
    mapIndexed forEachIndexed filterIsInstance removeIf joinToString
    """
)
_MAKERS = words(
    """
    listOf mutableListOf arrayListOf setOf mutableSetOf hashSetOf arrayOf sequenceOf emptyList emptySet
    mapOf mutableMapOf hashMapOf linkedMapOf emptyMap listOfNotNull ArrayList HashMap HashSet LinkedHashMap
    """
)


def type_of(node: Node) -> Node | None:
    """The type that stands after a name."""
    return next((each for each in node.named_children if each.type in TYPE_NODES), None)


def receiver_of(function: Node) -> Node | None:
    """`Item` of `fun Item.heavy()`."""
    for each in function.children:
        if each.type in TYPE_NODES:
            return each
        if each.type in ("identifier", "variable_declaration", ":", "function_value_parameters"):
            return None
    return None


def value_of(node: Node) -> Node | None:
    """What a property is given; of `by lazy { … }` the last expression."""
    delegate = next(children(node, "property_delegate"), None)
    if delegate is None:
        last = part_of(node, -1)
        return None if last is None or last.type in ("variable_declaration", "getter", "setter") else last
    inner: Node | None = delegate
    for part in (0, -1, 0):
        inner = part_of(inner, part) if inner is not None else None
    return part_of(inner, -1) if inner is not None and inner.type == "lambda_literal" else None


def _user_type(writer: Writer, node: Node) -> str | None:
    return ".".join(writer.text(each) for each in children(node, "identifier")) or None


def _navigation(writer: Writer, node: Node) -> str | None:
    of, name = part_of(node, 0), part_of(node, -1)
    path = writer.path(of)
    return f"{path}.{writer.text(name)}" if path and name is not None and name.type == "identifier" else None


def _this(writer: Writer, node: Node) -> str | None:
    """The instance; that of a type around by its name; an extension's receiver."""
    label = part_of(node, 0)
    if label is not None:
        return f"{writer.text(label)}()"
    around = node.parent
    while around is not None and around.type not in ("class_body", "source_file"):
        if (
            around.type in ("function_declaration", "property_declaration")
            and receiver_of(around) is not None
        ):
            return "@receiver"
        around = around.parent
    return "@self"


def _identifier(writer: Writer, node: Node) -> str | None:
    """`it` as what the function that it is given to hands to it."""
    text = writer.text(node)
    if text != "it":
        return text
    around = node.parent
    while around is not None and around.type != "lambda_literal":
        around = around.parent
    values = handed_to(writer, around) if around is not None else []
    return values[0][1] if values else text


def handed_to(writer: Writer, literal: Node) -> Values:
    """What a lambda is given by the function that it is an argument of."""
    call = literal.parent
    while call is not None and call.type in ("annotated_lambda", "value_argument", "value_arguments"):
        call = call.parent
    called = part_of(call, 0) if call is not None and call.type == "call_expression" else None
    name = part_of(called, -1) if called is not None and called.type == "navigation_expression" else None
    of = writer.path(part_of(called, 0)) if called is not None and name is not None else None
    if not of or name is None:
        return []
    if writer.text(name) in _OF_ITSELF:
        return [("", of)]
    return [("", f"{of}[]")] if writer.text(name) in HANDS_OUT else []


def _called(writer: Writer, node: Node) -> str | None:
    """`x.also { … }` is x; None for other calls."""
    called = part_of(node, 0)
    name = part_of(called, -1) if called is not None and called.type == "navigation_expression" else None
    if called is None or name is None or writer.text(name) not in _SAME:
        return None
    return writer.path(part_of(called, 0))


def _indexed(writer: Writer, node: Node) -> str | None:
    path = writer.path(part_of(node, 0))
    return f"{path}[]" if path else None


def _unary(writer: Writer, node: Node) -> str | None:
    return writer.path(node.child_by_field_name("argument"))


def _cast(writer: Writer, node: Node) -> str | None:
    values = promised(TYPES, writer, node.child_by_field_name("right"))
    return next((value for suffix, value in values if not suffix), None)


def _of_call(writer: Writer, node: Node) -> Values:
    """What `listOf<Item>(…)` and `listOf(item)` hold."""
    called = part_of(node, 0)
    name = writer.text(called) if called is not None and called.end_byte - called.start_byte < 40 else ""
    if name not in _MAKERS:
        return []
    arguments = next(children(node, "type_arguments"), None)
    if arguments is not None and arguments.named_child_count:
        return under("[]", promised(TYPES, writer, arguments.named_children[-1]))
    given = next(children(node, "value_arguments"), None)
    first = part_of(given, 0) if given is not None else None
    return under("[]", writer.values(part_of(first, -1))) if first is not None else []


def _of_elvis(writer: Writer, node: Node) -> Values:
    parts = [node.child_by_field_name(side) for side in ("left", "right")]
    return [value for part in parts for value in writer.values(part)]


EXPRESSIONS = Expressions(
    names=frozenset(),
    members={},
    calls={"call_expression": (0,), "infix_expression": (0, 1)},
    indexes={},
    same={"parenthesized_expression": 0},
    contents={
        "call_expression": _of_call,
        "binary_expression": lambda writer, node: _of_elvis(writer, node) if _is_elvis(node) else [],
        "as_expression": lambda writer, node: promised(TYPES, writer, node.child_by_field_name("right")),
    },
    written={
        "identifier": _identifier,
        "user_type": _user_type,
        "navigation_expression": _navigation,
        "this_expression": _this,
        "super_expression": lambda writer, node: "@super",
        "index_expression": _indexed,
        "unary_expression": _unary,
        "as_expression": _cast,
        "binary_expression": lambda writer, node: (
            writer.path(node.child_by_field_name("left")) if _is_elvis(node) else None
        ),
    },
    rewrite=_called,
)


def _is_elvis(node: Node) -> bool:
    operator = node.child_by_field_name("operator")
    return operator is not None and operator.type == "?:"
