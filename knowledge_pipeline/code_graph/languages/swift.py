"""Swift: what its declarations, patterns and packages say, and how its names lead to definitions.

Source: https://docs.swift.org/swift-book/documentation/the-swift-programming-language/aboutthelanguagereference
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Values, add_prefix, element_values, own_value
from knowledge_pipeline.code_graph.facts_builder import Handler, name_from_around
from knowledge_pipeline.code_graph.languages.base import Language, load_words
from knowledge_pipeline.code_graph.languages.swift_expressions import (
    SwiftExpressions,
    find_parameter_type,
    find_result_type,
)
from knowledge_pipeline.code_graph.project import Layout
from knowledge_pipeline.syntax.grammars import children_of_type, first_of_type, has_child, has_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("swift")

_MAX_DEPTH = 8


def _find_case_name(pattern: Node) -> Node | None:
    """`found` of the pattern `.found(x)`."""
    for before, child in zip(pattern.children, pattern.children[1:], strict=False):
        if before.type == "." and child.type == "simple_identifier":
            return child
    return None


def _iter_names(pattern: Node, depth: int) -> Iterator[Node]:
    yield from pattern.children_by_field_name("bound_identifier")
    if depth <= _MAX_DEPTH:
        for part in children_of_type(pattern, "pattern"):
            yield from _iter_names(part, depth + 1)


_BODIES = ("class_body", "enum_class_body", "protocol_body")


_IMPORT_KINDS = ("struct", "class", "enum", "protocol", "typealias", "func", "let", "var")


class SwiftReader(SwiftExpressions):
    """Reads files of Swift."""

    def _qualify(self, definition: OutlineDefinition, enclosing: str) -> str:
        """`Store.get`; a subscript has no other name than that."""
        name = "subscript" if definition.node.type == "subscript_declaration" else definition.name
        return f"{enclosing}.{name}" if enclosing else name

    def _bind_pattern(self, scope: str, node: Node, values: Values, depth: int = 0) -> None:
        kind = part_of(node, "name")
        if depth > _MAX_DEPTH:
            return
        if kind is not None:
            for name in _iter_names(node, depth):
                self.bind_declared(scope, self.text(name), self.values_of_type(kind))
                self.skip_reference(name)
            path = own_value(values) if has_child(node, "is") else None
            if path is not None and path.isidentifier():  # `case is Special` says more of what is matched
                self.bind_all(scope, path, self.values_of_type(kind), declared=True)
            return
        case, inner = _find_case_name(node), list(children_of_type(node, "pattern"))
        if case is not None:
            for name, after in zip(node.children, node.children[1:], strict=False):
                if after.type == ":":
                    self.skip_reference(name)
            self.skip_reference(case)
            self._bind_case(scope, case, inner, values, depth)
            return
        names, parts = node.children_by_field_name("bound_identifier"), node.named_children
        if depth and not names and len(parts) == 1 and parts[0].type == "simple_identifier":
            names = parts  # in a tuple: `a` of `let (a, b)`
        for name in names:
            self._bind_name(scope, name, values)
        for at, part in enumerate(inner):
            step = f"[{at}]"
            places = [(suffix[len(step) :], path) for suffix, path in values if suffix.startswith(step)]
            places += [("", path + step) for suffix, path in values if not suffix]
            self._bind_pattern(scope, part, values if len(inner) == 1 else places, depth + 1)

    def _read_conditions(self, node: Node) -> None:
        """`if let x = y`, `guard case let .found(x) = y`, `while let …`."""
        scope = self.scope(node)
        waiting: list[Node] = []
        declared: Node | None = None
        for at, child in enumerate(node.children):
            field = node.field_name_for_child(at)
            if field == "bound_identifier" or child.type in ("pattern", "simple_identifier", "."):
                waiting.append(child)
            elif child.type == "type_annotation":
                declared = child
            elif child.type == "=" and at + 1 < len(node.children):
                self._read_condition(scope, waiting, declared, node.children[at + 1])
                waiting, declared = [], None
            elif waiting and waiting[0].type == ".":  # a comma between the patterns of a case: `.found(a, b)`
                continue
            elif child.type in (",", "case", "if", "guard", "while"):
                waiting, declared = [], None

    def _read_switch(self, node: Node) -> None:
        values = self.values(part_of(node, "expr"))
        for entry in children_of_type(node, "switch_entry"):
            for alternative in children_of_type(entry, "switch_pattern"):
                for pattern in children_of_type(alternative, "pattern"):
                    self._bind_pattern(self.scope(node), pattern, values)

    def _read_loop(self, node: Node) -> None:
        """`for item in items`, `for (key, value) in table`."""
        item, scope = part_of(node, "item"), self.scope(node)
        if item is None:
            return
        elements = element_values(self.values(part_of(node, "collection")))
        inner = list(children_of_type(item, "pattern"))
        if len(inner) == 2 and _find_case_name(item) is None and part_of(item, "name") is None:
            self._bind_pattern(scope, inner[0], [], 1)
            self._bind_pattern(scope, inner[1], elements, 1)  # the value of a dictionary, or after a number
        else:
            self._bind_pattern(scope, item, elements)

    def _read_catch(self, node: Node) -> None:
        """`catch let problem as StoreError`; `error` where nothing is written."""
        scope, pattern = self.scope(node), part_of(node, "error")
        if pattern is None:
            self.bind_observed(scope, "error", [])
        else:
            self._bind_pattern(scope, pattern, [])

    def _read_condition(self, scope: str, pending: list[Node], declared: Node | None, value: Node) -> None:
        values = self.values(value)
        if len(pending) > 1 and pending[0].type == ".":
            for label in pending[1:]:
                if label.type == "simple_identifier" or label is pending[1]:
                    self.skip_reference(label)
            patterns = [child for child in pending[2:] if child.type == "pattern"]
            self._bind_case(scope, pending[1], patterns, values, 0)
            return
        for child in pending:
            if child.type == "pattern":
                self._bind_pattern(scope, child, values)
            elif declared is not None:
                self.bind_declared(scope, self.text(child), self.values_of_type(declared))
            elif child.type == "simple_identifier":
                self._bind_name(scope, child, values)

    def _bind_case(self, scope: str, case: Node, patterns: list[Node], values: Values, depth: int) -> None:
        """`.found(x)`: a case of the type that is matched, and what goes with it."""
        name, of = self.text(case), own_value(values)
        if of and name not in ("some", "none"):
            self.add_use("references", f"{of}.{name}", case)
        for at, pattern in enumerate(patterns):
            payload = values if name == "some" else [("", f"{of}.{name}@{at}")] if of else []
            # a name alone, within a case that is matched by `let`, is bound, too
            only = pattern.named_children
            if len(only) == 1 and only[0].type == "simple_identifier" and _find_case_name(pattern) is None:
                self._bind_name(scope, only[0], payload)
            else:
                self._bind_pattern(scope, pattern, payload, depth + 1)

    def _bind_name(self, scope: str, name: Node, values: Values) -> None:
        """Bind a name; where its value starts with the same name, to what that means around."""
        text = self.text(name).strip("`")
        self.skip_reference(name)
        if text not in ("self", "_"):
            self.bind_observed(scope, text, name_from_around(text, values))

    def _read_property(self, node: Node) -> None:
        """Properties of files and types are definitions; others are local variables."""
        scope, kind = self.scope(node), first_of_type(node, "type_annotation")
        of_file, of_type = has_type(node.parent, "source_file"), has_type(node.parent, *_BODIES)
        if part_of(node, "computed_value") is None:
            owner = "" if of_file else scope if of_type else None
            for at, child in enumerate(node.children):
                if node.field_name_for_child(at) == "name":
                    after = node.children[at + 1 : at + 4]  # of several names: `var a: Item, b = Item()`
                    end = next((at for at, other in enumerate(after) if other.type == ","), len(after))
                    self._bind_property(scope, owner, child, node, after[:end])
        elif of_file or of_type:  # with a getter, it is read like a field
            self._bind_receiver(scope, node)
            self.bind(scope, "@", "@()")
            self.bind_result(scope, kind)
        else:
            self.bind_declared(scope, self.text(part_of(node, "name")), self.values_of_type(kind))

    def _bind_property(
        self, scope: str, owner: str | None, pattern: Node, node: Node, following: list[Node]
    ) -> None:
        kind = next((child for child in following if child.type == "type_annotation"), None)
        equals = next((at for at, child in enumerate(following) if child.type == "="), len(following))
        value = following[equals + 1] if equals + 1 < len(following) else None
        name, at, local = (
            part_of(pattern, "bound_identifier"),
            scope if owner is None else owner,
            owner is None,
        )
        if name is None:
            self._bind_pattern(at, pattern, self.values(value))
            return
        text = self.text(name).strip("`")
        if not local:
            self.add_variable(at, text, node)
        if kind is None and local and self.path(value) == text:  # `let parent = parent`
            self.bind(scope, text, f"@around.{text}")
        else:
            self.bind_variable(at, text, kind, value, local=local)

    def _read_requirement(self, node: Node) -> None:
        """A property that a protocol asks for."""
        scope, name = self.scope(node), self.text(part_of(part_of(node, "name"), "bound_identifier"))
        if name and scope in self.type_names:
            self.add_variable(scope, name, node)
            kind = first_of_type(node, "type_annotation")
            self.bind_declared(scope, name, self.values_of_type(kind), local=False)

    def _bind_receiver(self, scope: str, node: Node) -> None:
        """A member in an extension has what is extended as its receiver."""
        around = node.parent.parent if has_type(node.parent, *_BODIES) else None
        if around is not None and any(child.type == "extension" for child in around.children[:4]):
            path = self.path(part_of(around, "name"))
            self.bind(scope, "@receiver", f"{path}()" if path else "", declared=True)

    def _read_import(self, node: Node) -> None:
        """A module brings all that it exports; `import struct Shop.Item` one thing."""
        path = self.dotted_text(first_of_type(node, "identifier") or node)
        exported = "@_exported" in self.text(node)
        module, _, name = (path or "").rpartition(".")
        if module and has_child(node, *_IMPORT_KINDS):
            self.add_import(node, module, name, name, exported=exported)
        elif path:
            self.add_import(node, path, "*", "*", exported=exported)
            self.add_import(node, path, "", path)

    def _read_base(self, node: Node) -> None:
        """What a type extends or conforms to: which of both, the kind of what is named says."""
        kind, scope, around = part_of(node, "inherits_from"), self.scope(node), node.parent
        if kind is None or around is None or not self.path(kind):
            return
        first = first_of_type(around, "inheritance_specifier")
        is_class = has_type(part_of(around, "declaration_kind"), "class")
        if scope not in self.type_names:  # an extension of another file's type
            self.add_base("references", kind, "")
        elif around.type == "protocol_declaration" or (
            is_class and first is not None and first.id == node.id
        ):
            self.add_base("extends", kind, scope)
        else:
            self.add_base("implements", kind, scope)

    def _read_bound(self, node: Node) -> None:
        """`T: Item` stands for its bound."""
        name = part_of(node, "constrained_type") or part_of(node, 0)
        kinds = node.children_by_field_name("name")
        kind = kinds[-1] if kinds and kinds[-1].type != "type_identifier" else None
        text = self.dotted_text(name)
        if name is not None and text and text.isidentifier():
            self.skip_reference(name)
            self.bind(self.scope(node), text, self.path(kind) or "")

    def _read_function(self, node: Node) -> None:
        scope, parameters = self.scope(node), list(children_of_type(node, "parameter"))
        self._bind_receiver(scope, node)
        if node.type == "init_declaration":
            self.bind(scope, "@()", "@class()", declared=True)
        self.bind_result(scope, find_result_type(node))
        for position, parameter in enumerate(parameters):
            handed = self._bind_parameter(scope, parameter, position)
            if position == len(parameters) - 1:
                self.bind_all(scope, "@closure", handed, declared=True)

    def _bind_parameter(self, scope: str, node: Node, position: int) -> Values:
        """Bind a parameter; gives what the function hands to it, if it is a closure."""
        name, kind = part_of(node, "name"), find_parameter_type(node)
        if name is None:
            return []
        values = self.values_of_type(kind)
        if has_child(node, "...") or self.text(node).endswith("..."):
            values = add_prefix("[]", values)
        self.bind_declared(scope, self.text(name), values)
        label = self.text(part_of(node, "external_name") or name)
        own_values = [value for value in values if value[1].removesuffix("()") not in self.builtins]
        handed = self._closure_parameter_values(kind)
        key = str(position) if label == "_" else label
        self.bind_all(scope, f"@{key}", [*own_values, *handed], declared=True)
        return handed

    def _closure_parameter_values(self, kind: Node | None) -> Values:
        """What a function hands to a closure of a type that it is given: (".@0", "Item()")."""
        if has_type(kind, "optional_type"):
            kind = part_of(kind, "wrapped")
        if has_type(kind, "tuple_type"):
            kind = part_of(part_of(kind, 0) or kind, -1)
        parameters = part_of(kind, "params") if has_type(kind, "function_type") else None
        listed = enumerate(children_of_type(parameters, "tuple_type_item"))
        places = ((at, self.values_of_type(part_of(item, -1))) for at, item in listed)
        return [value for at, values in places for value in add_prefix(f".@{at}", values)]

    def _read_enum_entry(self, node: Node) -> None:
        """The cases of an enum: instances of it, and what goes with them."""
        scope, name = self.scope(node), ""
        for at, child in enumerate(node.children):
            if node.field_name_for_child(at) == "name" and scope in self.type_names:
                name = self.text(child).strip("`")
                self.add_variable(scope, name, child)
                self.bind(scope, name, "@class()", declared=True)
            elif child.type == "enum_type_parameters" and name:
                self.bind(scope, f"{name}()", "@class()", declared=True)
                for position, kind in enumerate(child.children_by_field_name("name")):
                    self.bind_all(scope, f"{name}@{position}", self.values_of_type(kind), declared=True)

    def _read_lambda(self, node: Node) -> None:
        listed = first_of_type(part_of(node, "type"), "lambda_function_type_parameters")
        for position, parameter in enumerate(children_of_type(listed, "lambda_parameter")):
            name, kind = self.text(part_of(parameter, "name")), find_parameter_type(parameter)
            if name not in ("", "_"):
                handed = self._closure_argument_path(node, position) if kind is None else None
                self.bind_variable(self.scope(node), name, kind, [("", handed)] if handed else [])

    def _read_implicit_member(self, node: Node) -> None:
        """`.fast` refers to what it names; `.custom(…)` is read as a call."""
        if not has_type(node.parent, "call_expression"):
            self.add_use("references", self.path(node), node)

    def _read_attribute(self, node: Node) -> None:
        """`@Test` is Swift Testing's macro, whatever else has that name."""
        if self.text(node) in ("Test", "Suite"):
            self.skip_reference(node)

    handlers: Mapping[str, Handler] = {
        "attribute": _read_attribute, "import": _read_import, "base": _read_base,
        "alias": lambda reader, node: reader.bind_result(reader.scope(node), find_parameter_type(node)),
        "bound": _read_bound, "function": _read_function, "property": _read_property,
        "requirement": _read_requirement, "entry": _read_enum_entry, "lambda": _read_lambda,
        "implicit": _read_implicit_member, "loop": _read_loop, "conditions": _read_conditions,
        "switch": _read_switch, "catch": _read_catch,
    }  # fmt: skip
    builtins = _WORDS["builtins"]
    sees_sibling_names = True
    type_part_kinds = frozenset({"extension"})


