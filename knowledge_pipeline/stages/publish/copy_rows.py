"""Arrow rows as the text that PostgreSQL's COPY reads: a line a row, a tab between values.

Source: https://www.postgresql.org/docs/current/sql-copy.html, "Text Format"
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

_NULL = r"\N"
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\x00": "\ufffd"})
_ARRAY_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\""})


def format_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """The lines of all rows, a text for each batch."""
    for batch in batches:
        at: Any = batch.column  # its type leaves out that of the values
        columns = [_format_column(at(number), name) for number, name in enumerate(batch.schema.names)]
        yield "".join("\t".join(values) + "\n" for values in zip(*columns, strict=True))


class TextStream(io.TextIOBase):
    """Texts as a file that is read once: what `COPY ... FROM STDIN` takes."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = iter(texts)
        self._text = io.StringIO()

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int | None = -1, /) -> str:
        """At most `size` characters of one text; none at the end of all."""
        while not (found := self._text.read(size)):
            if (text := next(self._texts, None)) is None:
                return ""
            self._text = io.StringIO(text)
        return found


def _format_column(column: pa.Array[Any], name: str) -> Iterator[str]:
    if name == "vector":
        return _format_vectors(column)
    if pa.types.is_list(column.type):
        return (_NULL if value is None else format_array(value) for value in column.to_pylist())
    write: Callable[[Any], str] = _FORMATS.get(str(column.type), _format_text)
    return (_NULL if value is None else write(value) for value in column.to_pylist())


def _format_text(value: object) -> str:
    return str(value).translate(_ESCAPES)


def _format_time(value: datetime) -> str:
    return value.isoformat()


_FORMATS: dict[str, Callable[[Any], str]] = {"timestamp[us, tz=UTC]": _format_time}


def format_array(values: Iterable[str]) -> str:
    """An array of texts: `{"a","b"}`, escaped once for arrays and once for COPY."""
    quoted = ",".join(f'"{value.translate(_ARRAY_ESCAPES)}"' for value in values)
    return f"{{{quoted}}}".translate(_ESCAPES)


def _format_vectors(column: Any) -> Iterator[str]:
    """As pgvector writes them: `[1,2]`, each number so that it reads back as the same float32."""
    for vector in column:
        yield _NULL if not vector.is_valid else format_vector(np.asarray(vector.values, np.float32))


def format_vector(vector: np.ndarray) -> str:
    """One vector, float32, as pgvector reads it."""
    return "[" + ",".join(map(str, vector.tolist())) + "]"
