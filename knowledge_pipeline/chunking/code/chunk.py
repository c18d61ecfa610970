"""Code cut by its syntax: split what is too large, merge what is too small.

Definitions become chunks; how deep is the setting `granularity`. What exceeds the
limit is split between statements, then lines, then words; small siblings are merged.

Source: Zhang et al. 2025, cAST, https://arxiv.org/abs/2506.15655
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from knowledge_pipeline.chunking.base import Limits, Measured, Span
from knowledge_pipeline.chunking.code.headers import header
from knowledge_pipeline.chunking.code.metadata import code_metadata
from knowledge_pipeline.chunking.lines import chunk_lines, cut, distinct
from knowledge_pipeline.chunking.merging import Group, joined, merged
from knowledge_pipeline.chunking.syntax_pieces import Piece, opened, pieces
from knowledge_pipeline.config.settings import Chunking
from knowledge_pipeline.syntax.grammars import GRAMMARS, parse
from knowledge_pipeline.syntax.outline import CALLABLES, TYPES, Definition, Outline

VERSION = 1
"""Raised whenever the same file would be cut or described otherwise."""

_MAX_DEPTH = 60  # of blocks in blocks; deeper ones are cut by lines
_MAX_ANCHOR = 120


def chunk_code(measured: Measured, chunking: Chunking, limits: Limits) -> Iterator[Span]:
    """Cut one file by its syntax; a `Chunker`.

    A file in a language without a grammar is cut by lines. So is one that does not
    parse, whose spans then say so in the metadata's "note".
    """
    document = measured.document
    language = document.language
    if language not in GRAMMARS:
        yield from chunk_lines(measured, chunking, limits)
        return
    syntax = parse(document.text, language)
    if syntax is None:
        note = {"note": f"could not be parsed as {language}; cut by lines"}
        yield from (replace(span, metadata=note) for span in chunk_lines(measured, chunking, limits))
        return
    cutter = _Cutter(measured, Outline(syntax), chunking, limits)
    yield from distinct(document.text, cutter.spans())


@dataclass(frozen=True)
class _Cutter:
    measured: Measured
    outline: Outline
    chunking: Chunking
    limits: Limits

    def spans(self) -> Iterator[Span]:
        text, root = self.measured.document.text, self.outline.syntax.root
        whole = (0, len(text))
        if any(child.end_byte > child.start_byte for child in root.children):
            groups = self._groups(root.children, whole, None, 0)
        else:  # nothing but a byte order mark
            groups = [Group(*stretch, None) for stretch in cut(self.measured, *whole, self.limits.max_tokens)]
        return (self._span(each) for each in groups if not text[each.start_char : each.end_char].isspace())

    def _groups(
        self, nodes: Iterable[Node], span: tuple[int, int], inside: Definition | None, depth: int
    ) -> list[Group]:
        """Cut one level of the tree, and what is below it where that is needed."""
        found: list[Group] = []
        run: Group | None = None  # what stands beside definitions, packed up to the limit
        after_gap = False
        for piece in pieces(self.outline, nodes, span, inside):
            if self._left_out(piece, inside):
                run, after_gap = None, True
                continue
            group = self._group(piece, inside)
            if self._is_opened(piece, inside):
                parts = self._parts(piece, inside, depth)
                run = None
            elif not self._stands_alone(piece) and run and self._fits(run.start_char, piece.end_char):
                found[-1] = run = joined(run, group)
                continue
            else:
                parts = [group]
                run = None if self._stands_alone(piece) else group
            if parts:
                parts[0].after_gap |= after_gap
            found.extend(parts)
            after_gap = False
        return self._merged(found)

    def _parts(self, piece: Piece, inside: Definition | None, depth: int) -> list[Group]:
        within = piece.definition or inside
        nodes = opened(self.outline, piece) if depth < _MAX_DEPTH else None
        span = (piece.start_char, piece.end_char)
        if nodes is not None:
            return self._groups(nodes, span, within, depth + 1)
        return [Group(*stretch, within) for stretch in cut(self.measured, *span, self.limits.max_tokens)]

    def _merged(self, groups: list[Group]) -> list[Group]:
        limits = self.limits
        return merged(
            groups, min_tokens=limits.min_tokens, max_tokens=limits.max_tokens, tokens=self.measured.tokens
        )

    def _group(self, piece: Piece, inside: Definition | None) -> Group:
        subjects = [piece.definition] if piece.definition else []
        return Group(piece.start_char, piece.end_char, inside, subjects, piece.is_import)

    def _fits(self, start_char: int, end_char: int) -> bool:
        return self.measured.tokens(start_char, end_char) <= self.limits.max_tokens

    def _left_out(self, piece: Piece, inside: Definition | None) -> bool:
        """Imports and comments that the settings leave out; those within functions stay."""
        if inside is not None and inside.kind in CALLABLES:
            return False
        if piece.is_import:
            return not self.chunking.include_imports
        return piece.is_comment and not self.chunking.include_comments

    def _stands_alone(self, piece: Piece) -> bool:
        return piece.definition is not None and self._is_chunk(piece.definition)

    def _is_chunk(self, definition: Definition) -> bool:
        """Whether the granularity makes a definition a chunk of its own."""
        granularity = self.chunking.granularity
        if granularity == "file":
            return False
        if granularity != "class" and definition.kind in CALLABLES:
            return definition.body_char is not None
        return definition.kind in TYPES

    def _is_opened(self, piece: Piece, inside: Definition | None) -> bool:
        """Whether a piece is cut further: it is too large, or holds definitions that are chunks."""
        size = self.measured.tokens(piece.start_char, piece.end_char)
        if size > self.limits.max_tokens:
            return True
        own, granularity = piece.definition, self.chunking.granularity
        around = own or inside
        if size <= self.limits.min_tokens or (around is not None and around.kind in CALLABLES):
            return False
        if own is not None and own.kind in TYPES and granularity != "method":
            return False
        end_char = piece.code_end_char
        held = (each for each in self.outline.within(piece.start_char, end_char) if each is not own)
        return any(self._is_chunk(each) for each in held if each.end_char <= end_char)

    def _span(self, group: Group) -> Span:
        subject, span = group.subject, (group.start_char, group.end_char)
        is_part = subject is not None and subject is group.inside and not group.holds_head
        scope = group.inside.scope if group.inside else []
        named = [*scope, subject] if subject and subject in group.subjects[:1] == group.subjects else scope
        path = self.measured.document.path
        part_of = subject if is_part else None
        return Span(
            *span,
            anchor=_anchor(group, scope),
            header=header(path, self.outline, named, part_of, self.chunking.preserve_signatures),
            metadata=code_metadata(self.outline, *span, subject),
        )


def _anchor(group: Group, scope: list[Definition]) -> str:
    """The structural path of a chunk, which edits elsewhere in the file leave alone."""
    steps = [_shortened(each.label) for each in scope]
    if group.subjects and not group.holds_head:
        steps.append(_shortened(", ".join(each.label for each in group.subjects)))
    return "/".join(steps) or ("imports" if group.only_imports else "module")


def _shortened(label: str) -> str:
    return label if len(label) <= _MAX_ANCHOR else f"{label[: _MAX_ANCHOR - 1]}…"
