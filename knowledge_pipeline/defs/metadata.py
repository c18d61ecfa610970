"""How the UI describes the assets of stages, and what it shows of each materialization.

The descriptions, with the columns and their origins, are static and need no open table, because every process
that loads the definitions builds them. A materialization has the stage's statistics and a few of its rows.
"""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pyarrow as pa

from knowledge_pipeline.checks.thresholds import count_graph
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.dagster_internals import (
    CODE_REFERENCES,
    COLUMN_LINEAGE,
    COLUMN_SCHEMA,
    ROW_COUNT,
    STORAGE_KIND,
    TABLE_NAME,
    URI,
)
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.plots import build_table, truncate
from knowledge_pipeline.defs.settings_assets import SOURCES, build_freshness_policy
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.stages.code_versions import compute_code_versions
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.stages.pipeline import STAGES, select_stages
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import PAYLOAD_COLUMNS
from knowledge_pipeline.store.tables import Table

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
        "kinds": "What all definitions in the chunk are.",
        "symbols": "Qualified names of all definitions in the chunk.",
        "classes": "Classes that the definitions in the chunk are, or belong to.",
        "exports": "Definitions in the chunk that other files can use.",
        "sections": "Headings in the chunk, and the nearest above.",
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


_UPSTREAM_STAGES: Mapping[str, tuple[str, ...]] = {
    "snapshot": (),
    "chunks": ("snapshot",),
    "embeddings": ("chunks",),
    "index": ("chunks", "embeddings"),  # a chunk that only moves gets no new vector
    "graph": ("snapshot",),
}

DOCUMENT_DESCRIPTIONS: Mapping[SourceType, str] = {
    "code": "source file",
    "markdown": "Markdown, reStructuredText or README file",
    "openapi": "OpenAPI or Swagger file",
    "git_history": "commit",
    "github_pr": "pull request with its reviews and comments",
    "github_issues": "issue with its comments",
    "discussions": "discussion with its comments and replies",
    "releases": "release with its notes and the names of its assets",
    "snippets": "snippet's description, or one of its files",
    "jira": "ticket with its comments",
    "confluence": "page or blog post",
    "slack": "thread, or the other messages of a channel on one day",
    "files": "PDF, office file, page, table, e-mail or text file",
    "archive": "project record: session, plan, discussion, decision",
    "table": "row of a file or a query",
    "custom": "document of a source that another package brings",
    "push": "document that was pushed",
}
"""What one row of a snapshot is."""

CHUNK_DESCRIPTIONS: Mapping[SourceType, str] = {
    "code": "definition in a source file (large ones are split, small neighbours together)",
    "markdown": "section of a document",
    "openapi": "operation of an API, or another part of its file",
    "git_history": "commit, or part of a long one",
    "github_pr": "turns of a pull request, title repeated",
    "github_issues": "turns of an issue, title repeated",
    "discussions": "turns of a discussion, title repeated",
    "releases": "section of a release's notes",
    "snippets": "definition or part of a snippet's file",
    "jira": "turns of a ticket, key and title repeated",
    "confluence": "section of a page",
    "slack": "turns of a thread or of a channel's day",
    "archive": "section or turns of a record, or a small JSON file",
    "files": "part of a document, with its page",
    "table": "section or part of a row's text",
    "custom": "part of a document",
    "push": "definition, section or part of a document",
}
"""What one row of the chunks is."""

