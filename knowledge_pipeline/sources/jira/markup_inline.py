"""Within a line of Jira's wiki markup: what is set aside, and emphasis."""

from __future__ import annotations

import re
from collections.abc import Mapping

from knowledge_pipeline.sources.markdown_writing import format_code_block, format_inline_code, format_link

CODE_PLACEHOLDER = re.compile(r"(\x02c\d+\x03)")
"""Where a block of code was set aside."""

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


class MaskedLiterals:
    """What is set aside while the rest of a text is written."""

    def __init__(self, people: Mapping[str, str]) -> None:
        self.people = people
        self._kept: list[tuple[str, str]] = []  # the text, and for code its language

    def mask(self, kind: str, text: str, language: str = "") -> str:
        """A mark that stands for it. `kind`: "c" a block of code, "i" code in a line, "t" a text."""
        self._kept.append((text, language))
        return f"\x02{kind}{len(self._kept) - 1}\x03"

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
            return format_inline_code(" ".join(text.split()))
        return format_code_block(text, language)


def mask_literals(text: str, literals: MaskedLiterals) -> str:
    """Put marks for code, links, images, addresses and escaped signs."""
    text = _CODE.sub(lambda match: _mask_code(match, literals), text)
    text = _INLINE_CODE.sub(lambda match: literals.mask("i", match[1]), text)
    text = _IMAGE.sub(lambda match: literals.mask("t", _format_image(match[1].strip())), text)
    text = _LINK.sub(lambda match: _mask_link(match, literals), text)
    text = _BARE_URL.sub(lambda match: literals.mask("t", match[0]), text)
    text = _LINE_BREAK.sub("\n", text)
    text = _ESCAPED.sub(lambda match: literals.mask("t", match[1]), text)
    return text.replace("&nbsp;", " ")


def render_emphasis(text: str) -> str:
    """Text effects, dashes and icons of one block."""
    text = _DASHES.sub(lambda match: "—" if len(match[1]) == 3 else "–", text)
    text = _ICON.sub(lambda match: _ICONS.get(match[1], ""), text)
    text = _EFFECT_IN_WORD.sub(_render_in_word, text)
    for sign, phrase in _PHRASES:
        text = phrase.sub(rf"{_EFFECTS[sign]}\1{_EFFECTS[sign]}", text)
    return _CITATION.sub(r"\1", text)


def _render_in_word(match: re.Match[str]) -> str:
    """`{*}bold{*}`: the same effects, which may begin and end within a word; a word is not broken by them."""
    sign, text = match[1], match[2]
    around = match.string[match.start() - 1 : match.start()] + match.string[match.end() : match.end() + 1]
    if not re.search(r"\w", around):
        return f"{sign}{text}{sign}"
    return f"^{text}" if sign == "^" else text  # 10^2 is not 102


def _mask_code(match: re.Match[str], literals: MaskedLiterals) -> str:
    """A block of code; its title stays before it, its language is the parameter without a name."""
    parameters = (match[2] or "").split("|")
    language = next((part.strip() for part in parameters if part.strip() and "=" not in part), "")
    named = dict(part.split("=", 1) for part in parameters if "=" in part)
    language = named.get("language", language).strip()
    title = named.get("title", "").strip()
    if not match[3].strip():
        return title
    mark = literals.mask("c", match[3], language if match[1] == "code" else "")
    return f"{title}\n{mark}" if title else mark


def _format_image(name: str) -> str:
    return format_link("image", name) if _URL.match(name) else f"(attachment: {name})"


def _mask_link(match: re.Match[str], literals: MaskedLiterals) -> str:
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
        whole = format_link(alias or target.removeprefix("mailto:"), target)
        place = whole.rfind("](")
        if not alias or place < 0:
            return literals.mask("t", whole)
        # the text between the brackets is not set aside: it may hold emphasis of its own
        return f"{literals.mask('t', '[')}{whole[1:place]}{literals.mask('t', whole[place:])}"
    if alias and target:
        return f"{alias} ({target})"
    return match[0]


def _display_name(name: str, people: Mapping[str, str]) -> str:
    account = name.removeprefix("accountid:")
    if account in people:
        return people[account]
    return "someone" if name.startswith("accountid:") or name.startswith("JIRAUSER") else name
