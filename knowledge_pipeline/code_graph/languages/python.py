"""Python: what its files say, and how its names lead to definitions.

Calls bind parameters of functions of the same file (`run(job)` binds one to `job`), where the parameter
has no declared type and the call names the function by scope alone: `run(…)`, `Store(…)`, `self.run(…)`.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Value,
    Values,
    add_prefix,
    iterated_values,
    last_segment,
    parent_scope,
    step_values,
    values_at,
)
from knowledge_pipeline.code_graph.facts_builder import Captures, Handler, returns
from knowledge_pipeline.code_graph.languages.base import Language, load_words
from knowledge_pipeline.code_graph.languages.python_values import PythonValues, values_of_annotation
from knowledge_pipeline.code_graph.project import Layout, count_shared_folders
from knowledge_pipeline.syntax.grammars import (
    MAX_CHAIN,
    children_of,
    children_of_type,
    has_child,
    has_type,
    iter_ancestors,
    part_of,
)

_WORDS = load_words("python")

_PROPERTY_DECORATORS = frozenset(
    {"property", "cached_property", "hybrid_property", "abstractproperty", "getter", "setter"}
)

_CONTEXT_MANAGERS = {"contextmanager": "__enter__", "asynccontextmanager": "__aenter__"}
_MAX_ARGUMENTS = 20
_PARAMETERS = frozenset({"identifier", "default_parameter", "typed_parameter", "typed_default_parameter"})
_LITERAL_NODES = frozenset({"string", "integer", "float", "true", "false", "none", "concatenated_string"})


class OpenParameters(NamedTuple):
    """The parameters of a function that can be given in order."""

    positional: list[str]
    receivers: int  # 1 if the first one is the receiver
    untyped: frozenset[str]  # those without a declared type


_BUILTINS = frozenset(dir(builtins)) - {"super"}
_ADDING_METHODS = {
    **dict.fromkeys(("append", "add", "appendleft", "put", "put_nowait", "push"), 0),
    **dict.fromkeys(("insert", "setdefault", "__setitem__"), 1),
}
"""Methods that add an argument to their object, and its position."""

_QUOTED = re.compile(r"""["']([^\W\d]\w*)["']""")
_PLAIN_LIST = re.compile(r"""[\[(](?:\s*["']\w+["']\s*,?|\s*\#[^\n]*\n)*\s*[\])]""")
_ANNOTATION = re.compile(r"""[^\W\d][\w.]*(?:\[[\w., \[\]|]*\])?(?:\s*\|\s*[\w.\[\], ]+)*""")
_NAME = re.compile(r"[^\W\d][\w.]*")
_PATTERNS = ("pattern_list", "tuple_pattern", "tuple", "list_pattern", "list")
_TARGET_NODES = ("identifier", "attribute", "subscript")
_MAX_TYPE_NESTING = 32  # of a quoted name in what annotates
_NODES_WITHIN_TYPES = ("type_parameter", "generic_type", "binary_operator", "subscript")
_SUFFIXES = (".py", ".pyi", ".pyw")
_BUILTIN_TYPES = (str, bytes, dict, list, set, frozenset, tuple, int, float, bool, object)


class PythonReader(PythonValues):
    """Reads files of Python."""

    def _is_private(self, node: Node, name: str) -> bool:
        """By custom: `_name`, but not `__name__`."""
        last = last_segment(name)
        return last.startswith("_") and not (last.startswith("__") and last.endswith("__"))

    def _bind_annotation(self, scope: str, path: str | None, annotation: Node, prefix: str = "") -> None:
        """Bind a path to what an annotation promises, or to something unknown."""
        values = add_prefix(prefix, values_of_annotation(self.text(annotation)))
        self.bind_name(scope, path, values, declared=True)

    def _read_definition(self, node: Node) -> None:
        """Parameters, receiver and declared result of a function, and what its decorators make of it."""
        parameters = part_of(node, "parameters")
        if parameters is None or not parameters.parent:
            return
        scope, marks = self.scope(parameters), set(self._iter_decorators(node))
        names = list(self._bind_parameters(scope, parameters))
        if parent_scope(scope) in self.type_names and "staticmethod" not in marks and names:
            is_class = "classmethod" in marks or scope.endswith((".__new__", ".__init_subclass__"))
            self.bind(scope, names[0], "@class" if is_class else "@self", declared=True)
        result = values_of_annotation(self.text(part_of(node, "return_type")))
        self.bind_all(scope, "@()", result, declared=True)
        if marks.intersection(_PROPERTY_DECORATORS):
            self.bind(scope, "@", "@()")
        for mark in marks.intersection(_CONTEXT_MANAGERS):
            self.bind(scope, f"@().{_CONTEXT_MANAGERS[mark]}()", "@()[]")

    def _iter_decorators(self, node: Node) -> Iterator[str]:
        """Last names of a definition's decorators."""
        if has_type(node.parent, "decorated_definition"):
            for child in children_of_type(node.parent, "decorator"):
                match = _NAME.search(self.text(child)[:200])
                yield match[0].rpartition(".")[2] if match else ""

    def _bind_parameters(self, scope: str, parameters: Node) -> Iterator[str]:
        """Bind parameters to what their types and defaults promise; give their names."""
        for child in parameters.named_children:
            inner = (
                child if child.type == "identifier" else part_of(child, "name") or part_of(child, 0) or child
            )
            name = self.text(inner)
            suffix = "[]" if name.startswith("*") else ""
            name = name.strip("*( ")
            if not name.isidentifier():
                continue
            self.skip_reference(part_of(inner, 0) or inner)
            if (declared := part_of(child, "type")) is not None:
                self._bind_annotation(scope, name, declared, suffix)
            self.bind_name(scope, name, self.values(part_of(child, "value")))
            yield name

    def _read_lambda(self, node: Node) -> None:
        list(self._bind_parameters(self.scope(node), node))

    def _read_yield(self, node: Node) -> None:
        """What a generator gives when it is iterated."""
        values = self.values(part_of(node, 0))
        elements = iterated_values(values) if has_child(node, "from") else values
        self.bind_all(self.scope(node), "@()[]", elements)

    def _bind_call_arguments(self, captures: Captures) -> None:
        """Bind parameters to the arguments of calls, and of decorators to what they decorate."""
        signatures = dict(self._iter_signatures(captures.get("def", ())))
        for node in captures.get("decorator", ()):
            decorator, label = (
                part_of(node, 0),
                self.text(part_of(part_of(node.parent, "definition"), "name")),
            )
            if label and has_type(decorator, "identifier"):
                name = self._find_callee(signatures, self.scope(node), self.text(decorator))
                first = signatures[name].positional[:1] if name is not None else []
                if name is not None and signatures[name].untyped.intersection(first):
                    self.bind(self.scope(node), f"@in {name}@{first[0]}", label)
        for node in captures.get("call", ()):
            called, arguments = part_of(node, "function"), part_of(node, "arguments")
            if called is not None and children_of(arguments):
                name = self._find_callee(signatures, self.scope(node), self.path(called))
                if name is not None:
                    self._bind_arguments(self.scope(node), name, signatures[name], children_of(arguments))

    def _iter_signatures(self, definitions: Iterable[Node]) -> Iterator[tuple[str, OpenParameters]]:
        """The functions with a parameter of which the type is not declared."""
        for node in definitions:
            parameters = part_of(node, "parameters")
            if parameters is None or not parameters.named_child_count:
                continue
            scope, in_order = self.scope(parameters), True
            positional, untyped = list[str](), set[str]()
            for child in parameters.named_children:
                if child.type in _PARAMETERS:
                    name = self.text(part_of(child, "name") or part_of(child, 0) or child)
                    positional += [name] if in_order else []
                    untyped |= {name} if part_of(child, "type") is None else set()
                elif child.type in ("list_splat_pattern", "keyword_separator"):
                    in_order = False
            is_method = parent_scope(scope) in self.type_names
            receivers = positional[: is_method and "staticmethod" not in self._iter_decorators(node)]
            if untyped.difference(receivers):
                yield scope, OpenParameters(positional, len(receivers), frozenset(untyped))

    def _bind_arguments(
        self, scope: str, name: str, signature: OpenParameters, arguments: list[Node]
    ) -> None:
        names, position = signature.positional[signature.receivers :], 0
        for child in arguments[:_MAX_ARGUMENTS]:
            if child.type in ("list_splat", "dictionary_splat"):
                return
            key = part_of(child, "name") if child.type == "keyword_argument" else None
            value = part_of(child, "value") if key is not None else child
            if value is None or child.type == "comment":
                continue
            parameter = (
                self.text(key) if key is not None else names[position] if position < len(names) else ""
            )
            position += 1
            if parameter in signature.untyped and value.type not in _LITERAL_NODES:
                self.bind_all(scope, f"@in {name}@{parameter}", self.values(value))

    def _find_callee(self, signatures: dict[str, OpenParameters], scope: str, path: str | None) -> str | None:
        """The function of the file that a path names, as scopes alone tell."""
        if path is None or "(" in path or "[" in path:
            return None
        head, _, rest = path.partition(".")
        if head in ("self", "cls") and rest:
            while scope and scope not in self.type_names:
                scope = parent_scope(scope)
            return f"{scope}.{rest}" if f"{scope}.{rest}" in signatures else None
        while True:
            name = f"{scope}.{path}" if scope else path
            function = f"{name}.__init__" if name in self.type_names else name
            if function in signatures:
                return function
            if not scope:
                return None
            scope = parent_scope(scope)

    def _read_import(self, node: Node) -> None:
        for child in node.named_children:
            module, local = self._names_of_import(child)
            top, dot, _ = module.partition(".")
            if local or dot:
                self._add_import(node, module, "", local)
            if not local:
                self._add_import(node, top, "", top)

    def _read_from_import(self, node: Node) -> None:
        source = part_of(node, "module_name")
        module = "".join(self.text(source).split())
        for child in node.named_children if source is not None else ():
            if child.type == "wildcard_import":
                self._add_import(node, module, "*", "*")
            elif child != source and child.type in ("dotted_name", "aliased_import"):
                name, local = self._names_of_import(child)
                self._add_import(node, module, name, local or name)

    def _names_of_import(self, node: Node) -> tuple[str, str]:
        return "".join(self.text(part_of(node, "name") or node).split()), self.text(part_of(node, "alias"))

    def _add_import(self, node: Node, module: str, name: str, local: str) -> None:
        scope = self.scope(node)
        exported = not scope and (self.file_path.endswith("__init__.py") or local == "*")
        self.add_import(node, module, name, local, scope=scope, exported=exported)

    def _read_assignment(self, node: Node) -> None:
        left, declared = part_of(node, "left") or part_of(node, "name"), part_of(node, "type")
        scope, right = self.scope(node), part_of(node, "right") or part_of(node, "value")
        if left is None:
            return
        if declared is not None:
            self._bind_annotation(scope, self.path(left), declared)
        if node.type == "assignment":
            self._define_variables(scope, left, node)
        if right is not None or declared is None:
            for _ in range(MAX_CHAIN):  # a = b = c
                right = part_of(right, "right") if has_type(right, "assignment") else right
            self._bind_target(scope, left, self.values(right))

    def _define_variables(self, scope: str, left: Node, node: Node) -> None:
        """Variables of a module or a class are definitions."""
        for child in left.named_children if left.type in _PATTERNS else ():
            self._define_variables(scope, child, node)
        if left.type != "identifier":
            return
        self.skip_reference(left)
        if (name := self.text(left)) == "__all__":
            text = self.text(part_of(node, "right"))
            if _PLAIN_LIST.fullmatch(text):
                self.settings["__all__"] = " ".join(_QUOTED.findall(text))
        elif not scope or scope in self.type_names:
            self.add_variable(scope, name, node)

    def _bind_target(self, scope: str, target: Node, values: Values) -> None:
        """Bind a target to values; the parts of a tuple to the places of theirs."""
        if target.type in _PATTERNS:
            for position, child in enumerate(target.named_children):
                starred = child.type == "list_splat_pattern"
                self._bind_target(scope, child, [] if starred else step_values(values, f"[{position}]"))
        elif target.type in ("list_splat_pattern", "as_pattern_target", "parenthesized_expression"):
            for child in target.named_children[:1]:
                self._bind_target(scope, child, values)
        elif target.type in _TARGET_NODES:
            if target.type == "identifier":
                self.skip_reference(target)
            self.bind_name(scope, self.path(target), values)

    def _read_loop(self, node: Node) -> None:
        left, right = part_of(node, "left"), part_of(node, "right")
        if left is not None and right is not None:
            self._bind_target(self.scope(node), left, iterated_values(self.values(right)))

    def _read_alias(self, node: Node) -> None:
        """`with f() as x`, `except Error as x`, `case Point() as x`."""
        value, target = node.named_children[0], part_of(node, "alias") or node.named_children[-1]
        parent, first, values = node.parent, part_of(value, 0), list[Value]()
        if parent is None or value.id == target.id:
            return
        if parent.type == "with_item":
            statement = parent.parent.parent if parent.parent is not None else None
            is_async = statement is not None and statement.children[0].type == "async"
            values = values_at(self.values(value), ".__aenter__()" if is_async else ".__enter__()")
        elif parent.type in ("except_clause", "except_group_clause"):
            errors = value.named_children if value.type == "tuple" else [value]
            values = [("", f"{path}()") for path in map(self.path, errors) if path]
        elif has_type(first, "class_pattern"):
            values = [("", f"{self.text(part_of(first, 0))}()")]
        self._bind_target(self.scope(node), target, values)

    def _read_class(self, node: Node) -> None:
        for child in children_of(part_of(node, "superclasses")):
            value = part_of(child, "value") if child.type == "subscript" else child
            if has_type(value, "identifier", "attribute"):
                self.add_base("extends", value, self.scope(child))

    def _read_decorator(self, node: Node) -> None:
        """A decorator without arguments is called, too."""
        name = part_of(node, 0)
        if has_type(name, "identifier", "attribute"):
            self.add_use("calls", self.path(name), name)
            self.skip_reference(name)

    def _read_call(self, node: Node) -> None:
        """What a call puts into its object: `rows.append(row)`, `isinstance(row, Row)`."""
        called, arguments = part_of(node, "function"), children_of(part_of(node, "arguments"))
        if has_type(called, "attribute"):
            position = _ADDING_METHODS.get(self.text(part_of(called, "attribute")), len(arguments))
            path = self.path(part_of(called, "object")) if position < len(arguments) else None
            if path:
                self.bind_all(self.scope(called), f"{path}[]", self.values(arguments[position]))
        elif self.text(called) == "isinstance" and len(arguments) == 2:
            subject, kinds = arguments
            path = self.path(subject) if subject.type in _TARGET_NODES else None
            for kind in map(self.path, kinds.named_children if kinds.type == "tuple" else [kinds]):
                if path and kind:
                    self.bind(self.scope(node), path, f"{kind}()")

    def _read_outer_names(self, node: Node) -> None:
        scope = self.scope(node)
        of = "" if node.type == "global_statement" else parent_scope(scope)
        for child in node.named_children:
            self.outer_scopes[scope, self.text(child)] = of

    def _read_quoted_annotation(self, node: Node) -> None:
        """A quoted annotation names what it means."""
        ancestors, text = islice(iter_ancestors(node), _MAX_TYPE_NESTING), self.text(node).strip("\"'")
        around = next((around for around in ancestors if not has_type(around, *_NODES_WITHIN_TYPES)), None)
        if has_type(around, "type") and _ANNOTATION.fullmatch(text):
            for name in _NAME.findall(text):
                self.add_use("references", name, node)

    def _finish(self, captures: Captures) -> None:
        """What `__all__` lists is handed on; what calls give to functions of the file becomes known."""
        self._bind_call_arguments(captures)
        names = self.settings.get("__all__", "").split()
        self.imports[:] = [
            imported._replace(exported=True) if not imported.scope and imported.local in names else imported
            for imported in self.imports
        ]

    handlers: Mapping[str, Handler] = {
        "import": _read_import, "from": _read_from_import, "outer": _read_outer_names,
        "def": _read_definition, "type": _read_class, "decorator": _read_decorator,
        "assignment": _read_assignment, "loop": _read_loop, "alias": _read_alias, "lambda": _read_lambda,
        "return": returns(0), "yield": _read_yield, "call": _read_call, "string": _read_quoted_annotation,
    }  # fmt: skip
    builtins = _BUILTINS


class Python(Language):
    """Python, as its reference says: https://docs.python.org/3/reference/import.html."""

    name = "python"
    receiver_keywords: Mapping[str, str] = {"super": "@super"}
    reader = PythonReader
    builtins = PythonReader.builtins
    submodule_prefix = "."
    element_accessors = ("__getitem__()", "__iter__()[]", "__next__()")
    call_method = "__call__"
    container_methods = _WORDS.by_word("container_methods")
    common_methods = frozenset(name for of in _BUILTIN_TYPES for name in dir(of)) | _WORDS["common_methods"]

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A module's file, its package's `__init__`, or its folder where it has none."""
        if name.startswith("."):
            folder = path.rstrip("/") if path.endswith("/") else path.rpartition("/")[0]
            dots = len(name) - len(name.lstrip("."))
            for _ in range(dots - 1):
                if not folder:
                    return ()
                folder = folder.rpartition("/")[0]
            rest = name[dots:].replace(".", "/")
            file = _find_module_file(f"{folder}/{rest}".strip("/"), layout)
            return (file,) if file else ()
        parts = name.split(".")
        roots = layout.get_or_build(_index_import_roots).get(parts[0], ())
        if parts[0] in sys.stdlib_module_names:
            roots = tuple(root for root in roots if root == path.rpartition("/")[0])
        ranked = sorted(roots, key=lambda root: (-count_shared_folders(f"{root}/", path), len(root), root))
        for root in ranked:
            if file := _find_module_file(f"{root}/{'/'.join(parts)}".lstrip("/"), layout):
                return (file,)
        return ()

    def external_name(self, module: str, name: str, path: str, layout: Layout) -> str:
        """`requests.sessions.Session`; nothing for a module that should lie beside the file."""
        if module.startswith("."):
            return ""
        return f"{module}.{name}" if name else module

    def extend_external_name(self, external: str, step: str) -> str:
        """Nothing is known of what a type of `typing` makes: it stands for others."""
        if step == "()" and external.startswith(("typing.", "typing_extensions.")):
            return ""
        return super().extend_external_name(external, step)

    def is_standard_library(self, external: str) -> bool:
        """Whether it is of a module of the standard library."""
        return external.partition(".")[0] in sys.stdlib_module_names

    def full_name(self, path: str, name: str, layout: Layout) -> str:
        """`package.module.Class.method`, counted from the outermost folder with an `__init__`."""
        stem = path.rpartition(".")[0]
        folder, _, last = stem.rpartition("/")
        names, root = layout.get_or_build(_index_module_names), folder
        while root and "__init__" in names.get(root, ()):
            root = root.rpartition("/")[0]
        module = [] if last == "__init__" else [last]
        inner = folder[len(root) :].strip("/").split("/") if folder != root else []
        return ".".join([*inner, *module, *([name] if name else [])])


def _find_module_file(base: str, layout: Layout) -> str | None:
    for suffix in _SUFFIXES:
        if (path := f"{base}/__init__{suffix}".lstrip("/")) in layout.paths:
            return path
        if (path := f"{base}{suffix}") in layout.paths:
            return path
    return f"{base}/" if base in layout.get_or_build(_list_folders) else None


def _index_module_names(layout: Layout) -> dict[str, set[str]]:
    """By folder, the names of the Python files that lie in it."""
    names: dict[str, set[str]] = {}
    for path in layout.paths:
        if path.endswith(_SUFFIXES):
            folder, _, name = path.rpartition("/")
            names.setdefault(folder, set()).add(name.rpartition(".")[0])
    return names


def _list_folders(layout: Layout) -> frozenset[str]:
    """All folders with Python files somewhere within."""
    folders = set[str]()
    for folder in layout.get_or_build(_index_module_names):
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return frozenset(folders)


def _index_import_roots(layout: Layout) -> dict[str, tuple[str, ...]]:
    """The folders from which an absolute import may start, by its first name: no packages."""
    names, modules = layout.get_or_build(_index_module_names), dict[str, set[str]]()
    for folder, files in names.items():
        for name in () if "__init__" in files else files:
            modules.setdefault(name, set()).add(folder)
    for within in layout.get_or_build(_list_folders):
        folder, _, name = within.rpartition("/")
        if "__init__" not in names.get(folder, ()):
            modules.setdefault(name, set()).add(folder)
    return {name: tuple(sorted(roots)) for name, roots in modules.items()}
