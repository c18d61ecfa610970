"""Go: what its files and go.mod say, and how its names lead to definitions.

A package is a folder; methods lie anywhere in the package of their type.
Sources: https://go.dev/ref/spec, https://go.dev/ref/mod
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    FileFacts,
    Import,
    SymbolKind,
    Value,
    Values,
    add_prefix,
    element_values,
    first_segment,
    own_value,
    tuple_values,
)
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    ExtractionRules,
    FactsBuilder,
    PathWriter,
    TypeSyntax,
)
from knowledge_pipeline.code_graph.languages.base import Language, load_words
from knowledge_pipeline.code_graph.languages.visibility import is_lower_case
from knowledge_pipeline.code_graph.project import Layout
from knowledge_pipeline.syntax.grammars import ancestor_of_type, children_of, children_of_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("go")

BUILTINS = _WORDS["builtins"]


def _result_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    """What several results promise: ("[0]", "Store()"), ("[1]", "error()")."""
    if node.type != "parameter_list":
        return None
    kinds = [
        part_of(parameter, "type")
        for parameter in children_of_type(node, "parameter_declaration")
        for _ in parameter.children_by_field_name("name") or [parameter]
    ]
    results = [writer.values_of_type(kind, depth + 1) for kind in kinds]
    return results[0] if len(results) == 1 else tuple_values(results)


TYPES = TypeSyntax(
    generic={"generic_type": "type_arguments"},
    arrays={
        "slice_type": "element", "array_type": "element", "implicit_length_array_type": "element",
        "map_type": "value", "channel_type": "value",
    },
    transparent={"pointer_type": 0, "parenthesized_type": 0, "type_elem": 0, "type_constraint": 0},
    functions={"function_type": "result"}, read_special=_result_values,
)  # fmt: skip


def _unary_path(writer: PathWriter, node: Node) -> str | None:
    """`&x` and `*x` are x; `<-x` is what it holds."""
    path = writer.path(part_of(node, "operand"))
    return f"{path}[]" if path and node.children[0].type == "<-" else path


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`new(T)` as `T()`, `append(x, y)` as `x`; None for other calls."""
    name, arguments = _callee_name(writer, node), _list_arguments(node)
    if name == "new" and arguments:
        return own_value(writer.values_of_type(arguments[0]))
    if name == "append" and arguments:
        return writer.path(arguments[0])
    return None


def _call_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    name, arguments = _callee_name(writer, node), _list_arguments(node)
    if name in ("make", "new") and arguments:
        yield from writer.values_of_type(arguments[0])
    elif name == "append" and arguments:
        yield from writer.values(arguments[0])
        for argument in arguments[1:]:
            yield from add_prefix("[]", writer.values(argument))


def _conversion_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    kind = part_of(node, "type")
    if kind is not None and kind.type in TYPES.arrays:
        yield from writer.values_of_type(kind)


def _unary_values(writer: PathWriter, node: Node) -> Iterator[Value]:
    if node.children[0].type in ("&", "*"):
        yield from writer.values(part_of(node, "operand"))


def _callee_name(writer: PathWriter, node: Node) -> str:
    called = part_of(node, "function")
    return writer.text(called) if called is not None and called.type == "identifier" else ""


def _list_arguments(node: Node) -> list[Node]:
    return [argument for argument in children_of(part_of(node, "arguments")) if argument.type != "comment"]


EXPRESSIONS = ExpressionSyntax(
    names=frozenset({"identifier", "type_identifier", "package_identifier"}),
    members={"selector_expression": ("operand", "field")},
    calls={"call_expression": ("function",), "type_conversion_expression": ("type",)},
    indexes={"index_expression": ("operand", "index")},
    transparent={
        "parenthesized_expression": 0, "pointer_type": 0, "slice_expression": "operand",
        "generic_type": "type", "type_instantiation_expression": 0, "literal_element": 0,
    },
    casts={"composite_literal": "type", "type_assertion_expression": "type"},
    contents={
        "call_expression": _call_values, "type_conversion_expression": _conversion_values,
        "func_literal": lambda writer, node: add_prefix("()", writer.values_of_type(part_of(node, "result"))),
        "unary_expression": _unary_values,
    },
    path_writers={"qualified_type": PathWriter.dotted_text, "unary_expression": _unary_path},
    rewrite_call=_rewrite_call, types=TYPES,
)  # fmt: skip


_MODULE = re.compile(r'^[ \t]*module[ \t]+"?([^\s"/][^\s"]*)', re.MULTILINE)
TESTS_SUFFIX = "_test/"
"""What stands after the folder of a package whose tests are meant, too."""


def is_manifest(path: str) -> bool:
    """Whether a file is a module's."""
    return path.rpartition("/")[2] == "go.mod"


