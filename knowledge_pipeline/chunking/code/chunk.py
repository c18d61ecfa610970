"""Code cut by its syntax: split what is too large, merge what is too small.

Definitions become chunks, down to the depth of the setting `granularity`. What exceeds the
limit is split between statements, then lines, then words; small siblings are merged.

Source: Zhang et al. 2025, cAST, https://arxiv.org/abs/2506.15655
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.code.headers import build_header
from knowledge_pipeline.chunking.code.metadata import build_code_metadata
from knowledge_pipeline.chunking.lines import chunk_lines, number_duplicate_anchors, split_to_limit
from knowledge_pipeline.chunking.merging import (
    SCRAP_TOKENS,
    PieceGroup,
    ScrapJoiner,
    can_follow,
    join_groups,
    merge_small_groups,
)
from knowledge_pipeline.chunking.sentences import Range
from knowledge_pipeline.chunking.syntax_pieces import SyntaxPiece, build_pieces, find_licence_end, open_piece
from knowledge_pipeline.config.sources.chunking import ChunkingSettings
from knowledge_pipeline.strings import truncate
from knowledge_pipeline.syntax.grammars import GRAMMARS, choose_grammar
from knowledge_pipeline.syntax.outline import (
    CALLABLE_KINDS,
    STATEMENT_KINDS,
    TYPE_KINDS,
    Outline,
    OutlineDefinition,
    open_outline,
)

VERSION = 2
"""Raised whenever the same file would be cut or described differently."""

_MAX_DEPTH = 60  # of blocks in blocks; deeper ones are cut by lines
_MAX_ANCHOR_CHARS = 120


def chunk_code(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """Cut one file by its syntax; a `Chunker`.

    A file in a language without a grammar is cut by lines. So is one that does not parse: the
    metadata's "note" then says so.
    """
    document = measured.document
    language = document.language
    if language not in GRAMMARS:
        yield from chunk_lines(measured, chunking, limits)
        return
    outline = open_outline(document.text, choose_grammar(language, document.path))
    if outline is None:
        note = {"note": f"could not be parsed as {language}; cut by lines"}
        yield from (replace(span, metadata=note) for span in chunk_lines(measured, chunking, limits))
        return
    cutter = _CodeSplitter(measured, outline, chunking, limits, find_licence_end(outline))
    yield from number_duplicate_anchors(document.text, cutter.build_spans())


@dataclass(frozen=True)
class _CodeSplitter:
    measured: MeasuredDocument
    outline: Outline
    chunking: ChunkingSettings
    limits: TokenLimits
    licence_end: int

    def build_spans(self) -> Iterator[ChunkSpan]:
        text = self.measured.document.text
        whole = (0, len(text))
        nodes = self.outline.tree.top_nodes
        if any(node.end_byte > node.start_byte for node in nodes):
            groups = self._split_nodes(nodes, whole, None, 0)
        else:  # nothing but a byte order mark
            groups = self._split_by_lines(whole, None)
        limits = self.limits
        count_tokens = self.measured.count_tokens
        groups = ScrapJoiner(text, limits.min_tokens, limits.max_tokens, count_tokens).join(groups)
        for group in groups:
            if not text[group.start_char : group.end_char].isspace():
                yield self._build_span(group)

    def _split_nodes(
        self, nodes: Iterable[Node], span: tuple[int, int], enclosing: OutlineDefinition | None, depth: int
    ) -> list[PieceGroup]:
        """Cut one level of the tree, and what is below it where that is needed."""
        limits, count_tokens = self.limits, self.measured.count_tokens
        found: list[PieceGroup] = []
        run: PieceGroup | None = None  # the code between definitions, packed up to the limit
        after_gap = False
        for piece in build_pieces(self.outline, nodes, span, enclosing, self.licence_end):
            if self._is_excluded(piece, enclosing):
                run, after_gap = None, True
                continue
            group = self._build_group(piece, enclosing)
            is_own_chunk = piece.definition is not None and self._is_chunk(piece.definition)
            begins = is_own_chunk or (piece.definition is not None and piece.definition.kind == "stage")
            if self._must_split(piece, enclosing):
                parts = self._split_piece(piece, enclosing, depth)
                run = None
            elif run and not begins and self._can_continue(run, group):
                found[-1] = run = join_groups(run, group)
                continue
            else:
                parts = [group]
                run = None if is_own_chunk else group
            if parts:
                parts[0].after_gap |= after_gap
            found.extend(parts)
            after_gap = False
        return merge_small_groups(
            found, min_tokens=limits.min_tokens, max_tokens=limits.max_tokens, count_tokens=count_tokens
        )

    def _build_group(self, piece: SyntaxPiece, enclosing: OutlineDefinition | None) -> PieceGroup:
        return PieceGroup(
            piece.start_char,
            piece.end_char,
            enclosing,
            [piece.definition] if piece.definition else [],
            piece.is_import,
            only_comments=piece.is_comment,
            has_licence=piece.start_char < self.licence_end,
        )

    def _can_continue(self, run: PieceGroup, group: PieceGroup) -> bool:
        """Whether code between definitions joins what is before it; a licence is joined by imports alone."""
        count_tokens = self.measured.count_tokens
        if count_tokens(run.start_char, group.end_char) > self.limits.max_tokens:
            return False
        is_content = not group.only_imports and not group.has_licence
        if run.has_licence and is_content and count_tokens(group.start_char, group.end_char) >= SCRAP_TOKENS:
            return False
        return can_follow(run, group)

    def _split_piece(
        self, piece: SyntaxPiece, enclosing: OutlineDefinition | None, depth: int
    ) -> list[PieceGroup]:
        within = piece.definition or enclosing
        nodes = open_piece(self.outline, piece) if depth < _MAX_DEPTH else None
        span = (piece.start_char, piece.end_char)
        if nodes is not None:
            return self._split_nodes(nodes, span, within, depth + 1)
        return self._split_by_lines(span, within)

    def _split_by_lines(self, span: Range, enclosing: OutlineDefinition | None) -> list[PieceGroup]:
        ranges = split_to_limit(self.measured, *span, self.limits.max_tokens)
        return [PieceGroup(*each, enclosing) for each in ranges]

    def _is_excluded(self, piece: SyntaxPiece, enclosing: OutlineDefinition | None) -> bool:
        """Imports and comments that the settings leave out; those within functions stay."""
        if enclosing is not None and enclosing.kind in CALLABLE_KINDS:
            return False
        if piece.is_import:
            return not self.chunking.include_imports
        return piece.is_comment and not self.chunking.include_comments

    def _is_chunk(self, definition: OutlineDefinition) -> bool:
        """Whether the granularity makes a definition a chunk of its own."""
        granularity = self.chunking.granularity
        if granularity == "file":
            return False
        if granularity != "class" and definition.kind in CALLABLE_KINDS:
            return definition.body_start_char is not None
        return definition.kind in TYPE_KINDS or definition.kind in STATEMENT_KINDS

    def _must_split(self, piece: SyntaxPiece, enclosing: OutlineDefinition | None) -> bool:
        """Whether a piece is cut further: it is too large, or holds definitions that are chunks."""
        size = self.measured.count_tokens(piece.start_char, piece.end_char)
        if size > self.limits.max_tokens:
            return True
        own, granularity = piece.definition, self.chunking.granularity
        around = own or enclosing
        if size <= self.limits.min_tokens or (around is not None and around.kind in CALLABLE_KINDS):
            return False
        if own is not None and own.kind in STATEMENT_KINDS:
            return False
        if own is not None and own.kind in TYPE_KINDS and granularity != "method":
            return False
        end_char = piece.code_end_char
        inner = self.outline.definitions_within(piece.start_char, end_char)
        return any(self._is_chunk(each) for each in inner if each is not own and each.end_char <= end_char)

    def _build_span(self, group: PieceGroup) -> ChunkSpan:
        subject, span = group.subject, (group.start_char, group.end_char)
        is_part = subject is not None and subject is group.enclosing and not group.has_head
        scope = group.enclosing.scope if group.enclosing else []
        named = [*scope, subject] if subject and subject in group.subjects[:1] == group.subjects else scope
        path = self.measured.document.path
        part_of = subject if is_part else None
        return ChunkSpan(
            *span,
            anchor=_build_anchor(group, scope),
            header=build_header(path, self.outline, named, part_of, self.chunking.preserve_signatures),
            metadata=build_code_metadata(self.outline, *span, subject),
        )


def _build_anchor(group: PieceGroup, scope: list[OutlineDefinition]) -> str:
    """The structural path of a chunk, which edits elsewhere in the file leave alone."""
    labels = [each.label for each in scope]
    if group.subjects and not group.is_about_enclosing:
        labels.append(", ".join(each.label for each in group.subjects))
    steps = [truncate(label, _MAX_ANCHOR_CHARS) for label in labels]
    return "/".join(steps) or ("imports" if group.only_imports else "module")
