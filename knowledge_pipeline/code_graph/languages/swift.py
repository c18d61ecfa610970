"""Swift's modules, types and expressions, and how its names lead to definitions.

What a function's parameter is declared to be is bound to `@LABEL` in its scope, `@0` where it has no
label; what it hands to a closure to `@LABEL.@0`, and to `@closure.@0` if that may follow the call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import FileFacts, Values, add_prefix, own_value, tuple_values
from knowledge_pipeline.code_graph.facts_builder import ExpressionSyntax, PathReader, PathWriter, TypeSyntax
from knowledge_pipeline.code_graph.languages.base import Language, load_words
from knowledge_pipeline.code_graph.project import Layout
from knowledge_pipeline.syntax.grammars import (
    ancestor_of_type,
    children_of,
    children_of_type,
    first_of_type,
    part_of,
)

_WORDS = load_words("swift")

_FOLDERS = ("Sources", "Source", "Tests", "Plugins")
_TARGET = re.compile(r"\.(?:executableTarget|testTarget|target|macro|plugin)\s*\(\s*name:\s*\"([^\"]+)\"")
_PATH = re.compile(r"\bpath:\s*\"([^\"]*)\"")
_TARGET_PREFIX = "target "


def is_manifest(path: str) -> bool:
    """Whether a file is a package's."""
    return path.rpartition("/")[2] == "Package.swift"


def parse_manifest(path: str, text: str) -> dict[str, str]:
    """The folders of targets that lie elsewhere than usual: {"target Alamofire": "Source"}."""
    folders: dict[str, str] = {}
    starts = list(_TARGET.finditer(text))
    for target, end in zip(starts, [*(one.start() for one in starts[1:]), len(text)], strict=True):
        written = _PATH.search(text, target.end(), end)
        if written is not None:
            folders[_TARGET_PREFIX + target[1]] = written[1].strip("/")
    return folders


def _find_module_folder(path: str, layout: Layout) -> str:
    """The folder of the module that a file is of; "" for all files that are of none."""
    for folder, _ in layout.get_or_build(_list_targets):
        if path.startswith(f"{folder}/") or not folder:
            return folder
    parts = path.split("/")
    at = next((at for at in range(len(parts) - 2, -1, -1) if parts[at] in _FOLDERS), None)
    if at is None:
        return ""
    return "/".join(parts[: min(at + 2, len(parts) - 1)])


def _module_name_of(root: str, layout: Layout) -> str:
    return next(
        (name for folder, name in layout.get_or_build(_list_targets) if folder == root),
        root.rpartition("/")[2],
    )


def _list_targets(layout: Layout) -> Values:
    modules: Values = []
    for path in sorted(manifest for manifest in layout.paths if is_manifest(manifest)):
        of = path.rpartition("/")[0]
        for key, folder in layout.facts(path).settings.items():
            if key.startswith(_TARGET_PREFIX):
                root = f"{of}/{folder}".strip("/").removesuffix("/.")
                modules.append((root, key.removeprefix(_TARGET_PREFIX)))
    return sorted(modules, key=lambda item: (-len(item[0]), item))


def _index_modules(layout: Layout) -> dict[str, tuple[str, ...]]:
    modules: dict[str, set[str]] = {}
    for path in layout.paths:
        if path.endswith(".swift") and (root := _find_module_folder(path, layout)):
            modules.setdefault(_module_name_of(root, layout), set()).add(root)
    return {name: tuple(sorted(roots)) for name, roots in modules.items()}


_MAX_PARTS = 8


def _special_type_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    """`Self`, metatypes, tuples and compositions; None for all others."""
    if node.type == "user_type":
        names = [writer.text(identifier) for identifier in children_of_type(node, "type_identifier")]
        if names == ["Self"]:
            return [("", "@class()")]
        if len(names) > 1 and names[-1] in ("Type", "Protocol"):
            return [("", ".".join(names[:-1]))]
        if names == ["Optional"] and (arguments := first_of_type(node, "type_arguments")) is not None:
            return writer.values_of_type(part_of(arguments, 0), depth + 1)
        return None
    if node.type == "tuple_type":
        items = [part_of(item, -1) for item in children_of_type(node, "tuple_type_item")][:_MAX_PARTS]
        if len(items) == 1:
            return writer.values_of_type(items[0], depth + 1)
        return tuple_values(writer.values_of_type(item, depth + 1) for item in items)
    if node.type == "protocol_composition_type":
        parts = node.named_children[:_MAX_PARTS]
        return [value for part in parts for value in writer.values_of_type(part, depth + 1)]
    return None


TYPES = TypeSyntax(
    generic={"user_type": "type_arguments"}, arrays={"array_type": "name", "dictionary_type": -1},
    transparent={
        "optional_type": "wrapped", "opaque_type": 0, "existential_type": 0, "type_annotation": "name",
        "metatype": 0,
    },
    functions={"function_type": -1}, read_special=_special_type_values,
)  # fmt: skip


