"""What the settings of Vite, Nuxt, SvelteKit and other bundlers say of the names of modules.

These are programs: read are the objects at `alias`, with paths as `path.resolve(__dirname, "src")` or
`fileURLToPath(new URL("./src", import.meta.url))` writes them.
Source: https://vite.dev/config/shared-options#resolve-alias, https://nuxt.com/docs/api/nuxt-config#alias
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.syntax.grammars import children_of, children_of_type, has_type, part_of

AUTO_IMPORTS = "auto_imports"  # the setting of a file below whose folder names come without import

_FRAMEWORK_ALIASES = {
    "nuxt": ("~\t{}", "@\t{}", "~~\t.", "@@\t.", "#shared\t./shared", "#server\t./server"),
    "svelte": ("$lib\t./src/lib",),
}
_NUXT_FOLDERS = ("./app", ".", "./src")  # where the sources lie, in Nuxt 4 and before
_AUTO_IMPORTERS = re.compile(r"\bunplugin-(?:vue-components|auto-import)\b")
_MAX_ALIASES, _MAX_DEPTH = 200, 8
_GROUP, _ESCAPED = re.compile(r"\(\.[*+]\??\)"), re.compile(r"\\(\W)")
_SPECIAL = re.compile(r"[\\()\[\]{}|?+^$\s]|\*.*\*")

_Variables = dict[str, Node | None]


def read_settings(reader: FactsBuilder) -> dict[str, str]:
    """The settings of a bundler's file: "paths" as of a tsconfig.json, and `AUTO_IMPORTS`; none of others."""
    tool, dot, _ = reader.file_path.rpartition("/")[2].partition(".config.")
    variables, values = _Variables(), dict[str, list[Node]]()
    waiting = [reader.syntax.root] if dot else []
    while waiting:
        node = waiting.pop()
        waiting += node.named_children
        value = part_of(node, "value")
        if node.type == "variable_declarator":
            variables[reader.text(part_of(node, "name"))] = value
        elif node.type == "pair" and value is not None:
            values.setdefault(reader.short_text(part_of(node, "key"), 20).strip("\"'"), []).append(value)
    sources = "\t".join(
        [*(_evaluate(reader, it, variables) for it in values.get("srcDir", ())), *_NUXT_FOLDERS]
    )
    lines = [line.format(sources) for line in _FRAMEWORK_ALIASES.get(tool, ())]
    for entry in (
        one for node in values.get("alias", ()) for one in children_of_type(node, "pair", "object")
    ):
        fields = [part_of(one, "value") for one in children_of_type(entry, "pair")]  # `find`, `replacement`
        fields = [part_of(entry, "key"), part_of(entry, "value")] if entry.type == "pair" else fields
        target = _evaluate(reader, fields[1], variables) if len(fields) > 1 else ""
        is_plain = has_type(fields[-1], "string") and not target.startswith((".", "/")) if fields else True
        if target and not (is_plain and tool != "svelte"):  # else the name of a package
            lines.append(f"{_read_find(reader, fields[0])}\t{target.lstrip('/')}")
    paths = [pair for line in lines[-_MAX_ALIASES:] for pair in _iter_patterns(*line.split("\t"))]
    is_auto = dot and (tool == "nuxt" or _AUTO_IMPORTERS.search(reader.syntax.text))
    settings = {"paths": "\n".join(paths), AUTO_IMPORTS: "1" if is_auto else ""}
    return {key: value for key, value in settings.items() if value}


def _read_find(reader: FactsBuilder, node: Node | None) -> str:
    """What an alias replaces; of a regular expression, the plain names that it finds, or nothing."""
    text = reader.short_text(node, 200)
    if not has_type(node, "regex"):
        return text.strip("\"'`")
    text = _ESCAPED.sub(r"\1", _GROUP.sub("*", reader.text(part_of(node, "pattern")).removeprefix("^")))
    name = text.removesuffix("$")
    return "" if _SPECIAL.search(name) else name if "*" in name else f"{name}*" if name == text else text


def _iter_patterns(find: str, *targets: str) -> Iterator[str]:
    """An alias as patterns of a tsconfig.json: `@` is one of `@` and of `@/*`."""
    name = find.removesuffix("$").rstrip("/")
    if "*" in find:
        ends = [target.replace("$1", "*") for target in targets]
        yield "\t".join([find, *(end if "*" in end else f"{end}*" for end in ends)])
    elif name and all(target.isprintable() for target in targets):
        yield "\t".join([name, *targets])
        if not find.endswith("$"):
            yield "\t".join([f"{name}/*", *(f"{target.rstrip('/')}/*" for target in targets)])


def _evaluate(reader: FactsBuilder, node: Node | None, variables: _Variables, depth: int = 0) -> str:
    """The path that an expression computes, from the file's own folder; what is not known adds nothing."""
    if node is None or depth > _MAX_DEPTH:
        return ""
    is_call, parts = node.type in ("call_expression", "new_expression"), list[Node]()
    if node.type in ("string", "string_fragment"):
        return reader.short_text(node, 200).strip("\"'")
    if node.type == "identifier":
        return _evaluate(reader, variables.get(reader.text(node)), variables, depth + 1)
    if is_call:
        parts = children_of(part_of(node, "arguments"))
    elif node.type in ("member_expression", "template_string", "template_substitution", "binary_expression"):
        parts = node.named_children[: 1 if node.type == "member_expression" else None]
    if is_call and "require" in reader.short_text(part_of(node, 0), 40):
        return "node_modules/"
    values = (_evaluate(reader, part, variables, depth + 1) for part in parts[:_MAX_DEPTH])
    return ("/" if is_call else "").join(filter(None, values))
