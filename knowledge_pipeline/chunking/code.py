"""Source code to chunks, by its syntax: split what is too large, merge what is too small.

Definitions become chunks, down to the depth of the setting `granularity`. What exceeds the
limit is split between statements, then lines, then words; small siblings are merged.

Source: Zhang et al. 2025, cAST, https://arxiv.org/abs/2506.15655
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from tree_sitter import Node

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.pack import (
    SCRAP_TOKENS,
    GroupJoiner,
    PieceGroup,
    can_follow,
    chunk_lines,
    join_groups,
    number_duplicate_anchors,
    split_to_limit,
)
from knowledge_pipeline.chunking.sentences import Range
from knowledge_pipeline.config.sources import ChunkingSettings
from knowledge_pipeline.records import Metadata
from knowledge_pipeline.syntax.grammars import GRAMMARS, choose_grammar
from knowledge_pipeline.syntax.outline import (
    CALLABLE_KINDS,
    STATEMENT_KINDS,
    TYPE_KINDS,
    Outline,
    OutlineDefinition,
    open_outline,
)
from knowledge_pipeline.text import truncate

VERSION = 5
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
    joiner = GroupJoiner(document.text, limits.min_tokens, limits.max_tokens, measured.count_tokens)
    cutter = _CodeSplitter(measured, outline, chunking, limits, joiner, _find_licence_end(outline))
    yield from number_duplicate_anchors(document.text, cutter.build_spans())


@dataclass(frozen=True)
class _CodeSplitter:
    measured: MeasuredDocument
    outline: Outline
    chunking: ChunkingSettings
    limits: TokenLimits
    joiner: GroupJoiner
    licence_end: int

    def build_spans(self) -> Iterator[ChunkSpan]:
        text, nodes = self.measured.document.text, self.outline.tree.top_nodes
        if any(node.end_byte > node.start_byte for node in nodes):
            groups = self._split_nodes(nodes, (0, len(text)), None, 0)
        else:  # nothing but a byte order mark
            groups = self._split_by_lines((0, len(text)), None)
        for group in self.joiner.join_scraps(groups):
            if not text[group.start_char : group.end_char].isspace():
                yield self._build_span(group)

    def _split_nodes(
        self, nodes: Iterable[Node], span: Range, enclosing: OutlineDefinition | None, depth: int
    ) -> list[PieceGroup]:
        """Cut one level of the tree, and what is below it where that is needed."""
        groups: list[PieceGroup] = []
        run: PieceGroup | None = None  # the code between definitions, packed up to the limit
        after_gap = False
        for piece in _build_pieces(self.outline, nodes, span, enclosing, self.licence_end):
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
                groups[-1] = run = join_groups(run, group)
                continue
            else:
                parts = [group]
                run = None if is_own_chunk else group
            if parts:
                parts[0].after_gap |= after_gap
            groups.extend(parts)
            after_gap = False
        return self.joiner.merge_siblings(groups)

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
        within, span = piece.definition or enclosing, (piece.start_char, piece.end_char)
        nodes = _open_piece(self.outline, piece) if depth < _MAX_DEPTH else None
        if nodes is None:
            return self._split_by_lines(span, within)
        return self._split_nodes(nodes, span, within, depth + 1)

    def _split_by_lines(self, span: Range, enclosing: OutlineDefinition | None) -> list[PieceGroup]:
        ranges = split_to_limit(self.measured, *span, self.limits.max_tokens)
        return [PieceGroup(*range_, enclosing) for range_ in ranges]

    def _is_excluded(self, piece: SyntaxPiece, enclosing: OutlineDefinition | None) -> bool:
        """Imports and comments that the settings leave out; those within functions stay."""
        if enclosing is not None and enclosing.kind in CALLABLE_KINDS:
            return False
        if piece.is_import:
            return not self.chunking.include_imports
        return piece.is_comment and not self.chunking.include_comments

    def _is_chunk(self, definition: OutlineDefinition) -> bool:
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
        return any(
            self._is_chunk(definition)
            for definition in inner
            if definition is not own and definition.end_char <= end_char
        )

    def _build_span(self, group: PieceGroup) -> ChunkSpan:
        subject, span = group.subject, (group.start_char, group.end_char)
        scope = group.enclosing.scope if group.enclosing else []
        labels = [definition.label for definition in scope]
        if group.subjects and not group.is_about_enclosing:
            labels.append(", ".join(subject.label for subject in group.subjects))
        steps = [truncate(label, _MAX_ANCHOR_CHARS) for label in labels]
        header = _build_header(
            self.measured.document.path,
            self.outline,
            [*scope, subject] if subject and [subject] == group.subjects else scope,
            subject if subject is group.enclosing and not group.has_head else None,
            self.chunking.preserve_signatures,
        )
        metadata = _build_code_metadata(self.outline, *span, subject)
        # the structural path, which edits elsewhere in the file leave alone
        anchor = "/".join(steps) or ("imports" if group.only_imports else "module")
        return ChunkSpan(*span, anchor, header, metadata)


_COMMENTS = frozenset(
    {"comment", "line_comment", "block_comment", "multiline_comment", "haddock", "marginalia"}
)
_ATTRIBUTES = frozenset({"attribute_item", "decorator", "php_tag"})
_LICENCE = re.compile(r"copyright|licen[cs]ed?\b|SPDX-|all rights reserved|permission is hereby", re.I)
_CLOSING_DIRECTIVE = re.compile(r"#[ \t]*end(?:if|region)\b")
_FILE_COMMENT_PREFIXES = ("#!", "//!", "/*!")
_WRAPPERS = frozenset(
    {"decorated_definition", "export_statement", "lexical_declaration"}
    | {"template_declaration", "type_declaration"}
)
_BLOCK_SUFFIXES = (
    *("block", "body", "_list", "statements", "body_declarations", "compound_statement", "do_group"),
)
_HASH_LANGUAGES = ("python", "ruby", "bash", "elixir", "powershell", "hcl", "terraform", "dockerfile")
_COMMENT_MARKS: dict[str, str] = {
    **dict.fromkeys(_HASH_LANGUAGES, "#"),
    **dict.fromkeys(("lua", "sql", "haskell"), "--"),
}
"""How a line of comment begins, where not with `//`."""
_MAX_HEAD_CHARS = 200  # characters before a definition that still belong to it: `if sys.platform == "win32":`


@dataclass(slots=True, eq=False)
class SyntaxPiece:
    """Neighbouring nodes that are cut together or not at all.

    Pieces begin where a line begins: nodes that share a line stay together, a comment or attribute stays with
    what follows it, a closing bracket with what it closes. `definition` is the one definition that the piece
    consists of, if it does.
    """

    nodes: list[Node]
    start_char: int
    end_char: int
    code: Node | None  # its first node that is not a comment
    code_end_char: int  # without the closing brackets of what contains the piece
    definition: OutlineDefinition | None = None
    is_import: bool = False

    @property
    def is_comment(self) -> bool:
        """Whether the piece is a comment alone."""
        return self.code is None


def _build_pieces(
    outline: Outline,
    nodes: Iterable[Node],
    span: Range,
    enclosing: OutlineDefinition | None,
    licence_end: int,
) -> list[SyntaxPiece]:
    """Tile a span with pieces; none if there is no node.

    Args:
        nodes: siblings, or descendants of siblings, in the order of the text.
        enclosing: the definition that contains the nodes, which is not found again.
        licence_end: where the licence at the top of the file ends, which belongs to no definition.
    """
    inside = (node for node in nodes if outline.tree.start(node) < span[1])
    joined = _attach_comments(outline, _group_by_line(outline, inside), licence_end)
    if joined:
        joined[0].start_char, joined[-1].end_char = span
    for piece, following in pairwise(joined):
        following.start_char = _find_comment_before(outline, piece, following)
        piece.end_char = following.start_char
    for piece in joined:
        if piece.code is not None:
            piece.definition = _find_own_definition(outline, piece, piece.code, enclosing)
            piece.is_import = outline.tree.start(piece.code) in outline.import_starts
    return joined


def _open_piece(outline: Outline, piece: SyntaxPiece) -> list[Node] | None:
    """The nodes within a piece's nodes, so that it can be cut between them; None where each is a line.

    Blocks, and whatever leads to the body of the piece's definition, are opened at once.
    """
    syntax = outline.tree
    body = piece.definition.body_start_char if piece.definition else None
    parts: list[Node] = []
    waiting = [(node, True) for node in reversed(piece.nodes)]
    progress = False
    while waiting:
        node, is_top = waiting.pop()
        start_char, end_char = syntax.start(node), syntax.end(node)
        holds_body = body is not None and start_char <= body < end_char
        divisible = is_top or holds_body or node.type.endswith(_BLOCK_SUFFIXES)
        if divisible and node.child_count and syntax.text.find("\n", start_char, end_char) != -1:
            waiting.extend((child, False) for child in reversed(node.children))
            progress = True
            body = None if start_char == body else body  # what starts with the body is not the body
        else:
            parts.append(node)
    return parts if progress else None


def _find_licence_end(outline: Outline) -> int:
    """Where the comment of three lines or more ends that a file begins with and that is a licence; else 0."""
    text, end = outline.tree.text, 0
    for node in outline.tree.top_nodes:
        if node.type == "php_tag":
            continue
        start_char, end_char = outline.tree.start(node), outline.tree.end(node)
        if node.type not in _COMMENTS or (end and text.count("\n", end - 1, start_char) > 1):
            break
        end = end_char
        if text.count("\n", start_char, end_char) > 1:
            break
    head = text[:end].strip()
    return end if head.count("\n") >= 2 and _LICENCE.search(head) else 0


def _is_attribute(outline: Outline, node: Node) -> bool:
    return node.type in _ATTRIBUTES or node.id in outline.attribute_ids


def _group_by_line(outline: Outline, nodes: Iterable[Node]) -> list[SyntaxPiece]:
    syntax = outline.tree
    rows: list[SyntaxPiece] = []
    for node in nodes:
        start_char, end_char = syntax.start(node), syntax.end(node)
        if start_char == end_char:
            continue
        code = None if node.type in _COMMENTS or _is_attribute(outline, node) else node
        last = rows[-1] if rows else None
        if last is None or syntax.text.find("\n", last.end_char - 1, start_char) != -1:
            rows.append(SyntaxPiece([node], start_char, end_char, code, end_char))
        else:
            last.nodes.append(node)
            last.end_char = max(last.end_char, end_char)
            if code is not None:
                last.code, last.code_end_char = last.code or code, end_char
    return rows


def _attach_comments(outline: Outline, rows: list[SyntaxPiece], licence_end: int) -> list[SyntaxPiece]:
    """Comments joined to what they stand before, closing brackets to what they close."""
    joined: list[SyntaxPiece] = []
    for row in rows:
        # closing brackets and the like, or a comment behind them: `}  // namespace a`
        closes = all(not node.is_named or node.type in _COMMENTS for node in row.nodes)
        closes = closes or _CLOSING_DIRECTIVE.match(outline.tree.text, row.start_char) is not None
        if row.code is not None and joined and closes:
            while len(joined) > 1 and joined[-1].is_comment:
                comment = joined.pop()
                _append_piece(joined[-1], comment)
            _append_piece(joined[-1], row)
            continue
        while row.code is not None and joined and joined[-1].start_char >= licence_end:
            if not _belongs_to_next(outline, joined[-1], row):
                break
            before = joined.pop()
            _append_piece(before, row)
            before.code_end_char = row.code_end_char
            row = before
        joined.append(row)
    return joined


def _append_piece(piece: SyntaxPiece, following: SyntaxPiece) -> None:
    piece.nodes.extend(following.nodes)
    piece.end_char = following.end_char
    piece.code = piece.code or following.code


def _belongs_to_next(outline: Outline, comment: SyntaxPiece, row: SyntaxPiece) -> bool:
    """Whether a comment, or an attribute, belongs to the row after it: no empty line lies between.

    A comment before imports is about the file.
    """
    if not comment.is_comment:
        return False
    if _is_attribute(outline, comment.nodes[-1]):
        return True
    text = outline.tree.text
    is_import = row.code is not None and outline.tree.start(row.code) in outline.import_starts
    if is_import or text.startswith(_FILE_COMMENT_PREFIXES, comment.start_char):
        return False
    return text.count("\n", comment.end_char - 1, row.start_char) <= 1


def _find_comment_before(outline: Outline, piece: SyntaxPiece, following: SyntaxPiece) -> int:
    """Where a piece begins, with the comment right above it that a grammar put into the one before."""
    text, start = outline.tree.text, following.start_char
    if piece.is_comment or following.is_comment:
        return start
    marks = _COMMENT_MARKS.get(outline.tree.language, "//")
    line_start = text.rfind("\n", piece.start_char, start) + 1
    while line_start > 0:
        above = text.rfind("\n", piece.start_char, line_start - 1) + 1
        if not above or not text[above:line_start].lstrip().startswith(marks):
            break
        start = line_start = above
    return start


def _find_own_definition(
    outline: Outline, piece: SyntaxPiece, code: Node, enclosing: OutlineDefinition | None
) -> OutlineDefinition | None:
    """The definition that a piece consists of, with its decorators and modifiers."""
    start_char = outline.tree.start(code)
    inside = outline.definitions_within(start_char, piece.code_end_char)
    inner = [definition for definition in inside if definition is not enclosing]
    if not inner or inner[-1].start_char >= inner[0].end_char or inner[0].end_char > piece.code_end_char:
        return None
    first = inner[0]
    if outline.tree.text[first.end_char : piece.code_end_char].strip(" \t\r\n\f;,"):
        return None
    is_near = first.start_char - start_char <= _MAX_HEAD_CHARS or first.node.start_byte == code.start_byte
    return first if is_near or code.type in _WRAPPERS else None


CODE_METADATA_KEYS = (
    *("symbol", "symbol_kind", "symbols", "class_name", "function_name", "implements", "methods"),
    *("kinds", "classes", "imports", "exports", "dependencies", "complexity", "test_coverage"),
)
"""Every key that `_build_code_metadata` may give, and `test_coverage`, which needs a report."""

_MAX_NAMES = 50
_WORD = re.compile(r"[^\W\d]\w*")
_EXPORT = re.compile(r"\bexport\b[\w\s]*$|(?:^|[^\w.])(?:module\.)?exports\.$")
_PUBLIC = re.compile(r"\b(?:public|open)\b")
_NON_PUBLIC = re.compile(r"\b(?:private|internal|protected|fileprivate)\b")


def _build_code_metadata(
    outline: Outline, start_char: int, end_char: int, subject: OutlineDefinition | None
) -> Metadata:
    """Metadata of the chunk that spans the given characters; JSON values only.

    `symbol` and what describes it are of `subject`, the definition that the chunk is or
    is a part of; `symbols` are all definitions that start in the chunk, `kinds` and `classes`
    those of all of these, where they say more than `subject` does. `complexity` is McCabe's:
    1 and one for every branch, of the whole function for a function's part.
    """
    inside = outline.definitions_within(start_char, end_char)
    counted = (start_char, end_char)
    if subject is not None and subject.kind in CALLABLE_KINDS:
        counted = (subject.start_char, subject.end_char)
    words = set(_WORD.findall(outline.tree.text, start_char, end_char)) if outline.bindings else set[str]()
    used = [binding for binding in outline.bindings if not words.isdisjoint(binding.names)]
    lists = {
        "symbols": [definition.symbol for definition in inside],
        "imports": [binding.module for binding in outline.bindings],
        "exports": [definition.name for definition in inside if _is_exported(outline, definition)],
        "dependencies": [binding.module for binding in used],  # what it imports itself included
    }
    facts = {key: unique for key, names in lists.items() if (unique := _deduplicate(names))}
    about = _describe_subject(outline, subject) if subject is not None else {}
    described = [*([subject] if subject else []), *inside]
    for key, of_first, names in (
        ("kinds", "symbol_kind", (definition.kind for definition in described)),
        ("classes", "class_name", (name for definition in described for name in definition.class_names)),
    ):
        if (unique := _deduplicate(names)) and unique != [about.get(of_first)]:
            facts[key] = unique
    return {**about, **facts, "complexity": 1 + outline.count_decisions(*counted)}


def _is_exported(outline: Outline, definition: OutlineDefinition) -> bool:
    """Whether other files can use a definition by its name: it is at the top of a file, and public."""
    if definition.parent is not None and definition.parent.kind != "module":
        return False
    if outline.export_list and definition.name in outline.export_list:
        return True
    name, language = definition.name, outline.tree.language
    modifiers = outline.signature(definition).partition(name)[0]
    match language:
        case "python":
            return not outline.export_list and not name.startswith("_")
        case "javascript" | "typescript" | "tsx":
            before = outline.tree.text[max(0, definition.start_char - 60) : definition.start_char]
            return bool(_EXPORT.search(before)) or bool(_EXPORT.search(modifiers))
        case "go":
            return name[:1].isupper()
        case "rust":
            return modifiers.startswith("pub")
        case "java" | "c_sharp" | "swift":
            return bool(_PUBLIC.search(modifiers))
        case "kotlin" | "scala":
            return not _NON_PUBLIC.search(modifiers)
        case "c" | "cpp":
            return not modifiers.startswith("static")
        case _:
            return True


def _describe_subject(outline: Outline, subject: OutlineDefinition) -> dict[str, object]:
    about: dict[str, object] = {"symbol": subject.symbol, "symbol_kind": subject.kind}
    if class_name := subject.class_name:
        about["class_name"] = class_name
    if subject.kind in CALLABLE_KINDS:
        about["function_name"] = subject.name
    if subject.bases:
        about["implements"] = subject.bases
    if subject.kind in TYPE_KINDS:
        inside = outline.definitions_within(subject.start_char, subject.end_char)
        members = (definition for definition in inside if definition.parent is subject)
        if names := _deduplicate(member.name for member in members if member.kind in CALLABLE_KINDS):
            about["methods"] = names
    return about


def _deduplicate(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))[:_MAX_NAMES]


_MAX_HEADER_CHARS = 160  # characters, about 48 tokens
_MAX_LINE_CHARS = 80
_DOCSTRING_START = re.compile(r"""\s*[rRuU]?("{3}|'{3}|"|')(.+)""")
COMMENT_MARKS = re.compile(r"^[\s/*#!<>\-]+|[\s*/]+$|</?\w+>")


def _build_header(
    path: str,
    outline: Outline,
    scope: list[OutlineDefinition],
    part_of: OutlineDefinition | None,
    include_signatures: bool,
) -> str:
    """The header of one chunk, at most 160 characters.

    Args:
        scope: the definitions that the chunk is in or consists of, outermost first.
        part_of: the definition that the chunk continues, whose beginning it lacks.
        include_signatures: whether a continuation carries the signature, or the name alone.
    """
    kinds = TYPE_KINDS | {"module"}
    trail = [definition for definition in scope if definition.kind in kinds or definition is scope[-1]]
    lines = [
        definition.label
        if definition is part_of and not include_signatures
        else outline.signature(definition)
        for definition in trail
    ]
    if part_of is not None and include_signatures and (doc := _find_doc_line(outline, part_of)):
        lines.append(doc)
    lines = [truncate(line, _MAX_LINE_CHARS) for line in lines]
    shown = path if len(path) < _MAX_LINE_CHARS else f"…{path[2 - _MAX_LINE_CHARS :]}"
    required = trail.index(part_of) if part_of in trail else -1
    # lines are left out, the outermost first, then the doc line, until the whole fits
    while lines and len(shown) + sum(len(line) + 1 for line in lines) > _MAX_HEADER_CHARS:
        lines.pop(0 if required != 0 and len(lines) > 1 else -1)
        required -= 1
    return "\n".join(filter(None, [shown, *lines]))


def _find_doc_line(outline: Outline, definition: OutlineDefinition) -> str:
    """The first line of what a definition's docstring or the comment before it says; "" without."""
    text = outline.tree.text
    if outline.tree.language == "python":
        body = definition.body_start_char
        docstring = _DOCSTRING_START.match(text, body) if body is not None else None
        return docstring[2].split(docstring[1])[0].strip() if docstring else ""
    comments = _find_comments_before(definition.node)
    lines = outline.tree.slice(comments[0]).splitlines() if comments else []
    return next((line for line in (COMMENT_MARKS.sub("", line).strip() for line in lines) if line), "")


def _find_comments_before(node: Node) -> list[Node]:
    """The comments right before a definition, or before what it is wrapped in, in the order of the text.

    An empty line ends them: what stands above it is another comment, such as the file's licence.
    """
    for owner in (node, node.parent):
        if owner is None or owner.type.startswith("preproc"):
            continue
        before, next_row = owner.prev_sibling, owner.start_point.row
        while before is not None and before.type == "attribute_item":
            before, next_row = before.prev_sibling, before.start_point.row
        comments: list[Node] = []
        while before is not None and before.type.endswith("comment") and next_row - _last_row(before) <= 1:
            comments.append(before)
            before, next_row = before.prev_sibling, before.start_point.row
        if comments:
            return comments[::-1]
    return []


def _last_row(node: Node) -> int:
    """The row of a node's last character; some comments hold their line feed."""
    row, column = node.end_point
    return row if column else row - 1


_DOCSTRING = re.compile(r"""\s*[rRuU]?(?P<quotes>"{3}|'{3}|"|')(?P<text>.*?)(?P=quotes)""", re.DOTALL)
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{2}[.!?])\s|[.!?:;]$|\s@\w")
_INLINE_TAG = re.compile(r"\{@\w+\s+#?([^{}]*)\}|(?<![\w:]):[\w:]++(?<=:)`~?([^`]*)`|</?\w+[^<>]*>|[`*]+")


