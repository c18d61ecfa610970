"""Jira's wiki markup as Markdown: what Jira Server and Data Center hold in descriptions and comments.

Code, links, images and addresses are set aside first, so that no sign in them is taken for markup;
then blocks are written, then emphasis, and what was set aside is put back. What looks like markup
and is none stays as it is. Whatever text comes in, nothing is raised.

Source: https://jira.atlassian.com/secure/WikiRendererHelpAction.jspa?section=all
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from knowledge_pipeline.extraction import markdown

_CODE_PLACEHOLDER = re.compile(r"(\x02c\d+\x03)")  # where a block of code was set aside
_PLACEHOLDER = re.compile(r"\x02([cit])(\d+)\x03")
_CODE = re.compile(r"\{(code|noformat)(?::([^{}\n]*))?\}(.*?)\{\1\}", re.DOTALL)
_INLINE_CODE = re.compile(r"(?<!\{)\{\{(.{1,2000}?)\}\}")
_LINK = re.compile(r"(?<!\\)\[([^\[\]\n]{1,2000})\]")
_IMAGE = re.compile(
    r"(?<![\w!\\])!((?:https?|ftp)://[^\s!|]{1,2000}|[^\s!|\x02][^!|\n\x02]{0,200}\.\w{1,5})(?:\|[^!\n]{0,500})?!(?![\w!])"
)
_BARE_URL = re.compile(r"(?:https?|ftp)://[^\s\[\]|{}<>\"\x02\x03]*[^\s\[\]|{}<>\"\x02\x03*_+?!.,;:)'~^-]")
_URL = re.compile(r"^(?:[a-zA-Z][a-zA-Z0-9+.-]*:[^\s]|//|www\.)")
_ESCAPED = re.compile(r"\\([*_?+^~{}\[\]|!#()-])")
_LINE_BREAK = re.compile(r"(?<![ \t])[ \t]*\\\\(?=\s|$)\n?")
_DASHES = re.compile(r"(?<=[ \t])(-{2,3})(?=[ \t]|$)", re.MULTILINE)
_ICON = re.compile(r"(?<!\S)\((/|x|!|\?|i|\*|\*[rgby]|y|n|\+|-|on|off)\)(?!\w)")
_ICONS = {"/": "✔", "x": "✘", "!": "⚠", "?": "❓", "i": "ℹ", "y": "👍", "n": "👎", "+": "➕", "-": "➖"}
_EFFECTS = {"*": "**", "_": "*", "-": "~~", "+": "", "^": "", "~": ""}
_EFFECT_IN_WORD = re.compile(r"\{([*_+^~-])\}([^\n]{1,1000}?)\{\1\}")
_PHRASES = [
    (sign, re.compile(rf"(?<![\w{re.escape(sign)}\\]){re.escape(sign)}(?=[^\s{re.escape(sign)}])"
                      rf"([^{re.escape(sign)}\n]{{0,1000}}?[^\s{re.escape(sign)}\\]|)"
                      rf"{re.escape(sign)}(?![\w{re.escape(sign)}])"))
    for sign in _EFFECTS
]  # fmt: skip
_CITATION = re.compile(r"\?\?(?=\S)([^?\n]{1,1000}?)(?<=\S)\?\?")
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
    """A description or a comment as Markdown; `people`: display names by user name, for mentions."""
    text = _CONTROL.sub("", markup.replace("\r\n", "\n").replace("\r", "\n"))
    literals = _MaskedLiterals(people or {})
    text = _CODE.sub(lambda match: _mask_code(match, literals), text)
    text = _INLINE_CODE.sub(lambda match: literals.mask("i", match[1]), text)
    text = _IMAGE.sub(lambda match: literals.mask("t", _format_image(match[1].strip())), text)
    text = _LINK.sub(lambda match: _mask_link(match, literals), text)
    text = _BARE_URL.sub(lambda match: literals.mask("t", match[0]), text)
    text = _LINE_BREAK.sub("\n", text)
    text = _ESCAPED.sub(lambda match: literals.mask("t", match[1]), text)
    return _WikiRenderer(literals).render(text.replace("&nbsp;", " ")).strip()


class _WikiRenderer:
    """Writes the blocks of one text, whose literals are masked."""

    def __init__(self, literals: _MaskedLiterals) -> None:
        self._literals = literals

    def render(self, text: str) -> str:
        """Every second part between `{quote}`s is a quotation; an odd last one is not."""
        parts = _QUOTE.split(text)
        written: list[str] = []
        for number, part in enumerate(parts):
            block = self._render_blocks(part)
            is_quote = number % 2 == 1 and number < len(parts) - 1
            written.append(markdown.format_quote(block) if is_quote and block else block)
        return "\n\n".join(block for block in written if block)

    def _render_blocks(self, text: str) -> str:
        lines: list[str] = []
        for line in _DROPPED_MARKER.sub("", _render_panels(text)).split("\n"):
            # code on lines of its own, except in the rows of a table
            parts = [line] if _ROW.match(line) else _CODE_PLACEHOLDER.split(line)
            lines.extend(parts if len(parts) == 1 else [part for part in parts if part.strip()])
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
        line = lines[at]
        if match := _HEADING.match(line):
            text = self._render_inline(match[2]).replace("\n", " ").strip()
            return at + 1, f"{'#' * int(match[1])} {text}" if text else ""
        if match := _QUOTED_LINE.match(line):
            return at + 1, markdown.format_quote(self._render_inline(match[1]))
        if _RULE.match(line):
            return at + 1, "---"
        if _CODE_PLACEHOLDER.fullmatch(line.strip()):
            return at + 1, self._literals.restore(line.strip())
        if _ROW.match(line):
            return self._render_table(lines, at)
        if _LIST_ITEM.match(line):
            return self._render_list(lines, at)
        end = at + 1
        while end < len(lines) and lines[end].strip() and not _is_block_start(lines[end]):
            end += 1
        return end, self._render_inline("\n".join(line.strip() for line in lines[at:end]))

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
        cells = [re.split(r"\|\|?", row.strip()) for row in rows]
        cells = [row[1 : -1 if len(row) > 2 and not row[-1].strip() else len(row)] for row in cells]
        if any(self._literals.has_lines(cell) for row in cells for cell in row):
            blocks = (self._render_blocks(cell) for row in cells for cell in row)
            return end, "\n\n".join(block for block in blocks if block)
        return end, markdown.format_table(
            [[self._render_inline(cell, flat=True) for cell in row] for row in cells]
        )

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
                out.append(_indent(markdown.format_list_item(marker, self._render_inline(match[2])), before))
            elif _CODE_PLACEHOLDER.fullmatch(line.strip()):
                out.append("\n" + _indent(self._literals.restore(line.strip()), indents[-1]))
            elif _is_block_start(line):
                break
            else:
                out.append(_indent(self._render_inline(line.strip()), indents[-1]))
            at += 1
        return at, "\n".join(out)

    def _render_inline(self, text: str, *, flat: bool = False) -> str:
        text = _DASHES.sub(lambda match: "—" if len(match[1]) == 3 else "–", text)
        text = _ICON.sub(lambda match: _ICONS.get(match[1], ""), text)
        text = _EFFECT_IN_WORD.sub(_render_in_word, text)
        for sign, phrase in _PHRASES:
            text = phrase.sub(rf"{_EFFECTS[sign]}\1{_EFFECTS[sign]}", text)
        return self._literals.restore(_CITATION.sub(r"\1", text), flat=flat)


def _render_panels(text: str) -> str:
    """Panels as paragraphs after their titles or their kinds; the same mark without parameters ends one."""
    open_panels: set[str] = set()

    def render_mark(match: re.Match[str]) -> str:
        name = match[1]
        if name in open_panels and match[2] is None:
            open_panels.discard(name)
            return "\n\n"
        open_panels.add(name)
        title = _TITLE.search(match[2] or "")
        heading, label = title[1].strip() if title else "", markdown.PANEL_LABELS.get(name, "")
        if not heading:
            return f"\n\n{label}: " if label else "\n\n"
        return f"\n\n*{label}: {heading}*\n\n" if label else f"\n\n*{heading}*\n\n"

    return _PANEL.sub(render_mark, text)


def _is_block_start(line: str) -> bool:
    starts = (_HEADING, _QUOTED_LINE, _RULE, _ROW, _LIST_ITEM)
    return bool(_CODE_PLACEHOLDER.fullmatch(line.strip())) or any(start.match(line) for start in starts)


def _indent(text: str, columns: int) -> str:
    return "\n".join(f"{' ' * columns}{line}".rstrip() for line in text.split("\n"))


class _MaskedLiterals:
    """What is set aside while the rest of a text is written."""

    def __init__(self, people: Mapping[str, str]) -> None:
        self.people = people
        self._kept: list[tuple[str, str]] = []  # the text, and for code its language

    def mask(self, kind: str, text: str, language: str = "") -> str:
        """A mark that stands for it. `kind`: "c" a block of code, "i" code in a line, "t" a text."""
        self._kept.append((text, language))
        return f"\x02{kind}{len(self._kept) - 1}\x03"

    def has_lines(self, text: str) -> bool:
        """Whether code of several lines is set aside in it, which mean something else in one."""
        kept = (self._kept[int(match[2])][0] for match in _PLACEHOLDER.finditer(text) if match[1] == "c")
        return any("\n" in code.strip() for code in kept)

    def restore(self, text: str, *, flat: bool = False) -> str:
        """The text with everything back in its place; `flat`: blocks of code as code within the line."""
        for _ in range(4):  # an image in a link, an address in code: set aside within what is set aside
            if not _PLACEHOLDER.search(text):
                break
            text = _PLACEHOLDER.sub(lambda match: self._restore_one(match[1], int(match[2]), flat), text)
        return text

    def _restore_one(self, kind: str, number: int, flat: bool) -> str:
        text, language = self._kept[number]
        if kind == "t":
            return text
        if _PLACEHOLDER.search(text):  # code that holds a mark, as `{{ }}` within `{code}` never does
            text = self.restore(text)
        if kind == "i" or flat:
            return markdown.format_inline_code(" ".join(text.split()))
        return markdown.format_code_block(text, language)


def _render_in_word(match: re.Match[str]) -> str:
    """`{*}bold{*}`: the same effects, which may begin and end within a word; a word is not broken by them."""
    sign, text = match[1], match[2]
    around = match.string[match.start() - 1 : match.start()] + match.string[match.end() : match.end() + 1]
    if not re.search(r"\w", around):
        return f"{sign}{text}{sign}"
    return f"^{text}" if sign == "^" else text  # 10^2 is not 102


def _mask_code(match: re.Match[str], literals: _MaskedLiterals) -> str:
    """A block of code; its title stays before it, its language is the parameter without a name."""
    parameters = (match[2] or "").split("|")
    language = next((part.strip() for part in parameters if part.strip() and "=" not in part), "")
    options = dict(part.split("=", 1) for part in parameters if "=" in part)
    language = options.get("language", language).strip()
    title = options.get("title", "").strip()
    if not match[3].strip():
        return title
    mark = literals.mask("c", match[3], language if match[1] == "code" else "")
    return f"{title}\n{mark}" if title else mark


def _format_image(name: str) -> str:
    return markdown.format_link("image", name) if _URL.match(name) else f"(attachment: {name})"


def _mask_link(match: re.Match[str], literals: _MaskedLiterals) -> str:
    """`[url]`, `[text|url]`, `[~user]`, `[^file]`, `[#anchor]`; other brackets are no link."""
    parts = [part.strip() for part in match[1].split("|")]
    target = parts[1] if len(parts) > 1 else parts[0]
    alias = parts[0] if len(parts) > 1 else ""
    if target.startswith("~") and len(target) > 1:
        return alias or literals.mask("t", f"@{_display_name(target[1:], literals.people)}")
    if target.startswith("^") and len(target) > 1:
        return f"{alias} {literals.mask('t', f'(attachment: {target[1:]})')}".strip()
    if target.startswith("#") and len(target) > 1:
        return alias or target[1:]
    if _URL.match(target):
        whole = markdown.format_link(alias or target.removeprefix("mailto:"), target)
        middle = whole.rfind("](")
        if not alias or middle < 0:
            return literals.mask("t", whole)
        # the text between the brackets is not set aside: it may hold emphasis of its own
        return f"{literals.mask('t', '[')}{whole[1:middle]}{literals.mask('t', whole[middle:])}"
    if alias and target:
        return f"{alias} ({target})"
    return match[0]


def _display_name(name: str, people: Mapping[str, str]) -> str:
    account = name.removeprefix("accountid:")
    if account in people:
        return people[account]
    return "someone" if name.startswith("accountid:") or name.startswith("JIRAUSER") else name
