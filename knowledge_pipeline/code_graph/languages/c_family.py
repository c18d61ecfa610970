"""C and C++: what their files say, and how their names lead to definitions.

Namespaces are left out of the names of definitions; a file says which ones it has. A pointer and an array
are what they lead to, and hold it: `p->x`, `p[0].x` and `(*p).x` are alike.
Sources: https://en.cppreference.com/w/c/language, https://en.cppreference.com/w/cpp/language
"""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    FileFacts,
    Import,
    Values,
    add_prefix,
    element_values,
    first_segment,
    own_value,
)
from knowledge_pipeline.code_graph.facts_builder import (
    ExpressionSyntax,
    ExtractionRules,
    FactsBuilder,
    PathWriter,
    TypeSyntax,
)
from knowledge_pipeline.code_graph.languages.base import Language, load_words, split_scoped_name, split_words
from knowledge_pipeline.code_graph.project import Layout, climb_path, count_shared_folders
from knowledge_pipeline.syntax.grammars import children_of_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("c_family")

_SMART_POINTERS = split_words("unique_ptr shared_ptr weak_ptr optional reference_wrapper atomic const_ptr")
_CASTS = split_words("static_cast dynamic_cast reinterpret_cast const_cast make_unique make_shared")
_MAX_PATH = 200


def _special_type_values(writer: PathWriter, node: Node, depth: int) -> Values | None:
    """A smart pointer is what it leads to; numbers are nothing."""
    if node.type in ("primitive_type", "sized_type_specifier", "placeholder_type_specifier"):
        return []
    if node.type == "qualified_identifier":
        name = part_of(node, "name")
        for _ in range(6):
            if name is None or name.type != "qualified_identifier":
                break
            name = part_of(name, "name")
        values = writer.values_of_type(name, depth + 1) if name is not None else []
        elements = [(suffix, value) for suffix, value in values if suffix]
        if name is not None and name.type == "template_type" and _is_smart_pointer(writer, name):
            return values
        path = writer.path(node)
        return [("", f"{path}()"), *elements] if path else elements
    if node.type == "template_type" and _is_smart_pointer(writer, node):
        return writer.values_of_type(part_of(part_of(node, "arguments"), 0), depth + 1)
    return None


def _is_smart_pointer(writer: PathWriter, node: Node) -> bool:
    return writer.path(node) in _SMART_POINTERS


TYPES = TypeSyntax(
    generic={"template_type": "template_argument_list"},
    transparent={"type_descriptor": "type"},
    read_special=_special_type_values,
)


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


def _declarator_values(writer: PathWriter, type_node: Node | None, derivation: str) -> Values:
    values = writer.values_of_type(type_node)
    if derivation == "[]":
        return [*values, *add_prefix("[]", [value for value in values if not value[0]])]
    return add_prefix("()", values) if derivation == "()" else values


def _typed_path(writer: PathWriter, node: Node) -> str | None:
    return own_value(writer.values_of_type(part_of(node, "type")))


def _rewrite_call(writer: PathWriter, node: Node) -> str | None:
    """`static_cast<T*>(x)` and `make_unique<T>()` as `T()`."""
    called = part_of(node, "function")
    if called is not None and called.type == "qualified_identifier":
        called = part_of(called, "name")
    if called is None or called.type != "template_function":
        return None
    is_cast = writer.text(part_of(called, "name")) in _CASTS
    return own_value(writer.values_of_type(part_of(part_of(called, "arguments"), 0))) if is_cast else None


EXPRESSIONS = ExpressionSyntax(
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
        "qualified_identifier": lambda writer, node: (
            ".".join(split_scoped_name(writer.short_text(node, _MAX_PATH + 1))) or None
        ),
        "cast_expression": _typed_path,
        "compound_literal_expression": _typed_path,
    },
    rewrite_call=_rewrite_call, types=TYPES,
)  # fmt: skip


BUILTINS = _WORDS["builtins"]
_MAX_NAMESPACE_DEPTH = 12


def _qualify(definition: OutlineDefinition) -> str:
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


def _is_static(builder: FactsBuilder, node: Node, name: str) -> bool:
    """`static` functions and variables are seen in their file alone, and in those that include it."""
    return "." not in name and _has_storage_class(builder, node, "static")


def _has_storage_class(builder: FactsBuilder, node: Node, name: str) -> bool:
    return name in map(builder.text, children_of_type(node, "storage_class_specifier"))


def _read_include(builder: FactsBuilder, node: Node) -> None:
    name = builder.text(part_of(node, "path")).strip('<>"')
    if name and "\t" not in name and "\n" not in name:
        builder.imports.append(Import(name, "*", "*", node.start_point.row + 1, "", True))


