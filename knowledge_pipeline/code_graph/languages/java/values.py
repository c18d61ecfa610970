"""What Java's types promise and its expressions hold."""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Expressions, Writer
from knowledge_pipeline.code_graph.languages.declared_types import Types, plain_text, promised
from knowledge_pipeline.code_graph.languages.words import words

BUILTINS = words(
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

TYPES = Types(
    generic={"generic_type": "type_arguments"},
    arrays={"array_type": "element"},
    same={"annotated_type": -1, "wildcard": -1},
    skipped=frozenset({"var"}),
)


def _access(writer: Writer, node: Node) -> str | None:
    """`a.b`; `Outer.this` as an instance of `Outer`."""
    of, field = writer.path(node.child_by_field_name("object")), node.child_by_field_name("field")
    if of is None or field is None:
        return None
    return f"{of}()" if field.type == "this" else f"{of}.{writer.text(field)}"


def _cast(writer: Writer, node: Node) -> str | None:
    kind = node.child_by_field_name("type")
    path = writer.path(kind)
    return f"{path}()" if path else None


def _scoped(writer: Writer, node: Node) -> str | None:
    """`Map.Entry`, its annotations and arguments left out."""
    parts = [writer.path(each) for each in node.named_children if "annotation" not in each.type]
    return ".".join(part for part in parts if part) or None


EXPRESSIONS = Expressions(
    names=frozenset({"identifier", "type_identifier", "this", "super"}),
    members={},
    calls={"method_invocation": ("object", "name"), "object_creation_expression": ("type",)},
    indexes={"array_access": ("array", "index")},
    same={
        "parenthesized_expression": 0,
        "assignment_expression": "right",
        "generic_type": 0,
        "annotated_type": -1,
    },
    choices={"ternary_expression": ("consequence", "alternative")},
    contents={
        "cast_expression": lambda writer, node: promised(TYPES, writer, node.child_by_field_name("type"))
    },
    written={
        "field_access": _access,
        "cast_expression": _cast,
        "scoped_type_identifier": _scoped,
        "scoped_identifier": plain_text,
    },
    bare="@around.",
)