def find_documentation(outline: Outline, definition: OutlineDefinition) -> str:
    """A definition's docstring, or the comment right before it, as it is written; "" without."""
    text = outline.tree.text
    if outline.tree.language == "python":
        body = definition.body_start_char
        docstring = _DOCSTRING.match(text, body) if body is not None else None
        return docstring["text"].strip() if docstring else ""
    comments = _find_comments_before(definition.node)
    if not comments:
        return ""
    start, end = outline.tree.start(comments[0]), outline.tree.end(comments[-1])
    is_apart = _BLANK_LINE.search(text, end, definition.start_char)
    return "" if is_apart else text[start:end].strip()


def extract_first_sentence(documentation: str, name: str) -> str:
    """The first sentence, without comment marks, markup, and the name of what it describes in front.

    Go's comments begin with the name of the definition, which a question does not know.
    """
    lines = (COMMENT_MARKS.sub("", line).strip() for line in documentation.splitlines())
    paragraph: list[str] = []
    for line in lines:
        if not line and paragraph:
            break
        paragraph += [line] if line else []
    text = " ".join(_INLINE_TAG.sub(r"\1\2", " ".join(paragraph)).split())
    end = _SENTENCE_END.search(text)
    sentence = text[: end.start()].rstrip(".!?:; ") if end else text
    first, _, rest = sentence.partition(" ")
    return rest if first == name else sentence
