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
    "url": "Web page of the document, if the source has one.",
    "author": "Who wrote it, if the source says so.",
    "last_modified": "When it last changed, if the source says so.",
}
_SOURCE_COLUMNS = {
    "source": "Source of the row; the partition.",
    "source_type": "Type of the source.",
    "repo": "Repository or folder that the source reads.",
    "branch": "Branch, if one is configured.",
    "tags": "Tags of the source.",
    "visibility": "Who may find the row: everybody, a tenant, or named principals.",
    "tenant": "Tenant that the row belongs to.",
    "principals": "Who may find the row if it is private.",
}
_SPAN_COLUMNS = {
    "anchor": "Place in the document's structure: class and function, heading trail, method and path.",
    "start_char": "First character in the sanitized document, counted from 0.",
    "end_char": "First character after the chunk: `text` is exactly the characters between.",
    "start_line": "First line, counted from 1.",
    "end_line": "Last line, included.",
    "tokens": "Length of header and text, counted with the embedding model's own tokenizer.",
    "header": "Context put before the text when it is embedded and searched; never shown as content.",
    "content_hash": "Hash of the text alone: equal texts have equal hashes.",
    "text_key": "Hash of header and text: the key of its vector.",
    "symbol": "Name of the function, class or operation.",
    "symbol_kind": "What the symbol is: function, class, method, ...",
    "section": "Nearest heading above.",
    "page": "Page of the document, counted from 1.",
    "archived": "Whether its main branch, or source, no longer has the document; searches leave it out.",
}

COLUMN_DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "snapshot": {
        "uri": "Name of the document, unique within its source.",
        "revision": "State of the document in the source's listing; only compared, never parsed.",
        "content_hash": "Hash of the whole document: its text and its metadata.",
        **_DOCUMENT_COLUMNS,
        "title": "Title in the source.",
        "metadata": "JSON object of everything else that the source says about it.",
        "text": "The document as read, before redaction; empty if it was skipped.",
        "skipped": "Why the document was skipped; empty if it was read.",
        "archived_at": "Since when its main branch, or source, no longer has it; empty if it does.",
        "audience": "Who may read it, by the source's own permissions; empty for nobody, or if not read.",
    },
    "chunks": {
        "id": "Hash of source, document, place in the structure and content: unrelated edits keep it.",
        "uri": "Document of the chunk.",
        **_DOCUMENT_COLUMNS,
        "title": "Title of the document, redacted like its text.",
        **_SPAN_COLUMNS,
        "text": "An exact slice of the sanitized document.",
        "metadata": "JSON object of the extracted metadata.",
        "fingerprint": "Hash of document, chunker, settings and sanitizer: another one means new chunks.",
        "row_hash": "Hash of all columns that the index copies.",
        "skipped": "Why the document has no chunk; such a row is a note, not a chunk.",
    },
    "embeddings": {
        "text_key": "Hash of the embedded header and text.",
        "vector": "The model's vector of the text; finite, of length 1.",
    },
    "index": {
        "id": "The chunk's id.",
        **_SOURCE_COLUMNS,
        "tags": "Tags of the source, those found in the document, and in which further branches it stands.",
        "uri": "Document of the chunk.",
        **_DOCUMENT_COLUMNS,
        "url": "Web page of the document: from the source, else built from repository and path.",
        "title": "Title of the document.",
        **_SPAN_COLUMNS,
        "text": "The text that results show.",
        "metadata": "JSON object of the extracted metadata.",
        "extension": "File extension, in lower case.",
        "labels": "Labels of the ticket, request or page.",
        "project": "Project of the ticket or record.",
        "status": "State of the ticket, request or record.",
        "wiki_space": "Space of the page.",
        "names": "Names of the document elsewhere, on its first chunk: key, number, path, address.",
        "mentions": "Names of other documents that it mentions; relations are found by them.",
        "words": "Text for full-text search: header and text (all of a small document), identifiers split.",
        "vector": "Vector of header and text in the table's space; null until it is computed.",
        "unembedded": "True while the text has no vector: full text finds it already.",
        "fingerprint": "Hash of all columns but times and the vector: the row is rewritten for another one.",
        "indexed_at": "When the row was first written.",
        "updated_at": "When the row was last written.",
        "shown": "JSON list of what results show of it besides the text, read as one column.",
    },
    "graph": {
        "id": "Hash of source, path and name.",
        **_SOURCE_COLUMNS,
        "uri": "Document that defines it.",
        "path": _DOCUMENT_COLUMNS["path"],
        "language": _DOCUMENT_COLUMNS["language"],
        "node": "Its key in edges; definitions of one name in a file share it.",
        "url": "Web page of the file, built from repository and path.",
        "kind": "What it is: file, class, function, ...; an alias is another full name of its node.",
        "name": "Name qualified within its file; empty for the file.",
        "simple": "Last part of the name.",
        "full_name": "Its name where other repositories import it.",
        "start_line": "First line, counted from 1.",
        "end_line": "Last line, included.",
        "signature": "Its signature on one line.",
        "exported": "Whether other code can name it: it is neither private nor internal to its package.",
        "shown": "JSON list of what results show of it, read as one column.",
        "made_of": "Of a file: hash of its facts, the settings and the version of the resolver.",
        "trace": "Of a file: which of its uses asked what of other files, each with a hash of the answer.",
        "fingerprint": "Hash of all symbols of the file; of the file itself, then one of its edges.",
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
