"""The facts of one file, read by tree-sitter or from a manifest, and the part of them that others see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tree_sitter import Node

from knowledge_pipeline.code_graph.facts import Binding, FileFacts, first_segment, parent_scope
from knowledge_pipeline.code_graph.facts_builder import Captures, ExtractionRules, FactsBuilder
from knowledge_pipeline.code_graph.file_index import FileIndex, build_index
from knowledge_pipeline.code_graph.languages.registry import MANIFESTS, get_extraction, get_language
from knowledge_pipeline.file_languages import GRAPH_LANGUAGES
from knowledge_pipeline.syntax.grammars import part_of, run_queries
from knowledge_pipeline.syntax.outline import open_outline

FACTS_VERSION = 1
"""Part of the fingerprint of each file's facts: raise it when the same text gives other facts."""


def extract(path: str, text: str, language: str) -> FileFacts:
    """The facts of one file. Takes time in proportion to its length, and never raises.

    Args:
        path: POSIX, within the source.
        text: the whole file.
        language: as `text.detect_language` names it. Without a code graph for it, and for a text that is
            not sensible code, the facts are empty.
    """
    for is_one, settings_of in MANIFESTS:
        if is_one(path):
            return FileFacts(path, language, settings=settings_of(path, text))
    outline = open_outline(text, language) if language in GRAPH_LANGUAGES else None
    if outline is None:
        return FileFacts(path, language)
    syntax = outline.tree
    rules = get_extraction(language)
    builder = FactsBuilder(path, syntax, outline, rules or ExtractionRules.definitions_only())
    if rules is not None:
        _run_handlers(builder, run_queries(syntax, "knowledge_pipeline.code_graph"))
    return builder.build_facts()


def is_manifest(path: str) -> bool:
    """Whether a file has facts because it says how modules are named, whatever its language."""
    return any(is_one(path) for is_one, _ in MANIFESTS)


def _run_handlers(builder: FactsBuilder, captures: Captures) -> None:
    extraction = builder.extraction
    for node in captures.get("skip", ()):
        builder.skipped_bytes.add(node.start_byte)
    called = _add_calls(builder, captures.get("call", ()))
    for name, handler in extraction.handlers.items():
        for node in captures.get(name, ()):
            handler(builder, node)
    _add_references(builder, captures, called)
    if extraction.finish is not None:
        extraction.finish(builder, captures)


def _add_calls(builder: FactsBuilder, calls: list[Node] | tuple[()]) -> set[tuple[int, int]]:
    """Note all calls; gives where what they call starts and ends."""
    called: set[tuple[int, int]] = set()
    expressions = builder.extraction.expressions
    table, is_call = expressions.calls, expressions.is_call
    for node in calls:
        callee = part_of(node, table[node.type][-1])
        if callee is not None and (is_call is None or is_call(node)):
            called.add((callee.start_byte, callee.end_byte))
            builder.add_use("calls", builder.writer.callee(node), callee)
    return called


def _add_references(builder: FactsBuilder, captures: Captures, callee_spans: set[tuple[int, int]]) -> None:
    """Note all names, each with the longest chain that starts with it, that are not called."""
    longest: dict[int, Node] = {}
    ends: set[int] = set()  # where a chain ends, its last name does: that refers to nothing alone
    for node in captures.get("chain", ()):
        longest.setdefault(node.start_byte, node)
        ends.add(node.end_byte)
    skipped = builder.skipped_bytes
    for name in _iter_outside_spans(captures.get("name", ()), captures.get("skip.all", ())):
        start = name.start_byte
        if start in skipped or (name.end_byte in ends and start not in longest):
            continue
        node = longest.get(start, name)
        if (start, node.end_byte) not in callee_spans:
            builder.add_use("references", builder.writer.path(node), name)


def _iter_outside_spans(names: Iterable[Node], spans: Iterable[Node]) -> Iterator[Node]:
    """The names that lie in none of the spans; both are in the order of the text."""
    waiting = iter(spans)
    span = next(waiting, None)
    for name in names:
        while span is not None and span.end_byte <= name.start_byte:
            span = next(waiting, None)
        if span is None or name.start_byte < span.start_byte:
            yield name


def build_interface(facts: FileFacts) -> FileIndex:
    """A file as others see it: definitions, bases, imports, bindings that fields and results depend on.

    Signatures, uses, and local variables that no result is made of, are left out.
    """
    bindings = _select_reachable_bindings(facts)
    seen = {first_segment(path) for binding in bindings for path in (binding.value, binding.path)}
    seen |= {name for _, name in _base_names(facts)}
    imports = [one for one in facts.imports if not one.scope or one.local in seen or one.name == "*"]
    seen_facts = replace(facts, imports=tuple(imports), bindings=tuple(bindings))
    index = build_index(seen_facts, get_language(facts.language))
    return replace(index, facts=FileFacts(facts.path, facts.language, facts.module, settings=facts.settings))


def _select_reachable_bindings(facts: FileFacts) -> list[Binding]:
    """Bindings that are seen from outside, and those that their values depend on."""
    local: dict[tuple[str, str], list[int]] = {}
    for position, binding in enumerate(facts.bindings):
        local.setdefault(_binding_key(binding), []).append(position)
    functions = {
        definition.name for definition in facts.definitions if definition.kind in ("function", "method")
    }
    reached = {
        position for position, binding in enumerate(facts.bindings) if _is_visible_outside(binding, functions)
    }
    reached.update(position for name in _base_names(facts) for position in _iter_visible(local, *name))
    waiting = sorted(reached)
    while waiting:
        binding = facts.bindings[waiting.pop()]
        for name in (first_segment(binding.value), first_segment(binding.path)):
            for position in _iter_visible(local, binding.scope, name):
                if position not in reached:
                    reached.add(position)
                    waiting.append(position)
    return [facts.bindings[position] for position in sorted(reached)]


def _base_names(facts: FileFacts) -> set[tuple[str, str]]:
    """Scopes in which types stand, and the names that what they extend starts with."""
    uses = (use for use in facts.uses if use.kind in ("extends", "implements"))
    return {(parent_scope(use.scope), first_segment(use.path)) for use in uses}


def _binding_key(binding: Binding) -> tuple[str, str]:
    if binding.path.startswith("@in "):
        scope, _, path = binding.path[4:].partition("@")
        return scope, first_segment(path)
    return binding.scope, first_segment(binding.path)


def _is_visible_outside(binding: Binding, functions: set[str]) -> bool:
    """Whether a binding is of a module, a class, a field, a result."""
    return not binding.path.startswith("@in ") and (
        binding.scope not in functions
        or binding.path[0] == "@"
        or binding.value[:1] == "@"
        or "." in binding.path
    )


def _iter_visible(local: dict[tuple[str, str], list[int]], scope: str, name: str) -> Iterable[int]:
    while True:
        yield from local.get((scope, name), ())
        if not scope:
            return
        scope = parent_scope(scope)
