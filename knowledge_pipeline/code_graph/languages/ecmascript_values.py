"""What expressions and types of JavaScript and TypeScript hold, and what definitions are called.

`Store[]` holds `Store()`; what `Promise<Store>` promises is written as what `await` makes of it: `Store()`.
A function within an object literal has the name of what holds the object: `retry` of `const client = {
http: { retry() {} } }` is "client.http.retry".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Value,
    Values,
    add_prefix,
    called_values,
    iterated_values,
    own_value,
    parent_scope,
    step_values,
)
from knowledge_pipeline.code_graph.facts_builder import VARIABLE_KINDS, ExpressionSyntax, FactsBuilder
from knowledge_pipeline.code_graph.languages.base import load_words, split_words
from knowledge_pipeline.syntax.grammars import children_of, children_of_type, has_type, part_of
from knowledge_pipeline.syntax.outline import TYPE_KINDS, OutlineDefinition

_WORDS = load_words("ecmascript")

_MAX_DEPTH = 8
_PARAMETERS = frozenset({"required_parameter", "optional_parameter"})
MAX_PARAMETERS = 5  # so many parameters of a function are told to what it is given to

_MAPPING_TYPES = ("Map", "ReadonlyMap", "WeakMap", "Record")
_REF_TYPES = ("RefObject", "MutableRefObject", "Ref", "ForwardedRef", "LegacyRef")
_IGNORED_TYPES = ("Function", "Object", "String", "Number", "Boolean", "Symbol", "Date", "RegExp", "bigint")
_GENERIC_TYPES = frozenset({*_MAPPING_TYPES, *_REF_TYPES, "ReturnType", "InstanceType"})


def _first_child(node: Node) -> Node | None:
    return next((child for child in node.named_children if child.type != "comment"), None)


_COMPOSITE_NODES = split_words(
    """
    type_annotation union_type intersection_type parenthesized_type readonly_type optional_type
    rest_type flow_maybe_type constraint default_type asserts opting_type_annotation
    omitting_type_annotation adding_type_annotation
    """
)

_MAX_STEPS = 12
_MAX_NAME_PARTS = 19
_NAME_TRANSPARENT_NODES = split_words(
    """
    object arguments call_expression new_expression as_expression satisfies_expression array
    parenthesized_expression non_null_expression await_expression ternary_expression
    """
)

_FIELDS = frozenset({"public_field_definition", "field_definition"})
_NOT_OWNERS = frozenset({"module", "exports", "prototype", "this", "window", "self", "globalThis"})
_IDENTIFIERS = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_UNSAFE_NAME_CHARS = re.compile(r"[.()\[\]]")


def to_segment(name: str) -> str:
    """A name as one segment of a path: `[Symbol.iterator]` is "@@iterator"."""
    name = " ".join(name.split()).strip("\"'`")[:80]
    if name.startswith("["):
        return "@@" + _UNSAFE_NAME_CHARS.sub("_", name.strip("[]").rpartition(".")[2].strip("\"'`"))
    return _UNSAFE_NAME_CHARS.sub("_", name)


def _list_holder_names(node: Node) -> list[str]:
    """The names of what holds a function of an object literal, outermost first."""
    names: list[str] = []
    around = node.parent if node.type in ("pair", "method_definition") else None
    if not has_type(around, "object"):
        return names
    for _ in range(_MAX_STEPS):
        around = around.parent
        if around is None or around.type not in _NAME_TRANSPARENT_NODES | _NAMING_NODES:
            break
        name, goes_on = _naming_of(around)
        names += [to_segment(name)] if name else []
        if not goes_on:
            break
    return names[::-1]


_NAMING_NODES = frozenset(
    {"pair", "variable_declarator", "assignment_expression", "export_statement", *_FIELDS}
)


def _naming_of(node: Node) -> tuple[str, bool]:
    """The name that a node gives to what it holds, and whether what is around it gives one, too."""
    if node.type in _NAME_TRANSPARENT_NODES:
        return "", True
    if node.type == "export_statement":
        return "default", False
    field = "key" if node.type == "pair" else "left" if node.type == "assignment_expression" else "name"
    name_node = part_of(node, field) or part_of(node, "property")
    if name_node is None or name_node.type in ("object_pattern", "array_pattern"):
        return "", False
    text = (name_node.text or b"").decode(errors="replace")[:200]
    if node.type == "assignment_expression":
        owners = [word for word in _IDENTIFIERS.findall(text) if word not in _NOT_OWNERS]
        text = owners[-1] if owners else ""
    return text, node.type == "pair"


_MAX_PARTS = 100
_MAX_TUPLE_PLACES = 8
_UNSAFE_CHARS = re.compile(r"[.()\[\]\s]")

# Calls that hand on their first argument, or what it holds.
_LAZY_CALLS = ("lazy", "React.lazy", "defineAsyncComponent")  # of functions that load a module
_MEMO_CALLS = ("useMemo", "React.useMemo", "computed", *_LAZY_CALLS)
_HOLDER_CALLS = _WORDS.by_word("holder_calls")
_ELEMENT_METHODS = ("find", "findLast", "at", "pop", "shift")
_MAPPING_METHODS = ("map", "flatMap", "then")


def list_arguments(node: Node) -> list[Node]:
    """What a call is given."""
    arguments = part_of(node, "arguments")
    listed = children_of(arguments) if has_type(arguments, "arguments") else []
    return [child for child in listed if child.type != "comment"]


def loaded_module_name(module: str) -> str:
    """The name by which a file knows a module that it loads within an expression."""
    return "require " + _UNSAFE_CHARS.sub("·", module)


def unwrap_expression(node: Node | None) -> Node | None:
    """An expression without what says nothing of its value: parentheses, `await`, `!`, `as const`."""
    for _ in range(10):
        if node is None or node.type not in _TRANSPARENT_NODES:
            return node
        node = part_of(node, 0)
    return node


_TRANSPARENT_NODES = {
    "parenthesized_expression": 0, "await_expression": 0, "non_null_expression": 0,
    "instantiation_expression": 0, "assignment_expression": "right", "sequence_expression": -1,
}  # fmt: skip


class EcmaScriptValues(FactsBuilder):
    """Reads the expressions and types of JavaScript and TypeScript."""

    def _qualify(self, definition: OutlineDefinition, enclosing: str) -> str:
        """The qualified name of a definition, by that of the one around it; of its last twenty parts."""
        parent = definition.parent
        # what holds a function names it, by `_list_holder_names`
        while parent is not None and parent.kind in VARIABLE_KINDS:
            parent, enclosing = parent.parent, parent_scope(enclosing)
        parts = enclosing.split(".")[-_MAX_NAME_PARTS:] if enclosing else []
        node = definition.node
        of = part_of(part_of(node, "left"), "object") if node.type == "assignment_expression" else None
        if has_type(of, "this"):
            outer = parent.parent if parent is not None else None
            parts = parts[:-1] if outer is not None and outer.kind in TYPE_KINDS else parts
        else:
            parts += _list_holder_names(node)
        owner = [to_segment(definition.owner)] if definition.owner else []
        return ".".join(part for part in (*parts, *owner, to_segment(definition.name)) if part)

    def values_of_type(self, node: Node | None, depth: int = 0) -> Values:
        """What a type says of a name, as (suffix, path): ("[]", "Store()") of `Store[]`."""
        if node is None or depth > _MAX_DEPTH:
            return []
        if node.type in self._type_readers:
            return list(self._type_readers[node.type](self, node, depth + 1))
        parts = node.named_children if node.type in _COMPOSITE_NODES else []
        return [value for part in parts for value in self.values_of_type(part, depth + 1)]

    def _named_values(self, node: Node, depth: int) -> Values:
        name = "".join(self.text(node).split())
        return [("", f"{name}()")] if len(name) < 100 and name not in _IGNORED_TYPES else []

    def _generic_values(self, node: Node, depth: int) -> Iterator[Value]:
        name_node, listed = part_of(node, "name"), children_of(part_of(node, "type_arguments"))
        name, arguments = self.text(name_node), [one for one in listed if one.type != "comment"]
        wrappers, collections = _WORDS["wrappers"], _WORDS["collections"]
        if not arguments or not (name in wrappers or name in collections or name in _GENERIC_TYPES):
            yield from self._named_values(name_node, depth) if name_node is not None else ()
            return
        first = self.values_of_type(arguments[0], depth)
        if name in wrappers:
            yield from first
        elif name in collections:
            yield from (("", f"{name}()"), *add_prefix("[]", first))
        elif name in _MAPPING_TYPES:
            elements = self.values_of_type(arguments[-1], depth)
            yield from (("", f"{name}()"), *add_prefix("[]", elements))
            if name != "Record":
                yield from (*add_prefix("[][0]", first), *add_prefix("[][1]", elements))
        elif name in _REF_TYPES:
            yield from add_prefix(".current", first)
        else:
            yield from ((suffix, f"{value}()") for suffix, value in first)

    def _tuple_values(self, node: Node, depth: int) -> Iterator[Value]:
        yield "", "Array()"
        for position, child in enumerate(node.named_children[:20]):
            rest = child.type == "rest_type"
            yield from add_prefix("" if rest else f"[{position}]", self.values_of_type(child, depth))

    def _callback_parameter_values(self, node: Node, depth: int = 0) -> Iterator[Value]:
        """What a function gives to functions that it is given: (".@0.@1", "Store()")."""
        listed = children_of_type(part_of(node, "parameters"), "required_parameter", "optional_parameter")
        parameters = [child for child in listed if not has_type(part_of(child, "pattern"), "this")]
        for position, parameter in enumerate(parameters[:MAX_PARAMETERS]):
            yield from add_prefix(f".@{position}", self.values_of_type(part_of(parameter, "type"), depth))

    def _type_query_values(self, node: Node, depth: int) -> Values:
        path = self.path(_first_child(node))
        return [("", path)] if path else []

    def _lookup_values(self, node: Node, depth: int) -> Iterator[Value]:
        """`Store["rows"]`, `Stores[number]`."""
        parts = node.named_children
        key = self.text(parts[-1]).strip("\"'`") if len(parts) > 1 else ""
        step = "[]" if key == "number" else f".{key}" if key.isidentifier() else ""
        for suffix, value in self.values_of_type(parts[0], depth) if step else ():
            if suffix.startswith(step):
                yield suffix[len(step) :], value
            elif not suffix:
                yield "", value + step

    def _object_type_values(self, node: Node, depth: int) -> Iterator[Value]:
        for child in node.named_children[:60]:
            key = self.text(part_of(child, "name")).strip("\"'`")
            if key.isidentifier() and child.type == "property_signature":
                yield from add_prefix(f".{key}", self.values_of_type(part_of(child, "type"), depth))
            elif key.isidentifier() and child.type == "method_signature":
                result = self.values_of_type(part_of(child, "return_type"), depth)
                yield from add_prefix(f".{key}()", result)

    _type_readers: Mapping[str, Callable[[Any, Node, int], Iterable[Value]]] = {
        "type_identifier": _named_values, "nested_type_identifier": _named_values,
        "generic_type": _generic_values,
        "array_type": lambda reader, node, depth: [
            ("", "Array()"), *add_prefix("[]", reader.values_of_type(_first_child(node), depth))
        ],
        "tuple_type": _tuple_values,
        "function_type": lambda reader, node, depth: [
            *add_prefix("()", reader.values_of_type(part_of(node, "return_type"), depth)),
            *reader._callback_parameter_values(node, depth),
        ],
        "constructor_type": lambda reader, node, depth: [
            (suffix, value.removesuffix("()"))
            for suffix, value in reader.values_of_type(part_of(node, "type"), depth)
            if not suffix
        ],
        "type_query": _type_query_values, "lookup_type": _lookup_values, "object_type": _object_type_values,
        "conditional_type": lambda reader, node, depth: [
            value
            for part in ("consequence", "alternative")
            for value in reader.values_of_type(part_of(node, part), depth)
        ],
        "this_type": lambda reader, node, depth: [("", "@self")],
    }  # fmt: skip

    def _imported_module(self, node: Node) -> str | None:
        """The module of `require("./m")` or `import("./m")`; None for other expressions."""
        called = part_of(node, "function") if node.type == "call_expression" else None
        is_require = has_type(called, "identifier") and self.short_text(called, 8) == "require"
        arguments = list_arguments(node) if is_require or has_type(called, "import") else []
        return self._string_value(arguments[0]) if arguments else None

    def _string_value(self, node: Node | None) -> str | None:
        text = self.short_text(node, 300)[1:-1] if has_type(node, "string", "template_string") else ""
        return text if text and "${" not in text and "\n" not in text and "\t" not in text else None

    def _rewrite_call(self, node: Node) -> str | None:
        """`require("./m")` as its module, `f.bind(x)` as `f`; None for other calls."""
        module, called = self._imported_module(node), part_of(node, "function")
        if module is not None:
            return loaded_module_name(module)
        is_bind = self.short_text(part_of(called, "property"), 10) == "bind"
        return (
            self.path(part_of(called, "object"))
            if is_bind and has_type(called, "member_expression")
            else None
        )

    def _call_values(self, node: Node) -> Iterator[Value]:
        called = part_of(node, "function")
        if called is None:
            return
        name, arguments = self.short_text(called, 60), list_arguments(node)
        if name in _WORDS["pass_through_calls"] and arguments:
            for argument in arguments[:4] if name == "Object.assign" else arguments[:1]:
                yield from self.values(argument)
        elif name in _MEMO_CALLS and arguments:
            results = called_values(self.values(arguments[0]))
            results = step_values(results, ".default") if name in _LAZY_CALLS else results
            yield from (*results, *add_prefix(".value", results if name == "computed" else ()))
        elif name in _HOLDER_CALLS:
            content = self.values_of_type(part_of(part_of(node, "type_arguments"), 0))
            content = content or (self.values(arguments[0]) if arguments else [])
            yield from add_prefix(_HOLDER_CALLS[name], content)
        elif called.type == "member_expression":
            yield from self._method_values(called, arguments)

    def _method_values(self, callee: Node, call_arguments: list[Node]) -> Iterator[Value]:
        name, of = self.short_text(part_of(callee, "property"), 20), part_of(callee, "object")
        path = self.path(callee) if name in _ELEMENT_METHODS or name in _WORDS["same_methods"] else None
        if path:
            yield "", f"{path}()"
        if name in _WORDS["same_methods"]:
            yield from (value for value in self.values(of) if value[0])
        elif name in _ELEMENT_METHODS:
            yield from (value for value in iterated_values(self.values(of)) if value[0] or not path)
        elif name in _MAPPING_METHODS and call_arguments and of is not None:
            results = called_values(self.values(call_arguments[0]))
            yield from results if name == "then" else add_prefix("[]", results)

    def _new_values(self, node: Node) -> Iterator[Value]:
        called, types = part_of(node, "constructor"), children_of(part_of(node, "type_arguments"))
        name = self.text(called) if has_type(called, "identifier") and types else ""
        if path := self.path(node):
            yield "", path
        if name in ("Map", "WeakMap"):
            yield from add_prefix("[]", self.values_of_type(types[-1]))
            yield from add_prefix("[][1]", self.values_of_type(types[-1]))
        elif name in ("Set", "WeakSet", "Array"):
            yield from add_prefix("[]", self.values_of_type(types[0]))

    def _object_values(self, node: Node) -> Iterator[Value]:
        for child in node.named_children[:_MAX_PARTS]:
            if child.type == "shorthand_property_identifier":
                yield f".{self.text(child)}", self.text(child)
            elif child.type == "spread_element":
                yield from self.values(part_of(child, 0))
            elif child.type in ("pair", "method_definition"):
                key = to_segment(self.text(part_of(child, "key") or part_of(child, "name")))
                defined = self.definition_names.get((child.start_byte, child.end_byte))
                if defined and key:
                    yield f".{key}", f"@file.{defined}"
                elif key:
                    yield from add_prefix(f".{key}", self.values(part_of(child, "value")))

    def _array_values(self, node: Node) -> Iterator[Value]:
        parts = [child for child in node.named_children[:_MAX_PARTS] if child.type != "comment"]
        spread = any(part.type == "spread_element" for part in parts)
        for position, part in enumerate(parts):
            if part.type == "spread_element":
                yield from add_prefix("[]", iterated_values(self.values(part_of(part, 0))))
            else:
                at = "[]" if spread or len(parts) > _MAX_TUPLE_PLACES else f"[{position}]"
                yield from add_prefix(at, self.values(part))

    def _function_values(self, node: Node) -> Iterator[Value]:
        """What a function without a name gives; one with a name is followed by it."""
        declared, body = self.values_of_type(part_of(node, "return_type")), part_of(node, "body")
        if declared or not has_type(body, "statement_block"):
            yield from add_prefix("()", declared or self.values(body))
            return
        for child in children_of(body)[-3:]:
            if child.type == "return_statement":
                yield from add_prefix("()", self.values(part_of(child, 0)))

    def _choice_values(self, node: Node) -> Values:
        sign = part_of(node, "operator")
        left = part_of(node, "left") if has_type(sign, "||", "??") else None
        right = part_of(node, "right") if has_type(sign, "&&", "||", "??") else None
        return [*self.values(left), *self.values(right)]

    def _cast_values(self, node: Node) -> Values:
        parts, declared = node.named_children, list[Value]()
        if node.type == "type_assertion":
            parts = parts[::-1]
        if node.type != "satisfies_expression" and len(parts) > 1:
            types = parts[1].named_children if parts[1].type == "type_arguments" else parts[1:2]
            declared = [value for kind in types for value in self.values_of_type(kind)]
        return declared or self.values(parts[0] if parts else None)

    expressions = ExpressionSyntax(
        names=frozenset({"identifier", "this", "type_identifier", "shorthand_property_identifier"}),
        members={
            "member_expression": ("object", "property"), "nested_type_identifier": ("module", "name"),
            "nested_identifier": ("object", "property"),
        },
        calls={"call_expression": ("function",), "new_expression": ("constructor",)},
        indexes={"subscript_expression": ("object", "index")}, transparent=_TRANSPARENT_NODES,
        choices={"ternary_expression": ("consequence", "alternative")},
        contents={
            "call_expression": _call_values, "new_expression": _new_values, "object": _object_values,
            "array": _array_values, "arrow_function": _function_values,
            "function_expression": _function_values, "binary_expression": _choice_values,
            "as_expression": _cast_values,
            "satisfies_expression": _cast_values, "type_assertion": _cast_values,
        },
        path_writers=dict.fromkeys(
            ("as_expression", "satisfies_expression", "type_assertion"),
            lambda reader, node: own_value(reader._cast_values(node)),
        ),
    )  # fmt: skip
