"""Files of this machine as they are now, and where in them what was indexed stands by now."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from knowledge_pipeline.contract.filters import FileState

_MAX_BYTES = 4_000_000  # larger files are judged by their time alone
_REDACTED = "[REDACTED:"  # a line that the index holds without its secret


@dataclass(frozen=True, slots=True)
class PresentFile:
    """A file as it is now."""

    modified: datetime
    text: str | None  # with line feeds alone; None for what is no text, or too large
    _line_starts: list[int] = field(default_factory=lambda: [])  # once they were asked for

    def find_first_line(self, content: str, near: int) -> int | None:
        """The line where some lines begin by now, the nearest to where they began; None: they are not there.

        Lines that were redacted are not compared.
        """
        if self.text is None or not has_content(self.text, content):
            return None
        if _REDACTED not in content:
            return self._find_nearest(content.replace("\r\n", "\n"), near)
        first, part = max(_split_redacted(content), key=lambda it: len(it[1]))
        line = self._find_nearest(part, near + first)
        return None if line is None else max(1, line - first)

    def find_only_line(self, stripped: str) -> int | None:
        """The line that is this one, whatever its indentation; None where none is, or several are."""
        lines = (at for at, line in enumerate((self.text or "").split("\n"), 1) if line.strip() == stripped)
        first = next(lines, None)
        return first if next(lines, None) is None else None

    def get_text_from(self, number: int, max_chars: int) -> str:
        """The text from a line on; empty where there is none."""
        starts = self._get_line_starts()
        if self.text is None or not 1 <= number < len(starts):
            return ""
        return self.text[starts[number - 1] : starts[number - 1] + max_chars]

    def get_line(self, number: int) -> str:
        """A line; empty where there is none."""
        starts = self._get_line_starts()
        if self.text is None or not 1 <= number < len(starts):
            return ""
        return self.text[starts[number - 1] : starts[number] - 1]

    def _find_nearest(self, part: str, near: int) -> int | None:
        text, starts = self.text or "", self._get_line_starts()
        expected = starts[min(max(near, 1), len(starts)) - 1]
        after = text.find(part, expected)
        if after >= 0 and bisect_right(starts, after) == near:
            return near
        reach = 0 if after < 0 else max(0, expected - (after - expected))
        before = text.rfind(part, reach, expected + len(part))
        nearest = after if before < 0 else before
        return None if nearest < 0 else bisect_right(starts, nearest)

    def _get_line_starts(self) -> list[int]:
        """Where the lines begin, and one more would."""
        if not self._line_starts:
            at = 0
            for line in (self.text or "").split("\n"):
                self._line_starts.append(at)
                at += len(line) + 1
            self._line_starts.append(at)
        return self._line_starts


def open_present_file(folder: Path, name: str) -> PresentFile | FileState | None:
    """A file as it is now, "missing", or None for one that may not be read here."""
    path = folder / name
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            return None
        stat = path.stat()
        content = path.read_bytes() if stat.st_size <= _MAX_BYTES else None
    except FileNotFoundError:
        return "missing"
    except OSError:
        return None
    text = None
    if content is not None:
        with suppress(UnicodeDecodeError):
            text = content.decode().replace("\r\n", "\n")
    return PresentFile(datetime.fromtimestamp(stat.st_mtime, UTC), text)


def has_content(text: str, content: str) -> bool:
    """Whether a text has some lines, all but those that were redacted."""
    content = content.replace("\r\n", "\n")
    if _REDACTED not in content:
        return content in text
    return all(part in text for _, part in _split_redacted(content))


def is_redacted(line: str) -> bool:
    """Whether a line of the index lacks a secret."""
    return _REDACTED in line


def _split_redacted(content: str) -> list[tuple[int, str]]:
    """The runs of lines without a redacted one, each with the lines before it."""
    parts: list[tuple[int, list[str]]] = [(0, [])]
    for at, line in enumerate(content.replace("\r\n", "\n").split("\n"), start=1):
        if _REDACTED in line:
            parts.append((at, []))
        else:
            parts[-1][1].append(line)
    return [(first, "\n".join(lines)) for first, lines in parts]
