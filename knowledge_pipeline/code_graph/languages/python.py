"""Python: what its files say, and how its names lead to definitions.

Calls bind parameters of functions of the same file (`run(job)` binds one to `job`), where the parameter
has no declared type and the call names the function by scope alone: `run(…)`, `Store(…)`, `self.run(…)`.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    Import,
    Values,
    add_prefix,
    iterated_values,
    parent_scope,
    step_values,
    values_at,
)
from knowledge_pipeline.code_graph.facts_builder import Captures, ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.base import Language, load_words, split_words
from knowledge_pipeline.code_graph.languages.python_values import EXPRESSIONS, values_of_annotation
from knowledge_pipeline.code_graph.languages.visibility import is_underscored
from knowledge_pipeline.code_graph.project import Layout, count_shared_folders, iter_folders
from knowledge_pipeline.syntax.grammars import has_child, part_of

_WORDS = load_words("python")

_PROPERTY_DECORATORS = split_words("property cached_property hybrid_property abstractproperty getter setter")
_CONTEXT_MANAGERS = {"contextmanager": "__enter__", "asynccontextmanager": "__aenter__"}


def _bind_annotation(
    builder: FactsBuilder, scope: str, path: str | None, annotation: Node, prefix: str = ""
) -> None:
    """Bind a path to what an annotation promises, or to something unknown."""
    values = add_prefix(prefix, values_of_annotation(builder.text(annotation)))
    builder.bind_name(scope, path, values, declared=True)


def _read_definition(builder: FactsBuilder, node: Node) -> None:
    """Parameters, receiver and declared result of a function, and what its decorators make of it."""
    parameters = part_of(node, "parameters")
    if parameters is None or not parameters.parent:
        return
    scope = builder.scope(parameters)
    marks = set(_iter_decorators(builder, node))
    names = list(_bind_parameters(builder, scope, parameters))
    if parent_scope(scope) in builder.type_names and "staticmethod" not in marks and names:
        is_class = "classmethod" in marks or scope.endswith((".__new__", ".__init_subclass__"))
        builder.bind(scope, names[0], "@class" if is_class else "@self", declared=True)
    result = values_of_annotation(builder.text(part_of(node, "return_type")))
    builder.bind_all(scope, "@()", result, declared=True)
    if marks.intersection(_PROPERTY_DECORATORS):
        builder.bind(scope, "@", "@()")
    for mark in marks.intersection(_CONTEXT_MANAGERS):
        builder.bind(scope, f"@().{_CONTEXT_MANAGERS[mark]}()", "@()[]")


def _iter_decorators(builder: FactsBuilder, node: Node) -> Iterator[str]:
    """Last names of a definition's decorators."""
    parent = node.parent
    if parent is None or parent.type != "decorated_definition":
        return
    for child in parent.children:
        if child.type == "decorator":
            match = _NAME.search(builder.text(child)[:200])
            yield match[0].rpartition(".")[2] if match else ""


def _bind_parameters(builder: FactsBuilder, scope: str, parameters: Node) -> Iterator[str]:
    """Bind parameters to what their types and defaults promise; give their names."""
    for child in parameters.named_children:
        name_node = part_of(child, "name") or (
            child.named_children[0] if child.named_child_count and child.type != "identifier" else child
        )
        name = builder.text(name_node)
        suffix = "[]" if name.startswith("*") else ""
        name = name.strip("*( ")
        if not name.isidentifier():
            continue
        builder.skip_reference(part_of(name_node, 0) or name_node)
        declared = part_of(child, "type")
        if declared is not None:
            _bind_annotation(builder, scope, name, declared, suffix)
        builder.bind_name(scope, name, builder.writer.values(part_of(child, "value")))
        yield name


def _read_lambda(builder: FactsBuilder, node: Node) -> None:
    list(_bind_parameters(builder, builder.scope(node), node))


def _read_return(builder: FactsBuilder, node: Node) -> None:
    builder.bind_all(builder.scope(node), "@()", builder.writer.values(part_of(node, 0)))


def _read_yield(builder: FactsBuilder, node: Node) -> None:
    """What a generator gives when it is iterated."""
    values = builder.writer.values(part_of(node, 0))
    elements = iterated_values(values) if has_child(node, "from") else values
    builder.bind_all(builder.scope(node), "@()[]", elements)


