"""Rust: what its files and Cargo.toml say, and how its names lead to definitions.

Modules lie in files, members in any `impl`. Source: https://doc.rust-lang.org/reference/
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Values,
    add_prefix,
    element_values,
    first_segment,
    own_value,
    parent_scope,
    tuple_values,
    values_at,
)
from knowledge_pipeline.code_graph.facts_builder import (
    Captures,
    ExpressionSyntax,
    FactsBuilder,
    Handler,
    TypeSyntax,
    gives,
)
from knowledge_pipeline.code_graph.languages.base import Language, load_words, split_scoped_name, split_words
from knowledge_pipeline.code_graph.project import Layout, iter_folders, join_path
from knowledge_pipeline.syntax.grammars import (
    children_of,
    children_of_type,
    has_type,
    iter_ancestors,
    part_of,
)
from knowledge_pipeline.syntax.outline import OutlineDefinition
from knowledge_pipeline.text import is_object

_WORDS = load_words("rust")

_MAX_PATH = 160


_WRAPPER_VARIANTS = frozenset({"Some", "Ok", "Option.Some", "Result.Ok"})
_TRANSPARENT_PATTERNS = ("ref_pattern", "mut_pattern", "reference_pattern", "match_pattern")
_MAX_DEPTH = 8
_USE_NODES = (
    "scoped_use_list", "use_list", "use_wildcard", "use_as_clause", "scoped_identifier", "identifier", "self",
    "crate", "super",
)  # fmt: skip

_WORD = re.compile(r"[^\W\d]\w*")
_RUST_FILE = re.compile(r"\"([^\"\\\s]{1,200}\.rs)\"")
_PLACED_MODULE = re.compile(
    rf"^[ \t]*+#\[path\s*+=\s*+{_RUST_FILE.pattern}\s*+\](?:\s*+(?:#\[[^\]\n]*+\]|//[^\n]*+)){{0,5}}+\s*+"
    r"(?:pub(?:\([^()]*+\))?\s++)?mod\s++(\w++)\s*+;",
    re.MULTILINE,
)
_ITEM_NODES = (
    "function_item", "struct_item", "enum_item", "union_item", "trait_item", "type_item", "const_item",
    "static_item", "mod_item", "field_declaration",
)  # fmt: skip


def _iter_functions(node: Node) -> Iterator[Node]:
    yield from children_of_type(part_of(node, "body"), "function_item", "function_signature_item")


class RustReader(FactsBuilder):
    """Reads files of Rust."""

    def _is_private(self, node: Node, name: str) -> bool:
        """Without `pub`, unless a trait says that it is there; `pub(crate)` is of the crate."""
        around = node.parent
        around = around.parent if around is not None and around.parent is not None else around
        if around is None or node.type not in _ITEM_NODES:
            return False
        if around.type == "trait_item" or part_of(around, "trait") is not None:
            return False
        return "pub" not in map(self.text, children_of_type(node, "visibility_modifier"))

    def _qualify(self, definition: OutlineDefinition, enclosing: str) -> str:
        """Names of the definitions around; an `impl` goes by the last name of its type."""
        return ".".join(
            (_WORD.findall(one.name) or ["impl"])[-1] if one.kind == "impl" else one.name
            for one in definition.scope
        )

    def _special_type_values(self, node: Node, depth: int) -> Values | None:
        """`Box<T>` is its `T`, `Result<T, E>` holds `T`, a tuple has places."""
        if node.type == "tuple_type":
            return tuple_values(self.values_of_type(child, depth + 1) for child in node.named_children)
        if node.type != "generic_type":
            return None
        name = (self.path(part_of(node, "type")) or "").rpartition(".")[2]
        arguments = [one for one in children_of(part_of(node, "type_arguments")) if one.type != "lifetime"]
        if not arguments:
            return None
        if name in _WORDS["transparent_types"]:
            return self.values_of_type(arguments[-1], depth + 1)
        if name.endswith("Result"):
            return [("", f"{name}()"), *add_prefix("[]", self.values_of_type(arguments[0], depth + 1))]
        return None

    def _absolute_path(self, node: Node, parts: list[str], file_head: str) -> str:
        """A path with `self` and `super` as the file sees them, whatever modules are written within it."""
        if parts[0] not in ("self", "super"):
            return ".".join(parts)
        modules = (parent for parent in iter_ancestors(node) if parent.type == "mod_item")
        around = [self.text(name) for module in modules if (name := part_of(module, "name"))][::-1]
        rest = parts[1:] if parts[0] == "self" else parts
        while rest and rest[0] == "super" and around:
            around.pop()
            rest = rest[1:]
        inside = [] if rest and rest[0] == "super" else [file_head, *around]
        return ".".join([*inside, *rest])

    def _scoped_path(self, node: Node) -> str | None:
        parts = split_scoped_name(self.short_text(node, _MAX_PATH + 1))
        return self._absolute_path(node, parts, "@file") if parts else None

    def _closure_values(self, node: Node) -> Values:
        body = part_of(node, "body")
        values = [] if has_type(body, "block") else self.values(body)
        return add_prefix("()", [*self.values_of_type(part_of(node, "return_type")), *values])

    def _call_values(self, node: Node) -> Values:
        """`Some(x)` and `Ok(x)` hold x; `Box::new(x)` is x."""
        name, values = self.path(part_of(node, "function")), children_of(part_of(node, "arguments"))
        if len(values) == 1 and name in ("Some", "Ok"):
            return add_prefix("[]", self.values(values[0]))
        owner, _, method = (name or "").rpartition(".")
        is_transparent = method == "new" and owner in _WORDS["transparent_types"]
        return self.values(values[0]) if is_transparent and len(values) == 1 else []

    expressions = ExpressionSyntax(
        names=split_words("identifier type_identifier self super crate shorthand_field_identifier"),
        members={"field_expression": ("value", "field")}, calls={"call_expression": ("function",)},
        suffixed={
            "try_expression": (0, "[]"), "struct_expression": ("name", "()"), "index_expression": (0, "[]"),
        },
        transparent={
            "generic_function": "function", "generic_type": "type", "generic_type_with_turbofish": "type",
            "reference_expression": "value", "unary_expression": 0, "parenthesized_expression": 0,
            "await_expression": 0, "reference_type": "type", "dynamic_type": "trait",
        },
        contents={"closure_expression": _closure_values, "call_expression": _call_values},
        path_writers={
            "scoped_identifier": _scoped_path, "scoped_type_identifier": _scoped_path,
            "type_cast_expression": lambda reader, node: own_value(
                reader.values_of_type(part_of(node, "type"))
            ),
        },
        types=TypeSyntax(
            generic={"generic_type": "type_arguments"}, arrays={"array_type": "element"},
            transparent={
                "reference_type": "type", "pointer_type": "type", "dynamic_type": "trait",
                "abstract_type": "trait", "bounded_type": 0,
            },
            functions={"function_type": "return_type"},
        ),
    )  # fmt: skip

    def _bind_pattern(
        self, node: Node | None, values: Values, *, declared: bool = False, depth: int = 0
    ) -> None:
        if node is None or depth > _MAX_DEPTH:
            return
        kind, parts = node.type, list[tuple[Node, Values]]()
        if kind in ("identifier", "shorthand_field_identifier"):
            self._bind_name(node, values, declared=declared)
        elif kind in _TRANSPARENT_PATTERNS:
            inner = [child for child in node.named_children if child.type != "mutable_specifier"]
            parts = [(child, values) for child in inner[:1]]
        elif kind == "tuple_pattern":
            listed = enumerate(node.named_children)
            parts = [(part, values_at(values, f"[{position}]")) for position, part in listed]
        elif kind == "tuple_struct_pattern":
            is_wrapper = self.path(part_of(node, "type")) in _WRAPPER_VARIANTS
            elements = element_values(values) if is_wrapper else []
            parts = [(part, elements) for part in node.named_children[1:]]
        elif kind == "struct_pattern":  # `Point { x, y: Some(z) }` gives fields of a `Point`
            of, declared = self.path(part_of(node, "type")), False
            for child in children_of_type(node, "field_pattern"):
                if (name := part_of(child, "name")) is not None:
                    field = [("", f"{of}().{self.text(name)}")] if of else []
                    parts.append((part_of(child, "pattern") or name, field))
        elif kind in ("or_pattern", "captured_pattern"):
            children = node.named_children
            parts = [(part, values) for part in (children if kind == "or_pattern" else children[:1])]
        for part, part_values in parts:
            self._bind_pattern(part, part_values, declared=declared, depth=depth + 1)

    def _bind_name(self, node: Node, values: Values, *, declared: bool) -> None:
        name = self.text(node)
        if name[:1].isupper() or name == "_":  # a constant, or a variant
            return
        self.skip_reference(node)
        if declared:
            self.bind_declared(self.scope(node), name, values)
        else:
            others = [value for value in values if first_segment(value[1]) != name]
            self.bind_observed(self.scope(node), name, others)

    def _read_import(self, node: Node) -> None:
        """What a `use` takes, each of a group by itself; another crate."""
        exported, scope = any(children_of_type(node, "visibility_modifier")), self.scope(node)
        if node.type == "extern_crate_declaration":
            name = self.text(part_of(node, "name"))
            local = self.text(part_of(node, "alias")) or name
            self.add_import(node, name, "", local, scope=scope, exported=exported)
            return
        for parts, local in self._iter_use_paths(part_of(node, "argument"), [], 0):
            if parts[0][:1].isupper():
                parts = ["self", *parts]
            path = self._absolute_path(node, parts, "self")
            module, _, name = path.rpartition(".")
            local = "*" if module and name == "*" else local
            name = name if module else ""
            self.add_import(node, module or path, name, local, scope=scope, exported=exported)

    def _iter_use_paths(
        self, node: Node | None, prefix: list[str], depth: int
    ) -> Iterator[tuple[list[str], str]]:
        if node is None or depth > 12:
            return
        path = part_of(node, "path")
        if node.type == "scoped_use_list":
            parts = split_scoped_name(self.text(path))
            for child in children_of_type(part_of(node, "list"), *_USE_NODES):
                yield from self._iter_use_paths(child, [*prefix, *parts], depth + 1)
        elif node.type == "use_list":
            for child in children_of_type(node, *_USE_NODES):
                yield from self._iter_use_paths(child, prefix, depth + 1)
        elif node.type == "use_wildcard":
            parts = split_scoped_name(self.text(part_of(node, 0)))
            if prefix or parts:
                yield [*prefix, *parts, "*"], "*"
        elif node.type == "use_as_clause":
            alias = self.text(part_of(node, "alias"))
            for parts, _ in self._iter_use_paths(path, prefix, depth + 1):
                yield parts, alias if alias != "_" else ""
        elif parts := split_scoped_name(self.text(node)):
            parts = prefix if parts == ["self"] and prefix else [*prefix, *parts]
            yield parts, parts[-1]

    @cached_property
    def _placed_modules(self) -> dict[str, str]:
        """The files of modules with a `#[path]`, by their names."""
        return {name: path for path, name in _PLACED_MODULE.findall(self.syntax.text)}

    def _read_module(self, node: Node) -> None:
        """`mod a;` is another file; `#[path = "b.rs"]` says which."""
        name = self.text(part_of(node, "name"))
        if name and part_of(node, "body") is None:
            path = self._absolute_path(node, ["self", name], "self")
            if name in self._placed_modules:
                path = self._placed_modules[name]
                self.settings[_PATH + join_path(self.file_path.rpartition("/")[0], path)] = name
            exported = any(children_of_type(node, "visibility_modifier"))
            self.add_import(node, path, "", name, scope=parent_scope(self.scope(node)), exported=exported)

    def _read_impl(self, node: Node) -> None:
        """`impl Trait for Store`: within it, `Self` is `Store`, and `self` one of them."""
        path, trait, scope = self.path(part_of(node, "type")), part_of(node, "trait"), self.scope(node)
        for function in _iter_functions(node) if path else ():
            inner = self.scope(function)
            self.bind(inner, "Self", path or "")
            self.bind(inner, "self", f"{path}()", declared=True)
        if trait is not None:
            is_type = path == scope.rpartition(".")[2] and scope in self.type_names
            self.add_base("implements" if is_type else "references", trait, scope if is_type else "")

    def _read_trait(self, node: Node) -> None:
        for function in _iter_functions(node):
            self.bind(self.scope(function), "Self", "@class")
            self.bind(self.scope(function), "self", "@self")
        for bound in children_of(part_of(node, "bounds")):
            if bound.type != "lifetime":
                self.add_base("extends", bound, self.scope(node))

    def _read_bound(self, node: Node) -> None:
        """`T: Store` stands for a `Store`."""
        name = part_of(node, "name") or part_of(node, "left")
        if has_type(name, "type_identifier"):
            paths = [self.path(bound) for bound in children_of(part_of(node, "bounds"))]
            for path in [path for path in paths if path and path != self.text(name)] or [""]:
                self.bind(self.scope(node), self.text(name), path)

    def _read_field(self, node: Node) -> None:
        scope, name = self.scope(node), self.text(part_of(node, "name"))
        around = node.parent.parent if node.parent is not None else None
        if name and scope in self.type_names and not has_type(around, "enum_variant"):
            self.add_variable(scope, name, node)
            self.bind_declared(scope, name, self.values_of_type(part_of(node, "type")), local=False)

    def _read_constant(self, node: Node) -> None:
        name, scope = self.text(part_of(node, "name")), self.scope(node)
        scope = parent_scope(scope) if scope.rpartition(".")[2] == name else scope
        self.bind_declared(scope, name, self.values_of_type(part_of(node, "type")), local=False)

    def _read_parameter(self, node: Node) -> None:
        values = self.values_of_type(part_of(node, "type"))
        around = node.parent.parent if node.parent is not None else None
        if around is not None and around.type != "function_type":
            self._bind_pattern(part_of(node, "pattern"), values, declared=True)

    def _read_closure(self, node: Node) -> None:
        called = part_of(node.parent.parent, "function") if node.parent is not None else None
        handed: Values = []
        if has_type(called, "field_expression"):
            owner, method = part_of(called, "value"), part_of(called, "field")
            handed = self.handed_values(owner, method, _WORDS["callback_methods"])
        for parameter in children_of(part_of(node, "parameters")):
            if parameter.type != "parameter":
                self._bind_pattern(parameter, handed)

    def _read_let(self, node: Node) -> None:
        kind, value = part_of(node, "type"), part_of(node, "value")
        values = self.values_of_type(kind) if kind is not None else self.values(value)
        self._bind_pattern(part_of(node, "pattern"), values, declared=kind is not None)

    def _read_loop(self, node: Node) -> None:
        elements = element_values(self.values(part_of(node, "value")))
        self._bind_pattern(part_of(node, "pattern"), elements)

    def _read_match(self, node: Node) -> None:
        values = self.values(part_of(node, "value"))
        for arm in children_of_type(part_of(node, "body"), "match_arm"):
            self._bind_pattern(part_of(arm, "pattern"), values)

    def _read_struct_literal(self, node: Node) -> None:
        """`Store { rows }` makes a `Store`, and names its fields."""
        path = self.path(part_of(node, "name"))
        for initializer in children_of_type(part_of(node, "body"), "field_initializer"):
            field = self.text(part_of(initializer, "field"))
            if path and field:
                self.add_use("references", f"{path}().{field}", initializer)

    def _read_macro(self, node: Node) -> None:
        name = part_of(node, "macro")
        if name is not None:
            self.skip_reference(name)
            self.add_use("references", self.path(name), name)
        match = _RUST_FILE.search(self.short_text(node, 300)) if self.text(name) == "include" else None
        if match:  # as if it stood here
            self.add_import(node, match[1], "*", "*", scope=self.scope(node), exported=True)

    def _read_macro_definition(self, node: Node) -> None:
        """`#[macro_export]` makes a macro a name of the crate's root."""
        before = node.prev_named_sibling
        while before is not None and before.type in ("attribute_item", "line_comment"):
            if before.type == "attribute_item" and "macro_export" in self.text(before):
                self.settings[_MACRO + self.text(part_of(node, "name"))] = "yes"
            before = before.prev_named_sibling

    def _read_macro_tokens(self, node: Node) -> None:
        """Calls within a macro's arguments, which are read as mere tokens."""
        path, last = "", node
        for child in node.children:
            text = self.text(child) if child.type in ("identifier", "self", "super", "crate") else ""
            if text:
                path, last = f"{path}{text}" if path.endswith(".") else text, child
            elif child.type in (".", "::") and path:
                path += "."
            elif child.type == "token_tree" and path and path[-1] != "." and child.children[0].type == "(":
                self.add_use("calls", path, last)
                path = f"{path}()" if len(path) < 100 else ""
            else:
                path = ""

    def _finish(self, captures: Captures) -> None:
        """`serde_json::from_str()` takes from a crate that no `use` names."""
        if any(imported.name == "*" for imported in self.imports):
            return
        names = {*self._names.values(), *(imported.local for imported in self.imports)}
        for node in captures.get("crate", ()):
            name = self.text(node)
            if name not in names and name[:1].islower():
                names.add(name)
                self.add_import(node, name, "", name)

    handlers: Mapping[str, Handler] = {
        "import": _read_import, "module": _read_module, "impl": _read_impl, "trait": _read_trait,
        "function": gives("return_type"), "bound": _read_bound, "field": _read_field,
        "variant": lambda reader, node: reader.add_enum_constant(node, part_of(node, "name")),
        "constant": _read_constant, "alias": FactsBuilder.bind_alias, "parameter": _read_parameter,
        "closure": _read_closure, "let": _read_let, "loop": _read_loop, "match": _read_match,
        "literal": _read_struct_literal, "macro": _read_macro, "tokens": _read_macro_tokens,
        "macro.definition": _read_macro_definition,
    }  # fmt: skip
    builtins = _WORDS["builtins"]
    sees_sibling_names = True
    type_part_kinds = frozenset({"impl"})


