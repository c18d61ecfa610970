"""The lists of Jira's wiki markup: `*`, `-` and `#`, as deep as there are signs."""

from __future__ import annotations

import re
from collections.abc import Callable

from knowledge_pipeline.sources.jira.markup_inline import CODE_PLACEHOLDER, MaskedLiterals
from knowledge_pipeline.sources.markdown_writing import format_list_item

LIST_ITEM = re.compile(r"^[ \t]*([*#]+|-)[ \t]+(?=\S)(.*)$")
"""A line that begins an item: its signs, and its text."""

_MAX_DEPTH = 20


def render_list(
    lines: list[str],
    at: int,
    render_inline: Callable[[str], str],
    is_block_start: Callable[[str], bool],
    literals: MaskedLiterals,
) -> tuple[int, str]:
    """Where a list that begins at a line ends, and the list in Markdown.

    A line that begins no block goes on with the item before it; so does code, which Jira's editor
    writes on a line of its own.
    """
    counts: list[int] = []  # how many items there are so far at each level
    kinds: list[str] = []  # and with which sign
    indents: list[int] = []  # how far in the text of each level stands
    out: list[str] = []
    while at < len(lines) and lines[at].strip():
        line = lines[at]
        if match := LIST_ITEM.match(line):
            signs = match[1][:_MAX_DEPTH]
            level = min(len(signs), len(counts) + 1)  # a level cannot be left out
            same = kinds[level - 1 : level] == [signs[-1]]
            counts = [*counts[: level - 1], counts[level - 1] + 1 if same else 1]
            kinds, indents = [*kinds[: level - 1], signs[-1]], indents[: level - 1]
            marker = f"{counts[level - 1]}. " if signs[-1] == "#" else "- "
            before = indents[-1] if indents else 0
            indents.append(before + len(marker))
            out.append(_indent(format_list_item(marker, render_inline(match[2])), before))
        elif CODE_PLACEHOLDER.fullmatch(line.strip()):
            out.append("\n" + _indent(literals.restore(line.strip()), indents[-1]))
        elif is_block_start(line):
            break
        else:
            out.append(_indent(render_inline(line.strip()), indents[-1]))
        at += 1
    return at, "\n".join(out)


def _indent(text: str, columns: int) -> str:
    return "\n".join(f"{' ' * columns}{line}".rstrip() for line in text.split("\n"))