_ORIGIN_DESCRIPTIONS: Mapping[SourceType, str] = {
    "code": "the files of a folder or git repository whose language is known",
    "markdown": "the files of a folder or git repository",
    "openapi": "the files of a folder or git repository that describe an API",
    "git_history": "the newest commits of a branch: message, author, changed files, excerpts of the diff",
    "github_pr": "the pull requests of a repository, read by GitHub's API",
    "github_issues": "the issues of a repository, read by GitHub's API",
    "discussions": "the discussions of a repository, read by GitHub's API",
    "releases": "the releases of a repository, read by GitHub's or GitLab's API",
    "snippets": "the snippets of a project, read by GitLab's API",
    "jira": "the tickets of a Jira site, read by its API",
    "confluence": "the pages of a Confluence site, read by its API",
    "slack": "the channels of a Slack workspace, read by its API or from an export",
    "archive": "the project records in a folder, Markdown with front matter or JSON",
    "files": "the files of a folder, their text extracted page by page",
    "table": "the rows of Parquet, Arrow, JSON Lines or CSV files, or of a query to DuckDB or PostgreSQL",
    "custom": "what the source of another package lists: docs/extending.md",
    "push": "what was pushed over HTTP or by `knowledge push`; there is no other origin",
}
_CHANGE_DESCRIPTIONS: Mapping[SourceType, str] = {
    "git_history": "A commit never changes; rewritten history adds new rows and archives the old ones.",
    **dict.fromkeys(
        ("github_pr", "github_issues", "discussions", "jira", "confluence", "slack"),
        "Most refreshes list only updates; a periodic full listing archives what the service no longer has.",
    ),
    **dict.fromkeys(
        ("releases", "snippets"),
        "Each refresh lists all of them, text and all; what is not listed any more is archived.",
    ),
    "table": "A row changes with its column `updated`, or else with any column that is read; a row "
    "that is gone is archived.",
    "custom": "A row changes with the revision that its source gives; what is not listed is archived.",
    "push": "A row changes when its document is pushed again, and is archived when it is deleted.",
}
_DEFAULT_CHANGE_DESCRIPTION = "A row changes with its file; deleted files are archived."

_STAGE_DESCRIPTIONS: Mapping[str, str] = {
    "chunks": "Each is an exact slice of the redacted text of `snapshot`, with a header that names its "
    "place. A document is cut again when it, the chunker or its settings change. Where a document is "
    "missing, `skipped` says why; where it is cut badly, look at `anchor` and at `chunking` of the source.",
    "embeddings": "Made from header and text of `chunks`; a model never embeds the same text twice. New "
    "texts or another model add rows. If search by meaning finds nothing, check that every `text_key` of the "
    "chunks is here.",
    "index": "Made from `chunks` and `embeddings`, in one table for all sources of the same model; each row "
    "has the source's access. Queries read it only after a release. If something is not found, look for its "
    "`path` here, then at `archived`, `visibility` and the newest release.",
    "graph": "Extracted by tree-sitter from the redacted `snapshot`, and resolved across the files of the "
    "source; another table holds the edges. A file is resolved again when it, or what it refers to, "
    "changes. Queries read it only after a release. Where a use is missing, look at `target_id` and "
    "`confidence` of the edges with its `path`.",
}
_PROVIDER_KINDS = {"local": "huggingface", "openai": "openai", "vertex": "googlecloud", "ollama": "ollama"}
_SOURCE_KINDS: Mapping[SourceType, str] = {
    **{"code": "source", "markdown": "markdown", "openapi": "yaml", "archive": "markdown", "files": "pdf"},
    **{"git_history": "git", "github_pr": "github", "github_issues": "github"},
    **{"discussions": "github", "releases": "github", "snippets": "gitlab"},
    **{"jira": "jira", "confluence": "confluence", "slack": "slack", "table": "table", "custom": "python"},
    "push": "json",
}
_CHUNK_COLUMN_ORIGINS: Mapping[str, tuple[str, ...]] = {
    "id": ("uri", "text"),
    **{name: (name,) for name in ("uri", "path", "language", "url", "author", "last_modified")},
    "title": ("title", "text", "metadata"),
    "anchor": ("text", "language"),
    **{name: ("text",) for name in ("start_char", "end_char", "start_line", "end_line", "text")},
    **dict.fromkeys(("content_hash", "symbol", "symbol_kind", "section", "skipped"), ("text",)),
    **{name: ("path", "title", "text") for name in ("header", "tokens", "text_key")},
    "page": ("text", "metadata"),
    "metadata": ("text", "path", "metadata"),
    "archived": ("archived_at",),
    "fingerprint": ("content_hash", "archived_at"),
    "row_hash": ("content_hash", "archived_at"),
}
_GRAPH_COLUMN_ORIGINS: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("uri", "path", "language")},
    "url": ("path",),
    **dict.fromkeys(("id", "node", "full_name"), ("path", "text")),
    **dict.fromkeys(("kind", "name", "simple", "start_line", "end_line", "signature", "exported"), ("text",)),
    **dict.fromkeys(("made_of", "fingerprint"), ("path", "content_hash")),
    "trace": ("path", "text"),
}
_INDEX_COLUMN_ORIGINS: Mapping[str, tuple[str, ...]] = {
    "url": ("url", "path"),
    "tags": ("metadata",),
    "extension": ("path",),
    **dict.fromkeys(("labels", "project", "status", "wiki_space", "names", "mentions"), ("metadata",)),
    **{
        name: (first, "metadata") if first in schemas.CHUNKS.names else ("metadata",)
        for name, first in schemas.HELD_LISTS.items()
    },
    "words": ("header", "text"),
    "fingerprint": ("row_hash",),
    "shown": tuple(name for name in PAYLOAD_COLUMNS if name in schemas.CHUNKS.names),
}