_MEMBERS_PREFIX = "crate of "
_ROOT_PREFIX = "root of "
_MACRO = "shared macro "  # the setting of a file with a macro that its crate exports
_PATH = "shared path "  # the setting of a file that gives a file, named behind it, the name of a module
_RENAMED = "renamed "
_ROOT_FILES = ("lib.rs", "main.rs", "build.rs")
_CRATE_PER_FILE_FOLDERS = ("tests", "examples", "benches", "src/bin")

CrateRoot = tuple[str, str]  # a crate: the folder of its modules, and its root file ("src", "src/lib.rs")


def parse_manifest(path: str, text: str) -> dict[str, str]:
    """The name of the crate, and the root file of its library where that is another than usual."""
    try:
        manifest: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    sections = (manifest.get(name) for name in ("package", "lib"))
    package, library = (section if is_object(section) else dict[str, Any]() for section in sections)
    name, root = library.get("name") or package.get("name"), library.get("path")
    crates = {"crate": name.replace("-", "_")} if isinstance(name, str) else {}
    renamed = {
        f"{_RENAMED}{name.replace('-', '_')}": real.replace("-", "_")
        for dependencies in _iter_dependencies(manifest, 0)
        for name, dependency in dependencies.items()
        if is_object(dependency) and isinstance(real := dependency.get("package"), str)
    }
    return crates | renamed | ({"lib": root} if isinstance(root, str) else {})


