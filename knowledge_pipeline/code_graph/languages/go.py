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
    SymbolKind,
    Value,
    Values,
    add_prefix,
    element_values,
    first_segment,
    last_segment,
    own_value,
    parent_scope,
    tuple_values,
)
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    FactsBuilder,
    Handler,
    TypeSyntax,
    gives,
)
from knowledge_pipeline.code_graph.languages.base import Language, load_words
from knowledge_pipeline.code_graph.project import Layout
from knowledge_pipeline.syntax.grammars import (
    MAX_CHAIN,
    ancestor_of_type,
    children_of,
    children_of_type,
    has_type,
    part_of,
)
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("go")


def _list_arguments(node: Node) -> list[Node]:
    return [argument for argument in children_of(part_of(node, "arguments")) if argument.type != "comment"]


_MODULE = re.compile(r'^[ \t]*module[ \t]+"?([^\s"/][^\s"]*)', re.MULTILINE)
_TESTS_SUFFIX = "_test/"


def parse_manifest(path: str, text: str) -> dict[str, str]:
    """The name of the module."""
    match = _MODULE.search(text)
    return {"module": match[1]} if match else {}


def _find_package_folder(name: str, layout: Layout) -> str | None:
    """The folder of an imported package, "" for the source's own; None where it has none."""
    if name.startswith("."):
        return None
    folders, modules = layout.get_or_build(_index_folders), layout.get_or_build(_index_modules)
    for module, root in modules:
        if name == module or name.startswith(f"{module}/") or module == "std":
            rest = name if module == "std" else name[len(module) + 1 :]
            folder = f"{root}/{rest}".strip("/")
            if folder in folders:
                return folder
    if f"vendor/{name}" in folders:
        return f"vendor/{name}"
    parts = name.split("/")
    if modules or "." not in parts[0]:
        return None
    # without any go.mod: the folder with which the name ends, if a host stands before it
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end in folders), "" if "" in folders and len(parts) == 3 else None)


def _list_package_files(folder: str, layout: Layout, *, tests: bool) -> frozenset[str]:
    files = layout.get_or_build(_index_folders).get(folder, frozenset())
    return files if tests else frozenset(file for file in files if not file.endswith("_test.go"))


def _import_path_of(path: str, layout: Layout) -> str:
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


def _index_modules(layout: Layout) -> list[tuple[str, str]]:
    """Modules and their folders; what lies deeper, first."""
    modules: list[tuple[str, str]] = []
    for path in layout.files_named("go.mod"):
        if module := layout.facts(path).settings.get("module"):
            modules.append((module, path.rpartition("/")[0]))
    return sorted(modules, key=lambda item: (-len(item[1]), -len(item[0]), item))


def _unwrap_type(node: Node) -> Node:
    """The name in `*pkg.Type[T]`."""
    for _ in range(MAX_CHAIN):
        if node.type not in ("pointer_type", "generic_type", "qualified_type") or not node.named_child_count:
            break
        node = node.named_children[0]
    return node