def _read_namespace(builder: FactsBuilder, node: Node) -> None:
    """Says that the file has a namespace, with those around it."""
    names: list[str] = []
    ancestor: Node | None = node
    for _ in range(_MAX_NAMESPACE_DEPTH):
        if ancestor is None:
            break
        name = part_of(ancestor, "name") if ancestor.type == "namespace_definition" else None
        names[:0] = split_scoped_name(builder.text(name))
        ancestor = ancestor.parent
    namespaces = builder.settings.get("namespaces", "").split()
    if names and ".".join(names) not in namespaces:
        builder.settings["namespaces"] = " ".join([*namespaces, ".".join(names)])
        builder.module = "" if namespaces and names[0] != namespaces[0] else builder.module or ".".join(names)


def _read_namespace_alias(builder: FactsBuilder, node: Node) -> None:
    parts = split_scoped_name(builder.text(part_of(node, -1)))
    if parts:
        builder.bind(builder.scope(node), builder.text(part_of(node, "name")), ".".join(parts))


def _read_bases(builder: FactsBuilder, node: Node) -> None:
    for base in children_of_type(node, "type_identifier", "qualified_identifier", "template_type"):
        builder.add_use("extends", builder.writer.path(base), base, builder.scope(node))
        builder.skip_reference(base)


def _read_function(builder: FactsBuilder, node: Node) -> None:
    """The result of a function, and what `this` is in one that is defined outside of its class."""
    scope = builder.scope(node)
    owner = scope.rpartition(".")[0]
    if owner in builder.type_names:
        builder.bind(scope, "this", "@self")
    elif owner:
        builder.bind(scope, "this", f"{owner}()", declared=True)
        builder.bind(scope, "@receiver", f"{owner}()", declared=True)
    builder.bind_result(scope, part_of(node, "type"))


def _read_typedef(builder: FactsBuilder, node: Node) -> None:
    """Another name for a type; and the tag of the one that it defines."""
    kind = part_of(node, "type")
    path = builder.writer.path(kind)
    around = builder.scope(node)
    around = "" if around in builder.type_names else around
    for declarator in node.children_by_field_name("declarator"):
        name, reached = _unwrap_declarator(declarator)
        text = builder.text(name)
        if not text or text == path:
            continue
        if kind is not None and part_of(kind, "body") is not None:
            if path:
                builder.bind(around, path, text)
        else:
            builder.add_definition(text, "type", node)
            if path and not reached.startswith("()"):
                builder.bind(around, text, path)


def _read_alias(builder: FactsBuilder, node: Node) -> None:
    name, scope = builder.text(part_of(node, "name")), builder.scope(node).rpartition(".")[0]
    for suffix, value in builder.values_of_type(part_of(node, "type")):
        if not suffix and first_segment(value) != name:
            builder.bind(scope, name, value.removesuffix("()"))


def _read_field(builder: FactsBuilder, node: Node) -> None:
    """Fields are definitions; a method that is only declared is defined where its body is."""
    scope, kind = builder.scope(node), part_of(node, "type")
    if scope not in builder.type_names:
        return
    for declarator in node.children_by_field_name("declarator"):
        name, reached = _unwrap_declarator(declarator)
        if name is None or not (text := builder.text(name)).isidentifier():
            continue
        if reached != "()" or _is_function_pointer(builder, declarator):
            builder.add_definition(f"{scope}.{text}", "variable", node)
            builder.skip_reference(name)
            builder.bind_declared(scope, text, _declarator_values(builder.writer, kind, reached), local=False)
        elif part_of(node, "default_value") is not None:  # "= 0": it has no body anywhere
            builder.add_definition(f"{scope}.{text}", "method", node)


def _is_function_pointer(builder: FactsBuilder, declarator: Node) -> bool:
    return "(*" in builder.text(declarator)[:60].replace(" ", "")


def _read_enumerator(builder: FactsBuilder, node: Node) -> None:
    """Constants of an enumeration are names around it, too."""
    scope, name = builder.scope(node), part_of(node, "name")
    if name is None:
        return
    text, of = builder.text(name), node.parent.parent if node.parent is not None else None
    if scope in builder.type_names and of is not None and of.type == "enum_specifier":
        builder.add_definition(f"{scope}.{text}", "variable", node)
        builder.bind(scope.rpartition(".")[0], text, f"{scope.rpartition('.')[2]}.{text}")
        builder.bind(scope, text, "@class()", declared=True)
    elif not scope:
        builder.add_definition(text, "variable", node)


def _read_parameter(builder: FactsBuilder, node: Node) -> None:
    around = node.parent.parent if node.parent is not None else None
    for _ in range(4):
        if around is None or around.type in ("function_definition", "lambda_expression"):
            break
        around = around.parent if around.type.endswith("_declarator") else None
    name, reached = _unwrap_declarator(part_of(node, "declarator"))
    if around is not None and name is not None and name.type == "identifier":
        values = _declarator_values(builder.writer, part_of(node, "type"), reached)
        builder.bind_declared(builder.scope(node), builder.text(name), values)


