"""C#: what its files say, and how its names lead to definitions.

Source: https://learn.microsoft.com/dotnet/csharp/language-reference/language-specification/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import (
    FileFacts,
    Import,
    Value,
    Values,
    element_values,
    last_segment,
    own_value,
    parent_scope,
)
from knowledge_pipeline.code_graph.facts_builder import (
    Captures,
    ExpressionSyntax,
    FactsBuilder,
    Handler,
    TypeSyntax,
    declares,
)
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, list_package_files, load_words
from knowledge_pipeline.code_graph.project import Layout, iter_folders, join_path, package_name
from knowledge_pipeline.syntax.grammars import (
    ancestor_of_type,
    children_of,
    children_of_type,
    first_of_type,
    has_child,
    has_type,
    iter_ancestors,
    part_of,
)
from knowledge_pipeline.syntax.outline import OutlineDefinition

_WORDS = load_words("c_sharp")

_GLOBAL_USING = "shared using"  # the setting of a file with a global using

_CLASS_NODES = ("class_declaration", "record_declaration")
_TYPE_NODES = (*_CLASS_NODES, "struct_declaration", "interface_declaration")
_SPECIAL_NAMES = {
    "indexer_declaration": "this",
    "operator_declaration": "operator",
    "conversion_operator_declaration": "operator",
}

_NAMESPACES = ("namespace_declaration", "file_scoped_namespace_declaration")


_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ITEM = re.compile(r"<(ProjectReference|Using|Import)\b([^<>]*)>")
_SDK = re.compile(r'\bSdk="Microsoft\.NET\.Sdk\.(Web|Worker)"')
_NO_IMPLICIT_USINGS = re.compile(r"<ImplicitUsings>\s*(?:false|disable)")
_ATTRIBUTE = re.compile(r'\b(Include|Alias)\s*=\s*"([^"]*)"')
_PROPERTIES = "Directory.Build.props"
_SIGHT_PREFIX = "in sight of "


def _split_using(path: str, alias: str) -> tuple[str, str, str]:
    """Module, name and local name of the import that a using is."""
    module, _, name = path.rpartition(".")
    if not alias:
        return path, "*", "*"
    return (module, name, alias) if module else (path, "", alias)


def parse_manifest(path: str, text: str) -> FileFacts:
    """The projects that a project refers to, its usings, and whether it imports other properties."""
    references, settings, text = list[str](), dict[str, str](), _COMMENT.sub("", text)
    sdk = _SDK.search(text) if path.endswith(".csproj") and not _NO_IMPLICIT_USINGS.search(text) else None
    added = ("worker_usings", "web_usings")[: 2 if sdk[1] == "Web" else 1] if sdk else ()
    imports = [_split_using(using, "") for name in added for using in sorted(_WORDS[name])]
    for item, text_of_attributes in _ITEM.findall(text):
        attributes = dict(_ATTRIBUTE.findall(text_of_attributes))
        include = attributes.get("Include", "").strip()
        if item == "Import":
            settings["imports"] = "yes"
        elif item == "ProjectReference":
            references += include.replace("\\", "/").split(";")
        elif include:
            imports.append(_split_using(include, attributes.get("Alias", "")))
    settings |= {"references": "\n".join(references)} if references else {}
    settings |= {_GLOBAL_USING: "yes"} if imports else {}
    usings = tuple(Import(*parts, 1, exported=True) for parts in imports)
    return FileFacts(path, "c_sharp", imports=usings, settings=settings)


def _index_projects(layout: Layout) -> Mapping[str, list[str]]:
    """The project files of each folder that has some."""
    projects: dict[str, list[str]] = {}
    for path in sorted(layout.paths):
        if path.endswith(".csproj"):
            projects.setdefault(path.rpartition("/")[0], []).append(path)
    return projects


def _find_project(layout: Layout, folder: str) -> str | None:
    """The folder of the nearest project at or above a folder; files of none see all, and are seen by all."""
    projects = layout.get_or_build(_index_projects)
    return next((around for around in iter_folders(folder) if around in projects), None)


def _project_of(layout: Layout, path: str) -> str | None:
    return layout.get_or_build(_find_project, path.rpartition("/")[0])


def _list_manifests(layout: Layout, project: str) -> list[str]:
    """The files of a project, and the properties above it as far as each imports those above."""
    manifests = list(layout.get_or_build(_index_projects)[project])
    for folder in iter_folders(project):
        properties = f"{folder}/{_PROPERTIES}".lstrip("/")
        if properties in layout.paths:
            manifests.append(properties)
            if "imports" not in layout.facts(properties).settings:
                break
    return manifests


def _list_visible_projects(layout: Layout, project: str) -> frozenset[str] | None:
    """A project and those that it refers to, directly or not; None where a reference is computed."""
    projects, seen, waiting = layout.get_or_build(_index_projects), {project}, [project]
    for here in waiting:  # grows meanwhile
        for manifest in layout.get_or_build(_list_manifests, here):
            for reference in layout.facts(manifest).settings.get("references", "").split("\n"):
                if "$(" in reference or "*" in reference:
                    return None
                folder = join_path(here, reference).rpartition("/")[0]
                if folder in projects and folder not in seen:
                    seen.add(folder)
                    waiting.append(folder)
    return frozenset(seen)


def _split_home(path: str) -> tuple[str, str]:
    """Who asks, a file or a folder, and a namespace: of what `CSharp.lookup_home` gives, or of a file."""
    file, _, namespace = path.rpartition(":")
    return (file, namespace.rstrip("/")) if path.endswith("/") else (path, "")


class CSharpReader(FactsBuilder):
    """Reads files of C#."""

    def _qualify(self, definition: OutlineDefinition, enclosing: str) -> str:
        """A name within its namespace."""
        if definition.kind == "module":
            return ""
        around = (one for one in definition.scope if one.kind != "module")
        return ".".join(_SPECIAL_NAMES.get(one.node.type, one.name) for one in around)

    def _rewrite_call(self, node: Node) -> str | None:
        """`services.GetService<Store>()` as `Store()`; None for other calls."""
        called = part_of(node, "function")
        called = part_of(called, "name") if has_type(called, "member_access_expression") else called
        is_typed = (
            has_type(called, "generic_name") and self.text(part_of(called, 0)) in _WORDS["typed_results"]
        )
        return own_value(self.values_of_type(part_of(part_of(called, 1), 0))) if is_typed else None

    def _qualified_path(self, node: Node) -> str | None:
        parts = [self.path(part_of(node, part)) for part in ("qualifier", "name")]
        return ".".join(part for part in parts if part) or None

    def _access_path(self, node: Node) -> str | None:
        of, member = (self.path(part_of(node, part)) for part in ("expression", "name"))
        return f"{of}.{member}" if of and member else None

    def _binding_path(self, node: Node) -> str | None:
        """`.b` of `a?.b` as `a.b`."""
        name, inner, condition = self.path(part_of(node, "name")), node, None
        for around in iter_ancestors(node):
            if around.type == "conditional_access_expression":
                condition = part_of(around, "condition")
                break
            inner = around
        of = self.path(condition) if condition is not None and condition.id != inner.id else None
        return f"{of}.{name}" if of and name else None

    expressions = ExpressionSyntax(
        names=frozenset({"identifier", "this", "base"}),
        calls={"invocation_expression": ("function",), "object_creation_expression": ("type",)},
        suffixed={
            "generic_name": (0, ""), "alias_qualified_name": ("name", ""),
            "conditional_access_expression": (-1, ""),  # the part after `?` knows what is before it
            "element_access_expression": ("expression", "[]"),
            "await_expression": (0, "[]"),  # what a task gives
        },
        transparent={
            "parenthesized_expression": 0, "postfix_unary_expression": 0, "checked_expression": 0,
            "nullable_type": "type", "ref_expression": 0,
        },
        choices={"conditional_expression": ("consequence", "alternative")},
        casts={"cast_expression": "type", "as_expression": "right"}, default_operator="??",
        contents={
            "array_creation_expression": lambda reader, node: reader.values_of_type(
                first_of_type(node, "array_type")
            ),
            "object_creation_expression": lambda reader, node: reader.values_of_type(part_of(node, "type")),
        },
        path_writers={
            "qualified_name": _qualified_path, "member_access_expression": _access_path,
            "member_binding_expression": _binding_path,
        },
        types=TypeSyntax(
            generic={"generic_name": "type_argument_list"}, arrays={"array_type": "type"},
            transparent={"nullable_type": "type", "ref_type": "type", "scoped_type": "type"},
            ignored=frozenset({"var", "dynamic", "object"}),
            prefix="@type.",  # a property may have the name of its type
        ),
    )  # fmt: skip

    def _finish(self, captures: Captures) -> None:
        """All namespaces that define something; the first is the file's."""
        names = (
            self._namespace_name(node)
            for node in captures.get("namespace", ())
            if node.type == "file_scoped_namespace_declaration"
            or any(
                member.type.endswith("_declaration") and member.type not in _NAMESPACES
                for member in children_of(part_of(node, "body"))
            )
        )
        namespaces = [name for name in dict.fromkeys(names) if name]
        self.module = namespaces[0] if namespaces else ""
        if len(namespaces) > 1:
            self.settings["namespaces"] = " ".join(namespaces)

    def _namespace_name(self, node: Node) -> str:
        parts: list[str] = []
        for around in (node, *iter_ancestors(node)):
            if around.type in _NAMESPACES and (name := part_of(around, "name")) is not None:
                parts.append(self.path(name) or "")
        return ".".join(reversed(parts))

    def _read_using(self, node: Node) -> None:
        alias, shared = part_of(node, "name"), has_child(node, "global")
        kinds = [child for child in node.named_children if alias is None or child.id != alias.id]
        path = self.path(kinds[-1]) if kinds else None
        if not path:
            return
        if shared:
            self.settings[_GLOBAL_USING] = "yes"
        self.add_import(node, *_split_using(path, self.text(alias)), exported=shared)

    def _read_bases(self, node: Node) -> None:
        """The first of a class may be a class; interfaces are told by the I of their names."""
        is_interface = has_type(node.parent, "interface_declaration")
        for position, child in enumerate(node.named_children):
            kind = part_of(child, 0) if child.type == "primary_constructor_base_type" else child
            path = self.path(kind)
            if kind is None or not path:
                continue
            name = last_segment(path)
            is_class = position == 0 and has_type(node.parent, *_CLASS_NODES)
            extends = is_interface or (is_class and not (name[:1] == "I" and name[1:2].isupper()))
            self.add_base("extends" if extends else "implements", kind, self.scope(node))

    def _read_constraint(self, node: Node) -> None:
        """`where T : Base`: T stands for it."""
        name = part_of(node, 0)
        for constraint in children_of_type(node, "type_parameter_constraint"):
            path = self.path(part_of(constraint, "type"))
            if path and name is not None:
                self.skip_reference(name)
                self.bind(self.scope(node), self.text(name), path)

    def _read_property(self, node: Node) -> None:
        """A property is read like a field."""
        scope, values = self.scope(node), self.values_of_type(part_of(node, "type"))
        self.bind_all(scope, "@()", values, declared=True)
        if node.type == "indexer_declaration":
            self.bind_all(parent_scope(scope), "@held[]", values, declared=True)
        else:
            elements = [value for value in values if value[0]]
            self.bind_all(parent_scope(scope), scope.rpartition(".")[2], elements, declared=True)
        self.bind(scope, "@", "@()")

    def _read_field(self, node: Node) -> None:
        scope = self.scope(node)
        for declaration in children_of_type(node, "variable_declaration"):
            for name, values in self._iter_variables(declaration):
                self.bind_declared(scope, name, values, local=False)
                if scope in self.type_names:
                    self.add_variable(scope, name, declaration)

    def _read_local(self, node: Node) -> None:
        scope = self.scope(node)
        for declaration in children_of_type(node, "variable_declaration"):
            is_seen = has_type(part_of(declaration, "type"), "implicit_type")
            bind = self.bind_observed if is_seen else self.bind_declared
            for name, values in self._iter_variables(declaration):
                bind(scope, name, values)
            for declarator in children_of_type(declaration, "variable_declarator"):
                for pattern in children_of_type(declarator, "tuple_pattern"):
                    for name in pattern.children_by_field_name("name"):
                        self.bind_observed(scope, self.text(name), [])

    def _iter_variables(self, declaration: Node) -> Iterator[tuple[str, Values]]:
        """Names, with what their type promises, or their value where the type is left to it."""
        kind = part_of(declaration, "type")
        for declarator in children_of_type(declaration, "variable_declarator"):
            name, value = part_of(declarator, "name"), part_of(declarator, -1)
            if name is None:
                continue
            if has_type(kind, "implicit_type"):
                yield self.text(name), self.values(value) if value is not None and value.id != name.id else []
            else:
                yield self.text(name), self.values_of_type(kind)

    def _read_parameters(self, node: Node) -> None:
        """Bind parameters; those of a record are properties, too."""
        scope, local = self.scope(node), not has_type(node.parent, *_TYPE_NODES)
        for parameter in children_of_type(node, "parameter"):
            name = self.text(part_of(parameter, "name"))
            values = self.values_of_type(part_of(parameter, "type"))
            self.bind_declared(scope, name, values, local=local)
            if name and has_type(node.parent, "record_declaration"):
                self.add_variable(scope, name, parameter)
            if name and "this" in map(self.text, children_of_type(parameter, "modifier")):
                self.bind_all(scope, "@receiver", values, declared=True)
        name = part_of(node, "name")  # `params Item[] more`, which the grammar lays flat into the list
        if has_type(name, "identifier"):
            self.skip_reference(name)
            self.bind_declared(scope, self.text(name), self.values_of_type(part_of(node, "type")))

    def _read_lambda(self, node: Node) -> None:
        """What a lambda is given by the method that it is an argument of."""
        parameters, handed = part_of(node, "parameters"), list[Value]()
        if not has_type(parameters, "implicit_parameter"):
            return
        listed = node.parent.parent if node.parent is not None else None
        called = part_of(listed.parent if listed is not None else None, "function")
        if has_type(called, "member_access_expression"):
            owner, method = part_of(called, "expression"), part_of(called, "name")
            handed = self.handed_values(owner, method, _WORDS["callback_methods"])
        self.bind_observed(self.scope(node), self.text(parameters), handed)

    def _read_loop(self, node: Node) -> None:
        name, kind = part_of(node, "left"), part_of(node, "type")
        if has_type(name, "identifier"):
            kind = None if has_type(kind, "implicit_type") else kind
            elements = element_values(self.values(part_of(node, "right")))
            self.bind_variable(self.scope(node), self.text(name), kind, elements)

    def _read_attribute(self, node: Node) -> None:
        """`[Mark]` means the class `MarkAttribute`, too."""
        name = part_of(node, "name")
        path = self.path(name)
        if path and name is not None:
            self.add_use("references", f"{path}Attribute", name)

    def _read_initializer(self, node: Node) -> None:
        """`new Store { Rows = rows }` and `store with { Rows = rows }` name members of the store."""
        made = node.parent
        if has_type(made, "with_expression"):
            path, names = self.path(part_of(made, 0)), [part_of(node, 0)]
        else:
            path = self.path(made) if has_type(made, "object_creation_expression") else None
            names = [part_of(one, "left") for one in children_of_type(node, "assignment_expression")]
        for name in names:
            if has_type(name, "identifier"):
                self.skip_reference(name)
                self.add_use("references", f"{path}.{self.text(name)}" if path else None, name)

    def _read_constructor_call(self, node: Node) -> None:
        """`base(…)` calls what the class extends, `this(…)` the class itself."""
        if has_child(node, "this"):
            self.add_use("calls", last_segment(parent_scope(self.scope(node))), node)
            return
        bases = first_of_type(ancestor_of_type(node, *_TYPE_NODES), "base_list")
        self.add_use("calls", self.path(part_of(bases, 0)), node)

    handlers: Mapping[str, Handler] = {
        "using": _read_using, "bases": _read_bases,
        "type.parameter": lambda reader, node: reader.bind(
            reader.scope(node), reader.text(part_of(node, "name")), ""
        ),
        "constraint": _read_constraint,
        "method": lambda reader, node: reader.bind_result(
            reader.scope(node), part_of(node, "returns") or part_of(node, "type")
        ),
        "property": _read_property, "field": _read_field, "local": _read_local,
        "enum.member": lambda reader, node: reader.add_enum_constant(node, part_of(node, "name")),
        "parameters": _read_parameters, "lambda": _read_lambda, "loop": _read_loop,
        "pattern": declares("name", "type"), "attribute": _read_attribute,
        "constructed": _read_constructor_call, "initializer": _read_initializer,
    }  # fmt: skip
    builtins = _WORDS["builtins"]
    sees_sibling_names = True