def list_upstream(source_type: SourceType, stage: str, names: Names = PLAIN) -> list[dg.AssetKey]:
    """The assets that a stage is made from: the stages before it, and the settings."""
    return [*(names.key(source_type, name) for name in _UPSTREAM_STAGES[stage]), names.key(SOURCES)]


def list_upstream_assets(source_type: SourceType, settings: Settings) -> list[dg.AssetDep]:
    """Others' assets that sources of a type are read from; all their partitions count for each source."""
    sources = [source for source in settings.sources if source.type == source_type]
    keys = dict.fromkeys(key for source in sources for key in source.upstream)
    return [
        dg.AssetDep(dg.AssetKey.from_user_string(key), partition_mapping=dg.AllPartitionMapping())
        for key in keys
    ]


def build_stage_specs(
    source_type: SourceType, settings: Settings, names: Names = PLAIN
) -> list[dg.AssetSpec]:
    """The assets of a type; `skippable`, because a run of many sources logs its materializations itself."""
    versions, same = compute_code_versions(source_type), dg.IdentityPartitionMapping()
    return [
        dg.AssetSpec(
            names.key(source_type, stage),
            deps=[
                *(
                    dg.AssetDep(key, partition_mapping=same)
                    for key in list_upstream(source_type, stage, names)
                ),
                *(list_upstream_assets(source_type, settings) if stage == "snapshot" else ()),
            ],
            skippable=True,
            description=describe_stage(source_type, stage),
            metadata=_build_metadata(source_type, stage, settings, names),
            group_name=names.group(source_type),
            code_version=versions[stage],
            freshness_policy=build_freshness_policy(settings, source_type) if stage == "index" else None,
            owners=list(settings.owners),
            tags={"knowledge/stage": stage, "knowledge/type": source_type},
            kinds=list_kinds(source_type, stage, settings),
        )
        for stage in select_stages(source_type)
    ]


def describe_stage(source_type: SourceType, stage: str) -> str:
    """What one row is, what it is made from, what changes it, where to look when it is wrong."""
    if stage == "snapshot":
        changes = _CHANGE_DESCRIPTIONS.get(source_type, _DEFAULT_CHANGE_DESCRIPTION)
        document, origin = DOCUMENT_DESCRIPTIONS[source_type], _ORIGIN_DESCRIPTIONS[source_type]
        look = "If one is missing, look at `skipped`, then at patterns and limits of the source."
        return f"One row per {document}, as read from {origin}. {changes} {look}"
    rows = {
        "chunks": f"One row per {CHUNK_DESCRIPTIONS[source_type]}.",
        "embeddings": f"One row per embedded text of sources of the type {source_type}: its vector.",
        "index": f"One row per retrievable chunk: a {CHUNK_DESCRIPTIONS[source_type]}.",
        "graph": "One row per file and definition: a node of the code graph.",
    }
    return f"{rows[stage]} {_STAGE_DESCRIPTIONS[stage]}"


