"""Jira's wiki markup as Markdown: what Jira Server and Data Center hold in descriptions and comments.

Code, links, images and addresses are set aside first, so that no sign in them is taken for markup;
then blocks are written, then emphasis, and what was set aside is put back. What looks like markup
and is none stays as it is. Whatever text comes in, nothing is raised.

Source: https://jira.atlassian.com/secure/WikiRendererHelpAction.jspa?section=all
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from knowledge_pipeline.sources.jira.markup_inline import CODE_MARK, Aside, emphasized, set_aside
from knowledge_pipeline.sources.jira.markup_lists import ITEM, written_list
from knowledge_pipeline.sources.markdown_writing import quoted, table

_QUOTE = re.compile(r"\{quote\}")
_PANEL = re.compile(r"\{(panel|info|note|tip|warning|expand|section|column)(?::([^{}\n]*))?\}")
_GONE = re.compile(r"\{(?:color(?::[^{}\n]*)?|anchor(?::[^{}\n]*)?|toc(?::[^{}\n]*)?|code|noformat)\}")
_TITLE = re.compile(r"(?:^|\|)\s*title=([^|]*)")
_HEADING = re.compile(r"^[ \t]*h([1-6])\.[ \t]*(.*)$")
_QUOTED_LINE = re.compile(r"^[ \t]*bq\.[ \t]+(.*)$")
_RULE = re.compile(r"^[ \t]*-{4,5}[ \t]*$")
_ROW = re.compile(r"^[ \t]*\|")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def wiki_text(markup: str, people: Mapping[str, str] | None = None) -> str:
    """The text of a description or a comment as Markdown, without white space around it.

    Args:
        markup: as Jira has it.
        people: display names by user name, for mentions.
    """
    text = _CONTROL.sub("", markup.replace("\r\n", "\n").replace("\r", "\n"))
    aside = Aside(people or {})
    return _with_quotes(set_aside(text, aside), aside).strip()


def _with_quotes(text: str, aside: Aside) -> str:
    """Every second part between `{quote}`s is a quotation; an odd last one is none."""
    parts = _QUOTE.split(text)
    written = []
    for number, part in enumerate(parts):
        block = _blocks(part, aside)
        is_quote = number % 2 == 1 and number < len(parts) - 1
        written.append(quoted(block) if is_quote and block else block)
    return "\n\n".join(block for block in written if block)


def _blocks(text: str, aside: Aside) -> str:
    text = _GONE.sub("", _PANEL.sub(_panel_title, text))
    lines = _lines(text)
    blocks: list[str] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        end, block = _block(lines, at, aside)
        at = max(end, at + 1)
        if block.strip():
            blocks.append(block)
    return "\n\n".join(blocks)


def _panel_title(match: re.Match[str]) -> str:
    """The markers of a panel leave its title, and set its text apart."""
    title = _TITLE.search(match[2] or "")
    named = title[1].strip() if title else ""
    return f"\n\n*{named}*\n\n" if named else "\n\n"


def _lines(text: str) -> list[str]:
    """Lines, with code on lines of its own except in the rows of a table."""
    lines: list[str] = []
    for line in text.split("\n"):
        parts = [line] if _ROW.match(line) else CODE_MARK.split(line)
        lines.extend(parts if len(parts) == 1 else [part for part in parts if part.strip()])
    return lines


def _block(lines: list[str], at: int, aside: Aside) -> tuple[int, str]:
    """Where the block that begins at a line ends, and what it is in Markdown."""
    line = lines[at]
    if match := _HEADING.match(line):
        text = _inline(match[2], aside).replace("\n", " ").strip()
        return at + 1, f"{'#' * int(match[1])} {text}" if text else ""
    if match := _QUOTED_LINE.match(line):
        return at + 1, quoted(_inline(match[1], aside))
    if _RULE.match(line):
        return at + 1, "---"
    if CODE_MARK.fullmatch(line.strip()):
        return at + 1, aside.restored(line.strip())
    if _ROW.match(line):
        return _table(lines, at, aside)
    if ITEM.match(line):
        return written_list(lines, at, lambda text: _inline(text, aside), _begins_block, aside)
    end = at + 1
    while end < len(lines) and lines[end].strip() and not _begins_block(lines[end]):
        end += 1
    return end, _inline("\n".join(each.strip() for each in lines[at:end]), aside)


def _begins_block(line: str) -> bool:
    if CODE_MARK.fullmatch(line.strip()):
        return True
    return any(form.match(line) for form in (_HEADING, _QUOTED_LINE, _RULE, _ROW, ITEM))


def _table(lines: list[str], at: int, aside: Aside) -> tuple[int, str]:
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
    return end, table([[_inline(cell, aside, flat=True) for cell in _cells(row)] for row in rows])


def _cells(row: str) -> list[str]:
    cells = re.split(r"\|\|?", row.strip())
    last = -1 if len(cells) > 2 and not cells[-1].strip() else len(cells)
    return cells[1:last]


def _inline(text: str, aside: Aside, *, flat: bool = False) -> str:
    return aside.restored(emphasized(text), flat=flat)