_MAX_ARGUMENTS = 20
_PARAMETERS = frozenset({"identifier", "default_parameter", "typed_parameter", "typed_default_parameter"})
_POSITIONAL_END = frozenset({"list_splat_pattern", "keyword_separator"})
_RECEIVERS = frozenset({"self", "cls"})
_LITERAL_NODES = frozenset({"string", "integer", "float", "true", "false", "none", "concatenated_string"})


@dataclass(frozen=True, slots=True)
class OpenParameters:
    """The parameters of a function that can be given in order."""

    positional: list[str]
    has_receiver: bool  # whether the first one is the receiver
    untyped: frozenset[str]  # those without a declared type


def _bind_call_arguments(builder: FactsBuilder, captures: Captures) -> None:
    """Bind parameters to the arguments of calls, and of decorators to what they decorate."""
    signatures = dict(_iter_signatures(builder, captures.get("def", ())))
    for node in captures.get("decorator", ()):
        _bind_decorated(builder, signatures, node)
    for node in captures.get("call", ()):
        called, arguments = part_of(node, "function"), part_of(node, "arguments")
        if called is None or arguments is None or not arguments.named_child_count:
            continue
        scope = builder.scope(node)
        name = _find_callee(builder, signatures, scope, builder.writer.path(called))
        if name is not None:
            _bind_arguments(builder, scope, name, signatures[name], list(_iter_arguments(arguments)))


def _iter_signatures(
    builder: FactsBuilder, definitions: Iterable[Node]
) -> Iterator[tuple[str, OpenParameters]]:
    """The functions with a parameter of which the type is not declared."""
    for node in definitions:
        parameters = part_of(node, "parameters")
        if parameters is None or not parameters.named_child_count:
            continue
        scope = builder.scope(parameters)
        bound = parent_scope(scope) in builder.type_names and "staticmethod" not in _iter_decorators(
            builder, node
        )
        names: list[str] = []
        free = frozenset(_iter_untyped_parameters(builder, parameters, names))
        if free.difference(names[:bound]):
            yield scope, OpenParameters(names, bound, free)


def _iter_untyped_parameters(builder: FactsBuilder, parameters: Node, positional: list[str]) -> Iterator[str]:
    """The parameters without a declared type; all that can be given in order are put into `positional`."""
    in_order = True
    for child in parameters.named_children:
        if child.type not in _PARAMETERS:
            in_order = in_order and child.type not in _POSITIONAL_END
            continue
        name_node = part_of(child, "name")
        inner = child.named_children[0] if child.named_child_count else child
        name = builder.text(name_node or inner)
        if in_order:
            positional.append(name)
        if part_of(child, "type") is None:
            yield name


def _iter_arguments(argument_list: Node) -> Iterator[tuple[Node | None, Node]]:
    """The names, if written, and the values of arguments; up to the first `*rest`."""
    for child in argument_list.named_children[:_MAX_ARGUMENTS]:
        if child.type in ("list_splat", "dictionary_splat"):
            return
        name = part_of(child, "name") if child.type == "keyword_argument" else None
        value = part_of(child, "value") if name is not None else child
        if value is not None and child.type != "comment":
            yield name, value


def _bind_arguments(
    builder: FactsBuilder,
    scope: str,
    name: str,
    signature: OpenParameters,
    call_arguments: list[tuple[Node | None, Node]],
) -> None:
    names = signature.positional[1:] if signature.has_receiver else signature.positional
    for position, (key, value) in enumerate(call_arguments):
        parameter = builder.text(key) if key is not None else names[position] if position < len(names) else ""
        if parameter not in signature.untyped or value.type in _LITERAL_NODES:
            continue
        builder.bind_all(scope, f"@in {name}@{parameter}", builder.writer.values(value))


def _bind_decorated(builder: FactsBuilder, signatures: dict[str, OpenParameters], node: Node) -> None:
    decorator, decorated = node.named_children[:1], node.parent
    definition = part_of(decorated, "definition")
    label = part_of(definition, "name")
    if not decorator or label is None or decorator[0].type != "identifier":
        return
    scope = builder.scope(node)
    name = _find_callee(builder, signatures, scope, builder.text(decorator[0]))
    if name is not None and (free := signatures[name].positional[:1]) and free[0] in signatures[name].untyped:
        builder.bind(scope, f"@in {name}@{free[0]}", builder.text(label))