class GoReader(FactsBuilder):
    """Reads files of Go."""

    def _is_private(self, node: Node, name: str) -> bool:
        """What starts with no capital letter is of its package."""
        return not last_segment(name)[:1].isupper()

    def _symbol_kind(self, definition: OutlineDefinition) -> SymbolKind | None:
        """A type defined by another one has methods of its own; an alias is a name alone."""
        return "class" if definition.kind == "type" and definition.node.type == "type_spec" else None

    def _special_type_values(self, node: Node, depth: int) -> Values | None:
        """What several results promise: ("[0]", "Store()"), ("[1]", "error()")."""
        if node.type != "parameter_list":
            return None
        results = [
            self.values_of_type(part_of(parameter, "type"), depth + 1)
            for parameter in children_of_type(node, "parameter_declaration")
            for _ in parameter.children_by_field_name("name") or [parameter]
        ]
        return results[0] if len(results) == 1 else tuple_values(results)

    def _unary_path(self, node: Node) -> str | None:
        """`&x` and `*x` are x; `<-x` is what it holds."""
        path = self.path(part_of(node, "operand"))
        return f"{path}[]" if path and node.children[0].type == "<-" else path

    def _rewrite_call(self, node: Node) -> str | None:
        """`new(T)` as `T()`, `append(x, y)` as `x`; None for other calls."""
        name, arguments = self._callee_name(node), _list_arguments(node)
        if name == "new" and arguments:
            return own_value(self.values_of_type(arguments[0]))
        return self.path(arguments[0]) if name == "append" and arguments else None

    def _call_values(self, node: Node) -> Iterator[Value]:
        name, arguments = self._callee_name(node), _list_arguments(node)
        if name in ("make", "new") and arguments:
            yield from self.values_of_type(arguments[0])
        elif name == "append" and arguments:
            yield from self.values(arguments[0])
            for argument in arguments[1:]:
                yield from add_prefix("[]", self.values(argument))

    def _conversion_values(self, node: Node) -> Values:
        kind = part_of(node, "type")
        return self.values_of_type(kind) if has_type(kind, *self.expressions.types.arrays) else []

    def _unary_values(self, node: Node) -> Values:
        return self.values(part_of(node, "operand")) if node.children[0].type in ("&", "*") else []

    def _callee_name(self, node: Node) -> str:
        called = part_of(node, "function")
        return self.text(called) if has_type(called, "identifier") else ""

    expressions = ExpressionSyntax(
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
            "func_literal": lambda reader, node: add_prefix(
                "()", reader.values_of_type(part_of(node, "result"))
            ),
            "unary_expression": _unary_values,
        },
        path_writers={"qualified_type": FactsBuilder.dotted_text, "unary_expression": _unary_path},
        types=TypeSyntax(
            generic={"generic_type": "type_arguments"},
            arrays={
                "slice_type": "element", "array_type": "element", "implicit_length_array_type": "element",
                "map_type": "value", "channel_type": "value",
            },
            transparent={"pointer_type": 0, "parenthesized_type": 0, "type_elem": 0, "type_constraint": 0},
            functions={"function_type": "result"},
        ),
    )  # fmt: skip

    def _read_package(self, node: Node) -> None:
        self.module = self.text(part_of(node, 0))

    def _read_import(self, node: Node) -> None:
        module, local = self.text(part_of(node, "path")).strip('"`'), self.text(part_of(node, "name"))
        if not module:
            return
        names = {".": ["*"], "_": [""], "": _guess_package_names(module) or [""]}.get(local, [local])
        for local_name in names:
            self.add_import(node, module, "*" if local == "." else "", local_name)

    def _read_type(self, node: Node) -> None:
        """What a defined type holds, or another name for one."""
        name, kind = part_of(node, "name"), part_of(node, "type")
        if name is None or kind is None:
            return
        scope, around = self.scope(kind), self.scope(name.parent or node)
        if node.type == "type_alias" or kind.type in ("struct_type", "interface_type"):
            if path := self.path(kind):
                self.bind(parent_scope(around) if around == scope else around, self.text(name), path)
            return
        elements = [value for value in self.values_of_type(kind) if value[0]]
        self.bind_all(scope, "@held", elements, declared=True)

    def _read_field(self, node: Node) -> None:
        """Fields are definitions; a type without a name is embedded."""
        scope, kind = self.scope(node), part_of(node, "type")
        names = node.children_by_field_name("name")
        struct = node.parent.parent if node.parent is not None else None
        of_named_type = struct is not None and has_type(struct.parent, "type_spec", "type_alias")
        if scope not in self.type_names or kind is None or not of_named_type:
            return
        for name in names:
            self.add_variable(scope, self.text(name), name)
            self.bind_declared(scope, self.text(name), self.values_of_type(kind), local=False)
        if not names and (path := self.path(kind)):
            self._read_embedded(kind)
            name = path.rpartition(".")[2]
            self.add_variable(scope, name, node)
            self.bind_declared(scope, name, self.values_of_type(kind), local=False)

    def _read_embedded(self, node: Node) -> None:
        scope = self.scope(node)
        if scope in self.type_names:
            self.add_use("extends", self.path(node), node, scope)
            self.skip_reference(_unwrap_type(node))

    def _read_type_parameter(self, node: Node) -> None:
        """`T` stands for what it is constrained to."""
        bound = next(iter(self.values_of_type(part_of(node, "type"))), ("", ""))[1]
        for name in node.children_by_field_name("name"):
            self.bind(self.scope(node), self.text(name), bound.removesuffix("()"))

    def _read_parameter(self, node: Node) -> None:
        listed = node.parent
        if listed is None or listed.parent is None or listed.parent.type in ("function_type", "method_elem"):
            return
        values = self.values_of_type(part_of(node, "type"))
        if node.type == "variadic_parameter_declaration":
            values = add_prefix("[]", values)
        for name in node.children_by_field_name("name"):
            self.bind_declared(self.scope(node), self.text(name), values)

    def _read_variable(self, node: Node) -> None:
        scope, kind, value = self.scope(node), part_of(node, "type"), part_of(node, "value")
        names = [name for name in node.children_by_field_name("name") if self.text(name) != "_"]
        function = ancestor_of_type(node, "func_literal", "source_file")
        is_local = bool(scope) or has_type(function, "func_literal")
        for name in names:
            if not is_local:
                self.add_definition(self.text(name), "variable", node if len(names) == 1 else name)
            if kind is not None:
                self.bind_declared(scope, self.text(name), self.values_of_type(kind), local=is_local)
        if kind is None and value is not None:
            self._bind_assignment(scope, node.children_by_field_name("name"), value, declares=is_local)

    def _read_constants(self, node: Node) -> None:
        """A constant without type and value has those of the one before."""
        scope, last = self.scope(node), None
        for spec in children_of_type(node, "const_spec"):
            if part_of(spec, "type") is not None or part_of(spec, "value") is not None:
                last = spec
            kind, value = part_of(last, "type"), part_of(last, "value")
            names = [name for name in spec.children_by_field_name("name") if name.type == "identifier"]
            for name in names:
                if not scope:
                    self.add_definition(self.text(name), "variable", spec)
                if kind is not None:
                    values = self.values_of_type(kind)
                    self.bind_declared(scope, self.text(name), values, local=bool(scope))
            if kind is None and value is not None:
                self._bind_assignment(scope, names, value, declares=bool(scope))

    def _read_assignment(self, node: Node) -> None:
        left, right = part_of(node, "left"), part_of(node, "right")
        if left is not None and right is not None:
            declares = node.type != "assignment_statement"
            self._bind_assignment(self.scope(node), left.named_children, right, declares=declares)

    def _bind_assignment(self, scope: str, names: list[Node], right: Node, *, declares: bool) -> None:
        values = right.named_children if right.type == "expression_list" else [right]
        for position, name in enumerate(names):
            results: Values = []
            if len(values) == len(names):
                results = self.values(values[position])
            elif len(values) == 1 and values[0].type == "call_expression":  # `a, b := f()`
                path = self.path(values[0])
                results = [("", f"{path}[{position}]")] if path else []
            elif len(values) == 1 and position == 0:  # `v, ok := m[k]` gives the value to the first
                results = self.values(values[0])
            self._bind_name(scope, name, results, declares=declares)

    def _bind_name(self, scope: str, name: Node, values: Values, *, declares: bool) -> None:
        path = self.text(name)
        is_local = declares or (scope, path) in self.local_variables
        if name.type != "identifier" or path == "_" or (scope and not is_local):
            return  # of the package: what it is declared as says more
        self.bind_observed(scope, path, values, local=is_local)
        if declares and any(first_segment(value) == path for _, value in values):  # `url := url.Parse(…)`
            self.bind(scope, path, f"@around.{path}")

    def _read_range(self, node: Node) -> None:
        names = children_of(part_of(node, "left"))
        elements = element_values(self.values(part_of(node, "right")))
        for position, name in enumerate(names, start=1):
            self._bind_name(self.scope(node), name, elements if position == len(names) else [], declares=True)
            if name.type == "identifier":
                self.skip_reference(name)

    def _read_type_switch(self, node: Node) -> None:
        """`switch t := x.(type)`: t is what the cases say."""
        scope, name = self.scope(node), self.text(part_of(part_of(node, "alias"), 0))
        if not name:
            return
        for case in children_of_type(node, "type_case"):
            for kind in case.children_by_field_name("type"):
                if kind.is_named:
                    self.bind_all(scope, name, self.values_of_type(kind), declared=True)
        self.local_variables.add((scope, name))

    def _read_keyed_element(self, node: Node) -> None:
        """`Store{rows: x}` names a field of `Store`."""
        key, literal = part_of(node, 0), node.parent.parent if node.parent is not None else None
        name = part_of(key, 0) if has_type(key, "literal_element") else key
        if literal is None or not has_type(name, "identifier"):
            return
        if literal.type != "composite_literal":  # an element of a list of them: of a type not written here
            self.skip_reference(name)
            return
        kind = part_of(literal, "type")
        path = None if has_type(kind, *self.expressions.types.arrays) else self.path(kind)
        if path:
            self.skip_reference(name)
            self.add_use("references", f"{path}().{self.text(name)}", name)

    handlers: Mapping[str, Handler] = {
        "package": _read_package, "import": _read_import, "type": _read_type, "field": _read_field,
        "embedded": _read_embedded, "function": gives("result"), "type.parameter": _read_type_parameter,
        "parameter": _read_parameter, "variable": _read_variable, "constants": _read_constants,
        "assignment": _read_assignment, "range": _read_range, "switch": _read_type_switch,
        "receive": _read_assignment, "keyed": _read_keyed_element,
    }  # fmt: skip
    builtins = _WORDS["builtins"]
    sees_sibling_names = True