def parse_manifest(path: str, text: str) -> dict[str, str]:
    """The name of the module."""
    match = _MODULE.search(text)
    return {"module": match[1]} if match else {}


def _find_package_folder(name: str, layout: Layout) -> str | None:
    """The folder of an imported package, "" for the source's own; None where it has none."""
    if name.startswith("."):
        return None
    folders = layout.get_or_build(_index_folders)
    vendored = f"vendor/{name}"
    for module, root in layout.get_or_build(_index_modules):
        if name == module or name.startswith(f"{module}/") or module == "std":
            rest = name if module == "std" else name[len(module) + 1 :]
            folder = f"{root}/{rest}".strip("/")
            if folder in folders:
                return folder
    if vendored in folders:
        return vendored
    return None if layout.get_or_build(_index_modules) else _find_folder_by_suffix(name, folders)


def _list_package_files(folder: str, layout: Layout, *, tests: bool) -> frozenset[str]:
    files = layout.get_or_build(_index_folders).get(folder, frozenset())
    return files if tests else frozenset(file for file in files if not file.endswith("_test.go"))


def _find_front_file(folder: str, layout: Layout) -> str | None:
    """The file that stands for a package: the one with its name, or `doc.go`, or the first."""
    files = _list_package_files(folder, layout, tests=False)
    last = folder.rpartition("/")[2]
    candidates = [f"{folder}/{name}.go".lstrip("/") for name in (last, "doc")]
    return next((file for file in (*candidates, *sorted(files)) if file in files), None)


def _import_path_of(path: str, layout: Layout) -> str:
    """The import path of a file's package; its folder where no module is around it."""
    folder = path.rpartition("/")[0]
    for module, root in layout.get_or_build(_index_modules):
        if not root or folder == root or folder.startswith(f"{root}/"):
            rest = folder[len(root) :].strip("/")
            return rest if module == "std" else f"{module}/{rest}".rstrip("/")
    return folder


def _guess_package_names(name: str) -> list[str]:
    """What a package may be called of which only the import path is known."""
    parts = [part for part in name.split("/") if part]
    if len(parts) > 1 and re.fullmatch(r"v\d+", parts[-1]):
        parts.pop()
    last = re.sub(r"\.v\d+$", "", parts[-1] if parts else name)
    names = {
        last,
        last.removeprefix("go-").removesuffix("-go"),
        last.removeprefix("go."),
        last.rpartition("-")[2],
    }
    return sorted(name for name in names if name.isidentifier())


def _index_folders(layout: Layout) -> Mapping[str, frozenset[str]]:
    folders: dict[str, set[str]] = {}
    for path in layout.paths:
        if path.endswith(".go"):
            folders.setdefault(path.rpartition("/")[0], set()).add(path)
    return {folder: frozenset(files) for folder, files in folders.items()}


def _index_modules(layout: Layout) -> tuple[tuple[str, str], ...]:
    """Modules and their folders; what lies deeper, first."""
    modules: Values = []
    for path in layout.paths:
        if is_manifest(path) and (module := layout.facts(path).settings.get("module")):
            modules.append((module, path.rpartition("/")[0]))
    return tuple(sorted(modules, key=lambda item: (-len(item[1]), -len(item[0]), item)))


def _find_folder_by_suffix(name: str, folders: Mapping[str, frozenset[str]]) -> str | None:
    """Without any go.mod: the folder with which the name ends, if a host stands before it."""
    parts = name.split("/")
    if "." not in parts[0]:
        return None
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end in folders), "" if "" in folders and len(parts) == 3 else None)


def _read_package(builder: FactsBuilder, node: Node) -> None:
    builder.module = builder.text(part_of(node, 0))


def _read_import(builder: FactsBuilder, node: Node) -> None:
    module, local = builder.text(part_of(node, "path")).strip('"`'), builder.text(part_of(node, "name"))
    if not module:
        return
    name = "*" if local == "." else ""
    for local_name in {".": ["*"], "_": [""], "": _guess_package_names(module) or [""]}.get(local, [local]):
        builder.imports.append(Import(module, name, local_name, node.start_point.row + 1))


def _read_type(builder: FactsBuilder, node: Node) -> None:
    """What a defined type holds, or another name for one."""
    name, kind = part_of(node, "name"), part_of(node, "type")
    if name is None or kind is None:
        return
    scope, around = builder.scope(kind), builder.scope(name.parent or node)
    around = around.rpartition(".")[0] if around == scope else around
    if node.type == "type_alias" or kind.type in ("struct_type", "interface_type"):
        path = builder.writer.path(kind)
        if path:
            builder.bind(around, builder.text(name), path)
        return
    elements = [value for value in builder.values_of_type(kind) if value[0]]
    builder.bind_all(scope, "@held", elements, declared=True)