_FOLDERS = ("Sources", "Source", "Tests", "Plugins")
_TARGET = re.compile(r"\.(?:executableTarget|testTarget|target|macro|plugin)\s*\(\s*name:\s*\"([^\"]+)\"")
_PATH = re.compile(r"\bpath:\s*\"([^\"]*)\"")
_TARGET_PREFIX = "target "
_TARGETS = "targets"


def parse_manifest(path: str, text: str) -> dict[str, str]:
    """The targets, and folders of those that lie elsewhere than usual: {"target Alamofire": "Source"}."""
    starts = list(_TARGET.finditer(text))
    folders = {_TARGETS: " ".join(target[1] for target in starts)}
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
    places = [at for at, part in enumerate(parts[:-1]) if part in _FOLDERS]
    if not places:
        return ""
    packages = (at for at in reversed(places) if "/".join([*parts[:at], "Package.swift"]) in layout.paths)
    at = next(packages, places[0])  # `Tests/ShopTests/Sources` is a folder of `ShopTests`
    return "/".join(parts[: min(at + 2, len(parts) - 1)])


def _list_seen_folders(layout: Layout, root: str) -> frozenset[str]:
    """The folder of a module, and for tests those beside it that are no target: each compiles them."""
    around, _, name = root.rpartition("/")
    if around.rpartition("/")[2] != "Tests":
        return frozenset({root})
    declared = [layout.facts(path).settings.get(_TARGETS, "") for path in layout.files_named("Package.swift")]
    modules = layout.get_or_build(_index_modules)
    beside = {root for roots in modules.values() for root in roots if root.rpartition("/")[0] == around}
    is_target = {*" ".join(declared).split(), name}
    return frozenset(
        {root, around}
        | {one for one in beside if one.rpartition("/")[2] not in is_target and not one.endswith("Tests")}
    )


