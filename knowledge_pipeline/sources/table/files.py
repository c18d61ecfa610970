"""Rows of Parquet, Arrow, JSON Lines and CSV files; one after the other, in bounded memory."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.sources.table.base import Row

_FORMATS: dict[str, Literal["parquet", "ipc", "json", "csv"]] = {
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "ipc"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "json"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
}
_BATCH_ROWS = 4096


class FileRows:
    """The rows of a file, of those in a folder, or of those that a pattern matches."""

    definition = ""

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser()

    @property
    def description(self) -> str:
        """The path, as configured."""
        return f"the table {self._path}"

    def list_columns(self) -> list[str]:
        """The columns of the first file."""
        first = self._list_files()[0]
        with _translate_errors(first):
            return list(_open_file(first).schema.names)

    def iter_rows(self, columns: Sequence[str], ids: Sequence[str] | None = None) -> Iterator[Row]:
        """The rows of all files, sorted by name; each file has all the columns."""
        wanted = None if ids is None else pa.array(ids, pa.string())
        for path in self._list_files():
            with _translate_errors(path):
                dataset = _open_file(path)
                _require_columns(dataset.schema, columns, path)
                for batch in dataset.to_batches(columns=list(columns), batch_size=_BATCH_ROWS):
                    yield from _to_rows(batch, wanted)

    def close(self) -> None:
        """Nothing is kept open."""

    def _list_files(self) -> list[Path]:
        path = self._path
        if path.is_dir():
            found = [each for each in path.rglob("*") if each.suffix.lower() in _FORMATS and each.is_file()]
        elif path.is_file():
            found = [path]
        else:
            found = [each for each in _match_pattern(path) if each.is_file()]
        if not found:
            raise SourceRefused(f"no file of rows is at {path}: correct connection.path")
        return sorted(found)


def _match_pattern(path: Path) -> Iterator[Path]:
    """The files below the last folder before a pattern that match it."""
    plain = takewhile(lambda part: not set(part) & set("*?["), path.parts)
    folder = Path(*plain)
    pattern = path.relative_to(folder).as_posix()
    return folder.glob(pattern) if pattern != "." else iter(())


def _open_file(path: Path) -> ds.Dataset:
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise SourceRefused(f"{path} is no file of rows: its name must end with {', '.join(_FORMATS)}")
    if kind == "csv":
        return _open_csv(path)
    return ds.dataset(path, format=ds.JsonFileFormat() if kind == "json" else kind)


def _open_csv(path: Path) -> ds.Dataset:
    """Values as they are written: an id of `007` is no number."""
    from pyarrow import csv

    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    names = ds.dataset(path, format=ds.CsvFileFormat(parsing)).schema.names
    as_text = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    return ds.dataset(path, format=ds.CsvFileFormat(parsing, convert_options=as_text))


def _require_columns(schema: pa.Schema, columns: Sequence[str], path: Path) -> None:
    if missing := [name for name in columns if name not in schema.names]:
        raise SourceRefused(f"{path} has no column {', '.join(map(repr, missing))}, unlike the files before")
    kind = schema.types[schema.names.index(columns[0])]
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise SourceRefused(f"the id {columns[0]!r} of {path} is of type {kind}: name one of text or numbers")


def _to_rows(batch: pa.RecordBatch, wanted: pa.Array[Any] | None) -> Iterator[Row]:
    ids = batch.column(0).cast(pa.string())
    if wanted is not None:
        chosen = pc.is_in(ids, value_set=wanted)  # pyright: ignore[reportUnknownMemberType]
        batch, ids = batch.filter(chosen), ids.filter(chosen)
    columns: list[list[Any]] = [
        ids.to_pylist(),
        *(batch.column(at).to_pylist() for at in range(1, batch.num_columns)),
    ]
    return zip(*columns, strict=True)


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
