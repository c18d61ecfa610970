"""What Ruby's code says: files that are loaded, what classes take in, what variables are given.

An instance's variable `@rows` is written as its member "rows@".
Source: https://docs.ruby-lang.org/en/master/syntax_rdoc.html
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.expression_paths import Expressions, Writer, part_of
from knowledge_pipeline.code_graph.facts import Import, SymbolKind
from knowledge_pipeline.code_graph.facts_builder import Extraction, Reading
from knowledge_pipeline.code_graph.languages.declared_types import give
from knowledge_pipeline.code_graph.languages.visibility import after_private
from knowledge_pipeline.code_graph.languages.words import words
from knowledge_pipeline.syntax.outline import Definition

BUILTINS = words(
    """
    puts print p pp raise require require_relative load attr_reader attr_writer attr_accessor include extend
    prepend private public protected module_function lambda proc loop catch throw format sprintf rand
    sleep freeze Integer Float String Array Hash Symbol Object BasicObject Module Class Kernel Comparable
    Enumerable Struct Proc Range Regexp Time Exception StandardError ArgumentError RuntimeError TypeError
    NameError NoMethodError KeyError IndexError IOError NotImplementedError StopIteration Set File Dir IO
    Math Process Thread Mutex Queue Random Rational Complex Numeric Method Enumerator ENV ARGV STDOUT
    STDERR STDIN RUBY_VERSION ObjectSpace GC Marshal Signal Encoding NilClass TrueClass FalseClass
    block_given? binding caller exit abort at_exit gets private_constant define_method alias_method
    instance_variable_get instance_variable_set respond_to? send public_send is_a? nil? dup tap
    """
)
_LOADS = words("require require_relative load autoload")
_TAKES_IN = words("include extend prepend")
_FIELDS = {"attr_reader": "r", "attr_writer": "w", "attr_accessor": "rw"}
_HANDS_OUT = words(
    "each map select reject find detect each_with_index flat_map any? all? sum sort_by min_by max_by"
)


def _resolved(writer: Writer, node: Node) -> str | None:
    """`Shop::Store` as `Shop.Store`."""
    text = "".join(writer.text(node).split()) if node.end_byte - node.start_byte < 160 else ""
    parts = [part for part in text.split("::") if part]
    return ".".join(parts) if parts and all(part.isidentifier() for part in parts) else None


def _field(writer: Writer, node: Node) -> str:
    return f"self.{writer.text(node).lstrip('@')}@"


def _element(writer: Writer, node: Node) -> str | None:
    path = writer.path(node.child_by_field_name("object"))
    return f"{path}[]" if path else None


def _class_of(writer: Writer, node: Node) -> str | None:
    """What `Store.new` makes an instance of."""
    method, of = node.child_by_field_name("method"), node.child_by_field_name("receiver")
    if method is None or writer.text(method) != "new":
        return None
    return writer.path(of) if of is not None else "@class"


def _made(writer: Writer, node: Node) -> str | None:
    of = _class_of(writer, node)
    return f"{of}()" if of else None


_EXPRESSIONS = Expressions(
    names=words("identifier constant self"),
    members={},
    calls={"call": ("receiver", "method")},
    indexes={},
    same={"parenthesized_statements": 0, "assignment": "right", "operator_assignment": "right"},
    choices={"conditional": ("consequence", "alternative"), "binary": ("left", "right")},
    written={
        "scope_resolution": _resolved,
        "instance_variable": _field,
        "class_variable": _field,
        "element_reference": _element,
    },
    rewrite=_made,
    bare="@around.",
)


def _kind(each: Definition) -> SymbolKind | None:
    """A module has methods, and is taken in by classes."""
    if each.kind == "module":
        return "interface"
    of_module = each.parent is not None and each.parent.kind == "module"
    return "method" if each.kind == "function" and of_module else None


def _superclass(reading: Reading, node: Node) -> None:
    of = part_of(node, 0)
    if of is not None and of.type in ("constant", "scope_resolution"):
        reading.use("extends", reading.writer.path(of), of, reading.scope(node))


def _arguments(node: Node) -> list[Node]:
    given = node.child_by_field_name("arguments")
    return given.named_children if given is not None else []


def _sent(reading: Reading, node: Node) -> None:
    """Calls that say something: of files, mixins, fields; and blocks, to which elements are given."""
    method = node.child_by_field_name("method")
    name = reading.text(method) if method is not None else ""
    scope, receiver = reading.scope(node), node.child_by_field_name("receiver")
    of = _class_of(reading.writer, node)
    reading.use("calls", of or (reading.writer.callee(node) if method is not None else None), method or node)
    if of and receiver is not None:
        reading.skip(receiver)
    if receiver is None:
        if name in _LOADS:
            _load(reading, node, name)
        elif name in _TAKES_IN and scope:
            for each in _arguments(node):
                if each.type in ("constant", "scope_resolution"):
                    reading.use("implements", reading.writer.path(each), each, scope)
                    reading.skip(each)
        elif name in _FIELDS and scope:
            for each in _arguments(node):
                _accessor(reading, scope, each, _FIELDS[name])
    elif name in _HANDS_OUT:
        _block(reading, node)


def _load(reading: Reading, node: Node, name: str) -> None:
    given = _arguments(node)
    if given and given[-1].type == "string":
        path = reading.text(given[-1]).strip("\"'")
        if path and not {"\t", "\n"} & set(path):
            path = f"./{path}" if name == "require_relative" else path
            reading.imports.append(Import(path, "", "", node.start_point.row + 1))


def _accessor(reading: Reading, scope: str, symbol: Node, modes: str) -> None:
    name = reading.text(symbol).strip(":\"'")
    if not name.isidentifier():
        return
    reading.define(f"{scope}.{name}", "method", symbol)
    if "r" in modes:
        reading.bind(f"{scope}.{name}", "@()", f"self.{name}@")


def _block(reading: Reading, node: Node) -> None:
    block, of = node.child_by_field_name("block"), reading.writer.path(node.child_by_field_name("receiver"))
    given = block.child_by_field_name("parameters") if block is not None else None
    first = part_of(given, 0) if given is not None else None
    if of and first is not None and first.type == "identifier":
        give(reading, reading.scope(first), reading.text(first), [("", f"{of}[]")])


def _method(reading: Reading, node: Node) -> None:
    """A method gives what stands last in it."""
    body = node.child_by_field_name("body")
    last = body
    if body is not None and body.type == "body_statement":
        last = part_of(body, -1)
    for suffix, value in reading.writer.values(last):
        reading.bind(reading.scope(node), "@()" + suffix, value)


def _return(reading: Reading, node: Node) -> None:
    given = part_of(node, 0)
    for suffix, value in reading.writer.values(part_of(given, 0) if given is not None else None):
        reading.bind(reading.scope(node), "@()" + suffix, value)


def _parameters(reading: Reading, node: Node) -> None:
    for each in node.named_children:
        name = each if each.type == "identifier" else each.child_by_field_name("name")
        if name is not None:
            give(reading, reading.scope(node), reading.text(name), [])


def _assignment(reading: Reading, node: Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None:
        return
    scope, values = reading.scope(node), reading.writer.values(right)
    if left.type == "identifier":
        name = reading.text(left)
        give(reading, scope, name, [one for one in values if not one[1].startswith(name)])
    elif left.type in ("instance_variable", "class_variable"):
        for suffix, value in values:
            reading.bind(scope, f"{reading.writer.path(left)}{suffix}", value)


def _alone(reading: Reading, node: Node) -> None:
    """A name that stands alone is a call, if it is no variable."""
    name = reading.text(node)
    if (reading.scope(node), name) not in reading.locals:
        reading.use("calls", f"@around.{name}", node)


EXTRACTION = Extraction(
    private=after_private,
    expressions=_EXPRESSIONS,
    handlers={
        "superclass": _superclass,
        "sent": _sent,
        "method": _method,
        "parameters": _parameters,
        "assignment": _assignment,
        "return": _return,
        "alone": _alone,
    },
    builtins=BUILTINS | frozenset(f"@around.{each}" for each in BUILTINS),
    hides_siblings=True,
    kind=_kind,
)
