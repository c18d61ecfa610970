"""Jira's wiki markup as Markdown: what Jira Server and Data Center hold in descriptions and comments.

Code, links, images and addresses are set aside first, so that no sign in them is taken for markup;
then blocks are written, then emphasis, and what was set aside is put back. What looks like markup
and is none stays as it is. Whatever text comes in, nothing is raised.

Source: https://jira.atlassian.com/secure/WikiRendererHelpAction.jspa?section=all
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from knowledge_pipeline.sources.jira.markup_inline import (
    CODE_PLACEHOLDER,
    MaskedLiterals,
    mask_literals,
    render_emphasis,
)
from knowledge_pipeline.sources.markdown_writing import format_list_item, format_quote, format_table

_QUOTE = re.compile(r"\{quote\}")
_PANEL = re.compile(r"\{(panel|info|note|tip|warning|expand|section|column)(?::([^{}\n]*))?\}")
_DROPPED_MARKER = re.compile(
    r"\{(?:color(?::[^{}\n]*)?|anchor(?::[^{}\n]*)?|toc(?::[^{}\n]*)?|code|noformat)\}"
)
_TITLE = re.compile(r"(?:^|\|)\s*title=([^|]*)")
_HEADING = re.compile(r"^[ \t]*h([1-6])\.[ \t]*(.*)$")
_QUOTED_LINE = re.compile(r"^[ \t]*bq\.[ \t]+(.*)$")
_RULE = re.compile(r"^[ \t]*-{4,5}[ \t]*$")
_ROW = re.compile(r"^[ \t]*\|")
_LIST_ITEM = re.compile(r"^[ \t]*([*#]+|-)[ \t]+(?=\S)(.*)$")  # its signs, and its text
_MAX_LIST_DEPTH = 20
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def wiki_to_markdown(markup: str, people: Mapping[str, str] | None = None) -> str:
    """The text of a description or a comment as Markdown, without white space around it.

    Args:
        markup: as Jira has it.
        people: display names by user name, for mentions.
    """
    text = _CONTROL.sub("", markup.replace("\r\n", "\n").replace("\r", "\n"))
    literals = MaskedLiterals(people or {})
    return _WikiRenderer(literals).render(mask_literals(text, literals)).strip()


class _WikiRenderer:
    """Writes the blocks of one text, whose literals are masked."""

    def __init__(self, literals: MaskedLiterals) -> None:
        self._literals = literals

    def render(self, text: str) -> str:
        """Every second part between `{quote}`s is a quotation; an odd last one is not."""
        parts = _QUOTE.split(text)
        written: list[str] = []
        for number, part in enumerate(parts):
            block = self._render_blocks(part)
            is_quote = number % 2 == 1 and number < len(parts) - 1
            written.append(format_quote(block) if is_quote and block else block)
        return "\n\n".join(block for block in written if block)

    def _render_blocks(self, text: str) -> str:
        lines = _split_lines(_DROPPED_MARKER.sub("", _PANEL.sub(_render_panel_title, text)))
        blocks: list[str] = []
        at = 0
        while at < len(lines):
            if not lines[at].strip():
                at += 1
                continue
            end, block = self._render_block(lines, at)
            at = max(end, at + 1)
            if block.strip():
                blocks.append(block)
        return "\n\n".join(blocks)

    def _render_block(self, lines: list[str], at: int) -> tuple[int, str]:
        """Where the block that begins at a line ends, and the block in Markdown."""
        line = lines[at]
        if match := _HEADING.match(line):
            text = self._render_inline(match[2]).replace("\n", " ").strip()
            return at + 1, f"{'#' * int(match[1])} {text}" if text else ""
        if match := _QUOTED_LINE.match(line):
            return at + 1, format_quote(self._render_inline(match[1]))
        if _RULE.match(line):
            return at + 1, "---"
        if CODE_PLACEHOLDER.fullmatch(line.strip()):
            return at + 1, self._literals.restore(line.strip())
        if _ROW.match(line):
            return self._render_table(lines, at)
        if _LIST_ITEM.match(line):
            return self._render_list(lines, at)
        end = at + 1
        while end < len(lines) and lines[end].strip() and not _is_block_start(lines[end]):
            end += 1
        return end, self._render_inline("\n".join(each.strip() for each in lines[at:end]))

    def _render_table(self, lines: list[str], at: int) -> tuple[int, str]:
        """Rows that follow each other; a row whose last cell is not closed goes on in the next line."""
        rows: list[str] = []
        end = at
        while end < len(lines) and lines[end].strip():
            line = lines[end].strip()
            if _ROW.match(line):
                rows.append(line)
            elif not rows[-1].endswith("|") and not _HEADING.match(line):
                rows[-1] += f"\n{line}"
            else:
                break
            end += 1
        grid: list[list[str]] = []
        for row in rows:
            cells = re.split(r"\|\|?", row.strip())
            last = -1 if len(cells) > 2 and not cells[-1].strip() else len(cells)
            grid.append([self._render_inline(cell, flat=True) for cell in cells[1:last]])
        return end, format_table(grid)

    def _render_list(self, lines: list[str], at: int) -> tuple[int, str]:
        """A list, as deep as there are signs.

        A line that begins no block goes on with the item before it; so does code, which Jira's editor
        writes on a line of its own.
        """
        counts: list[int] = []  # items so far at each level
        kinds: list[str] = []  # and their sign
        indents: list[int] = []  # how far in the text of each level stands
        out: list[str] = []
        while at < len(lines) and lines[at].strip():
            line = lines[at]
            if match := _LIST_ITEM.match(line):
                signs = match[1][:_MAX_LIST_DEPTH]
                level = min(len(signs), len(counts) + 1)  # a level cannot be left out
                same = kinds[level - 1 : level] == [signs[-1]]
                counts = [*counts[: level - 1], counts[level - 1] + 1 if same else 1]
                kinds, indents = [*kinds[: level - 1], signs[-1]], indents[: level - 1]
                marker = f"{counts[level - 1]}. " if signs[-1] == "#" else "- "
                before = indents[-1] if indents else 0
                indents.append(before + len(marker))
                out.append(_indent(format_list_item(marker, self._render_inline(match[2])), before))
            elif CODE_PLACEHOLDER.fullmatch(line.strip()):
                out.append("\n" + _indent(self._literals.restore(line.strip()), indents[-1]))
            elif _is_block_start(line):
                break
            else:
                out.append(_indent(self._render_inline(line.strip()), indents[-1]))
            at += 1
        return at, "\n".join(out)

    def _render_inline(self, text: str, *, flat: bool = False) -> str:
        return self._literals.restore(render_emphasis(text), flat=flat)


def _render_panel_title(match: re.Match[str]) -> str:
    """The markers of a panel leave its title, and set its text apart."""
    title = _TITLE.search(match[2] or "")
    named = title[1].strip() if title else ""
    return f"\n\n*{named}*\n\n" if named else "\n\n"


def _split_lines(text: str) -> list[str]:
    """Lines, with code on lines of its own except in the rows of a table."""
    lines: list[str] = []
    for line in text.split("\n"):
        parts = [line] if _ROW.match(line) else CODE_PLACEHOLDER.split(line)
        lines.extend(parts if len(parts) == 1 else [part for part in parts if part.strip()])
    return lines


def _is_block_start(line: str) -> bool:
    starts = (_HEADING, _QUOTED_LINE, _RULE, _ROW, _LIST_ITEM)
    return bool(CODE_PLACEHOLDER.fullmatch(line.strip())) or any(start.match(line) for start in starts)


def _indent(text: str, columns: int) -> str:
    return "\n".join(f"{' ' * columns}{line}".rstrip() for line in text.split("\n"))
