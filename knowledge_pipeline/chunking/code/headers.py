"""The header of a chunk of code: its path, the definitions around it, and the one that it continues."""

from __future__ import annotations

import re

from tree_sitter import Node

from knowledge_pipeline.strings import truncate
from knowledge_pipeline.syntax.outline import TYPE_KINDS, Outline, OutlineDefinition

_MAX_HEADER_CHARS = 160  # characters, about 48 tokens
_MAX_LINE_CHARS = 80
_DOCSTRING = re.compile(r"""\s*[rRuU]?("{3}|'{3}|"|')(.+)""")
COMMENT_MARKS = re.compile(r"^[\s/*#!<>\-]+|[\s*/]+$|</?\w+>")


def build_header(
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
    trail = [each for each in scope if each.kind in TYPE_KINDS or each.kind == "module" or each is scope[-1]]
    lines = [
        truncate(
            outline.signature(each) if include_signatures or each is not part_of else each.label,
            _MAX_LINE_CHARS,
        )
        for each in trail
    ]
    if part_of is not None and include_signatures and (doc := find_doc_line(outline, part_of)):
        lines.append(truncate(doc, _MAX_LINE_CHARS))
    shown = path if len(path) < _MAX_LINE_CHARS else f"…{path[2 - _MAX_LINE_CHARS :]}"
    return _fit_header(shown, lines, required=trail.index(part_of) if part_of in trail else -1)


def find_doc_line(outline: Outline, definition: OutlineDefinition) -> str:
    """The first line of what a definition's docstring or the comment before it says; "" without."""
    text = outline.tree.text
    if outline.tree.language == "python":
        body = definition.body_start_char
        found = _DOCSTRING.match(text, body) if body is not None else None
        return found[2].split(found[1])[0].strip() if found else ""
    comments = find_comments_before(definition.node)
    lines = outline.tree.slice(comments[0]).splitlines() if comments else []
    return next((line for line in (COMMENT_MARKS.sub("", line).strip() for line in lines) if line), "")


def find_comments_before(node: Node) -> list[Node]:
    """The comments right before a definition, or before what it is wrapped in, in the order of the text.

    An empty line ends them: what stands above it is another comment, such as the file's licence.
    """
    for each in (node, node.parent):
        if each is None or each.type.startswith("preproc"):
            continue
        before, next_row = each.prev_sibling, each.start_point.row
        while before is not None and before.type == "attribute_item":
            before, next_row = before.prev_sibling, before.start_point.row
        found: list[Node] = []
        while before is not None and before.type.endswith("comment") and next_row - _last_row(before) <= 1:
            found.append(before)
            before, next_row = before.prev_sibling, before.start_point.row
        if found:
            return found[::-1]
    return []


def _last_row(node: Node) -> int:
    """The row of a node's last character; some comments hold their line feed."""
    row, column = node.end_point
    return row if column else row - 1


def _fit_header(path: str, lines: list[str], required: int) -> str:
    """Leave lines out, the outermost first, then the doc line, until the whole fits."""
    while lines and len(path) + sum(len(line) + 1 for line in lines) > _MAX_HEADER_CHARS:
        lines.pop(0 if required != 0 and len(lines) > 1 else -1)
        required -= 1
    return "\n".join(filter(None, [path, *lines]))