def find_result_type(function: Node) -> Node | None:
    """The type that a function gives: it has the same field as its name."""
    names = function.children_by_field_name("name")
    has_name = function.type != "subscript_declaration"
    return names[-1] if len(names) > has_name else None


def find_parameter_type(node: Node) -> Node | None:
    """The type of a parameter: what is named last."""
    names = node.children_by_field_name("name")
    return names[-1] if len(names) > 1 else None


_MAX_UP = 12
_COMPARISONS = ("equality_expression", "comparison_expression")
_CALLBACK_METHODS = _WORDS["callback_methods"]
_FUNCTION_NODES = frozenset(
    {"function_declaration", "property_declaration", "subscript_declaration", "lambda_literal"}
)


def _expected_path(writer: PathWriter, node: Node) -> str | None:
    """A path that is worth what is expected where a node stands."""
    inner = node
    for _ in range(_MAX_UP):
        around = inner.parent
        if around is None:
            return None
        kind = around.type
        if kind in _COMPARISONS:
            sides = [part_of(around, side) for side in ("lhs", "rhs")]
            other = next((side for side in sides if side is not None and side.id != inner.id), None)
            return writer.path(other)
        if kind in _CONTEXT_PATHS:
            return _CONTEXT_PATHS[kind](writer, around)
        if kind not in _TRANSPARENT_NODES or (
            kind in _FIRST_CHILD_NODES and around.children[0].id != inner.id
        ):
            return None
        inner = around
    return None


def closure_argument_path(writer: PathWriter, closure: Node, position: int) -> str | None:
    """What a closure is given by the function that it is an argument of."""
    around = closure.parent
    key = "closure"
    if around is not None and around.type == "value_argument":
        key = _argument_label(writer, around)
    elif (label := closure.prev_named_sibling) is not None and label.type == "simple_identifier":
        key = writer.text(label)
    path = writer.path(part_of(_enclosing_call(closure), 0))
    if not path:
        return None
    of, _, name = path.rpartition(".")
    if of and name in _CALLBACK_METHODS:
        return f"{of}[]" if not position else None
    return f"{path}.@{key}.@{position}"


def _enclosing_call(node: Node) -> Node | None:
    around = node.parent
    while around is not None and around.type in _CALL_PART_NODES:
        around = around.parent
    return around if around is not None and around.type in _CALL_NODES else None


def _argument_label(writer: PathWriter, argument: Node) -> str:
    label = part_of(argument, "name")
    if label is not None:
        return writer.text(label)
    listed = enumerate(children_of(argument.parent)[:20])
    return str(next((at for at, child in listed if child.id == argument.id), 0))


def _argument_path(writer: PathWriter, argument: Node) -> str | None:
    path = writer.path(part_of(_enclosing_call(argument), 0))
    return f"{path}.@{_argument_label(writer, argument)}" if path else None


def _property_path(writer: PathWriter, node: Node) -> str | None:
    return own_value(writer.values_of_type(first_of_type(node, "type_annotation")))


def _result_path(writer: PathWriter, node: Node) -> str | None:
    around: Node | None = node
    while around is not None and around.type not in _FUNCTION_NODES:
        around = around.parent
    if around is None or around.type == "lambda_literal":
        return None
    if around.type == "property_declaration":
        return _property_path(writer, around)
    return own_value(writer.values_of_type(find_result_type(around)))


_CALL_NODES = frozenset({"call_expression", "constructor_expression"})
_CALL_PART_NODES = frozenset({"value_argument", "value_arguments", "call_suffix", "constructor_suffix"})
_CONTEXT_PATHS: Mapping[str, PathReader] = {
    "value_argument": _argument_path, "assignment": lambda writer, node: writer.path(part_of(node, "target")),
    "property_declaration": _property_path, "control_transfer_statement": _result_path,
    "function_body": _result_path, "computed_property": _result_path, "computed_getter": _result_path,
}  # fmt: skip
_FIRST_CHILD_NODES = frozenset({"call_expression", "navigation_expression", "postfix_expression"})
_TRANSPARENT_NODES = _FIRST_CHILD_NODES | {
    "nil_coalescing_expression", "ternary_expression", "tuple_expression", "try_expression",
    "await_expression", "statements",
}  # fmt: skip


BUILTINS = _WORDS["builtins"]

_COLLECTION_CONSTRUCTORS = frozenset({"Array", "Set", "Optional", "ContiguousArray", "ArraySlice"})


