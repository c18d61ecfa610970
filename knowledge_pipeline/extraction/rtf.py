"""Rich Text Format as Markdown: paragraphs, headings, tables and links.

Source: Rich Text Format Specification 1.9.1, https://www.loc.gov/preservation/digital/formats/fdd/fdd000473.shtml
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.markdown import find_first_heading, format_link, format_table
from knowledge_pipeline.extraction.text_decoding import ExtractedText

_TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?[0-9]{1,9})?[ ]?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z'])|([{}])|([^\\{}\r\n]+)"
    r"|[\r\n]+|\\"
)
_SKIPPED_GROUPS = frozenset(
    re.findall(
        r"\w+",
        """
        fonttbl colortbl stylesheet listtable listoverridetable revtbl rsidtbl generator info pict object
        header headerl headerr headerf footer footerl footerr footerf themedata colorschememapping datastore
        latentstyles xmlnstbl filetbl pgptbl background fldinst bkmkstart bkmkend atnid atnauthor annotation
        atrfstart atrfend nonshppict pntext listtext
        """,
    )
)
_SIGNS = {
    **{"tab": " ", "line": "\n", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘"},
    **{"rquote": "’", "ldblquote": "“", "rdblquote": "”", "emspace": " ", "enspace": " ", "~": " ", "_": "-"},
}
# code pages of the character sets of fonts
_CHARSETS = {
    **{0: "cp1252", 2: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "cp950"},
    **{161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257"},
    **{204: "cp1251", 222: "cp874", 238: "cp1250"},
}
_HYPERLINK = re.compile(r'^\s{0,99}HYPERLINK\s{1,99}"([^"]{1,2000})"')
_MAX_DEPTH = 10_000
_MAX_SKIPPED_CHARS = 16  # that stand for one character of Unicode


@dataclass(frozen=True, slots=True)
class _GroupState:
    """What a group inherits, and its end undoes."""

    # or "ignored" (by who does not know it), "skipped", "info", "title", "font", "instruction"
    target: str = "text"
    encoding: str = "cp1252"
    fallback_chars: int = 1  # what follows a character of Unicode for programs that do not know it
    is_hidden: bool = False


def read_rtf(payload: bytes) -> ExtractedText:
    """Body text in order, with notes where they are mentioned; no headers, pictures and hidden text."""
    if not payload.lstrip()[:5] == b"{\\rtf":
        raise DocumentSkipped("not a RTF file, though its name says so")
    reader, source, at = _RtfReader(), payload.decode("latin-1"), 0
    while match := _TOKEN.match(source, at):
        reader.take(match)
        at = match.end()
        if match[1] == "bin" and match[2]:
            at += max(0, int(match[2]))
    text = reader.finish()
    title = " ".join("".join(reader.title).split()) or find_first_heading(text)
    return ExtractedText(text, title, {"format": "rtf"}, language="markdown")


class _RtfReader:
    def __init__(self) -> None:
        self.title: list[str] = []
        self._state: _GroupState = _GroupState()
        self._stack: list[_GroupState] = []
        self._default_encoding, self._fonts = "cp1252", dict[int, str]()
        self._font = 0
        self._bytes = bytearray()  # of one encoding, which are text once another token comes
        self._skip_chars = 0
        self._high_surrogate = 0
        self._line: list[str] = []
        self._cells: list[str] = []
        self._rows: list[list[str]] = []
        self._blocks: list[str] = []
        self._level = 0  # of a heading
        self._in_table = False
        self._links: list[tuple[str, int, int]] = []  # address, depth of its field, where its text begins
        self._instruction: list[str] = []

    def take(self, match: re.Match[str]) -> None:
        """The next token."""
        word, number, code, sign, brace, text = (group or "" for group in match.groups())
        if code:
            if self._skip_chars:
                self._skip_chars -= 1
            else:
                self._bytes.append(int(code, 16))
            return
        if text:
            skipped = min(self._skip_chars, len(text))
            self._skip_chars -= skipped
            self._bytes += text[skipped:].encode("latin-1")
            return
        if not (word or sign or brace):  # the end of a line of the file
            return
        self._flush_bytes()
        if brace == "{":
            if len(self._stack) >= _MAX_DEPTH:
                raise DocumentSkipped("RTF nested too deeply")
            self._stack.append(self._state)
        elif brace == "}":
            self._close_group()
        elif word:
            self._take_word(word, int(number) if number else None)
        elif sign == "*":
            self._state = replace(self._state, target="ignored") if self._is_text else self._state
        elif sign in "\\{}":
            self._write(sign)
        elif sign in _SIGNS:
            self._write(_SIGNS[sign])
        elif sign in "\r\n":
            self._end_paragraph()

    def finish(self) -> str:
        """The whole text."""
        self._flush_bytes()
        self._in_table = False
        self._end_table()
        self._end_paragraph()
        return "\n\n".join(self._blocks)

    @property
    def _is_text(self) -> bool:
        return self._state.target == "text"

    def _close_group(self) -> None:
        if self._stack:
            self._state = self._stack.pop()
        self._skip_chars = 0
        if self._links and len(self._stack) < self._links[-1][1]:
            address, _, start = self._links.pop()
            text = "".join(self._line[start:])
            self._line[start:] = [format_link(text, address)] if text.strip() else []

    def _take_word(self, word: str, number: int | None) -> None:
        state = self._state
        if word in _SKIPPED_GROUPS or word == "title":
            targets = {"title": "title", "fonttbl": "font", "fldinst": "instruction", "info": "info"}
            is_open = state.target in ("text", "info") or (word == "fldinst" and state.target == "ignored")
            if is_open and (word != "title" or state.target == "info"):
                self._state = replace(state, target=targets.get(word, "skipped"))
                if word == "fldinst":
                    self._instruction = []
        elif word == "shptxt" and state.target == "ignored":
            self._state = replace(state, target="text")
        elif word == "fldrslt" and self._is_text:
            if target := _HYPERLINK.match("".join(self._instruction)):
                self._links.append((target[1], len(self._stack), len(self._line)))
            self._instruction = []
        elif word == "u" and number is not None:
            self._write_unicode(number % 65536)
        elif word == "uc" and number is not None:
            self._state = replace(state, fallback_chars=min(max(number, 0), _MAX_SKIPPED_CHARS))
        elif word in ("ansicpg", "mac", "pc", "pca", "ansi"):
            encodings = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850", "ansi": "cp1252"}
            self._default_encoding = encodings.get(word) or f"cp{number}"
            self._state = replace(state, encoding=self._default_encoding)
        elif word == "f" and number is not None:
            self._font = number
            encoding = self._fonts.get(number, self._default_encoding)
            self._state = replace(state, encoding=encoding)
        elif word == "fcharset" and state.target == "font" and number is not None:
            self._fonts[self._font] = _CHARSETS.get(number, self._default_encoding)
        elif word == "plain":
            self._state = replace(state, is_hidden=False)
        elif word in ("v", "deleted"):
            self._state = replace(state, is_hidden=number != 0)
        elif self._is_text:
            self._take_layout(word, number)

    def _take_layout(self, word: str, number: int | None) -> None:
        if word in ("par", "sect", "page"):
            self._end_paragraph()
        elif word == "pard":
            self._level, self._in_table = 0, False
        elif word == "intbl":
            self._in_table = True
        elif word == "outlinelevel" and number is not None and 0 <= number <= 8:
            self._level = min(number + 1, 6)
        elif word in ("cell", "nestcell"):
            self._cells.append(" ".join("".join(self._line).split()))
            self._line = []
        elif word in ("row", "nestrow"):
            self._rows += [self._cells] if self._cells else []
            self._cells = []
        elif word in _SIGNS:
            self._write(_SIGNS[word])

    def _write_unicode(self, unit: int) -> None:
        """A unit of UTF-16; what follows it, as long as the group says, stands for the same."""
        self._skip_chars = self._state.fallback_chars
        if 0xD800 <= unit < 0xDC00:
            self._high_surrogate = unit
            return
        if 0xDC00 <= unit < 0xE000:
            high, self._high_surrogate = self._high_surrogate, 0
            self._write(chr(0x10000 + ((high - 0xD800) << 10) + unit - 0xDC00) if high else "\ufffd")
        else:
            self._write(chr(unit))

    def _flush_bytes(self) -> None:
        if self._bytes:
            payload, self._bytes = bytes(self._bytes), bytearray()
            try:
                self._write(payload.decode(self._state.encoding, "replace"))
            except LookupError:
                self._write(payload.decode("cp1252", "replace"))

    def _write(self, text: str) -> None:
        writers: dict[str, Callable[[str], None]] = {
            "text": self._line.append,
            "title": self.title.append,
            "instruction": self._instruction.append,
        }
        if (write := writers.get(self._state.target)) and not self._state.is_hidden:
            write(text)

    def _end_paragraph(self) -> None:
        if self._in_table or self._cells:
            self._line.append("\n")
            return
        self._end_table()
        text = "".join(self._line).strip()
        self._line = []
        self._links = [(address, depth, 0) for address, depth, _ in self._links]
        if text:
            self._blocks.append(f"{'#' * self._level} {' '.join(text.split())}" if self._level else text)

    def _end_table(self) -> None:
        rows, self._rows = self._rows, []
        if self._cells:
            rows, self._cells = [*rows, self._cells], []
        if all(len(row) < 2 for row in rows):
            self._blocks += [cell for row in rows for cell in row if cell]
        elif written := format_table(rows):
            self._blocks.append(written)
