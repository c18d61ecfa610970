"""Signs of the symbol fonts as Unicode: an arrow of Wingdings is stored as a letter, or as U+F0E0.

Source: the mappings of the fonts Symbol (https://unicode.org/Public/MAPPINGS/VENDORS/ADOBE/symbol.txt),
Wingdings, Wingdings 2 and Webdings, as far as people write with them.
"""

from __future__ import annotations

import re

_PRIVATE = re.compile("[\uf020-\uf0ff]")  # where Word keeps the letters of such a font

_SYMBOL_LOW = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
)
_SYMBOL_HIGH = "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…|—↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑"
_SIGNS: dict[str, dict[int, str]] = {
    "symbol": {
        **dict(enumerate(_SYMBOL_LOW, 0x20)), **dict(enumerate(_SYMBOL_HIGH, 0xA0)), 0xF1: "⟩", 0xF2: "∫",
    },
    "wingdings": {
        0x20: " ", 0x28: "☎", 0x2A: "✉", 0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6E: "■", 0x6F: "☐", 0x71: "❑",
        0x72: "❒", 0x75: "◆", 0x76: "❖", 0x78: "☒", **dict(enumerate("⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿", 0x80)),
        0x9E: "·", 0x9F: "•", 0xA1: "○", 0xA7: "▪", 0xA8: "☐", 0xAB: "★", 0xD8: "➢", 0xDF: "←", 0xE0: "→",
        0xE1: "↑", 0xE2: "↓", 0xE7: "←", 0xE8: "➔", 0xEF: "⇦", 0xF0: "⇨", 0xF1: "⇧", 0xF2: "⇩", 0xF3: "⬄",
        0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
    },
    "wingdings 2": {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0xA3: "☐"},
    "webdings": {0x61: "✓", 0x63: "☐", 0x72: "✗"},
}  # fmt: skip


def has_symbols(text: str) -> bool:
    """Whether some of it means nothing without its font."""
    return _PRIVATE.search(text) is not None


def decode_symbols(text: str, font: str) -> str:
    """Text of a font without the code points that only this font gives a meaning; unknown ones stay."""
    signs = _SIGNS.get(font.lower())
    return _PRIVATE.sub(lambda match: signs.get(ord(match[0]) - 0xF000, match[0]), text) if signs else text
