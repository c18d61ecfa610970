"""What declarations of C and C++ say: includes, fields, types of parameters, variables and results.

Namespaces are left out of the names of definitions; a file says which ones it has.
Sources: https://en.cppreference.com/w/c/language, https://en.cppreference.com/w/cpp/language
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import first_segment
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.languages.c_family.values import (
    EXPRESSIONS,
    declarator_values,
    unwrap_declarator,
)
from knowledge_pipeline.code_graph.languages.words import split_scoped_name, split_words
from knowledge_pipeline.code_graph.values import element_values
from knowledge_pipeline.syntax.nodes import children_of_type, part_of
from knowledge_pipeline.syntax.outline import OutlineDefinition

BUILTINS = split_words(
    """
    std NULL nullptr true false size_t ssize_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t
    uint32_t uint64_t intptr_t uintptr_t bool wchar_t FILE va_list va_start va_end va_arg va_copy time_t
    off_t stdin stdout stderr errno EOF assert offsetof sizeof defined printf fprintf sprintf snprintf
    vsnprintf vfprintf puts fputs fputc putchar getchar fgets fgetc fopen fclose fread fwrite fseek ftell
    fflush perror sscanf scanf malloc calloc realloc free exit abort atexit getenv atoi atol strtol strtoul
    strtod qsort bsearch rand srand memcpy memmove memset memcmp memchr strlen strcpy strncpy strcat
    strncat strcmp strncmp strchr strrchr strstr strdup strtok strerror strcasecmp strncasecmp isalpha
    isdigit isalnum isspace isupper islower toupper tolower isprint isxdigit abs labs fabs floor ceil pow
    sqrt sin cos tan exp log time clock INT_MAX INT_MIN UINT_MAX LONG_MAX LONG_MIN SIZE_MAX UINT64_MAX
    static_cast dynamic_cast reinterpret_cast const_cast
    """
)
_MAX_NAMESPACE_DEPTH = 12


def qualify(definition: OutlineDefinition) -> str:
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
    return any(builder.text(each) == name for each in children_of_type(node, "storage_class_specifier"))


def _read_include(builder: FactsBuilder, node: Node) -> None:
    name = builder.text(part_of(node, "path")).strip('<>"')
    if name and "\t" not in name and "\n" not in name:
        builder.imports.append(Import(name, "*", "*", node.start_point.row + 1, "", True))


def _read_namespace(builder: FactsBuilder, node: Node) -> None:
    """Says that the file has a namespace, with those around it."""
    names: list[str] = []
    each: Node | None = node
    for _ in range(_MAX_NAMESPACE_DEPTH):
        if each is None:
            break
        name = part_of(each, "name") if each.type == "namespace_definition" else None
        names[:0] = split_scoped_name(builder.text(name))
        each = each.parent
    known = builder.settings.get("namespaces", "").split()
    if names and ".".join(names) not in known:
        builder.settings["namespaces"] = " ".join([*known, ".".join(names)])
        builder.module = "" if known and names[0] != known[0] else builder.module or ".".join(names)


def _read_namespace_alias(builder: FactsBuilder, node: Node) -> None:
    parts = split_scoped_name(builder.text(part_of(node, -1)))
    if parts:
        builder.bind(builder.scope(node), builder.text(part_of(node, "name")), ".".join(parts))


def _read_bases(builder: FactsBuilder, node: Node) -> None:
    for each in children_of_type(node, "type_identifier", "qualified_identifier", "template_type"):
        builder.add_use("extends", builder.writer.path(each), each, builder.scope(node))
        builder.skip_reference(each)


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
    for each in node.children_by_field_name("declarator"):
        name, reached = unwrap_declarator(each)
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
    for each in node.children_by_field_name("declarator"):
        name, reached = unwrap_declarator(each)
        if name is None or not (text := builder.text(name)).isidentifier():
            continue
        if reached != "()" or _is_function_pointer(builder, each):
            builder.add_definition(f"{scope}.{text}", "variable", node)
            builder.skip_reference(name)
            builder.bind_declared(scope, text, declarator_values(builder.writer, kind, reached), local=False)
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
    name, reached = unwrap_declarator(part_of(node, "declarator"))
    if around is not None and name is not None and name.type == "identifier":
        values = declarator_values(builder.writer, part_of(node, "type"), reached)
        builder.bind_declared(builder.scope(node), builder.text(name), values)


def _read_declaration(builder: FactsBuilder, node: Node) -> None:
    scope, kind = builder.scope(node), part_of(node, "type")
    if not scope and _has_storage_class(builder, node, "extern"):
        return  # what it stands for is where it is defined
    for each in node.children_by_field_name("declarator"):
        name, reached = unwrap_declarator(each)
        is_function = reached == "()" and not _is_function_pointer(builder, each)
        if name is None or name.type != "identifier" or is_function:
            continue
        text, local = builder.text(name), bool(scope)
        if not local:
            builder.add_definition(text, "variable", node)
        if kind is not None and kind.type == "placeholder_type_specifier":
            builder.bind_observed(scope, text, builder.writer.values(part_of(each, "value")), local=local)
        else:
            builder.bind_declared(scope, text, declarator_values(builder.writer, kind, reached), local=local)


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
    name, reached = unwrap_declarator(part_of(node, "declarator"))
    kind = part_of(node, "type")
    if name is None or name.type != "identifier":
        return
    if kind is not None and kind.type != "placeholder_type_specifier":
        values = declarator_values(builder.writer, kind, reached)
        builder.bind_declared(builder.scope(node), builder.text(name), values)
    else:
        held = element_values(builder.writer.values(part_of(node, "right")))
        builder.bind_observed(builder.scope(node), builder.text(name), held)


EXTRACTION = ExtractionRules(
    expressions=EXPRESSIONS,
    handlers={
        "include": _read_include, "namespace": _read_namespace, "namespace.alias": _read_namespace_alias,
        "bases": _read_bases, "function": _read_function, "typedef": _read_typedef, "alias": _read_alias,
        "field": _read_field, "enumerator": _read_enumerator, "parameter": _read_parameter,
        "declaration": _read_declaration, "assignment": _read_assignment, "loop": _read_loop,
    },
    builtins=BUILTINS, sees_sibling_names=True, qualify=qualify, is_private=_is_static,
)  # fmt: skip