class Go(Language):
    """Go, as its specification says: https://go.dev/ref/spec."""

    name = "go"
    reader = GoReader
    builtins = GoReader.builtins
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
        return f"{folder}/{_TESTS_SUFFIX if facts.path.endswith('_test.go') else ''}"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The package's folder, and the file for it: the one with its name, or `doc.go`, or the first."""
        folder = _find_package_folder(name, layout)
        if folder is None:
            return ()
        files = _list_package_files(folder, layout, tests=False)
        candidates = [f"{folder}/{stem}.go".lstrip("/") for stem in (folder.rpartition("/")[2], "doc")]
        front = next((file for file in (*candidates, *sorted(files)) if file in files), None)
        return (f"{folder}/", front) if front else (f"{folder}/",)

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the package that define a name."""
        folder = path.removesuffix(_TESTS_SUFFIX).removesuffix("/")
        files = _list_package_files(folder, layout, tests=path.endswith(f"/{_TESTS_SUFFIX}"))
        return tuple(sorted(files.intersection(layout.project.files_defining(name))))

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of the standard library: no host stands before it."""
        return "." not in external.partition("/")[0] if "/" in external else external.count(".") < 3

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`example.com/app/store.Store.Get`; the package for a file."""
        package = _import_path_of(path, layout)
        return ".".join(part for part in (package, name) if part) or path
