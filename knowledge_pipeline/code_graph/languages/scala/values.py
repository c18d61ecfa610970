"""What Scala's types promise and its expressions hold."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, TypeSyntax
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.code_graph.values import Values, add_prefix, own_value
from knowledge_pipeline.syntax.nodes import children_of_type, part_of

TYPES = TypeSyntax(
    generic={"generic_type": "type_arguments"},
    arrays={"repeated_parameter_type": "type"},
    transparent={"annotated_type": 0, "lazy_parameter_type": "type", "compound_type": "base"},
    functions={"function_type": "return_type"},
)
BUILTINS = split_words(
    """
    Any AnyRef AnyVal Unit Nothing Null Int Long Short Byte Char Boolean Float Double String Array List Seq
    IndexedSeq Vector Set Map Option Some None Either Left Right Iterator Iterable Traversable Stream
    LazyList Nil Range Tuple2 Function1 Function2 PartialFunction Ordering Numeric BigInt BigDecimal
    StringBuilder Throwable Exception RuntimeException Error IllegalArgumentException Object Class
    IllegalStateException NullPointerException UnsupportedOperationException IndexOutOfBoundsException
    NoSuchElementException NumberFormatException Integer Runnable Thread System Math StringContext Product
    Serializable println print require assert assume ensuring identity implicitly summon locally tailrec
    inline deprecated SuppressWarnings throws volatile transient App Symbol Equiv
    """
)
_CALLBACK_METHODS = split_words(
    """
    map foreach filter filterNot flatMap exists forall find collect count partition groupBy sortBy takeWhile
    dropWhile maxBy minBy withFilter foldLeft foldRight reduce sortWith span mapValues zipWithIndex
    distinctBy tapEach map2 indexWhere fold getOrElseUpdate recover onComplete andThen
    """
)


def _access_path(writer: PathWriter, node: Node) -> str | None:
    """`a.b`; `Store.this` as an instance of `Store`."""
    of, name = writer.path(part_of(node, "value")), writer.text(part_of(node, "field"))
    if not of or not name:
        return None
    return f"{of}()" if name == "this" else f"{of}.{name}"


def _generic_path(writer: PathWriter, node: Node) -> str | None:
    """`f[T]` is f; `x.asInstanceOf[T]` an instance of T."""
    called = part_of(node, "function")
    if writer.text(part_of(called, "field")) != "asInstanceOf":
        return writer.path(called)
    return own_value(writer.values_of_type(part_of(part_of(node, "type_arguments"), 0)))


def _wildcard_path(writer: PathWriter, node: Node) -> str | None:
    """`_` of `xs.map(_.weigh())`: an element of `xs`."""
    around, inner = node.parent, node
    while around is not None and around.type != "arguments":
        around, inner = around.parent, around
    values = lambda_argument_values(writer, inner)
    return values[0][1] if values else None


def lambda_argument_values(writer: PathWriter, argument: Node) -> Values:
    """What a function that is an argument is given by the one that it is handed to."""
    call = argument.parent
    while call is not None and call.type in ("arguments", "block", "case_block", "case_clause"):
        call = call.parent
    called = part_of(call, "function") if call is not None and call.type == "call_expression" else None
    if called is None or called.type != "field_expression":
        return []
    return writer.handed_values(part_of(called, "value"), part_of(called, "field"), _CALLBACK_METHODS)


def _call_values(writer: PathWriter, node: Node) -> Values:
    """What `List(item)` and `Some(item)` hold."""
    if writer.short_text(part_of(node, "function"), 20) not in _COLLECTION_FACTORIES:
        return []
    return add_prefix("[]", writer.values(part_of(part_of(node, "arguments"), 0)))


_COLLECTION_FACTORIES = split_words(
    "List Seq Vector Set Array Some Option IndexedSeq Iterator Right Left Future"
)


def _match_values(writer: PathWriter, node: Node) -> Values:
    clauses = list(children_of_type(part_of(node, "body"), "case_clause"))[:20]
    return [value for each in clauses for value in writer.values(part_of(each, -1))]


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "type_identifier"}),
    calls={
        "call_expression": ("function",), "instance_expression": (0,),
        "infix_expression": ("left", "operator"),
    },
    transparent={
        "parenthesized_expression": 0, "generic_type": "type", "method_value": 0, "ascription_expression": 0,
    },
    choices={"if_expression": ("consequence", "alternative")},
    contents={
        "call_expression": _call_values,
        "instance_expression": lambda writer, node: writer.values_of_type(part_of(node, 0)),
        "block": lambda writer, node: writer.values(part_of(node, -1)), "match_expression": _match_values,
    },
    path_writers={
        "stable_type_identifier": PathWriter.dotted_text, "stable_identifier": PathWriter.dotted_text,
        "field_expression": _access_path, "generic_function": _generic_path, "wildcard": _wildcard_path,
    },
    types=TYPES,
)  # fmt: skip
