"""Rows of files: Parquet and Arrow by Arrow, JSON Lines and CSV line by line, with the values as written.

A line that is no row costs that row: it is counted, and told with its number.
"""

# pyarrow's stubs leave types out.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import csv
import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from knowledge_pipeline.config.connections import TableFilesConnection
from knowledge_pipeline.connectors.base import path_to_uri
from knowledge_pipeline.encodings import WINDOWS_CONTROLS, find_codec, find_marked_codec
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.extraction.row_tables import read_row
from knowledge_pipeline.extraction.text_decoding import MAX_CHARS
from knowledge_pipeline.text import is_list, is_object, replace_surrogates

Row = tuple[Any, ...]

_VERSION = "2"  # of the values that are read
_FORMATS: dict[str, Literal["parquet", "ipc", "json", "csv"]] = {
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "ipc"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "json"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
}
_BATCH_ROWS = 4096
_MAX_TOLD_LINES = 5
_MAX_INT_CHARS = 4000


class FileRows:
    """The rows of a file, of those in a folder, or of those that a pattern matches.

    Parquet, Arrow, JSON Lines and CSV; one after the other, in bounded memory.
    """

    def __init__(self, connection: TableFilesConnection) -> None:
        self._path = connection.path.expanduser()
        self._encoding = find_codec(connection.encoding) if connection.encoding else None
        self._delimiter = connection.delimiter
        self.definition = f"{_VERSION} {self._encoding or ''} {connection.delimiter or ''}"
        self.unread: dict[str, str] = {}
        """By uri, what the last pass over the rows could not read of a file, and why."""

    @property
    def description(self) -> str:
        """The path, as configured."""
        return f"the table {self._path}"

    def list_columns(self) -> list[str]:
        """The columns of all files; of JSON Lines, every key that a line has."""
        columns: dict[str, None] = {}
        for _, path in self._list_files():
            with _translate_errors(path):
                columns |= dict.fromkeys(self._open_rows(path).list_columns())
        return list(columns)

    def iter_rows(self, columns: Sequence[str], ids: Sequence[str] | None = None) -> Iterator[Row]:
        """The rows of all files, sorted by name.

        Where a line of JSON lacks a column it is null, and in a file that only later ones have it in. Any
        other file without it is refused.
        """
        wanted, seen, self.unread = None if ids is None else frozenset(ids), {columns[0]}, {}
        for name, path in self._list_files():
            with _translate_errors(path):
                file = self._open_rows(path)
                if not isinstance(file, _JsonLines):
                    present = file.list_columns()
                    if missing := [name for name in columns if name in seen and name not in present]:
                        names = ", ".join(map(repr, missing))
                        raise SourceRefused(f"{path} has no column {names}, unlike other files")
                    seen.update(present)
                yield from file.iter_rows(columns, wanted)
                if file.unread.count:
                    self.unread[f"unread-rows/{path_to_uri(name)}"] = file.unread.describe(path.name)

    def _open_rows(self, path: Path) -> _ArrowFile | _JsonLines | _Csv:
        kind = _FORMATS.get(path.suffix.lower())
        if kind is None:
            raise SourceRefused(f"{path} is no file of rows: its name must end with {', '.join(_FORMATS)}")
        if kind == "json":
            return _JsonLines(path, self._encoding)
        if kind == "csv":
            default = "\t" if path.suffix.lower() == ".tsv" else ","
            return _Csv(path, self._encoding, self._delimiter or default)
        return _ArrowFile(path, kind)

    def _list_files(self) -> list[tuple[str, Path]]:
        """Every file, with its path below the folder that is read."""
        path = folder = self._path
        if path.is_dir():
            files = [file for file in path.rglob("*") if file.suffix.lower() in _FORMATS and file.is_file()]
        elif path.is_file():
            files, folder = [path], path.parent
        else:  # a pattern: below the last folder before it
            folder = Path(*takewhile(lambda part: not set(part) & set("*?["), path.parts))
            pattern = path.relative_to(folder).as_posix()
            files = [file for file in folder.glob(pattern) if file.is_file()] if pattern != "." else []
        if not path.is_file():  # no link leads out of the folder
            root = folder.resolve()
            files = [file for file in files if file.resolve().is_relative_to(root)]
        if not files:
            raise SourceRefused(f"no file of rows is at {path}: correct connection.path")
        return [(file.relative_to(folder).as_posix(), file) for file in sorted(files)]


@contextmanager
def _translate_errors(path: Path) -> Generator[None]:
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, pa.ArrowTypeError) as error:
        raise SourceRefused(f"{path} cannot be read: {_first_line(error)}") from None
    except PermissionError as error:
        raise SourceRefused(f"{path} cannot be read ({error.strerror}): make it readable") from None
    except OSError as error:
        raise SourceUnavailable(f"reading {path} failed ({_first_line(error)}): try again later") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


