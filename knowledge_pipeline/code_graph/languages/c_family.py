"""C and C++: what their files say, and how their names lead to definitions.

Namespaces are left out of the names of definitions; a file says which ones it has. A pointer and an array
are what they lead to, and hold it: `p->x`, `p[0].x` and `(*p).x` are alike.
Sources: https://en.cppreference.com/w/c/language, https://en.cppreference.com/w/cpp/language
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Values, add_prefix, element_values, own_value, parent_scope
from knowledge_pipeline.code_graph.facts_builder import ExpressionSyntax, FactsBuilder, Handler, TypeSyntax
from knowledge_pipeline.code_graph.languages.base import (
    Language,
    list_package_files,
    load_words,
    split_scoped_name,
    split_words,
)
from knowledge_pipeline.code_graph.project import Layout, climb_path, count_shared_folders, package_name
from knowledge_pipeline.syntax.grammars import children_of_type, has_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("c_family")

_SMART_POINTERS = split_words("unique_ptr shared_ptr weak_ptr optional reference_wrapper atomic const_ptr")
_CASTS = split_words("static_cast dynamic_cast reinterpret_cast const_cast make_unique make_shared")
_MAX_PATH = 200


def _unwrap_declarator(node: Node | None) -> tuple[Node | None, str]:
    """The name within a declarator, and how it is reached: "()" a function, "[]" a pointer or array."""
    kind = ""
    for _ in range(12):
        if node is None:
            return None, kind
        if node.type == "function_declarator":
            kind = "()"
        elif node.type in ("pointer_declarator", "array_declarator") and not kind:
            kind = "[]"
        inner = part_of(node, "declarator")
        if inner is None and node.type in ("reference_declarator", "parenthesized_declarator"):
            inner = next(iter(node.named_children), None)
        if inner is None:
            return node, kind
        node = inner
    return None, kind


_MAX_NAMESPACE_DEPTH = 12


SUFFIXES = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".inl", ".ipp", ".c++", ".h++", ".inc")
_MEMBERS_PREFIX = "members of "


class CReader(FactsBuilder):
    """Reads files of C and C++."""

    def _is_private(self, node: Node, name: str) -> bool:
        """`static` functions and variables are seen in their file alone, and in those that include it."""
        return "." not in name and self._has_storage_class(node, "static")

    def _qualify(self, definition: OutlineDefinition, enclosing: str) -> str:
        """`Circle.area`: namespaces are left out, of what is written before a name as well."""
        parts: list[str] = []
        for one in definition.scope:
            if one.kind == "module":
                continue
            owners = [part.split("<")[0] for part in one.owner.split("::") if part]
            while len(owners) > 1 and owners[0][:1].islower():
                owners.pop(0)
            parts += [*owners, one.name]
        return ".".join("".join(part.split()) for part in parts if part)

    def _special_type_values(self, node: Node, depth: int) -> Values | None:
        """A smart pointer is what it leads to; numbers are nothing."""
        if node.type in ("primitive_type", "sized_type_specifier", "placeholder_type_specifier"):
            return []
        if node.type == "qualified_identifier":
            name = part_of(node, "name")
            for _ in range(6):
                name = part_of(name, "name") if has_type(name, "qualified_identifier") else name
            values = self.values_of_type(name, depth + 1)
            if has_type(name, "template_type") and self.path(name) in _SMART_POINTERS:
                return values
            path, elements = self.path(node), [value for value in values if value[0]]
            return [("", f"{path}()"), *elements] if path else elements
        if node.type == "template_type" and self.path(node) in _SMART_POINTERS:
            return self.values_of_type(part_of(part_of(node, "arguments"), 0), depth + 1)
        return None

    def _declarator_values(self, type_node: Node | None, derivation: str) -> Values:
        values = self.values_of_type(type_node)
        if derivation == "[]":
            return [*values, *add_prefix("[]", [value for value in values if not value[0]])]
        return add_prefix("()", values) if derivation == "()" else values

    def _rewrite_call(self, node: Node) -> str | None:
        """`static_cast<T*>(x)` and `make_unique<T>()` as `T()`."""
        called = part_of(node, "function")
        if has_type(called, "qualified_identifier"):
            called = part_of(called, "name")
        if not has_type(called, "template_function") or self.text(part_of(called, "name")) not in _CASTS:
            return None
        return own_value(self.values_of_type(part_of(part_of(called, "arguments"), 0)))

    expressions = ExpressionSyntax(
        names=split_words("identifier type_identifier field_identifier namespace_identifier this"),
        members={"field_expression": ("argument", "field")},
        calls={"call_expression": ("function",), "new_expression": ("type",)},
        suffixed={
            "subscript_expression": ("argument", "[]"),
            **dict.fromkeys(("template_function", "template_type", "template_method"), ("name", "")),
        },
        transparent={
            "pointer_expression": "argument", "parenthesized_expression": 0, "struct_specifier": "name",
            "union_specifier": "name", "enum_specifier": "name", "class_specifier": "name",
            "assignment_expression": "right",
        },
        choices={"conditional_expression": ("consequence", "alternative")},
        path_writers={
            "qualified_identifier": lambda reader, node: (
                ".".join(split_scoped_name(reader.short_text(node, _MAX_PATH + 1))) or None
            ),
            **dict.fromkeys(
                ("cast_expression", "compound_literal_expression"),
                lambda reader, node: own_value(reader.values_of_type(part_of(node, "type"))),
            ),
        },
        types=TypeSyntax(
            generic={"template_type": "template_argument_list"}, transparent={"type_descriptor": "type"}
        ),
    )  # fmt: skip

    def _has_storage_class(self, node: Node, name: str) -> bool:
        return name in map(self.text, children_of_type(node, "storage_class_specifier"))

    def _read_include(self, node: Node) -> None:
        name = self.text(part_of(node, "path")).strip('<>"')
        if name and "\t" not in name and "\n" not in name:
            self.add_import(node, name, "*", "*", exported=True)

    def _read_namespace(self, node: Node) -> None:
        """Says that the file has a namespace, with those around it."""
        names: list[str] = []
        around: Node | None = node
        for _ in range(_MAX_NAMESPACE_DEPTH):
            name = part_of(around, "name") if has_type(around, "namespace_definition") else None
            names[:0] = split_scoped_name(self.text(name))
            around = around.parent if around is not None else None
        module, namespaces = ".".join(names), self.settings.get("namespaces", "").split()
        if module and module not in namespaces:
            self.settings["namespaces"] = " ".join([*namespaces, module])
            self.module = "" if namespaces and names[0] != namespaces[0] else self.module or module

    def _read_namespace_alias(self, node: Node) -> None:
        parts = split_scoped_name(self.text(part_of(node, -1)))
        if parts:
            self.bind(self.scope(node), self.text(part_of(node, "name")), ".".join(parts))

    def _read_bases(self, node: Node) -> None:
        for base in children_of_type(node, "type_identifier", "qualified_identifier", "template_type"):
            self.add_base("extends", base, self.scope(node))

    def _read_function(self, node: Node) -> None:
        """The result of a function, and what `this` is in one that is defined outside of its class."""
        scope = self.scope(node)
        owner = parent_scope(scope)
        if owner in self.type_names:
            self.bind(scope, "this", "@self")
        elif owner:
            self.bind(scope, "this", f"{owner}()", declared=True)
            self.bind(scope, "@receiver", f"{owner}()", declared=True)
        self.bind_result(scope, part_of(node, "type"))

    def _read_typedef(self, node: Node) -> None:
        """Another name for a type; and the tag of the one that it defines."""
        kind = part_of(node, "type")
        path, around = self.path(kind), self.scope(node)
        around = "" if around in self.type_names else around
        for declarator in node.children_by_field_name("declarator"):
            name, reached = _unwrap_declarator(declarator)
            text = self.text(name)
            if not text or text == path:
                continue
            if part_of(kind, "body") is not None:
                self.bind(around, path, text)
                continue
            self.add_definition(text, "type", node)
            if path and not reached.startswith("()"):
                self.bind(around, text, path)

    def _read_field(self, node: Node) -> None:
        """Fields are definitions; a method that is only declared is defined where its body is."""
        scope, kind = self.scope(node), part_of(node, "type")
        if scope not in self.type_names:
            return
        for declarator in node.children_by_field_name("declarator"):
            name, reached = _unwrap_declarator(declarator)
            if name is None or not (text := self.text(name)).isidentifier():
                continue
            if reached != "()" or self._is_function_pointer(declarator):
                self.add_variable(scope, text, node)
                self.skip_reference(name)
                self.bind_declared(scope, text, self._declarator_values(kind, reached), local=False)
            elif part_of(node, "default_value") is not None:  # "= 0": it has no body anywhere
                self.add_definition(f"{scope}.{text}", "method", node)

    def _is_function_pointer(self, declarator: Node) -> bool:
        return "(*" in self.text(declarator)[:60].replace(" ", "")

    def _read_enumerator(self, node: Node) -> None:
        """Constants of an enumeration are names around it, too."""
        scope, name = self.scope(node), self.text(part_of(node, "name"))
        of = node.parent.parent if node.parent is not None else None
        if name and scope in self.type_names and has_type(of, "enum_specifier"):
            self.add_variable(scope, name, node)
            self.bind(parent_scope(scope), name, f"{scope.rpartition('.')[2]}.{name}")
            self.bind(scope, name, "@class()", declared=True)
        elif name and not scope:
            self.add_definition(name, "variable", node)

    def _read_parameter(self, node: Node) -> None:
        around = node.parent.parent if node.parent is not None else None
        for _ in range(4):
            if around is None or around.type in ("function_definition", "lambda_expression"):
                break
            around = around.parent if around.type.endswith("_declarator") else None
        name, reached = _unwrap_declarator(part_of(node, "declarator"))
        if around is not None and has_type(name, "identifier"):
            values = self._declarator_values(part_of(node, "type"), reached)
            self.bind_declared(self.scope(node), self.text(name), values)

    def _read_declaration(self, node: Node) -> None:
        scope, kind = self.scope(node), part_of(node, "type")
        if not scope and self._has_storage_class(node, "extern"):
            return  # what it stands for is where it is defined
        for declarator in node.children_by_field_name("declarator"):
            name, reached = _unwrap_declarator(declarator)
            is_function = reached == "()" and not self._is_function_pointer(declarator)
            if is_function or not has_type(name, "identifier"):
                continue
            text, local = self.text(name), bool(scope)
            if not local:
                self.add_definition(text, "variable", node)
            if has_type(kind, "placeholder_type_specifier"):
                self.bind_observed(scope, text, self.values(part_of(declarator, "value")), local=local)
            else:
                self.bind_declared(scope, text, self._declarator_values(kind, reached), local=local)

    def _read_assignment(self, node: Node) -> None:
        """What is put into a pointer to a function."""
        left, right = part_of(node, "left"), part_of(node, "right")
        scope, name, value = self.scope(node), self.text(left), self.text(right)
        are_names = has_type(left, "identifier") and has_type(right, "identifier")
        if are_names and (scope, name) in self.local_variables and name != value:
            self.bind(scope, name, value)

    def _read_loop(self, node: Node) -> None:
        name, reached = _unwrap_declarator(part_of(node, "declarator"))
        kind = part_of(node, "type")
        if not has_type(name, "identifier"):
            return
        if kind is not None and kind.type != "placeholder_type_specifier":
            values = self._declarator_values(kind, reached)
            self.bind_declared(self.scope(node), self.text(name), values)
        else:
            elements = element_values(self.values(part_of(node, "right")))
            self.bind_observed(self.scope(node), self.text(name), elements)

    handlers: Mapping[str, Handler] = {
        "include": _read_include, "namespace": _read_namespace, "namespace.alias": _read_namespace_alias,
        "bases": _read_bases, "function": _read_function, "typedef": _read_typedef,
        "alias": FactsBuilder.bind_alias, "field": _read_field, "enumerator": _read_enumerator,
        "parameter": _read_parameter, "declaration": _read_declaration, "assignment": _read_assignment,
        "loop": _read_loop,
    }  # fmt: skip
    builtins = _WORDS["builtins"]
    sees_sibling_names = True


class CFamily(Language):
    """C and C++; see https://en.cppreference.com/w/cpp/language/lookup."""

    name = "cpp"
    reader = CReader
    builtins = CReader.builtins
    star_exports_all = True
    submodule_prefix = "."
    members_prefix = _MEMBERS_PREFIX
    members_in_scope = True
    receiver_in_scope = True
    private_to_file = True
    has_includes = True
    has_dotted_modules = True
    has_scattered_members = True
    constructors_named_after_type = True
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _WORDS["common_methods"]

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The file that is included; a namespace."""
        if "/" in name or name.endswith(SUFFIXES):
            return _find_included_file(name, path, layout)
        if name.startswith("."):
            name = path.rstrip("/") + name
        elif not path.endswith("/"):  # relative to a namespace of the file, or to one around that
            namespaces = layout.facts(path).settings.get("namespaces", "").split()
            found = [_find_nested(name, around, layout) for around in namespaces]
            if any(found):
                return tuple(dict.fromkeys(filter(None, found)))
        return (f"{name}/",) if layout.project.files_defining(package_name("within", "cpp", name)) else ()

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files that define what is linked; those nearest to the file, where several do."""
        files = [file for file in layout.project.files_defining(name) if file.endswith(SUFFIXES)]
        if path.startswith(_MEMBERS_PREFIX):
            return tuple(sorted(files))
        if path.endswith("/"):
            return tuple(sorted(set(files) & list_package_files(layout, "cpp", path[:-1])))
        return _find_nearest(files, path)

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """The header as it is written."""
        return module

    def extend_external_name(self, external: str, step: str) -> str:
        """A header gives no names of its own; `std` does."""
        return "" if "/" in external or external.endswith(SUFFIXES) else external + step

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of the standard library."""
        return external in _WORDS["standard_headers"] or external.startswith("std.")

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`geo::Circle::area`; of C, the name alone, as it is linked."""
        parts = [*layout.facts(path).module.split("."), *name.split(".")]
        return "::".join(part for part in parts if part) if name else path


def _find_nested(name: str, around: str, layout: Layout) -> str:
    """A namespace that another one, or one around that, holds, if files say so; "" for none."""
    while around:
        if layout.project.files_defining(package_name("within", "cpp", f"{around}.{name}")):
            return f"{around}.{name}/"
        around = around.rpartition(".")[0]
    return ""


def _find_included_file(name: str, path: str, layout: Layout) -> tuple[str, ...]:
    """A file relative to the one that includes it, or the nearest whose path ends as it is written."""
    near, end = climb_path(path, name)
    if near in layout.paths:
        return (near,)
    if name in _WORDS["standard_headers"] or not end:
        return ()
    files = [file for file in layout.files_named(end.rpartition("/")[2]) if file.endswith(SUFFIXES)]
    return _find_nearest((file for file in files if file == end or file.endswith(f"/{end}")), path)[:1]


def _find_nearest(candidates: Iterable[str], path: str) -> tuple[str, ...]:
    """Those that share the most folders with a file."""
    shared = {file: count_shared_folders(file, path) for file in candidates if file != path}
    most = max(shared.values(), default=0)
    return tuple(sorted(file for file, count in shared.items() if count == most))