def _find_callee(
    builder: FactsBuilder, signatures: dict[str, OpenParameters], scope: str, path: str | None
) -> str | None:
    """The function of the file that a path names, as scopes alone tell."""
    if path is None or "(" in path or "[" in path:
        return None
    head, _, rest = path.partition(".")
    if head in _RECEIVERS and rest:
        while scope and scope not in builder.type_names:
            scope = parent_scope(scope)
        return f"{scope}.{rest}" if f"{scope}.{rest}" in signatures else None
    while True:
        name = f"{scope}.{path}" if scope else path
        function = f"{name}.__init__" if name in builder.type_names else name
        if function in signatures:
            return function
        if not scope:
            return None
        scope = parent_scope(scope)


BUILTINS = frozenset(dir(builtins)) - {"super"}

_ADDING_METHODS = {
    **dict.fromkeys(("append", "add", "appendleft", "put", "put_nowait", "push"), 0),
    **dict.fromkeys(("insert", "setdefault", "__setitem__"), 1),
}
"""Methods that add an argument to their object, and its position."""

_QUOTED = re.compile(r"""["']([^\W\d]\w*)["']""")
_PLAIN_LIST = re.compile(r"""[\[(](?:\s*["']\w+["']\s*,?|\s*\#[^\n]*\n)*\s*[\])]""")
_ANNOTATION = re.compile(r"""[^\W\d][\w.]*(?:\[[\w., \[\]|]*\])?(?:\s*\|\s*[\w.\[\], ]+)*""")
_NAME = re.compile(r"[^\W\d][\w.]*")
_PATTERNS = frozenset({"pattern_list", "tuple_pattern", "tuple", "list_pattern", "list"})
_TARGET_NODES = frozenset({"identifier", "attribute", "subscript"})
_NODES_WITHIN_TYPES = frozenset({"type_parameter", "generic_type", "binary_operator", "subscript"})


def _read_import(builder: FactsBuilder, node: Node) -> None:
    for child in node.named_children:
        module, local = _names_of_import(builder, child)
        top, dot, _ = module.partition(".")
        if local or dot:
            _add_import(builder, node, module, "", local)
        if not local:
            _add_import(builder, node, top, "", top)


def _read_from_import(builder: FactsBuilder, node: Node) -> None:
    source = part_of(node, "module_name")
    if source is None:
        return
    module = "".join(builder.text(source).split())
    for child in node.named_children:
        if child.type == "wildcard_import":
            _add_import(builder, node, module, "*", "*")
        elif child.start_byte != source.start_byte and child.type in ("dotted_name", "aliased_import"):
            name, local = _names_of_import(builder, child)
            _add_import(builder, node, module, name, local or name)


def _names_of_import(builder: FactsBuilder, node: Node) -> tuple[str, str]:
    alias = part_of(node, "alias")
    name = part_of(node, "name") or node
    return "".join(builder.text(name).split()), builder.text(alias)


def _add_import(builder: FactsBuilder, node: Node, module: str, name: str, local: str) -> None:
    scope = builder.scope(node)
    exported = not scope and (builder.path.endswith("__init__.py") or local == "*")
    builder.imports.append(Import(module, name, local, node.start_point.row + 1, scope, exported))


def _read_assignment(builder: FactsBuilder, node: Node) -> None:
    left = part_of(node, "left") or part_of(node, "name")
    if left is None:
        return
    scope, right = builder.scope(node), part_of(node, "right") or part_of(node, "value")
    declared = part_of(node, "type")
    if declared is not None:
        _bind_annotation(builder, scope, builder.writer.path(left), declared)
    if node.type == "assignment":
        _define_variables(builder, scope, left, node)
    if right is not None or declared is None:
        while right is not None and right.type == "assignment":  # a = b = c
            right = part_of(right, "right")
        _bind_target(builder, scope, left, builder.writer.values(right))


def _define_variables(builder: FactsBuilder, scope: str, left: Node, node: Node) -> None:
    """Variables of a module or a class are definitions."""
    if left.type in _PATTERNS:
        for child in left.named_children:
            _define_variables(builder, scope, child, node)
    if left.type != "identifier":
        return
    builder.skip_reference(left)
    name = builder.text(left)
    if name == "__all__":
        text = builder.text(part_of(node, "right"))
        if _PLAIN_LIST.fullmatch(text):
            builder.settings["__all__"] = " ".join(_QUOTED.findall(text))
    elif not scope or scope in builder.type_names:
        builder.add_definition(f"{scope}.{name}" if scope else name, "variable", node)


