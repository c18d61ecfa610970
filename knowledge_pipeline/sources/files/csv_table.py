"""CSV and TSV files as Markdown tables, the header repeated for every few rows.

Source: RFC 4180, https://www.rfc-editor.org/rfc/rfc4180
"""

from __future__ import annotations

import csv
from io import StringIO

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.files.row_tables import TABLE_CUT_NOTE, render_rows
from knowledge_pipeline.sources.files.text_decoding import ExtractedText, decode_text

_SNIFFED_CHARS = 16_384
_DELIMITERS = ",;\t|"


def read_csv(payload: bytes) -> ExtractedText:
    """The rows of a file, whichever of `,`, `;`, `|` and tab separates its fields; the first is the header.

    Raises:
        DocumentSkipped: binary, empty, in an unknown encoding, or a field has no end.
    """
    text = decode_text(payload)
    try:
        rows = csv.reader(StringIO(text, newline=""), delimiter=_find_delimiter(text))
        rendered, is_cut = render_rows(rows, "Table")
    except csv.Error as error:
        raise DocumentSkipped(f"broken CSV ({error})") from error
    metadata = {"format": "csv", **({"note": TABLE_CUT_NOTE} if is_cut else {})}
    return ExtractedText(rendered, metadata=metadata, language="markdown")


def _find_delimiter(text: str) -> str:
    """The one that makes most fields of the header."""
    header = next(csv.reader([text[:_SNIFFED_CHARS].lstrip().partition("\n")[0]], delimiter="\0"), [""])
    return max(_DELIMITERS, key="".join(header).count)
