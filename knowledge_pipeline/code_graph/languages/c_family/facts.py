"""What declarations of C and C++ say: includes, fields, types of parameters, variables and results.

Namespaces are left out of the names of definitions; a file says which ones it has.
Sources: https://en.cppreference.com/w/c/language, https://en.cppreference.com/w/cpp/language
"""

from __future__ import annotations

from tree_sitter import Node

from knowledge_pipeline.code_graph.access_paths import head_of
from knowledge_pipeline.code_graph.expression_paths import part_of
from knowledge_pipeline.code_graph.facts import Import
from knowledge_pipeline.code_graph.facts_builder import Extraction, Reading
from knowledge_pipeline.code_graph.languages.c_family.values import (
    EXPRESSIONS,
    TYPES,
    declared,
    scoped,
    values_of,
)
from knowledge_pipeline.code_graph.languages.declared_types import children, declare, elements, give, promised
from knowledge_pipeline.code_graph.languages.words import words
from knowledge_pipeline.syntax.outline import Definition

BUILTINS = words(
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
_MAX_AROUND = 12


def qualified(each: Definition) -> str:
    """`Circle.area`: namespaces are left out, of what is written before a name as well."""
    parts: list[str] = []
    for one in each.scope:
        if one.kind == "module":
            continue
        owners = [part.split("<")[0] for part in one.owner.split("::") if part]
        while len(owners) > 1 and owners[0][:1].islower():
            owners.pop(0)
        parts += [*owners, one.name]
    return ".".join("".join(part.split()) for part in parts if part)


def _is_private(reading: Reading, node: Node, name: str) -> bool:
    """`static` functions and variables are seen in their file alone, and in those that include it."""
    return "." not in name and any(
        reading.text(each) == "static" for each in children(node, "storage_class_specifier")
    )


def _include(reading: Reading, node: Node) -> None:
    path = node.child_by_field_name("path")
    name = reading.text(path).strip('<>"') if path is not None else ""
    if name and "\t" not in name and "\n" not in name:
        reading.imports.append(Import(name, "*", "*", node.start_point.row + 1, "", True))


def _namespace(reading: Reading, node: Node) -> None:
    """Says that the file has a namespace, with those around it."""
    names: list[str] = []
    each: Node | None = node
    for _ in range(_MAX_AROUND):
        if each is None:
            break
        name = each.child_by_field_name("name") if each.type == "namespace_definition" else None
        names[:0] = (scoped(reading.text(name)) or []) if name is not None else []
        each = each.parent
    known = reading.settings.get("namespaces", "").split()
    if names and ".".join(names) not in known:
        reading.settings["namespaces"] = " ".join([*known, ".".join(names)])
        reading.module = "" if known and names[0] != known[0] else reading.module or ".".join(names)


def _namespace_alias(reading: Reading, node: Node) -> None:
    name, of = node.child_by_field_name("name"), part_of(node, -1)
    parts = scoped(reading.text(of)) if of is not None else None
    if name is not None and parts:
        reading.bind(reading.scope(node), reading.text(name), ".".join(parts))


def _bases(reading: Reading, node: Node) -> None:
    for each in children(node, "type_identifier", "qualified_identifier", "template_type"):
        reading.use("extends", reading.writer.path(each), each, reading.scope(node))
        reading.skip(each)


def _function(reading: Reading, node: Node) -> None:
    """The result of a function, and what `this` is in one that is defined outside of its class."""
    scope, kind = reading.scope(node), node.child_by_field_name("type")
    owner = scope.rpartition(".")[0]
    if owner in reading.types:
        reading.bind(scope, "this", "@self")
    elif owner:
        reading.bind(scope, "this", f"{owner}()", declared=True)
        reading.bind(scope, "@receiver", f"{owner}()", declared=True)
    for suffix, value in promised(TYPES, reading.writer, kind):
        reading.bind(scope, "@()" + suffix, value, declared=True)


def _typedef(reading: Reading, node: Node) -> None:
    """Another name for a type; and the tag of the one that it defines."""
    kind = node.child_by_field_name("type")
    path = reading.writer.path(kind)
    around = reading.scope(node)
    around = "" if around in reading.types else around
    for each in node.children_by_field_name("declarator"):
        name, reached = declared(each)
        text = reading.text(name) if name is not None else ""
        if not text or text == path:
            continue
        if kind is not None and kind.child_by_field_name("body") is not None:
            if path:
                reading.bind(around, path, text)
        else:
            reading.define(text, "type", node)
            if path and not reached.startswith("()"):
                reading.bind(around, text, path)


def _alias(reading: Reading, node: Node) -> None:
    name = node.child_by_field_name("name")
    values = promised(TYPES, reading.writer, node.child_by_field_name("type"))
    for suffix, value in values:
        if name is not None and not suffix and head_of(value) != reading.text(name):
            scope = reading.scope(node).rpartition(".")[0]
            reading.bind(scope, reading.text(name), value.removesuffix("()"))


def _field(reading: Reading, node: Node) -> None:
    """Fields are definitions; a method that is only declared is defined where its body is."""
    scope, kind = reading.scope(node), node.child_by_field_name("type")
    if scope not in reading.types:
        return
    for each in node.children_by_field_name("declarator"):
        name, reached = declared(each)
        if name is None or not (text := reading.text(name)).isidentifier():
            continue
        if reached != "()" or _is_pointer(reading, each):
            reading.define(f"{scope}.{text}", "variable", node)
            reading.skip(name)
            declare(reading, scope, text, values_of(reading.writer, kind, reached), local=False)
        elif node.child_by_field_name("default_value") is not None:  # "= 0": it has no body anywhere
            reading.define(f"{scope}.{text}", "method", node)


def _is_pointer(reading: Reading, declarator: Node) -> bool:
    """Whether what looks like a function is a pointer to one."""
    return "(*" in reading.text(declarator)[:60].replace(" ", "")


def _enumerator(reading: Reading, node: Node) -> None:
    """Constants of an enumeration are names around it, too."""
    scope, name = reading.scope(node), node.child_by_field_name("name")
    if name is None:
        return
    text, of = reading.text(name), node.parent.parent if node.parent is not None else None
    if scope in reading.types and of is not None and of.type == "enum_specifier":
        reading.define(f"{scope}.{text}", "variable", node)
        reading.bind(scope.rpartition(".")[0], text, f"{scope.rpartition('.')[2]}.{text}")
        reading.bind(scope, text, "@class()", declared=True)
    elif not scope:
        reading.define(text, "variable", node)


def _parameter(reading: Reading, node: Node) -> None:
    around = node.parent.parent if node.parent is not None else None
    for _ in range(4):
        if around is None or around.type in ("function_definition", "lambda_expression"):
            break
        around = around.parent if around.type.endswith("_declarator") else None
    name, reached = declared(node.child_by_field_name("declarator"))
    if around is not None and name is not None and name.type == "identifier":
        values = values_of(reading.writer, node.child_by_field_name("type"), reached)
        declare(reading, reading.scope(node), reading.text(name), values)


def _declaration(reading: Reading, node: Node) -> None:
    """Variables, of a function or of the file."""
    scope, kind = reading.scope(node), node.child_by_field_name("type")
    is_extern = any(reading.text(each) == "extern" for each in children(node, "storage_class_specifier"))
    for each in node.children_by_field_name("declarator"):
        name, reached = declared(each)
        if name is None or name.type != "identifier" or (reached == "()" and not _is_pointer(reading, each)):
            continue
        text = reading.text(name)
        if not scope and not is_extern:
            reading.define(text, "variable", node)
        if is_extern and not scope:
            continue  # what it stands for is where it is defined
        if kind is not None and kind.type == "placeholder_type_specifier":
            give(
                reading,
                scope,
                text,
                reading.writer.values(each.child_by_field_name("value")),
                local=bool(scope),
            )
        else:
            declare(reading, scope, text, values_of(reading.writer, kind, reached), local=bool(scope))


def _assignment(reading: Reading, node: Node) -> None:
    """What is put into a pointer to a function."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    scope = reading.scope(node)
    if left is None or right is None or left.type != "identifier" or right.type != "identifier":
        return
    name, value = reading.text(left), reading.text(right)
    if (scope, name) in reading.locals and name != value:
        reading.bind(scope, name, value)


def _loop(reading: Reading, node: Node) -> None:
    name, reached = declared(node.child_by_field_name("declarator"))
    kind = node.child_by_field_name("type")
    if name is None or name.type != "identifier":
        return
    if kind is not None and kind.type != "placeholder_type_specifier":
        values = values_of(reading.writer, kind, reached)
        declare(reading, reading.scope(node), reading.text(name), values)
    else:
        held = elements(reading.writer.values(node.child_by_field_name("right")))
        give(reading, reading.scope(node), reading.text(name), held)


EXTRACTION = Extraction(
    expressions=EXPRESSIONS,
    handlers={
        "include": _include,
        "namespace": _namespace,
        "namespace.alias": _namespace_alias,
        "bases": _bases,
        "function": _function,
        "typedef": _typedef,
        "alias": _alias,
        "field": _field,
        "enumerator": _enumerator,
        "parameter": _parameter,
        "declaration": _declaration,
        "assignment": _assignment,
        "loop": _loop,
    },
    builtins=BUILTINS,
    hides_siblings=True,
    qualified=qualified,
    private=_is_private,
)