def list_kinds(source_type: SourceType, stage: str, settings: Settings) -> set[str]:
    """At most three words, shown as icons: what the rows are or what makes them, and what stores them."""
    if stage == "embeddings":
        mine = [source for source in settings.sources if source.type == source_type]
        providers = {settings.resolve_embedding(source).provider for source in mine}
        return {"lancedb", *sorted(_PROVIDER_KINDS[provider] for provider in providers)[:2]}
    words = {"chunks": "python", "index": "table", "graph": "treesitter"}
    return {"lancedb", words.get(stage) or _SOURCE_KINDS[source_type]}


def build_column_lineage(source_type: SourceType, stage: str, names: Names = PLAIN) -> dg.TableColumnLineage:
    """The upstream columns of each column; columns that settings decide have none."""
    chunk_columns = set(arrow_schema("chunks").names)
    copied = {name: (name,) for name in arrow_schema("index").names if name in chunk_columns}
    upstream, origins = {
        "snapshot": ("snapshot", {}),
        "chunks": ("snapshot", _CHUNK_COLUMN_ORIGINS),
        "graph": ("snapshot", _GRAPH_COLUMN_ORIGINS),
        "embeddings": ("chunks", {"text_key": ("text_key",), "vector": ("header", "text")}),
        "index": ("chunks", {**copied, **_INDEX_COLUMN_ORIGINS}),
    }[stage]
    key = names.key(source_type, upstream)
    deps = {name: [dg.TableColumnDep(key, column) for column in columns] for name, columns in origins.items()}
    if stage == "index":
        deps["vector"] = [dg.TableColumnDep(names.key(source_type, "embeddings"), "vector")]
    return dg.TableColumnLineage(deps)


