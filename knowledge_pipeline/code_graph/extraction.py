"""The facts of one file, read by tree-sitter or from a manifest, and the part of them that others see."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from knowledge_pipeline.code_graph.facts import Binding, FileFacts, SystemUse, parent_scope, split_head
from knowledge_pipeline.code_graph.facts_builder import FactsBuilder
from knowledge_pipeline.code_graph.file_index import FileIndex, build_index
from knowledge_pipeline.code_graph.languages.ecmascript_components import extract_component
from knowledge_pipeline.code_graph.languages.embedded import extract_notebook
from knowledge_pipeline.code_graph.languages.registry import find_manifest_parser, get_language
from knowledge_pipeline.code_graph.system_settings import find_settings, has_settings
from knowledge_pipeline.code_graph.system_uses import FoundUse, find_system_uses
from knowledge_pipeline.file_languages import EMBEDDING_LANGUAGES, GRAPH_LANGUAGES
from knowledge_pipeline.syntax.grammars import run_queries
from knowledge_pipeline.syntax.outline import open_outline

FACTS_VERSION = 5
"""Part of the fingerprint of each file's facts: raise it when the same text gives other facts."""


def extract(path: str, text: str, language: str) -> FileFacts:
    """The facts of one file. Takes time in proportion to its length, and never raises.

    Args:
        path: POSIX, within the source.
        text: the whole file.
        language: as `text.detect_language` names it. Without a code graph for it, and for a text that is
            not sensible code, the facts are empty.
    """
    if (parse_manifest := find_manifest_parser(path)) is not None:
        parsed = parse_manifest(path, text)
        return parsed if isinstance(parsed, FileFacts) else FileFacts(path, language, settings=parsed)
    if language == "notebook":
        return extract_notebook(path, text, _extract_code)
    if language in EMBEDDING_LANGUAGES:
        return extract_component(path, text, language, _extract_code)
    if has_settings(path, language):
        uses = _place(find_settings(path, text, language), text)
        return FileFacts(path, language, system_uses=uses)
    return _extract_code(path, text, language)


def _place(uses: list[FoundUse], text: str, builder: FactsBuilder | None = None) -> tuple[SystemUse, ...]:
    """The lines of system uses, and the definitions that they stand in, or before."""
    placed: list[SystemUse] = []
    line = at = 0
    for use in uses:  # in the order of the text
        line, at = line + text.count("\n", at, use.at), use.at
        scope = builder.scope_at(use.at, is_mark=use.is_mark) if builder else ""
        placed.append(SystemUse(use.kind, use.name, scope, line + 1, use.percent))
    return tuple(dict.fromkeys(placed))


def _extract_code(path: str, text: str, language: str) -> FileFacts:
    outline = open_outline(text, language) if language in GRAPH_LANGUAGES else None
    if outline is None:
        return FileFacts(path, language)
    builder = get_language(language).reader(path, outline)
    if builder.handlers:
        captures = run_queries(outline.tree, "knowledge_pipeline.code_graph")
        if captures is None:
            return FileFacts(path, language)
        builder.read(captures)
    system_uses = _place(find_system_uses(text, language), text, builder)
    return replace(builder.build_facts(), system_uses=system_uses)


def has_facts(path: str, language: str) -> bool:
    """Whether a file has facts: as a program, or because it names modules or says how a system is set up."""
    is_program = language in GRAPH_LANGUAGES or language in EMBEDDING_LANGUAGES
    return is_program or find_manifest_parser(path) is not None or has_settings(path, language)


def build_interface(facts: FileFacts) -> FileIndex:
    """A file as others see it: definitions, bases, imports, bindings that fields and results depend on.

    Signatures, uses, and local variables that no result is made of, are left out.
    """
    bindings = _select_reachable_bindings(facts)
    seen = {split_head(path, 1)[0] for binding in bindings for path in (binding.value, binding.path)}
    seen |= {name for _, name in _base_names(facts)}
    imports = [
        one for one in facts.imports if not one.scope or one.exported or one.local in seen or one.name == "*"
    ]
    seen_facts = replace(facts, imports=tuple(imports), bindings=tuple(bindings))
    index = build_index(seen_facts, get_language(facts.language))
    return replace(index, facts=FileFacts(facts.path, facts.language, facts.module, settings=facts.settings))


def _select_reachable_bindings(facts: FileFacts) -> list[Binding]:
    """Bindings that are seen from outside, and those that their values depend on."""
    local: dict[tuple[str, str], list[int]] = {}
    functions = {
        definition.name for definition in facts.definitions if definition.kind in ("function", "method")
    }
    reached = set[int]()
    for position, (scope, path, value, _) in enumerate(facts.bindings):
        if path.startswith("@in "):
            scope, _, path = path[4:].partition("@")
        elif scope not in functions or path[0] == "@" or value[:1] == "@" or "." in path:
            reached.add(position)
        local.setdefault((scope, split_head(path, 1)[0]), []).append(position)
    waiting, seen = [*_base_names(facts)], set[tuple[str, str]]()  # scopes, and names that are read in them
    waiting += chain.from_iterable(_list_heads(facts.bindings[position]) for position in reached)
    while waiting:
        if (key := waiting.pop()) in seen:
            continue
        seen.add(key)
        for position in local.get(key, ()):
            if position not in reached:
                reached.add(position)
                waiting += _list_heads(facts.bindings[position])
        if scope := key[0]:
            waiting.append((scope.rpartition(".")[0], key[1]))
    return [facts.bindings[position] for position in sorted(reached)]


def _list_heads(binding: Binding) -> list[tuple[str, str]]:
    """The names that a binding starts with, each with the scope that it is read in."""
    return [(binding.scope, split_head(path, 1)[0]) for path in (binding.value, binding.path)]


def _base_names(facts: FileFacts) -> set[tuple[str, str]]:
    """Scopes in which types stand, and the names that what they extend starts with."""
    uses = (use for use in facts.uses if use.kind in ("extends", "implements"))
    return {(parent_scope(use.scope), split_head(use.path, 1)[0]) for use in uses}