def _module_name_of(root: str, layout: Layout) -> str:
    names = (name for folder, name in layout.get_or_build(_list_targets) if folder == root)
    return next(names, root.rpartition("/")[2])


def _list_targets(layout: Layout) -> Values:
    modules: Values = []
    for path in layout.files_named("Package.swift"):
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


_MEMBERS_PREFIX = "members of "


class Swift(Language):
    """Swift, as its language reference says: https://docs.swift.org/swift-book/."""

    name = "swift"
    receiver_keywords: Mapping[str, str] = {"Self": "@class"}
    reader = SwiftReader
    builtins = SwiftReader.builtins
    star_exports_all = True
    members_prefix = _MEMBERS_PREFIX
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

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """The folder of a module; of several of one name, in other packages, all."""
        return tuple(f"{root}/" for root in layout.get_or_build(_index_modules).get(name, ()))

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of the module that define a name; of any module, for members of a type."""
        files = (file for file in layout.project.files_defining(name) if file.endswith(".swift"))
        if path.startswith(_MEMBERS_PREFIX):
            return tuple(sorted(files))
        if path.endswith("/"):
            seen = frozenset({path.rstrip("/")})
        else:
            seen = layout.get_or_build(_list_seen_folders, _find_module_folder(path, layout))
        return tuple(sorted(file for file in files if _find_module_folder(file, layout) in seen))

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