def build_code_references(stage: str) -> dg.CodeReferencesMetadataValue:
    """The files of the stage and of its asset: on this machine, or below `KNOWLEDGE_CODE_URL`.

    The variable names the root of the code in a browser: `https://<host>/<owner>/<name>/blob/<branch>`.
    """
    root, code = Path(__file__).parents[1], STAGES[stage].__code__
    assets = root / "defs" / "assets.py"
    places = (Path(code.co_filename), code.co_firstlineno, "stage"), (assets, 1, "asset")
    site = os.environ.get("KNOWLEDGE_CODE_URL", "").rstrip("/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # these classes may change in a minor version
        references: list[dg.LocalFileCodeReference | dg.UrlCodeReference] = [
            dg.UrlCodeReference(url=f"{site}/{path.relative_to(root.parent).as_posix()}#L{at}", label=label)
            if site
            else dg.LocalFileCodeReference(file_path=str(path), line_number=at, label=label)
            for path, at, label in places
        ]
        return dg.CodeReferencesMetadataValue(code_references=references)


def _build_metadata(source_type: SourceType, stage: str, settings: Settings, names: Names) -> dict[str, Any]:
    lineage = build_column_lineage(source_type, stage, names)
    tables = {"index": "index", "graph": "graph.symbols"}
    folder = f"{stage}/{source_type}" if stage in ("snapshot", "chunks") else stage
    return {
        COLUMN_SCHEMA: table_schema(stage),
        **({COLUMN_LINEAGE: lineage} if lineage.deps_by_column else {}),
        TABLE_NAME: tables.get(stage, f"{stage}.{source_type}"),
        STORAGE_KIND: "lancedb",
        URI: str(Lake(settings.store).root / folder),
        CODE_REFERENCES: build_code_references(stage),
    }


def build_graph_metadata(lake: Lake, source: str) -> dict[str, Any]:
    """Symbols and edges of a source by kind, and the share resolved by language."""
    counts = count_graph(lake, eq("source", source))
    resolved = [
        {"language": it.language, "in the source": it.internal, "outside": it.external}
        | {"unknown": it.unknown, "share resolved": it.resolved_share}
        for it in counts.by_language
    ]
    return {
        "symbols": counts.symbols.total(),
        "edges": counts.edges.total(),
        "symbols_by_kind": dg.MetadataValue.json(dict(counts.symbols.most_common())),
        "edges_by_kind": dg.MetadataValue.json(dict(counts.edges.most_common())),
        **({"resolved": build_table(resolved)} if resolved else {}),
    }


_PREVIEW_ROWS = 5
_PREVIEW_COLUMNS: Mapping[str, Sequence[str]] = {
    "snapshot": ("uri", "title", "language", "last_modified", "skipped"),
    "chunks": ("uri", "anchor", "start_line", "end_line", "tokens", "skipped"),
    "graph": ("path", "kind", "name", "full_name", "start_line"),
}


def build_stage_metadata(ctx: RefreshContext, stats: Stats) -> dict[str, Any]:
    """What one stage did for one source: counts, costs, reasons, a preview."""
    table, written = _open_table(ctx, stats.stage), stats.added + stats.changed
    shown: dict[str, Any] = {"skipped": stats.skipped.total()}
    counted = {"skipped_reasons": stats.skipped, "secrets_found": stats.found, "notes": stats.notes}
    for name, counts in counted.items():
        if counts:
            reasons = [(truncate(reason), count) for reason, count in counts.most_common(50)]
            rows = ("| {} | {} |".format(reason.replace("|", r"\|"), count) for reason, count in reasons)
            shown[name] = dg.MetadataValue.md("\n".join(["| what | count |", "| --- | ---: |", *rows]))
    if stats.stage in _PREVIEW_COLUMNS:
        where = eq("source", ctx.source.id) if stats.stage == "graph" else None
        columns = _PREVIEW_COLUMNS[stats.stage]
        batch = next(iter(table.iter_batches(columns, where, batch_rows=_PREVIEW_ROWS)), None)
        if rows := batch.slice(0, _PREVIEW_ROWS).to_pylist() if batch else []:
            cells = [
                {name: "" if value is None else str(value) for name, value in row.items()} for row in rows
            ]
            shown["preview"] = build_table(cells)
    return {
        "source": stats.source,
        ROW_COUNT: stats.rows,
        "table": dg.PathMetadataValue(str(table.path)),
        "table_version": table.version,
        **{name: getattr(stats, name) for name in ("seen", "added", "changed", "removed", "unchanged")},
        "seconds": stats.seconds,
        **({"rows_without_vector": stats.unembedded} if stats.stage == "index" else {}),
        **({"per_second": round(written / stats.seconds, 1)} if written and stats.seconds else {}),
        "tokens": stats.tokens,
        "cost": stats.cost,
        **shown,
        **(build_graph_metadata(ctx.lake, stats.source) if stats.stage == "graph" else {}),
    }


def _open_table(ctx: RefreshContext, stage: str) -> Table:
    if stage == "graph":
        return ctx.lake.graph_table("symbols")
    if stage in _PREVIEW_COLUMNS:
        open_table = {"snapshot": ctx.lake.snapshot, "chunks": ctx.lake.chunks}[stage]
        return open_table(ctx.source.type, ctx.source.id)
    space = resolve_space(ctx.settings.resolve_embedding(ctx.source))
    if stage == "embeddings":
        return ctx.lake.embeddings(space.name, ctx.source.id, space.dimensions)
    return ctx.lake.index(space.name, space.dimensions)