class CSharp(PackageLanguage):
    """C#, as its specification says, chapters 7, 14 and 15."""

    name = "c_sharp"
    receiver_keywords: Mapping[str, str] = {"this": "@self", "base": "@super"}
    reader = CSharpReader
    builtins = CSharpReader.builtins
    constructors_named_after_type = True
    nested_packages = True
    has_scattered_members = True
    has_extensions = True
    sight_prefix = _SIGHT_PREFIX
    shared_imports = _GLOBAL_USING
    element_accessors = ("@held[]", "GetEnumerator().Current")
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _WORDS["common_methods"]
    standard_prefixes = ("System.", "Microsoft.")

    def lookup_home(self, facts: FileFacts) -> str:
        """The namespace, as seen from the file's folder: a project sees what it refers to."""
        return f"{facts.path.rpartition('/')[0]}/:{facts.module}/"

    def find_modules(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """A namespace that files in sight have, for who asks."""
        file, around = _split_home(path)
        names = [around + name] if name.startswith(".") else [name]
        while around and not name.startswith("."):
            names.append(f"{around}.{name}")
            around = around.rpartition(".")[0]
        home = f"{file.rpartition('/')[0]}/"
        return tuple(f"{home}:{name}/" for name in islice(_iter_namespaces(layout, home, names), 1))

    def find_siblings(self, name: str, path: str, layout: Layout) -> tuple[str, ...]:
        """Files in sight of the namespace, or of the nearest around it, that define a name.

        Of several those of the own project; of all namespaces, for the sight of a file.
        """
        defining = layout.project.files_defining(name)
        if path.startswith(_SIGHT_PREFIX):
            asking = path.removeprefix(_SIGHT_PREFIX)
            return tuple(sorted(file for file in defining if _is_seen(layout, asking, file)))
        asking, namespace = _split_home(path)
        project = _project_of(layout, asking)
        if name == _GLOBAL_USING:
            own = [file for file in defining if _project_of(layout, file) == project and file.endswith(".cs")]
            manifests = layout.get_or_build(_list_manifests, project) if project is not None else []
            return tuple(sorted({*own, *manifests}.intersection(defining)))
        while True:
            files = layout.get_or_build(list_package_files, "c_sharp", namespace).intersection(defining)
            seen = sorted(file for file in files if _is_seen(layout, asking, file))
            if seen or not namespace:
                return tuple([file for file in seen if _project_of(layout, file) == project] or seen)
            namespace = namespace.rpartition(".")[0]


def _iter_namespaces(layout: Layout, asking: str, names: list[str]) -> Iterator[str]:
    """Those of some namespaces that files in sight have."""
    for name in names:
        files = layout.project.files_defining(package_name("within", "c_sharp", name))
        if any(_is_seen(layout, asking, file) for file in files):
            yield name


def _is_seen(layout: Layout, asking: str, file: str) -> bool:
    """Whether the project of a file is, or refers to, that of another one."""
    project, other = _project_of(layout, asking), _project_of(layout, file)
    seen = layout.get_or_build(_list_visible_projects, project) if project is not None else None
    return seen is None or other is None or other in seen