def _read_declaration(builder: FactsBuilder, node: Node) -> None:
    scope, kind = builder.scope(node), part_of(node, "type")
    if not scope and _has_storage_class(builder, node, "extern"):
        return  # what it stands for is where it is defined
    for declarator in node.children_by_field_name("declarator"):
        name, reached = _unwrap_declarator(declarator)
        is_function = reached == "()" and not _is_function_pointer(builder, declarator)
        if name is None or name.type != "identifier" or is_function:
            continue
        text, local = builder.text(name), bool(scope)
        if not local:
            builder.add_definition(text, "variable", node)
        if kind is not None and kind.type == "placeholder_type_specifier":
            values = builder.writer.values(part_of(declarator, "value"))
            builder.bind_observed(scope, text, values, local=local)
        else:
            builder.bind_declared(scope, text, _declarator_values(builder.writer, kind, reached), local=local)


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    """What is put into a pointer to a function."""
    left, right = part_of(node, "left"), part_of(node, "right")
    scope = builder.scope(node)
    if left is None or right is None or left.type != "identifier" or right.type != "identifier":
        return
    name, value = builder.text(left), builder.text(right)
    if (scope, name) in builder.local_variables and name != value:
        builder.bind(scope, name, value)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    name, reached = _unwrap_declarator(part_of(node, "declarator"))
    kind = part_of(node, "type")
    if name is None or name.type != "identifier":
        return
    if kind is not None and kind.type != "placeholder_type_specifier":
        values = _declarator_values(builder.writer, kind, reached)
        builder.bind_declared(builder.scope(node), builder.text(name), values)
    else:
        elements = element_values(builder.writer.values(part_of(node, "right")))
        builder.bind_observed(builder.scope(node), builder.text(name), elements)


EXTRACTION = ExtractionRules(
    expressions=EXPRESSIONS,
    handlers={
        "include": _read_include, "namespace": _read_namespace, "namespace.alias": _read_namespace_alias,
        "bases": _read_bases, "function": _read_function, "typedef": _read_typedef, "alias": _read_alias,
        "field": _read_field, "enumerator": _read_enumerator, "parameter": _read_parameter,
        "declaration": _read_declaration, "assignment": _read_assignment, "loop": _read_loop,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify=_qualify, is_private=_is_static,
)  # fmt: skip


SUFFIXES = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".inl", ".ipp", ".c++", ".h++", ".inc")
_STANDARD_HEADERS = _WORDS["standard_headers"]
_MEMBERS_PREFIX = "members of "


class CFamily(Language):
    """C and C++; see https://en.cppreference.com/w/cpp/language/lookup."""

    name = "cpp"
    builtins = BUILTINS
    members_in_scope = True
    receiver_in_scope = True
    private_to_file = True
    has_includes = True
    has_dotted_modules = True
    has_scattered_members = True
    constructors_named_after_type = True
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _WORDS["common_methods"]

    def is_star_exported(self, name: str) -> bool:
        """All that a header has is brought."""
        return True

    def member_home(self, facts: FileFacts) -> str:
        """All files: a class's methods lie anywhere."""
        return f"{_MEMBERS_PREFIX}{facts.path}"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The file that is included; a namespace."""
        if "/" in name or name.endswith(SUFFIXES):
            return _find_included_file(name, path, layout)
        if name.startswith("."):
            name = path.rstrip("/") + name
        return (f"{name}/",) if layout.project.files_defining(f"within {name}") else ()

    def submodule_name(self, name: str) -> str:
        """A namespace within a namespace."""
        return f".{name}"

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files that define what is linked; those nearest to the file, where several do."""
        files = [file for file in layout.project.files_defining(name) if file.endswith(SUFFIXES)]
        if path.startswith(_MEMBERS_PREFIX):
            return tuple(sorted(files))
        if path.endswith("/"):
            return tuple(
                sorted(set(files).intersection(layout.project.files_defining(f"package {path[:-1]}")))
            )
        return _find_nearest(files, path)

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """The header as it is written."""
        return module

    def extend_external_name(self, external: str, step: str) -> str:
        """A header gives no names of its own; `std` does."""
        return "" if "/" in external or external.endswith(SUFFIXES) else external + step

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of the standard library."""
        return external in _STANDARD_HEADERS or external.startswith("std.")

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`geo::Circle::area`; of C, the name alone, as it is linked."""
        parts = [*layout.facts(path).module.split("."), *name.split(".")]
        return "::".join(part for part in parts if part) if name else path


def _find_included_file(name: str, path: str, layout: Layout) -> tuple[str, ...]:
    """A file relative to the one that includes it, or the nearest whose path ends as it is written."""
    near, end = climb_path(path, name)
    if near in layout.paths:
        return (near,)
    if name in _STANDARD_HEADERS or not end:
        return ()
    files = [file for file in layout.files_named(end.rpartition("/")[2]) if file.endswith(SUFFIXES)]
    return _find_nearest((file for file in files if file == end or file.endswith(f"/{end}")), path)[:1]


def _find_nearest(candidates: Iterable[str], path: str) -> tuple[str, ...]:
    """Those that share the most folders with a file."""
    shared = {file: count_shared_folders(file, path) for file in candidates if file != path}
    most = max(shared.values(), default=0)
    return tuple(sorted(file for file, count in shared.items() if count == most))
