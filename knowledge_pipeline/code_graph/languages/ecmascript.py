"""JavaScript and TypeScript: what statements, functions and classes say, and how names are resolved."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    UseKind,
    Values,
    called_values,
    iterated_values,
    last_segment,
    parent_scope,
    step_values,
)
from knowledge_pipeline.code_graph.facts_builder import Captures, Handler
from knowledge_pipeline.code_graph.languages.base import Language, load_words
from knowledge_pipeline.code_graph.languages.ecmascript_configs import read_settings
from knowledge_pipeline.code_graph.languages.ecmascript_modules import (
    GLOBALS,
    SUFFIXES,
    EcmaScriptModules,
    find_auto_imports,
    find_entry_file,
    find_globals,
    find_module_files,
    find_package,
)
from knowledge_pipeline.code_graph.languages.ecmascript_values import (
    MAX_PARAMETERS,
    list_arguments,
    to_segment,
    unwrap_expression,
)
from knowledge_pipeline.code_graph.project import Layout
from knowledge_pipeline.syntax.grammars import (
    ancestor_of_type,
    children_of,
    children_of_type,
    first_of_type,
    has_child,
    has_type,
    part_of,
)
from knowledge_pipeline.syntax.outline import TYPE_KINDS, Outline

_WORDS = load_words("ecmascript")

_MAX_DEPTH = 6
_NAME_NODES = ("identifier", "shorthand_property_identifier_pattern")
_PLACE_NODES = ("member_expression", "subscript_expression")


def _iter_declared_names(target: Node, depth: int = 0) -> Iterator[Node]:
    if target.type in _NAME_NODES:
        yield target
        return
    children = target.named_children if depth <= _MAX_DEPTH else []
    if target.type in ("assignment_pattern", "object_assignment_pattern"):
        children = [part_of(target, "left") or child for child in children[:1]]
    for child in children:
        if target.type != "pair_pattern" or child != part_of(target, "key"):
            yield from _iter_declared_names(child, depth + 1)


_MAX_OBJECTS = 3  # within each other
_MAX_PROPERTIES = 40
_DEFINED_FUNCTION_NODES = (
    "function_declaration", "generator_function_declaration", "function_expression", "generator_function",
    "arrow_function", "method_definition",
)  # fmt: skip


_NAMES = ("identifier", "type_identifier", "member_expression", "nested_type_identifier")
_MAX_CHAINED_ASSIGNMENTS = 8  # a = b = c
_FUNCTION_NODES = ("arrow_function", "function_expression", "generator_function")
_CALLBACK_NODES = (*_FUNCTION_NODES, "object")


class EcmaScriptReader(EcmaScriptModules):
    """Reads files of JavaScript and TypeScript."""

    def __init__(self, path: str, outline: Outline) -> None:
        super().__init__(path, outline)
        self._bodies: list[tuple[int, int, bool]] = []  # bytes of functions, whether they are definitions

    @cached_property
    def _exported_names(self) -> set[str]:
        """The names that a module exports by themselves, and "default"; nothing for what exports nothing."""
        names: set[str] = set()
        for statement in children_of_type(self.syntax.root, "export_statement"):
            names.add("default")
            value = part_of(statement, "value")
            nodes = [value] if has_type(value, "identifier") else []
            for clause in children_of_type(statement, "export_clause"):
                nodes += [part_of(one, "name") for one in children_of_type(clause, "export_specifier")]
            nodes += children_of_type(statement, "identifier")
            names.update(self.text(node) for node in nodes if node is not None)
        return names | self._global_names if names else names

    @cached_property
    def _global_names(self) -> set[str]:
        """What a module defines within `declare global` for all files."""
        spaces = (one for one in children_of(self.syntax.root) if has_child(one, "global"))
        blocks = (first_of_type(space, "statement_block") for space in spaces)
        names = (part_of(one, "name") for block in blocks for one in children_of(block))
        return {self.text(name) for name in names if name is not None}

    def _is_private(self, node: Node, name: str) -> bool:
        """In a module: neither exported nor in such a thing; `private`, `#name`."""
        if "." in name:
            return last_segment(name).startswith("#") or super()._is_private(node, name)
        if not self._exported_names or name in self._exported_names:
            return False
        around = ancestor_of_type(node, "export_statement", "program")
        return node.type != "export_statement" and not has_type(around, "export_statement")

    def _bind_pattern(
        self, scope: str, target: Node, values: Values, *, declared: bool = False, depth: int = 0
    ) -> None:
        kind = target.type
        if depth > _MAX_DEPTH:
            return
        if kind in _NAME_NODES or kind in _PLACE_NODES:
            path = self.text(target) if kind in _NAME_NODES else self.path(target)
            self.bind_name(scope, path, values, declared=declared)
            return
        for part, inner in self._iter_parts(target, values):
            self._bind_pattern(scope, part, inner, declared=declared, depth=depth + 1)

    def _iter_parts(self, target: Node, values: Values) -> Iterator[tuple[Node, Values]]:
        kind = target.type
        if kind == "object_pattern":
            yield from self._iter_properties(target, values)
        elif kind == "array_pattern":
            for position, element in enumerate(target.named_children[:20]):
                yield element, [] if element.type == "rest_pattern" else step_values(values, f"[{position}]")
        elif kind in ("assignment_pattern", "object_assignment_pattern"):
            if (left := part_of(target, "left")) is not None:
                yield left, values + self.values(part_of(target, "right"))
        elif kind in ("rest_pattern", "parenthesized_expression", "non_null_expression"):
            yield from ((child, values) for child in target.named_children[:1])

    def _iter_properties(self, target: Node, values: Values) -> Iterator[tuple[Node, Values]]:
        for child in target.named_children[:60]:
            if child.type == "shorthand_property_identifier_pattern":
                yield child, step_values(values, f".{self.text(child)}")
            elif child.type == "object_assignment_pattern":
                yield child, step_values(values, f".{self.text(part_of(child, 'left'))}")
            elif child.type == "pair_pattern":
                key, value = part_of(child, "key"), part_of(child, "value")
                if key is not None and value is not None:
                    is_name = key.type.endswith("identifier")
                    yield value, step_values(values, f".{self.text(key)}") if is_name else []
            elif child.type == "rest_pattern":
                yield child, [value for value in values if value[0][:1] in ("", ".")]

    def _read_function(self, node: Node) -> None:
        body, parameters, single = (part_of(node, field) for field in ("body", "parameters", "parameter"))
        scope, span = self.scope(parameters or body or node), (node.start_byte, node.end_byte)
        if single is not None:
            self._bind_pattern(self.scope(single), single, [])
        is_definition = span in self._definition_spans
        self._bodies.append((*span, is_definition))
        listed = ((part_of(one, "pattern") or one, one) for one in children_of(parameters))
        kept = ((pattern, one) for pattern, one in listed if pattern.type not in ("this", "comment"))
        for position, (pattern, parameter) in enumerate(kept):
            values = self._bind_parameter(scope, parameter, pattern)
            if not is_definition or position >= MAX_PARAMETERS:
                continue
            if values and pattern.type == "identifier":
                self.bind(scope, f"@{position}", self.text(pattern))
            else:
                self.bind_all(scope, f"@{position}", values, declared=True)
        if is_definition:
            self.bind_result(scope, part_of(node, "return_type"))
            if node.type == "arrow_function" and not has_type(body, "statement_block"):
                self.bind_all(scope, "@()", self.values(body))
            if any(child.type == "get" for child in node.children[:6]):
                self.bind(scope, "@", "@()")

    def _bind_callback_parameters(self, argument: Node, values: Values, depth: int = 0) -> None:
        """Give the parameters of a function, or of those in an object, what a declared type says."""
        function = unwrap_expression(argument)
        if depth > _MAX_OBJECTS:
            return
        if has_type(function, "object"):
            for child in function.named_children[:_MAX_PROPERTIES]:
                key = part_of(child, "key") or part_of(child, "name")
                value = part_of(child, "value") if child.type == "pair" else child
                if value is not None and has_type(key, "property_identifier"):
                    inner = step_values(values, f".{self.text(key)}")
                    self._bind_callback_parameters(value, inner, depth + 1)
        elif has_type(function, *_DEFINED_FUNCTION_NODES):
            scope = self.scope(part_of(function, "body") or function)
            single = part_of(function, "parameter")
            parameters = [single] if single is not None else children_of(part_of(function, "parameters"))
            for position, parameter in enumerate(parameters[:MAX_PARAMETERS]):
                if part_of(parameter, "type") is None:
                    pattern = part_of(parameter, "pattern") or parameter
                    self._bind_pattern(scope, pattern, step_values(values, f".@{position}"))

    def _read_return(self, node: Node) -> None:
        value = part_of(node, 0)
        starts, are_functions = self._function_spans
        if value is not None and are_functions[bisect_right(starts, node.start_byte) - 1]:
            self.bind_all(self.scope(node), "@()", self.values(value))

    def _read_yield(self, node: Node) -> None:
        """What a generator gives one by one."""
        values = self.values(part_of(node, 0))
        elements = iterated_values(values) if has_child(node, "*") else values
        self.bind_all(self.scope(node), "@()[]", elements)

    @cached_property
    def _definition_spans(self) -> set[tuple[int, int]]:
        """The bytes of functions by which names are found: of definitions, or the values of such."""
        nodes = (definition.node for definition in self.outline.definitions)
        values = (part_of(node, "value") or part_of(node, "right") or node for node in nodes)
        return {(value.start_byte, value.end_byte) for value in values}

    def _bind_parameter(self, scope: str, node: Node, pattern: Node) -> Values:
        """Bind a parameter; gives what its type promises."""
        declared, value = part_of(node, "type"), part_of(node, "value")
        if pattern.type == "rest_pattern":
            pattern = part_of(pattern, 0) or pattern
        values = self.values_of_type(declared)
        if declared is not None:
            self._bind_pattern(scope, pattern, values, declared=True)
        if value is not None or not values:
            self._bind_pattern(scope, pattern, self.values(value))
        is_field = has_child(node, "accessibility_modifier", "readonly", "override_modifier")
        owner = parent_scope(scope)  # `constructor(private store: Store)` declares a field, too
        if is_field and pattern.type == "identifier" and owner in self.type_names:
            name = to_segment(self.text(pattern))
            self.add_variable(owner, name, node)
            self.bind_all(owner, name, values, declared=True)
        return values

    @cached_property
    def _function_spans(self) -> tuple[list[int], list[bool]]:
        """From which bytes on the innermost function is a definition, or none; once all were read."""
        starts, are_functions = [0], [False]
        around: list[tuple[int, bool]] = []
        for start, end, is_definition in (*self._bodies, (2**62, 2**62, False)):
            while around and around[-1][0] <= start:
                starts.append(around.pop()[0])
                are_functions.append(around[-1][1] if around else False)
            around.append((end, is_definition))
            starts.append(start)
            are_functions.append(is_definition)
        return starts, are_functions

    def _read_heritage(self, node: Node) -> None:
        """`extends A.B<C> implements D`, of classes and interfaces."""
        scope = self.scope(node)
        if node.type == "extends_type_clause":
            self._read_bases(scope, node.children_by_field_name("type"), "extends")
            return
        for clause in node.named_children:
            kind: UseKind = "implements" if clause.type == "implements_clause" else "extends"
            is_list = clause.type == "extends_clause"
            bases = clause.named_children if kind == "implements" else [clause]
            self._read_bases(scope, clause.children_by_field_name("value") if is_list else bases, kind)

    def _read_bases(self, scope: str, bases: list[Node], kind: UseKind) -> None:
        for base in bases:
            name = unwrap_expression(part_of(base, "name") if base.type == "generic_type" else base)
            if has_type(name, *_NAMES):
                self.add_use(kind, "".join((self.path(name) or "").split()), name, scope)
                self.skip_reference(name)

    def _read_super_call(self, node: Node) -> None:
        """`super(…)` calls what the class extends."""
        around = self.outline.innermost_definition(self.syntax.start(node))
        while around is not None and around.kind not in TYPE_KINDS:
            around = around.parent
        body = around.node if around is not None else None
        body = part_of(body, "value") if has_type(body, "variable_declarator") else body
        clause = part_of(first_of_type(body, "class_heritage"), 0)
        base = part_of(clause, "value") if has_type(clause, "extends_clause") else clause
        self.add_use("calls", self.path(base), node)

    def _read_field(self, node: Node) -> None:
        name_node, scope = part_of(node, "name") or part_of(node, "property"), self.scope(node)
        is_definition = (node.start_byte, node.end_byte) in self.definition_names
        if name_node is None or is_definition or scope not in self.type_names:
            return
        name = to_segment(self.text(name_node))
        self.add_variable(scope, name, node)
        self.bind_all(scope, name, self.values_of_type(part_of(node, "type")), declared=True)
        self.bind_all(scope, name, self.values(part_of(node, "value")))

    def _read_type_name(self, node: Node) -> None:
        """`bigint` is TypeScript's own, though its grammar takes it for a name."""
        if self.short_text(node, 7) == "bigint":
            self.skip_reference(node)

    def _read_property(self, node: Node) -> None:
        name_node, scope = part_of(node, "name"), self.scope(node)
        if name_node is not None and scope:
            name = to_segment(self.text(name_node))
            self.add_variable(scope, name, node)
            self.bind_all(scope, name, self.values_of_type(part_of(node, "type")), declared=True)

    def _read_call_signature(self, node: Node) -> None:
        """What an interface says of its instances when they are called: `(store: Store): Rows`."""
        scope = self.scope(node)
        if scope in self.type_names:
            result = self.values_of_type(part_of(node, "return_type"))
            self.bind_all(scope, "@call()", result, declared=True)
            for suffix, path in self._callback_parameter_values(node):
                self.bind(scope, suffix[1:], path, declared=True)

    def _read_enum_member(self, node: Node) -> None:
        self.add_definition(f"{self.scope(node)}.{to_segment(self.text(node))}", "variable", node)

    def _read_type_alias(self, node: Node) -> None:
        """What a name for a type stands for; one for a type of an object is itself what has its members."""
        value, scope = part_of(node, "value"), self.scope(node)
        if value is None or not scope:
            return
        parts = value.named_children if value.type == "intersection_type" else [value]
        if any(part.type == "object_type" for part in parts):
            self.bind(scope, "@()", "@", declared=True)
        for part in parts:
            if part.type != "object_type":
                self.bind_all(scope, "@()", self.values_of_type(part), declared=True)

    def _read_type_parameter(self, node: Node) -> None:
        scope, name = self.scope(node), self.text(part_of(node, "name"))
        values = [value for suffix, value in self.values_of_type(part_of(node, "constraint")) if not suffix]
        for value in values if name else ():
            if value.endswith("()"):
                self.bind(scope, name, value[:-2], declared=True)
            else:
                self.bind(scope, f"{name}()", value, declared=True)
        if not values:
            self.bind(scope, name, "")

    def _read_variable(self, node: Node) -> None:
        target, value = part_of(node, "name"), part_of(node, "value")
        if target is None or self._read_require_declaration(target, value):
            return
        scope, declared = self.scope(target), part_of(node, "type")
        is_function = (node.start_byte, node.end_byte) in self.definition_names
        if declared is not None:  # `const f: Handler = …`: the variable, what it gives, and its parameters
            values = self.values_of_type(declared)
            if is_function:
                self.bind_all(scope, "@()", called_values(values), declared=True)
            else:
                self._bind_pattern(scope, target, values, declared=True)
            if value is not None:
                self._bind_callback_parameters(value, values)
        if value is not None and not is_function:
            self._bind_pattern(scope, target, self.values(value))
            # a local object with functions of its own is a definition, for they are named after it
            literal = unwrap_expression(value)
            members = children_of(literal) if scope and has_type(literal, "object") else []
            has_functions = any((it.start_byte, it.end_byte) in self.definition_names for it in members)
            if has_functions and target.type == "identifier":
                self.add_variable(scope, self.text(target), target)
        elif value is None and declared is None:
            self._bind_pattern(scope, target, [])

    def _read_global(self, node: Node) -> None:
        target = part_of(node, "name")
        if target is None or (node.start_byte, node.end_byte) in self.definition_names:
            return
        if self._find_required_module(part_of(node, "value"))[0] is not None:
            return  # an import
        for name in _iter_declared_names(target):
            self.add_variable(self.scope(target), to_segment(self.text(name)), node)

    def _read_assignment(self, node: Node) -> None:
        left, value = part_of(node, "left"), part_of(node, "right")
        for _ in range(_MAX_CHAINED_ASSIGNMENTS):
            if has_type(value, "assignment_expression"):
                value = part_of(value, "right") or value
        if left is None or value is None:
            return
        defines = (node.start_byte, node.end_byte) in self.definition_names
        if defines:
            self.skip_reference(left)
        if not self._read_export_assignment(left, value) and not defines:
            self._bind_pattern(self.scope(node), left, self.values(value))

    def _read_loop(self, node: Node) -> None:
        left, values = part_of(node, "left"), self.values(part_of(node, "right"))
        if left is not None:
            elements = iterated_values(values) if has_type(part_of(node, "operator"), "of") else []
            self._bind_pattern(self.scope(node), left, elements)

    def _read_decorator(self, node: Node) -> None:
        """A decorator without arguments is called, too."""
        name = part_of(node, 0)
        if has_type(name, "identifier", "member_expression"):
            self.add_use("calls", self.path(name), name)
            self.skip_reference(name)

    def _read_jsx_element(self, node: Node) -> None:
        """`<Button/>` calls Button; `<div>` is the browser's."""
        name = part_of(node, "name")
        path = self.path(name) or ""
        if name is not None:
            self.skip_reference(name)
            if "." in path or not path[:1].islower():
                self.add_use("calls", path, name)

    def _read_call(self, node: Node) -> None:
        self._read_dynamic_import(node)
        called, arguments = part_of(node, "function"), list_arguments(node)
        if called is None or not arguments:
            return
        self._bind_callbacks(called, arguments)
        if called.type != "member_expression":
            return
        name, of = self.short_text(part_of(called, "property"), 24), part_of(called, "object")
        if name in ("push", "unshift", "add", "set"):
            added = arguments[1 if name == "set" else 0 :]
            path = self.path(of)
            if added and path:
                self.bind_all(self.scope(added[0]), f"{path}[]", self.values(added[0]))
        elif arguments[0].type in _FUNCTION_NODES and (name == "then" or name in _WORDS["callback_methods"]):
            # give the first parameter values, where it declares no type
            values = self.values(of) if name == "then" else iterated_values(self.values(of))
            function = arguments[0]
            target = part_of(function, "parameter") or part_of(part_of(function, "parameters"), 0)
            if target is not None and part_of(target, "type") is None:
                self._bind_pattern(self.scope(function), part_of(target, "pattern") or target, values)

    def _bind_callbacks(self, callee: Node | None, call_arguments: list[Node]) -> None:
        """What is called says with its types what it gives to functions that it is given."""
        for position, argument in enumerate(call_arguments[:MAX_PARAMETERS]):
            if argument.type in _CALLBACK_NODES and (path := self.path(callee)):
                self._bind_callback_parameters(argument, [("", f"{path}.@{position}")])

    def _read_new(self, node: Node) -> None:
        self._bind_callbacks(part_of(node, "constructor"), list_arguments(node))

    def _finish(self, captures: Captures) -> None:
        """Read the settings of a bundler's file, and what holds in other files without import."""
        self.settings |= read_settings(self)
        is_module = first_of_type(self.syntax.root, "import_statement", "export_statement")
        is_script = self.file_path.endswith(".d.ts") and is_module is None
        if is_script or self._global_names:
            self.settings[GLOBALS] = "*" if is_script else " ".join(sorted(self._global_names))

    handlers: Mapping[str, Handler] = {
        "import": EcmaScriptModules.read_import, "export": EcmaScriptModules.read_export,
        "global": _read_global, "variable": _read_variable, "assignment": _read_assignment,
        "loop": _read_loop, "function": _read_function, "return": _read_return, "yield": _read_yield,
        "heritage": _read_heritage, "super": _read_super_call, "field": _read_field,
        "property": _read_property, "member": _read_enum_member, "alias": _read_type_alias,
        "typename": _read_type_name, "parameter": _read_type_parameter, "decorator": _read_decorator,
        "element": _read_jsx_element, "invoked": _read_call, "made": _read_new,
        "signature": _read_call_signature,
    }  # fmt: skip
    builtins = _WORDS["builtins"]