def _identifier_path(writer: PathWriter, node: Node) -> str | None:
    """`$0` as what the function that its closure is given to hands to it."""
    text = writer.text(node)
    if not text.startswith("$"):
        return text.strip("`")
    closure = ancestor_of_type(node, "lambda_literal")
    if closure is None or not text[1:].isdigit():
        return None
    return closure_argument_path(writer, closure, int(text[1:]))


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
    of, name = (_expected_path(writer, node) or "").removesuffix("()"), writer.text(target)
    if not of or not name:
        return None
    return of if name == "init" else f"{of}.{name}"


def _tuple_path(writer: PathWriter, node: Node) -> str | None:
    """`(x)` is x."""
    values = node.children_by_field_name("value")
    return writer.path(values[0]) if len(values) == 1 else None


def _is_call(node: Node) -> bool:
    """Whether a call is one: `rows[0]` is not."""
    argument = part_of(first_of_type(node, "call_suffix"), 0)
    return argument is None or argument.type != "value_arguments" or argument.children[0].type != "["


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`rows[0]` as an element; what a closure gives that is called where it stands."""
    called = part_of(node, 0)
    if not _is_call(node):
        path = writer.path(called)
        return f"{path}[]" if path else None
    if called is None or called.type != "lambda_literal":
        return None
    last = part_of(first_of_type(called, "statements"), -1)  # its only expression, or what it returns last
    returns = last is not None and last.type == "control_transfer_statement"
    return own_value(writer.values(part_of(last, "result") if returns else last))


def _call_values(writer: PathWriter, node: Node) -> Values:
    """What `Array(items)` holds."""
    if writer.short_text(part_of(node, 0), 21) not in _COLLECTION_CONSTRUCTORS:
        return []
    argument = first_of_type(part_of(first_of_type(node, "call_suffix"), 0), "value_argument")
    return [("[]", f"{path}[]") for suffix, path in writer.values(part_of(argument, "value")) if not suffix]


def _collection_values(writer: PathWriter, node: Node) -> Values:
    field = "element" if node.type == "array_literal" else "value"
    elements = node.children_by_field_name(field)[:8]
    return [value for element in elements for value in add_prefix("[]", writer.values(element))]


def _tuple_values(writer: PathWriter, node: Node) -> Values:
    parts = node.children_by_field_name("value")
    if len(parts) == 1:
        return writer.values(parts[0])
    return tuple_values(map(writer.values, parts[:8]))


def _branch_values(writer: PathWriter, node: Node) -> Values:
    """`if` and `switch` as expressions: the last one of each branch."""
    entries = list(children_of_type(node, "switch_entry"))[:20] or [node]
    bodies = [body for entry in entries for body in children_of_type(entry, "statements", "if_statement")]
    last = [body if body.type == "if_statement" else part_of(body, -1) for body in bodies]
    return [value for statement in last for value in writer.values(statement)]


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
    rewrite_call=_rewrite_call, is_call=_is_call, types=TYPES,
)  # fmt: skip


_MEMBERS_PREFIX = "members of "


class Swift(Language):
    """Swift, as its language reference says: https://docs.swift.org/swift-book/."""

    name = "swift"
    receiver_keywords: Mapping[str, str] = {"Self": "@class"}
    builtins = BUILTINS
    members_in_scope = True
    has_scattered_members = True
    has_duplicate_type_names = True
    has_extensions = True
    receiver_in_scope = True
    infers_implements = True
    private_to_file = True
    constructor = "init"
    has_memberwise_constructor = True
    call_method = "callAsFunction"
    element_accessors = ("subscript()", "makeIterator().next()")
    container_properties = _WORDS.by_word("container_properties")
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _WORDS["common_methods"]

    def is_star_exported(self, name: str) -> bool:
        """All that a module exports is brought."""
        return True

    def member_home(self, facts: FileFacts) -> str:
        """All files: extensions lie anywhere."""
        return f"{_MEMBERS_PREFIX}{facts.path}"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The folder of a module; of several of one name, in other packages, all."""
        return tuple(f"{root}/" for root in layout.get_or_build(_index_modules).get(name, ()))

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the module that define a name; of any module, for members of a type."""
        files = (file for file in layout.project.files_defining(name) if file.endswith(".swift"))
        if path.startswith(_MEMBERS_PREFIX):
            return tuple(sorted(files))
        root = path.rstrip("/") if path.endswith("/") else _find_module_folder(path, layout)
        return tuple(sorted(file for file in files if _find_module_folder(file, layout) == root))

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`Foundation.URL`; the module itself for all that is in it."""
        return f"{module}.{name}" if name not in ("", "*") else module

    def extend_external_name(self, external: str, step: str) -> str:
        """Of what unknown functions hand to closures nothing is known."""
        return "" if step.startswith(".@") else external + step

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`Shop.Store.get`; the path for a file."""
        module = _module_name_of(_find_module_folder(path, layout), layout)
        return ".".join(part for part in (module, name) if part) if name else path