def _iter_dependencies(section: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    """The tables of dependencies of a manifest, its workspace and its targets."""
    for name, part in section.items():
        if is_object(part) and name.endswith("dependencies"):
            yield part
        elif is_object(part) and depth < 2 and (depth or name in ("workspace", "target")):
            yield from _iter_dependencies(part, depth + 1)


def _find_real_name(layout: Layout, folder: str, crate: str) -> str:
    """The name of a crate that a manifest at or above a folder gives another name."""
    manifests = (f"{around}/Cargo.toml".lstrip("/") for around in iter_folders(folder))
    settings = (layout.facts(path).settings for path in manifests if path in layout.paths)
    return next((one[_RENAMED + crate] for one in settings if _RENAMED + crate in one), crate)


def _locate_module(path: str, layout: Layout) -> tuple[CrateRoot, list[str]]:
    """The crate of a file, and the path of the module that it is."""
    if (file := layout.get_or_build(_find_declaring, path)) is None:
        return _locate_by_path(path, layout)
    crate, segments = _locate_by_path(file, layout)
    return crate, [*segments, layout.facts(file).settings[_PATH + path]]


def _find_declaring(layout: Layout, path: str) -> str | None:
    """The file whose `#[path]` names a file."""
    return min(layout.project.files_defining(_PATH + path), default=None)


def _locate_by_path(path: str, layout: Layout) -> tuple[CrateRoot, list[str]]:
    package = _find_crate_folder(path, layout)
    inner = path[len(package) :].lstrip("/")
    for own in _CRATE_PER_FILE_FOLDERS:  # each file in `tests` is a crate; what lies deeper is of all of them
        if inner.startswith(f"{own}/"):
            inside = inner[len(own) + 1 :]
            root = "" if "/" in inside else path
            return (f"{package}/{own}".lstrip("/"), root), [] if root else _module_segments(inside)
    folder = f"{package}/src".lstrip("/") if inner.startswith("src/") else package
    roots = [f"{folder}/{name}".lstrip("/") for name in _ROOT_FILES]
    root = path if path in roots else next((file for file in roots if file in layout.paths), "")
    return (folder, root), [] if path == root else _module_segments(inner.removeprefix("src/"))


def _module_segments(inside: str) -> list[str]:
    parts = inside.removesuffix(".rs").split("/")
    return parts[:-1] if parts[-1] == "mod" else parts


def _find_module_file(folder: str, root: str, segments: list[str], layout: Layout) -> tuple[str, ...]:
    if not segments:
        return (root,) if root else ()
    stem = f"{folder}/{'/'.join(segments)}".lstrip("/")
    return tuple(file for file in (f"{stem}.rs", f"{stem}/mod.rs") if file in layout.paths)[:1]


def _find_crate_folder(path: str, layout: Layout) -> str:
    folders = layout.get_or_build(_list_package_folders)
    return next((folder for folder in iter_folders(path.rpartition("/")[0]) if folder in folders), "")


def _list_package_folders(layout: Layout) -> frozenset[str]:
    manifests = (
        path for path in layout.files_named("Cargo.toml") if layout.facts(path).settings.get("crate")
    )
    if names := frozenset(path.rpartition("/")[0] for path in manifests):
        return names
    roots = (path for path in layout.paths if path.endswith(("src/lib.rs", "src/main.rs")))
    return frozenset(root.rpartition("src/")[0].rstrip("/") for root in roots)


def _index_crates(layout: Layout) -> Mapping[str, CrateRoot]:
    roots: dict[str, CrateRoot] = {}
    for path in layout.files_named("Cargo.toml"):
        settings, folder = layout.facts(path).settings, path.rpartition("/")[0]
        root = f"{folder}/{settings.get('lib', 'src/lib.rs')}".lstrip("/")
        if "crate" in settings and root in layout.paths:
            roots.setdefault(settings["crate"], (root.rpartition("/")[0], root))
    return roots


class Rust(Language):
    """Rust, as its reference says, chapter 12: https://doc.rust-lang.org/reference/names.html."""

    name = "rust"
    reader = RustReader
    builtins = RustReader.builtins
    submodule_prefix = "self."
    members_prefix = _MEMBERS_PREFIX
    root_prefix = _ROOT_PREFIX
    has_dotted_modules = True
    has_scattered_members = True
    has_duplicate_type_names = True
    members_in_body = False
    element_accessors = ("next()[]",)
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _WORDS["common_methods"]

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The file of `crate.a.b`, `self.b`, `super.b`, another crate's, or one below the file."""
        if name.endswith(".rs"):
            home = _find_crate_folder(path, layout) if name[0] == "/" else path.rpartition("/")[0]
            file = join_path(home, name)
            return (file,) if file in layout.paths else ()
        first, *rest = name.split(".")
        (folder, root), at = _locate_module(path, layout)
        if first == "crate":
            return _find_module_file(folder, root, rest, layout)
        if first in ("self", "super"):
            climbs = (first, *rest).count("super")
            inner = [part for part in rest if part != "super"]
            return _find_module_file(folder, root, [*at[: max(len(at) - climbs, 0)], *inner], layout)
        if file := _find_module_file(folder, root, [*at, first, *rest], layout):
            return file
        crate = layout.get_or_build(_find_real_name, _find_crate_folder(path, layout), first)
        other = layout.get_or_build(_index_crates).get(crate)
        return _find_module_file(*other, rest, layout) if other else ()

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the crate that define a member; a macro is seen in all files, without import."""
        if path.startswith(_ROOT_PREFIX):
            path = path.removeprefix(_ROOT_PREFIX)
            crate, root = _locate_module(path, layout)[0]
            files = layout.project.files_defining(_MACRO + name) if path == root else ()
            return tuple(sorted(file for file in files if _locate_module(file, layout)[0] == (crate, root)))
        is_macro = name[:1].islower() and name not in self.builtins
        if not (is_macro or path.startswith(_MEMBERS_PREFIX)):
            return ()
        home = _find_crate_folder(path.removeprefix(_MEMBERS_PREFIX), layout)
        files = (file for file in layout.project.files_defining(name) if file.endswith(".rs"))
        return tuple(sorted(file for file in files if _find_crate_folder(file, layout) == home))

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`std::fmt::Display`; nothing for what the crate itself should have."""
        if module.endswith(".rs") or module.partition(".")[0] in ("self", "super", "crate"):
            return ""
        parts = module.split(".")
        return "::".join([*parts, name] if name not in ("", "*") else parts)

    def extend_external_name(self, external: str, step: str) -> str:
        """`serde_json::Value` called is one; its members follow `::`."""
        if step[0] == "." and first_segment(external) in self.builtins:
            return external + step
        if step[0] == ".":
            return f"{external}::{step[1:]}" if not external.endswith(")") else ""
        is_type = external.rpartition("::")[2][:1].isupper()
        return external if is_type and step == "()" else external + step

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of `std`, `core` or `alloc`."""
        return external.partition("::")[0] in ("std", "core", "alloc")

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`shop::store::Store::get`."""
        (_, root), module = _locate_module(path, layout)
        manifest = f"{_find_crate_folder(path, layout)}/Cargo.toml".lstrip("/")
        exists = manifest in layout.paths
        crate = layout.facts(manifest).settings.get("crate", "crate") if exists else "crate"
        stem = root.rpartition("/")[2].removesuffix(".rs")
        crate = crate if stem in ("lib", "main", "mod", "") else f"{crate}::{stem}"
        return "::".join(part for part in (crate, *module, *name.split(".")) if part) or path
