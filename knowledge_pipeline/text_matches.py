"""Finds rows of an index by their text as it is written: a literal text, or a regular expression.

Lance reads the rows that the caller may see and that have what every match has; Arrow compares their text. So
nothing has to be built, kept up to date and purged; docs/decisions/retrieval.md has the figures. Regular
expressions are RE2's, whose time grows with the text alone, whatever the expression.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.records import SPACE_BEFORE_KEY

MAX_SCANNED_ROWS = 2_000_000  # of one space: seconds; filters narrow a larger one
_COLUMNS = ("source", "source_type", "uri", "path", "start_line", "symbols", "text")
_CHANGES = frozenset({"git_history", "github_pr"})  # say how a text came to be, or went
_INDENT = rf'"{SPACE_BEFORE_KEY}": "[^"]*?(?P<indent>(?: |\\t)*)"'  # of the metadata, as JSON
_START, _END = "\x02", "\x03"  # around a match; a text that has them has others there
_NO_MARKS = str.maketrans(dict.fromkeys((_START, _END), "\ufffd"))
_MAX_REASON_CHARS = 200
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]?|\{[\d,]*\}?|.", re.DOTALL)  # of an expression
_OPAQUE = re.compile(r"\(\?|\[:|\\[QpPx\d]")  # what these parts do not say


@dataclass(frozen=True, slots=True)
class TextPattern:
    """What a text has to contain: letter case counts, and `^` and `$` are those of lines, as grep has it."""

    text: str
    is_regex: bool = False

    def __post_init__(self) -> None:
        """Raise `InvalidQuery` for an expression that RE2 refuses."""
        try:
            self.match(pa.array([""], pa.large_string()))
        except pa.ArrowInvalid as error:
            reason = (str(error).partition("regular expression: ")[2] or str(error)).replace("(?m)", "", 1)
            raise InvalidQuery(
                f"the regular expression cannot be read: {reason.strip()[:_MAX_REASON_CHARS]}; correct it "
                "(it is RE2's syntax, without look-around and back-references), or search by the mode exact"
            ) from None

    def match(self, texts: Any) -> Any:
        """For each text of an array whether it has a match."""
        if self.is_regex:
            return pc.match_substring_regex(texts, f"(?m){self.text}")
        return pc.match_substring(texts, self.text)

    def find_required_text(self) -> str:
        """What the text of a chunk has in any case if it has a match; "" where that is not plain.

        White space at the beginning may be that before the chunk, and Lance has no literal with a NUL.
        """
        runs, depth = [""] if self.is_regex else [self.text], 0
        if self.is_regex and _OPAQUE.search(self.text):
            return ""
        for part in _PARTS.findall(self.text) if self.is_regex else ():
            depth += (part == "(") - (part == ")")
            if part == "|" and not depth:
                return ""
            is_escaped = len(part) == 2 and part[0] == "\\" and not part[1].isalnum()
            if not depth and (is_escaped or (len(part) == 1 and part not in ".^$*+?()[]{}|\\")):
                runs[-1] += part[-1]
                continue
            if part[0] in "*?{":  # there may be none of what it follows
                runs[-1] = runs[-1][:-1]
            runs.append("")
        longest = max((run.lstrip(" \t") for run in runs), key=len)
        return "" if "\x00" in longest else longest

    def list_names(self) -> frozenset[str]:
        """The words in it, one of which may name a definition."""
        plain = re.sub(r"\\.", " ", self.text) if self.is_regex else self.text
        return frozenset(re.findall(r"\w+", plain))

    def find_lines(self, text: str) -> list[int]:
        """The lines of a text that its matches touch, counted from 0."""
        text = text.translate(_NO_MARKS)
        if self.is_regex:
            expression, replacement = f"(?m){self.text}", rf"{_START}\0{_END}"
            marked = pc.replace_substring_regex(pa.array([text]), expression, replacement)[0].as_py()
        else:
            marked = text.replace(self.text, f"{_START}{self.text}{_END}")
        lines, is_within = list[int](), False
        for number, line in enumerate(marked.split("\n")):
            if _START in line or (is_within and not line.startswith(_END)):
                lines.append(number)
            is_within = line.rfind(_START) > line.rfind(_END) or (is_within and _END not in line)
        return lines


class TextMatch(NamedTuple):
    """A row that has a match; they sort as they are shown: definitions first, changes last."""

    is_change: bool
    is_use: bool
    path: str
    source: str
    line: int
    row_id: int


class TextMatches(NamedTuple):
    """What a search by text found."""

    best: list[TextMatch]  # the first ones, in order
    chunks: int  # that have a match
    documents: int  # that these are of
    is_whole: bool  # whether every row that the condition allows was compared

    def add_to_ids(self, offset: int) -> TextMatches:
        """The same rows, where their ids are those of several tables."""
        return self._replace(best=[match._replace(row_id=match.row_id + offset) for match in self.best])


def unite_matches(several: Iterable[TextMatches], limit: int) -> TextMatches:
    """The matches of tables that share no document."""
    found = list(several)
    return TextMatches(
        heapq.nsmallest(limit, (match for matches in found for match in matches.best)),
        sum(matches.chunks for matches in found),
        sum(matches.documents for matches in found),
        all(matches.is_whole for matches in found),
    )


def find_matches(
    dataset: Any, pattern: TextPattern, condition: str, *, limit: int, max_rows: int = MAX_SCANNED_ROWS
) -> TextMatches:
    """The first `limit` rows of a table that meet a condition and have a match, and how many there are."""
    names, best, documents = pattern.list_names(), list[TextMatch](), set[tuple[str, str]]()
    scanned, chunks = 0, 0
    # The white space before a chunk is no part of its text, and belongs to its first line all the same.
    has_indent = pattern.is_regex or pattern.text[0] in " \t"
    columns = [*_COLUMNS, "metadata"] if has_indent else [*_COLUMNS]
    scanner = dataset.scanner(columns, condition, limit=max_rows + 1, with_row_id=True)
    for batch in scanner.to_batches():
        scanned += len(batch)
        texts = _indent(batch["text"], batch["metadata"]) if has_indent else batch["text"]
        rows = batch.select([*_COLUMNS[:-1], "_rowid"]).filter(pattern.match(texts)).to_pylist()
        chunks += len(rows)
        documents.update((row["source"], row["uri"]) for row in rows)
        matches = (_to_match(row, names) for row in rows)
        best = heapq.nsmallest(limit, [*best, *matches])
    return TextMatches(best, chunks, len(documents), scanned <= max_rows)


def read_indent(space_before: str | None) -> str:
    """The indentation of a chunk's first line, from the white space before it."""
    space = space_before or ""
    return space[len(space.rstrip(" \t")) :]


def _indent(texts: Any, metadata: Any) -> Any:
    indents: Any = pc.struct_field(pc.extract_regex(metadata, _INDENT), "indent")
    tabs: Any = pc.replace_substring(pc.fill_null(indents, pa.scalar("", indents.type)), r"\t", "\t")
    return pc.binary_join_element_wise(tabs.cast(texts.type), texts, pa.scalar("", texts.type))


def _to_match(row: dict[str, Any], names: frozenset[str]) -> TextMatch:
    is_definition = any(name.rpartition(".")[2] in names for name in row["symbols"] or ())
    place = row["path"], row["source"], row["start_line"]
    return TextMatch(row["source_type"] in _CHANGES, not is_definition, *place, row["_rowid"])