def _bind_target(builder: FactsBuilder, scope: str, target: Node, values: Values) -> None:
    """Bind a target to values; the parts of a tuple to the places of theirs."""
    if target.type in _PATTERNS:
        for position, child in enumerate(target.named_children):
            starred = child.type == "list_splat_pattern"
            _bind_target(builder, scope, child, [] if starred else step_values(values, f"[{position}]"))
    elif target.type in ("list_splat_pattern", "as_pattern_target", "parenthesized_expression"):
        for child in target.named_children[:1]:
            _bind_target(builder, scope, child, values)
    elif target.type in _TARGET_NODES:
        if target.type == "identifier":
            builder.skip_reference(target)
        builder.bind_name(scope, builder.writer.path(target), values)


def _read_loop(builder: FactsBuilder, node: Node) -> None:
    left, right = part_of(node, "left"), part_of(node, "right")
    if left is not None and right is not None:
        _bind_target(builder, builder.scope(node), left, iterated_values(builder.writer.values(right)))


def _read_alias(builder: FactsBuilder, node: Node) -> None:
    """`with f() as x`, `except Error as x`, `case Point() as x`."""
    target = part_of(node, "alias") or node.named_children[-1]
    value, parent = node.named_children[0], node.parent
    if parent is None or value.id == target.id:
        return
    scope, values = builder.scope(node), []
    if parent.type == "with_item":
        clause = parent.parent
        statement = clause.parent if clause is not None else None
        is_async = statement is not None and statement.children[0].type == "async"
        enter = ".__aenter__()" if is_async else ".__enter__()"
        values = values_at(builder.writer.values(value), enter)
    elif parent.type in ("except_clause", "except_group_clause"):
        errors = value.named_children if value.type == "tuple" else [value]
        values = [("", f"{path}()") for path in map(builder.writer.path, errors) if path]
    elif value.named_child_count and value.named_children[0].type == "class_pattern":
        values = [("", f"{builder.text(value.named_children[0].named_children[0])}()")]
    _bind_target(builder, scope, target, values)


def _read_class(builder: FactsBuilder, node: Node) -> None:
    bases = part_of(node, "superclasses")
    if bases is None:
        return
    scope = builder.scope(bases)
    for child in bases.named_children:
        value = part_of(child, "value") if child.type == "subscript" else child
        if value is not None and value.type in ("identifier", "attribute"):
            builder.add_use("extends", builder.writer.path(value), value, scope)
            builder.skip_reference(value)


def _read_decorator(builder: FactsBuilder, node: Node) -> None:
    """A decorator without arguments is called, too."""
    name_node = part_of(node, 0)
    if name_node is not None and name_node.type in ("identifier", "attribute"):
        builder.add_use("calls", builder.writer.path(name_node), name_node)
        builder.skip_reference(name_node)


def _read_call(builder: FactsBuilder, node: Node) -> None:
    """What a call puts into its object: `rows.append(row)`, `isinstance(row, Row)`."""
    called, arguments = part_of(node, "function"), part_of(node, "arguments")
    if called is None or arguments is None:
        return
    if called.type == "attribute":
        position = _ADDING_METHODS.get(builder.text(part_of(called, "attribute")))
        if position is None or arguments.named_child_count <= position:
            return
        path = builder.writer.path(part_of(called, "object"))
        if path:
            values = builder.writer.values(arguments.named_children[position])
            builder.bind_all(builder.scope(called), f"{path}[]", values)
    elif builder.text(called) == "isinstance" and arguments.named_child_count == 2:
        _read_isinstance(builder, node, *arguments.named_children)


def _read_isinstance(builder: FactsBuilder, node: Node, subject: Node, kinds: Node) -> None:
    path = builder.writer.path(subject) if subject.type in _TARGET_NODES else None
    for kind in kinds.named_children if kinds.type == "tuple" else [kinds]:
        class_path = builder.writer.path(kind)
        if class_path and path:
            builder.bind(builder.scope(node), path, f"{class_path}()")


def _read_outer_names(builder: FactsBuilder, node: Node) -> None:
    scope = builder.scope(node)
    of = "" if node.type == "global_statement" else parent_scope(scope)
    for child in node.named_children:
        builder.outer_scopes[scope, builder.text(child)] = of