class EcmaScript(Language):
    """JavaScript, TypeScript and TSX, which import each other: one language to the resolver."""

    name = "typescript"
    nested_methods_in_scope = False
    private_to_file = True
    receiver_keywords: Mapping[str, str] = {"this": "@self", "super": "@super"}
    reader = EcmaScriptReader
    builtins = EcmaScriptReader.builtins
    call_method = "@call"
    element_accessors = ("@@iterator()[]",)
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _WORDS["common_methods"]

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A module's file."""
        return find_module_files(name, path, layout)

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files of what needs no import: by a framework, or declared for all files."""
        return find_auto_imports(name, path, layout) or find_globals(name, path, layout)

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`zod.ZodError`, `react.useState`; nothing for a file that should lie in the source."""
        if module.startswith((".", "/")):
            return ""
        module = module.removeprefix("node:")
        return f"{module}.{name}" if name not in ("", "default", "module.exports") else module

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of a module that Node brings along."""
        return external.partition(".")[0].partition("/")[0] in _WORDS["node_modules"]

    def is_star_exported(self, name: str) -> bool:
        """All but the default."""
        return name != "default"

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`package/folder/file.Class.method`; `package.Class` in the file that a package is known by."""
        folder, package = find_package(path, layout)
        inner = path[len(folder) :].lstrip("/")
        suffixes = (suffix for suffix in sorted(SUFFIXES, key=len, reverse=True) if inner.endswith(suffix))
        module = f"{package}/{inner.removesuffix(next(suffixes, ''))}".strip("/")
        if package and find_entry_file(folder, layout) == path:
            module = package
        return f"{module}.{name}" if name else module
