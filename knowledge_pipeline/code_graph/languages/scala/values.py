"""What Scala's types promise and its expressions hold."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, part_of
from knowledge_pipeline.code_graph.languages.declared_types import (
    TypeSyntax,
    Values,
    add_prefix,
    children_of_type,
    dotted_text,
    values_of_type,
)
from knowledge_pipeline.code_graph.languages.words import split_words

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


def _scoped_path(writer: PathWriter, node: Node) -> str | None:
    return dotted_text(writer, node)


def _access_path(writer: PathWriter, node: Node) -> str | None:
    """`a.b`; `Store.this` as an instance of `Store`."""
    of, name = writer.path(node.child_by_field_name("value")), node.child_by_field_name("field")
    if not of or name is None:
        return None
    text = writer.text(name)
    return f"{of}()" if text == "this" else f"{of}.{text}"


def _generic_path(writer: PathWriter, node: Node) -> str | None:
    """`f[T]` is f; `x.asInstanceOf[T]` an instance of T."""
    called = node.child_by_field_name("function")
    name = called.child_by_field_name("field") if called is not None else None
    if name is None or writer.text(name) != "asInstanceOf":
        return writer.path(called)
    values = values_of_type(TYPES, writer, part_of(node.child_by_field_name("type_arguments") or node, 0))
    return next((value for suffix, value in values if not suffix), None)


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
    called = (
        call.child_by_field_name("function") if call is not None and call.type == "call_expression" else None
    )
    if called is None or called.type != "field_expression":
        return []
    name, of = called.child_by_field_name("field"), writer.path(called.child_by_field_name("value"))
    known = name is not None and writer.text(name) in _CALLBACK_METHODS
    return [("", f"{of}[]")] if of and known else []


def _call_values(writer: PathWriter, node: Node) -> Values:
    """What `List(item)` and `Some(item)` hold."""
    called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    name = writer.text(called) if called is not None and called.end_byte - called.start_byte < 20 else ""
    if name not in _COLLECTION_FACTORIES or given is None or not given.named_child_count:
        return []
    return add_prefix("[]", writer.values(given.named_children[0]))


_COLLECTION_FACTORIES = split_words(
    "List Seq Vector Set Array Some Option IndexedSeq Iterator Right Left Future"
)


def _block_values(writer: PathWriter, node: Node) -> Values:
    """A block is worth its last expression."""
    return writer.values(part_of(node, -1))


def _new_values(writer: PathWriter, node: Node) -> Values:
    return values_of_type(TYPES, writer, part_of(node, 0))


def _branch_values(writer: PathWriter, node: Node) -> Values:
    parts = [node.child_by_field_name(name) for name in ("consequence", "alternative")]
    return [value for part in parts for value in writer.values(part)]


def _match_values(writer: PathWriter, node: Node) -> Values:
    body = node.child_by_field_name("body")
    clauses = list(children_of_type(body, "case_clause"))[:20]
    return [value for each in clauses for value in writer.values(part_of(each, -1))]


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "type_identifier"}),
    members={},
    calls={
        "call_expression": ("function",),
        "instance_expression": (0,),
        "infix_expression": ("left", "operator"),
    },
    indexes={},
    transparent={
        "parenthesized_expression": 0,
        "generic_type": "type",
        "method_value": 0,
        "ascription_expression": 0,
    },
    contents={
        "call_expression": _call_values,
        "instance_expression": _new_values,
        "block": _block_values,
        "if_expression": _branch_values,
        "match_expression": _match_values,
    },
    path_writers={
        "stable_type_identifier": _scoped_path,
        "stable_identifier": _scoped_path,
        "field_expression": _access_path,
        "generic_function": _generic_path,
        "wildcard": _wildcard_path,
    },
)
