"""What Java's types promise and its expressions hold."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import ExpressionSyntax, PathWriter, TypeSyntax
from knowledge_pipeline.code_graph.languages.words import split_words
from knowledge_pipeline.syntax.nodes import part_of

BUILTINS = split_words(
    """
    String Object Integer Long Short Byte Character Boolean Float Double Number Void Math StrictMath
    System Thread Runnable Iterable Comparable CharSequence StringBuilder StringBuffer Class
    ClassLoader Enum Record Process ProcessBuilder Runtime ThreadLocal InheritableThreadLocal
    AutoCloseable Cloneable Appendable Readable Package Module StackTraceElement Throwable Exception
    RuntimeException Error AssertionError ArithmeticException ArrayIndexOutOfBoundsException
    ArrayStoreException ClassCastException ClassNotFoundException CloneNotSupportedException
    IllegalAccessException IllegalArgumentException IllegalMonitorStateException IllegalStateException
    IndexOutOfBoundsException InstantiationException InterruptedException LinkageError
    NegativeArraySizeException NoClassDefFoundError NoSuchFieldException NoSuchMethodException
    NullPointerException NumberFormatException OutOfMemoryError ReflectiveOperationException
    SecurityException StackOverflowError StringIndexOutOfBoundsException UnsupportedOperationException
    ExceptionInInitializerError VirtualMachineError Override Deprecated SuppressWarnings SafeVarargs
    FunctionalInterface var
    """
)
"""Names of `java.lang`, which every file sees."""

TYPES = TypeSyntax(
    generic={"generic_type": "type_arguments"},
    arrays={"array_type": "element"},
    transparent={"annotated_type": -1, "wildcard": -1},
    ignored=frozenset({"var"}),
)


def _access_path(writer: PathWriter, node: Node) -> str | None:
    """`a.b`; `Outer.this` as an instance of `Outer`."""
    of, field = writer.path(part_of(node, "object")), part_of(node, "field")
    if of is None or field is None:
        return None
    return f"{of}()" if field.type == "this" else f"{of}.{writer.text(field)}"


def _scoped_path(writer: PathWriter, node: Node) -> str | None:
    """`Map.Entry`, its annotations and arguments left out."""
    parts = [writer.path(each) for each in node.named_children if "annotation" not in each.type]
    return ".".join(part for part in parts if part) or None


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "type_identifier", "this", "super"}),
    calls={"method_invocation": ("object", "name"), "object_creation_expression": ("type",)},
    indexes={"array_access": ("array", "index")},
    transparent={
        "parenthesized_expression": 0, "assignment_expression": "right", "generic_type": 0,
        "annotated_type": -1,
    },
    choices={"ternary_expression": ("consequence", "alternative")}, casts={"cast_expression": "type"},
    path_writers={
        "field_access": _access_path, "scoped_type_identifier": _scoped_path,
        "scoped_identifier": PathWriter.dotted_text,
    },
    implicit_receiver="@around.", types=TYPES,
)  # fmt: skip