def _read_field(builder: FactsBuilder, node: Node) -> None:
    """Fields are definitions; a type without a name is embedded."""
    scope, kind = builder.scope(node), part_of(node, "type")
    names = node.children_by_field_name("name")
    if scope not in builder.type_names or kind is None or not _is_of_named_type(node):
        return
    for field_name in names:
        builder.add_definition(f"{scope}.{builder.text(field_name)}", "variable", field_name)
        builder.bind_declared(scope, builder.text(field_name), builder.values_of_type(kind), local=False)
    path = builder.writer.path(kind) if not names else None
    if path:
        builder.add_use("extends", path, kind, scope)
        builder.skip_reference(_unwrap_type(kind))
        name = path.rpartition(".")[2]
        builder.add_definition(f"{scope}.{name}", "variable", node)
        builder.bind_declared(scope, name, builder.values_of_type(kind), local=False)


def _is_of_named_type(field: Node) -> bool:
    """Whether a field is of a type with a name, rather than of one within it."""
    struct = field.parent.parent if field.parent is not None else None
    around = struct.parent if struct is not None else None
    return around is not None and around.type in ("type_spec", "type_alias")


def _unwrap_type(node: Node) -> Node:
    """The name in `*pkg.Type[T]`."""
    while node.type in ("pointer_type", "generic_type", "qualified_type") and node.named_child_count:
        node = node.named_children[0]
    return node


