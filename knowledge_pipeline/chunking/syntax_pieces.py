"""Groups sibling nodes into pieces that belong together, before anything is cut or merged.

Pieces begin where a line begins: nodes that share a line stay together, a comment or attribute
stays with what follows it, a closing bracket with what it closes. Pieces of one level follow each
other without a gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from tree_sitter import Node

from knowledge_pipeline.syntax.outline import Outline, OutlineDefinition

_COMMENTS = frozenset(
    {"comment", "line_comment", "block_comment", "multiline_comment", "haddock", "marginalia"}
)
_ATTRIBUTES = frozenset({"attribute_item", "decorator", "php_tag"})
_LICENCE = re.compile(r"copyright|licen[cs]ed?\b|SPDX-|all rights reserved|permission is hereby", re.I)
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

    `definition` is the one definition that the piece consists of, if it does.
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


def build_pieces(
    outline: Outline,
    nodes: Iterable[Node],
    span: tuple[int, int],
    enclosing: OutlineDefinition | None,
    licence_end: int = 0,
) -> list[SyntaxPiece]:
    """Tile a span with pieces; none if there is no node.

    Args:
        nodes: siblings, or descendants of siblings, in the order of the text.
        span: start and end, in characters.
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


def open_piece(outline: Outline, piece: SyntaxPiece) -> list[Node] | None:
    """The nodes within a piece's nodes, so that it can be cut between them.

    Blocks, and whatever leads to the body of the piece's definition, are opened at
    once. None where every node is a line of its own.
    """
    syntax = outline.tree
    body = piece.definition.body_start_char if piece.definition else None
    found: list[Node] = []
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
            found.append(node)
    return found if progress else None


def find_licence_end(outline: Outline) -> int:
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
    """Nodes that share a line, as one piece each."""
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
        if row.code is not None and joined and all(_closes(node) for node in row.nodes):
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


def _closes(node: Node) -> bool:
    """Whether a node is a closing bracket or the like, or a comment behind it: `}  // namespace a`."""
    return not node.is_named or node.type in _COMMENTS


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
    found = [each for each in inside if each is not enclosing]
    if not found or found[-1].start_char >= found[0].end_char or found[0].end_char > piece.code_end_char:
        return None
    first = found[0]
    if outline.tree.text[first.end_char : piece.code_end_char].strip(" \t\r\n\f;,"):
        return None
    is_near = first.start_char - start_char <= _MAX_HEAD_CHARS or first.node.start_byte == code.start_byte
    return first if is_near or code.type in _WRAPPERS else None
