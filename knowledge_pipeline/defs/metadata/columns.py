"""What every column of every stage's table means, and the tables' schemas as the UI shows them."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import dagster as dg
import pyarrow as pa

from knowledge_pipeline.store import schemas

_ANY_DIMENSIONS = 1  # the number differs by space, the shown type does not name it

_DOCUMENT_COLUMNS = {
    "path": "Where the document lies in its source, with forward slashes.",
    "language": "Programming or markup language, by name, first line or content.",
    "url": "Page where a person opens it, if the source told one.",
    "author": "Who wrote it, if the source told.",
    "last_modified": "When it last changed, if the source told.",
}
_SOURCE_COLUMNS = {
    "source": "Source that it is from; the partition.",
    "source_type": "Type of the source.",
    "repo": "Repository or folder that the source reads.",
    "branch": "Branch, where one is configured.",
    "tags": "Tags of the source.",
    "visibility": "Who may find the row: everybody, a tenant, or named principals.",
    "tenant": "Tenant that it belongs to.",
    "principals": "Who may find it where it is private.",
}
_SPAN_COLUMNS = {
    "anchor": "Place in the document's structure: class and function, heading trail, method and path.",
    "start_char": "First character in the sanitized document, counted from 0.",
    "end_char": "First character after the chunk, so that `text` is exactly what lies between.",
    "start_line": "First line, counted from 1.",
    "end_line": "Last line, included.",
    "tokens": "Length of header and text, counted with the embedding model's own tokenizer.",
    "header": "Context put before the text where it is embedded and searched, never shown as content.",
    "content_hash": "Hash of the text alone: equal texts have equal ones.",
    "text_key": "Hash of header and text: the key of its vector.",
    "symbol": "Name of the function, class or operation.",
    "symbol_kind": "What the symbol is: function, class, method, ...",
    "section": "Nearest heading above.",
    "page": "Page of the document, counted from 1.",
    "archived": "Whether the source no longer has the document; default searches leave such rows out.",
}

COLUMN_DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "snapshot": {
        "uri": "Name of the document, unique within its source.",
        "revision": "What the source's listing said of its state; only compared, never read.",
        "content_hash": "Hash of the whole document, text and all that is known about it.",
        **_DOCUMENT_COLUMNS,
        "title": "Title as the source gave it.",
        "metadata": "JSON object of what else the source told.",
        "text": "The document as read, before anything is redacted; empty where skipped.",
        "skipped": "Why the document could not be taken; empty for those that were.",
        "archived_at": "Since when the source no longer has it; empty for what it has.",
    },
    "chunks": {
        "id": "Hash of source, document, place in the structure and content: unrelated edits keep it.",
        "uri": "Document that the chunk is from.",
        **_DOCUMENT_COLUMNS,
        "title": "Title of the document, redacted as its text is.",
        **_SPAN_COLUMNS,
        "text": "An exact slice of the sanitized document.",
        "metadata": "JSON object of what the extractors found.",
        "fingerprint": "Of document, chunker, settings and sanitizer: when it differs, it is cut again.",
        "row_hash": "Hash of all columns that the index takes over.",
        "skipped": "Why the document gave no chunk: such a row is a note, not a chunk.",
    },
    "embeddings": {
        "text_key": "Hash of header and text that were embedded.",
        "vector": "What the model made of the text; finite, of length 1.",
    },
    "index": {
        "id": "The chunk's id.",
        **_SOURCE_COLUMNS,
        "tags": "Tags of the source and those found in the document.",
        "uri": "Document that the chunk is from.",
        **_DOCUMENT_COLUMNS,
        "url": "Page where a person opens it: as told, else made of repository and path.",
        "title": "Title of the document.",
        **_SPAN_COLUMNS,
        "text": "What an answer shows.",
        "metadata": "JSON object of what the extractors found.",
        "extension": "Ending of the path, in lower case.",
        "labels": "Labels of the ticket, request or page.",
        "project": "Project of the ticket or record.",
        "status": "State of the ticket, request or record.",
        "wiki_space": "Space of the page.",
        "names": "What others call the document: key, number, commit, path, address; of its first chunk.",
        "mentions": "Names of other documents that it mentions: what relations are found by.",
        "words": "What full text searches: header and text, all of a small document; identifiers split.",
        "vector": "Vector of header and text in the table's space.",
        "fingerprint": "Of all columns that are not times: when it differs, the row is written again.",
        "indexed_at": "When the row was first written.",
        "updated_at": "When the row was last written.",
        "shown": "JSON list of what an answer shows of it beside the text, read as one column.",
    },
    "graph": {
        "id": "Hash of source, path and name.",
        **_SOURCE_COLUMNS,
        "uri": "Document that it is defined in.",
        "path": _DOCUMENT_COLUMNS["path"],
        "language": _DOCUMENT_COLUMNS["language"],
        "node": "What edges name it by: definitions of one name in a file share it.",
        "url": "Page where a person opens the file, made of repository and path.",
        "kind": "What it is: file, class, function, ...; an alias is another full name of its node.",
        "name": "Name qualified within its file; empty for the file.",
        "simple": "Last part of the name.",
        "full_name": "As other repositories name it when they import it.",
        "start_line": "First line, counted from 1.",
        "end_line": "Last line, included.",
        "signature": "Its head on one line.",
        "exported": "Whether others can name it: not what is private, or of its package alone.",
        "shown": "JSON list of what an answer shows of it, read as one column.",
        "made_of": "Of a file: hash of its facts, the settings and the code that resolves it.",
        "trace": "Of a file: what was asked about other files, each with a hash of the answer.",
        "fingerprint": "Of all rows of the file, its edges too.",
        "indexed_at": "When the row was last written.",
    },
}
"""One sentence for each column, by stage; of the code graph those of its symbols."""


def arrow_schema(stage: str) -> pa.Schema:
    """The schema that every write of a stage is cast to."""
    return {
        "snapshot": schemas.SNAPSHOT,
        "chunks": schemas.CHUNKS,
        "embeddings": schemas.build_embeddings_schema(_ANY_DIMENSIONS),
        "index": schemas.build_index_schema(_ANY_DIMENSIONS),
        "graph": schemas.SYMBOLS,
    }[stage]


def table_schema(stage: str) -> dg.TableSchema:
    """The columns of a stage's table, with types in words, constraints, and what they mean."""
    columns: list[dg.TableColumn] = []
    for field in cast("Iterable[pa.Field[Any]]", arrow_schema(stage)):
        unique = bool(field.metadata and b"lance-schema:unenforced-primary-key:position" in field.metadata)
        constraints = dg.TableColumnConstraints(nullable=field.nullable, unique=unique)
        description = COLUMN_DESCRIPTIONS[stage][field.name]
        columns.append(dg.TableColumn(field.name, _format_type(field.type), description, constraints))
    return dg.TableSchema(columns)


def _format_type(type_: pa.DataType) -> str:
    if pa.types.is_fixed_size_list(type_):
        return "vector of 32-bit floats"
    if pa.types.is_list(type_):
        return f"list of {_format_type(type_.value_type)}s"
    if pa.types.is_timestamp(type_):
        return "time (UTC)"
    if pa.types.is_integer(type_):
        return "integer"
    if pa.types.is_boolean(type_):
        return "boolean"
    return "text" if pa.types.is_large_string(type_) else "string"
