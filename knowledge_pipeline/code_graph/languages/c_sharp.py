"""C#: what its files say, and how its names lead to definitions.

Source: https://learn.microsoft.com/dotnet/csharp/language-reference/language-specification/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Value, Values, element_values, last_segment, parent_scope
from knowledge_pipeline.code_graph.facts_builder import (
    Captures,
    ExpressionSyntax,
    FactsBuilder,
    Handler,
    TypeSyntax,
    declares,
)
from knowledge_pipeline.code_graph.languages.base import PackageLanguage, load_words
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


class CSharpReader(FactsBuilder):
    """Reads files of C#."""

    def _qualify(self, definition: OutlineDefinition, enclosing: str) -> str:
        """A name within its namespace."""
        if definition.kind == "module":
            return ""
        around = (one for one in definition.scope if one.kind != "module")
        return ".".join(_SPECIAL_NAMES.get(one.node.type, one.name) for one in around)

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
        module, _, name = path.rpartition(".")
        if alias is None:
            self.add_import(node, path, "*", "*", exported=shared)
        elif module:
            self.add_import(node, module, name, self.text(alias), exported=shared)
        else:
            self.add_import(node, path, "", self.text(alias), exported=shared)

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
        "constructed": _read_constructor_call,
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
    shared_imports = _GLOBAL_USING
    element_accessors = ("@held[]", "GetEnumerator().Current")
    container_methods = _WORDS.by_word("container_methods")
    common_methods = _WORDS["common_methods"]
    standard_prefixes = ("System.", "Microsoft.")