def _read_quoted_annotation(builder: FactsBuilder, node: Node) -> None:
    """A quoted annotation names what it means."""
    parent = node.parent
    while parent is not None and parent.type in _NODES_WITHIN_TYPES:
        parent = parent.parent
    if parent is None or parent.type != "type":
        return
    text = builder.text(node).strip("\"'")
    if _ANNOTATION.fullmatch(text):
        for name in _NAME.findall(text):
            builder.add_use("references", name, node)


def _finish(builder: FactsBuilder, captures: Captures) -> None:
    """What `__all__` lists is handed on; what calls give to functions of the file becomes known."""
    _bind_call_arguments(builder, captures)
    names = builder.settings.get("__all__", "").split()
    builder.imports[:] = [
        imported._replace(exported=True) if not imported.scope and imported.local in names else imported
        for imported in builder.imports
    ]


EXTRACTION = ExtractionRules(
    is_private=is_underscored, expressions=EXPRESSIONS,
    handlers={
        "import": _read_import, "from": _read_from_import, "outer": _read_outer_names,
        "def": _read_definition, "type": _read_class, "decorator": _read_decorator,
        "assignment": _read_assignment, "loop": _read_loop, "alias": _read_alias, "lambda": _read_lambda,
        "return": _read_return, "yield": _read_yield, "call": _read_call, "string": _read_quoted_annotation,
    },
    builtins=BUILTINS, finish=_finish,
)  # fmt: skip


_SUFFIXES = (".py", ".pyi", ".pyw")
_BUILTIN_TYPES = (str, bytes, dict, list, set, frozenset, tuple, int, float, bool, object)
_COMMON_METHODS = _WORDS["common_methods"]


class Python(Language):
    """Python, as its reference says: https://docs.python.org/3/reference/import.html."""

    name = "python"
    receiver_keywords: Mapping[str, str] = {"super": "@super"}
    builtins = BUILTINS
    element_accessors = ("__getitem__()", "__iter__()[]", "__next__()")
    call_method = "__call__"
    container_methods = _WORDS.by_word("container_methods")
    common_methods = frozenset(name for of in _BUILTIN_TYPES for name in dir(of)) | _COMMON_METHODS

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
        roots = layout.get_or_build_of_paths(_index_import_roots).get(parts[0], ())
        if parts[0] in sys.stdlib_module_names:
            roots = tuple(root for root in roots if root == path.rpartition("/")[0])
        ranked = sorted(roots, key=lambda root: (-count_shared_folders(f"{root}/", path), len(root), root))
        for root in ranked:
            if file := _find_module_file(f"{root}/{'/'.join(parts)}".lstrip("/"), layout):
                return (file,)
        return ()

    def submodule_name(self, name: str) -> str:
        """As it is written within a package."""
        return f".{name}"

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
        root = next(
            around for around in iter_folders(folder) if not around or not _is_package(around, layout.paths)
        )
        module = [] if last == "__init__" else [last]
        inner = folder[len(root) :].strip("/").split("/") if folder != root else []
        return ".".join([*inner, *module, *([name] if name else [])])


def _find_module_file(base: str, layout: Layout) -> str | None:
    for suffix in _SUFFIXES:
        if (path := f"{base}/__init__{suffix}".lstrip("/")) in layout.paths:
            return path
        if (path := f"{base}{suffix}") in layout.paths:
            return path
    return f"{base}/" if base in layout.get_or_build_of_paths(_list_folders) else None


def _list_folders(paths: frozenset[str]) -> frozenset[str]:
    """All folders with Python files somewhere within."""
    names: set[str] = set()
    for path in paths:
        if path.endswith(_SUFFIXES):
            names.update(iter_folders(path.rpartition("/")[0]))
    return frozenset(names - {""})


def _index_import_roots(paths: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """The folders from which an absolute import may start, by its first name: no packages."""
    modules: dict[str, set[str]] = {}
    for path in paths:
        if path.endswith(_SUFFIXES):
            folder, _, name = path.rpartition("/")
            if not _is_package(folder, paths):
                modules.setdefault(name.rpartition(".")[0], set()).add(folder)
    for around in _list_folders(paths):
        folder, _, name = around.rpartition("/")
        if not _is_package(folder, paths):
            modules.setdefault(name, set()).add(folder)
    return {name: tuple(sorted(roots)) for name, roots in modules.items()}


def _is_package(folder: str, paths: frozenset[str]) -> bool:
    return any(f"{folder}/__init__{suffix}".lstrip("/") in paths for suffix in _SUFFIXES)