def _read_embedded(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    if scope in builder.type_names:
        builder.add_use("extends", builder.writer.path(node), node, scope)
        builder.skip_reference(_unwrap_type(node))


def _read_type_parameter(builder: FactsBuilder, node: Node) -> None:
    """`T` stands for what it is constrained to."""
    bound = next(iter(builder.values_of_type(part_of(node, "type"))), ("", ""))[1]
    for name in node.children_by_field_name("name"):
        builder.bind(builder.scope(node), builder.text(name), bound.removesuffix("()"))


def _read_parameter(builder: FactsBuilder, node: Node) -> None:
    parent = node.parent
    if parent is None or parent.parent is None or parent.parent.type in ("function_type", "method_elem"):
        return
    values = builder.values_of_type(part_of(node, "type"))
    if node.type == "variadic_parameter_declaration":
        values = add_prefix("[]", values)
    for name in node.children_by_field_name("name"):
        builder.bind_declared(builder.scope(node), builder.text(name), values)


def _read_variable(builder: FactsBuilder, node: Node) -> None:
    scope, kind = builder.scope(node), part_of(node, "type")
    names = [name for name in node.children_by_field_name("name") if builder.text(name) != "_"]
    function = ancestor_of_type(node, "func_literal", "source_file")
    is_local = bool(scope) or (function is not None and function.type == "func_literal")
    for name in names if not is_local else ():
        builder.add_definition(builder.text(name), "variable", node if len(names) == 1 else name)
    if kind is not None:
        for name in names:
            builder.bind_declared(scope, builder.text(name), builder.values_of_type(kind), local=is_local)
    elif (value := part_of(node, "value")) is not None:
        _bind_assignment(builder, scope, node.children_by_field_name("name"), value, declares=is_local)


def _read_constants(builder: FactsBuilder, node: Node) -> None:
    """A constant without type and value has those of the one before."""
    scope, last = builder.scope(node), None
    for spec in children_of_type(node, "const_spec"):
        if part_of(spec, "type") is not None or part_of(spec, "value") is not None:
            last = spec
        kind, value = part_of(last, "type"), part_of(last, "value")
        names = [name for name in spec.children_by_field_name("name") if name.type == "identifier"]
        for name in names:
            if not scope:
                builder.add_definition(builder.text(name), "variable", spec)
            if kind is not None:
                values = builder.values_of_type(kind)
                builder.bind_declared(scope, builder.text(name), values, local=bool(scope))
        if kind is None and value is not None:
            _bind_assignment(builder, scope, names, value, declares=bool(scope))


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left, right = part_of(node, "left"), part_of(node, "right")
    if left is not None and right is not None:
        declares = node.type != "assignment_statement"
        _bind_assignment(builder, builder.scope(node), left.named_children, right, declares=declares)


def _bind_assignment(
    builder: FactsBuilder, scope: str, names: list[Node], right: Node, *, declares: bool
) -> None:
    """Bind names to values, or to the results of one call."""
    values = right.named_children if right.type == "expression_list" else [right]
    for position, name in enumerate(names):
        if len(values) == len(names):
            results = builder.writer.values(values[position])
        elif len(values) == 1:
            results = _values_at_place(builder, values[0], position)
        else:
            results = []
        _bind_name(builder, scope, name, results, declares=declares)


def _values_at_place(builder: FactsBuilder, value: Node, position: int) -> Values:
    """What `a, b := f()` gives to the name in a place; `v, ok := m[k]` gives the value to the first."""
    if value.type != "call_expression":
        return builder.writer.values(value) if position == 0 else []
    path = builder.writer.path(value)
    return [("", f"{path}[{position}]")] if path else []


def _bind_name(builder: FactsBuilder, scope: str, name: Node, values: Values, *, declares: bool) -> None:
    if name.type != "identifier":
        return
    path = builder.text(name)
    if path == "_":
        return
    is_local = declares or (scope, path) in builder.local_variables
    if scope and not is_local:
        return  # of the package: what it is declared as says more
    builder.bind_observed(scope, path, values, local=is_local)
    if declares and any(first_segment(value) == path for _, value in values):  # `url := url.Parse(…)`
        builder.bind(scope, path, f"@around.{path}")


def _read_range(builder: FactsBuilder, node: Node) -> None:
    names = children_of(part_of(node, "left"))
    elements = element_values(builder.writer.values(part_of(node, "right")))
    for position, name in enumerate(names):
        values = elements if position == len(names) - 1 else []
        _bind_name(builder, builder.scope(node), name, values, declares=True)
        if name.type == "identifier":
            builder.skip_reference(name)


def _read_type_switch(builder: FactsBuilder, node: Node) -> None:
    """`switch t := x.(type)`: t is what the cases say."""
    scope, name = builder.scope(node), builder.text(part_of(part_of(node, "alias"), 0))
    if not name:
        return
    for case in children_of_type(node, "type_case"):
        for kind in case.children_by_field_name("type"):
            if kind.is_named:
                builder.bind_all(scope, name, builder.values_of_type(kind), declared=True)
    builder.local_variables.add((scope, name))


def _read_keyed_element(builder: FactsBuilder, node: Node) -> None:
    """`Store{rows: x}` names a field of `Store`."""
    key = part_of(node, 0)
    name = part_of(key, 0) if key is not None and key.type == "literal_element" else key
    body = node.parent
    literal = body.parent if body is not None else None
    if name is None or name.type != "identifier" or literal is None:
        return
    if literal.type != "composite_literal":  # an element of a list of them: of a type not written here
        builder.skip_reference(name)
        return
    kind = part_of(literal, "type")
    path = builder.writer.path(kind) if kind is not None and kind.type not in TYPES.arrays else None
    if path:
        builder.skip_reference(name)
        builder.add_use("references", f"{path}().{builder.text(name)}", name)


def _symbol_kind(definition: OutlineDefinition) -> SymbolKind | None:
    """A type defined by another one has methods of its own; an alias is a name alone."""
    return "class" if definition.kind == "type" and definition.node.type == "type_spec" else None


EXTRACTION = ExtractionRules(
    is_private=is_lower_case, expressions=EXPRESSIONS,
    handlers={
        "package": _read_package, "import": _read_import, "type": _read_type, "field": _read_field,
        "embedded": _read_embedded,
        "function": lambda builder, node: builder.bind_result(builder.scope(node), part_of(node, "result")),
        "type.parameter": _read_type_parameter, "parameter": _read_parameter, "variable": _read_variable,
        "constants": _read_constants, "assignment": _read_assignment, "range": _read_range,
        "switch": _read_type_switch, "receive": _read_assignment, "keyed": _read_keyed_element,
    },
    builtins=BUILTINS, sees_sibling_names=True, symbol_kind=_symbol_kind,
)  # fmt: skip


class Go(Language):
    """Go, as its specification says: https://go.dev/ref/spec."""

    name = "go"
    builtins = BUILTINS
    has_scattered_members = True
    members_in_body = False
    type_calls_convert = True
    nested_methods_in_scope = False
    element_accessors = ("@held[]",)
    call_method = "@held"
    common_methods = _WORDS["common_methods"]

    def lookup_home(self, facts: FileFacts) -> str:
        """The folder; for a test, with the tests in it."""
        folder = facts.path.rpartition("/")[0]
        return f"{folder}/{TESTS_SUFFIX if facts.path.endswith('_test.go') else ''}"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The package's folder, and the file that stands for it."""
        folder = _find_package_folder(name, layout)
        if folder is None:
            return ()
        front = _find_front_file(folder, layout)
        return (f"{folder}/", front) if front else (f"{folder}/",)

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the package that define a name."""
        tests = path.endswith(f"/{TESTS_SUFFIX}")
        folder = path.removesuffix(TESTS_SUFFIX).removesuffix("/")
        files = _list_package_files(folder, layout, tests=tests)
        return tuple(sorted(files.intersection(layout.project.files_defining(name))))

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of the standard library: no host stands before it."""
        return "." not in external.partition("/")[0] if "/" in external else external.count(".") < 3

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`example.com/app/store.Store.Get`; the package for a file."""
        package = _import_path_of(path, layout)
        return ".".join(part for part in (package, name) if part) or path