@dataclass(slots=True)
class _UnreadLines:
    """The lines of one file that are no rows: how many, the numbers of some, and why the first is none."""

    count: int = 0
    numbers: list[int] = field(default_factory=list[int])
    reason: str = ""

    def add(self, number: int, reason: str) -> None:
        self.count += 1
        self.reason = self.reason or reason
        if len(self.numbers) < _MAX_TOLD_LINES:
            self.numbers.append(number)

    def describe(self, name: str) -> str:
        if self.count == 1:
            return f"line {self.numbers[0]} of {name} cannot be read: {self.reason}"
        numbers = ", ".join(map(str, self.numbers)) + (", …" if self.count > len(self.numbers) else "")
        return f"{self.count} rows of {name} cannot be read, of lines {numbers}; the first: {self.reason}"


class _ArrowFile:
    def __init__(self, path: Path, kind: Literal["parquet", "ipc"]) -> None:
        self._path, self._dataset = path, ds.dataset(path, format=kind)
        self.unread = _UnreadLines()  # none: all is read, or nothing

    def list_columns(self) -> list[str]:
        return self._dataset.schema.names

    def iter_rows(self, columns: Sequence[str], ids: frozenset[str] | None) -> Iterator[Row]:
        kind = self._dataset.schema.field(columns[0]).type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            raise SourceRefused(
                f"the id {columns[0]!r} of {self._path} is of type {kind}: name one of text or numbers"
            )
        wanted = None if ids is None else pa.array(sorted(ids), pa.string())
        present = [name for name in columns if name in self.list_columns()]
        for batch in self._dataset.to_batches(columns=present, batch_size=_BATCH_ROWS):
            keys = batch.column(0).cast(pa.string())
            if wanted is not None:
                chosen = pc.is_in(keys, value_set=wanted)  # pyright: ignore[reportUnknownMemberType]
                batch, keys = batch.filter(chosen), keys.filter(chosen)
            values: dict[str, list[Any]] = {name: batch.column(name).to_pylist() for name in present[1:]}
            nulls = [None] * len(keys)
            yield from zip(keys.to_pylist(), *(values.get(name, nulls) for name in columns[1:]), strict=True)


_NOT_TEXT = re.compile("[\udc80-\udcff]")  # bytes that are not of the encoding
_WRONG_ENCODING = "it is not in the encoding of the file: set connection.encoding, such as cp1252"


def _is_text(value: str) -> bool:
    return value.isascii() or _NOT_TEXT.search(value) is None


class _LineTooLong(csv.Error):
    """Raised inside of the readers of `csv`, too, which go on with the next line."""

    def __init__(self) -> None:
        super().__init__(f"more than {MAX_CHARS} characters in one line")


class _Lines:
    """The lines of a file as text, each of a bounded length; bytes that are no text are lone surrogates."""

    def __init__(self, file: TextIO, replaced: Mapping[int, str]) -> None:
        """`replaced`: characters that stand for others."""
        self._file, self._replaced = file, replaced
        self.number = 0  # of the line that was read last

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        """Raises _LineTooLong; the next call goes on after that line."""
        line = self._file.readline(MAX_CHARS)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) < MAX_CHARS:
            return line if line.isascii() else line.translate(self._replaced)
        while line and not line.endswith(("\n", "\r")):
            line = self._file.readline(MAX_CHARS)
        raise _LineTooLong


@contextmanager
def _open_lines(path: Path, encoding: str | None) -> Generator[_Lines]:
    """Lines in the encoding of the byte order mark, else in the configured codec, else in UTF-8."""
    with path.open("rb") as file:
        start = file.read(4)
    codec = find_marked_codec(start) or encoding or "utf-8"
    # of cp1252 Python leaves five bytes out, and of UTF-8 it keeps the mark
    python, replaced = {"cp1252": ("latin-1", WINDOWS_CONTROLS)}.get(codec, (codec, {}))
    python = "utf-8-sig" if python == "utf-8" else python
    try:
        with path.open(encoding=python, errors="surrogateescape", newline="") as file:
            yield _Lines(file, replaced)
    except UnicodeError:
        raise SourceRefused(f"{path} is not valid {codec.upper()}: correct connection.encoding") from None


