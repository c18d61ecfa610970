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
from knowledge_pipeline.sources.jira.markup_lists import LIST_ITEM, render_list
from knowledge_pipeline.sources.markdown_writing import format_quote, format_table

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
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def wiki_to_markdown(markup: str, people: Mapping[str, str] | None = None) -> str:
    """The text of a description or a comment as Markdown, without white space around it.

    Args:
        markup: as Jira has it.
        people: display names by user name, for mentions.
    """
    text = _CONTROL.sub("", markup.replace("\r\n", "\n").replace("\r", "\n"))
    aside = MaskedLiterals(people or {})
    return _render_quotes(mask_literals(text, aside), aside).strip()


def _render_quotes(text: str, literals: MaskedLiterals) -> str:
    """Every second part between `{quote}`s is a quotation; an odd last one is none."""
    parts = _QUOTE.split(text)
    written = []
    for number, part in enumerate(parts):
        block = _render_blocks(part, literals)
        is_quote = number % 2 == 1 and number < len(parts) - 1
        written.append(format_quote(block) if is_quote and block else block)
    return "\n\n".join(block for block in written if block)


def _render_blocks(text: str, literals: MaskedLiterals) -> str:
    text = _DROPPED_MARKER.sub("", _PANEL.sub(_render_panel_title, text))
    lines = _split_lines(text)
    blocks: list[str] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        end, block = _render_block(lines, at, literals)
        at = max(end, at + 1)
        if block.strip():
            blocks.append(block)
    return "\n\n".join(blocks)


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


def _render_block(lines: list[str], at: int, literals: MaskedLiterals) -> tuple[int, str]:
    """Where the block that begins at a line ends, and what it is in Markdown."""
    line = lines[at]
    if match := _HEADING.match(line):
        text = _render_inline(match[2], literals).replace("\n", " ").strip()
        return at + 1, f"{'#' * int(match[1])} {text}" if text else ""
    if match := _QUOTED_LINE.match(line):
        return at + 1, format_quote(_render_inline(match[1], literals))
    if _RULE.match(line):
        return at + 1, "---"
    if CODE_PLACEHOLDER.fullmatch(line.strip()):
        return at + 1, literals.restore(line.strip())
    if _ROW.match(line):
        return _render_table(lines, at, literals)
    if LIST_ITEM.match(line):
        return render_list(lines, at, lambda text: _render_inline(text, literals), _is_block_start, literals)
    end = at + 1
    while end < len(lines) and lines[end].strip() and not _is_block_start(lines[end]):
        end += 1
    return end, _render_inline("\n".join(each.strip() for each in lines[at:end]), literals)


def _is_block_start(line: str) -> bool:
    if CODE_PLACEHOLDER.fullmatch(line.strip()):
        return True
    return any(form.match(line) for form in (_HEADING, _QUOTED_LINE, _RULE, _ROW, LIST_ITEM))


def _render_table(lines: list[str], at: int, literals: MaskedLiterals) -> tuple[int, str]:
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
    return end, format_table(
        [[_render_inline(cell, literals, flat=True) for cell in _split_cells(row)] for row in rows]
    )


def _split_cells(row: str) -> list[str]:
    cells = re.split(r"\|\|?", row.strip())
    last = -1 if len(cells) > 2 and not cells[-1].strip() else len(cells)
    return cells[1:last]


def _render_inline(text: str, literals: MaskedLiterals, *, flat: bool = False) -> str:
    return literals.restore(render_emphasis(text), flat=flat)