class _JsonLines:
    """Objects of JSON, one a line. A number is the text that stands there, but in lists and objects."""

    def __init__(self, path: Path, encoding: str | None) -> None:
        self._path, self._encoding = path, encoding
        self.unread = _UnreadLines()

    def list_columns(self) -> list[str]:
        columns: dict[str, None] = {}
        for _, _, record in self._iter_records():
            columns |= dict.fromkeys(record)
        return list(columns)

    def iter_rows(self, columns: Sequence[str], ids: frozenset[str] | None) -> Iterator[Row]:
        for number, line, record in self._iter_records():
            key, *values = (record.get(name) for name in columns)
            if is_list(key) or is_object(key):
                self.unread.add(number, f"its {columns[0]!r} is neither text nor a number")
                continue
            if key is not None:
                key = str(key).lower() if isinstance(key, bool) else replace_surrogates(key)
            if ids is not None and key not in ids:
                continue
            if any(is_list(value) or is_object(value) for value in values):
                numbers = _parse_object(line, as_written=False)
                pairs = zip(columns[1:], values, strict=True)
                values = [value if isinstance(value, str) else numbers.get(name) for name, value in pairs]
            yield (key, *values)

    def _iter_records(self) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
        """Each object, with its line and the number of that."""
        read_count = 0
        with _open_lines(self._path, self._encoding) as lines:
            while True:
                try:
                    line = next(lines, None)
                    if line is None:
                        break
                    if not line.strip():
                        continue
                    if lines.number == 1 and line.startswith("["):
                        raise SourceRefused(
                            f"{self._path} is one list of JSON: write its objects one a line (jq -c '.[]')"
                        )
                    record = _parse_object(line.strip())
                except (_LineTooLong, ValueError) as error:
                    self.unread.add(lines.number, str(error))
                else:
                    read_count += 1
                    yield lines.number, line, record
        _require_any(self._path, read_count, self.unread)


def _parse_object(line: str, *, as_written: bool = True) -> Mapping[str, Any]:
    """The object of a line, its numbers as text. Raises ValueError: it is none."""
    if "\0" in line or not _is_text(line):
        raise ValueError(_WRONG_ENCODING)
    try:
        value = (_TEXT_DECODER if as_written else _NUMBER_DECODER).decode(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no valid JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None
    if not is_object(value):
        raise ValueError("it is no JSON object")
    return value


def _parse_int(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MAX_INT_CHARS else digits  # more take Python too long


_TEXT_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_NUMBER_DECODER = json.JSONDecoder(parse_int=_parse_int)


def _require_any(path: Path, read_count: int, unread: _UnreadLines) -> None:
    if unread.count and not read_count:
        raise SourceRefused(f"{path} cannot be read, not even line {unread.numbers[0]}: {unread.reason}")


_OTHER_DELIMITERS = {";": "';'", "\t": "a tab", "|": "'|'", ",": "','"}


class _Csv:
    """A file of CSV with a header; values are the text that stands there."""

    def __init__(self, path: Path, encoding: str | None, delimiter: str) -> None:
        self._path, self._encoding, self._delimiter = path, encoding, delimiter
        self.unread = _UnreadLines()

    def list_columns(self) -> list[str]:
        with self._open_rows() as (header, _):
            return header

    def iter_rows(self, columns: Sequence[str], ids: frozenset[str] | None) -> Iterator[Row]:
        read_count = 0
        with self._open_rows() as (header, rows):
            if twice := [name for name in columns if header.count(name) > 1]:
                raise SourceRefused(f"{self._path} has two columns {twice[0]!r}: rename one")
            places = [header.index(name) if name in header else None for name in columns]
            for number, fields in rows:
                if len(fields) != len(header):
                    self.unread.add(number, f"it has {len(fields)} fields, not {len(header)} as the header")
                elif not _is_text("".join(fields)):
                    self.unread.add(number, _WRONG_ENCODING)
                else:
                    read_count += 1
                    row = tuple(None if at is None else fields[at] for at in places)
                    if ids is None or row[0] in ids:
                        yield row
        _require_any(self._path, read_count, self.unread)

    @contextmanager
    def _open_rows(self) -> Generator[tuple[list[str], Iterator[tuple[int, list[str]]]]]:
        """The header, and the rows below it with the number of their first lines."""
        with _open_lines(self._path, self._encoding) as lines:
            rows = self._iter_rows(lines)
            _, header = next(rows, (0, list[str]()))
            if not _is_text(names := "".join(header)) or "\0" in names:
                raise SourceRefused(f"{self._path} cannot be read: {_WRONG_ENCODING}")
            if len(header) == 1 and (other := next((d for d in _OTHER_DELIMITERS if d in header[0]), None)):
                raise SourceRefused(
                    f"the columns of {self._path} seem to be separated by {_OTHER_DELIMITERS[other]}: set "
                    "connection.delimiter"
                )
            yield header, rows

    def _iter_rows(self, lines: _Lines) -> Iterator[tuple[int, list[str]]]:
        # strict: a quote that is never closed would take all rows after it into one field
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
        while True:
            number = lines.number + 1
            try:
                fields = read_row(reader)
            except csv.Error as error:
                until = f", up to line {lines.number}" if lines.number > number else ""
                self.unread.add(number, f"it is no valid CSV ({error}){until}")
            else:
                if fields is None:
                    return
                if fields:  # none: an empty line
                    yield number, fields
