"""What each stage's asset says of itself in the UI: rows, columns, where they come from, where to look.

All of it is static and made without opening a table, because every process that loads the
definitions makes it.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

import knowledge_pipeline
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.freshness import build_freshness_policy
from knowledge_pipeline.defs.metadata.columns import arrow_schema, table_schema
from knowledge_pipeline.defs.settings_assets import STAGE_SETTINGS
from knowledge_pipeline.defs.versions import compute_code_versions
from knowledge_pipeline.stages.pipeline import STAGES, select_stages
from knowledge_pipeline.store import index_payload, schemas
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.tables import Table

_UPSTREAM_STAGES: Mapping[str, tuple[str, ...]] = {
    "snapshot": (),
    "chunks": ("snapshot",),
    "embeddings": ("chunks",),
    "index": ("chunks", "embeddings"),  # a chunk that only moved has no new vector
    "graph": ("snapshot",),
}

DOCUMENT_DESCRIPTIONS: Mapping[SourceType, str] = {
    "code": "source file",
    "markdown": "Markdown, reStructuredText or README file",
    "openapi": "OpenAPI or Swagger file",
    "git_history": "commit",
    "github_pr": "pull request with its reviews and comments",
    "github_issues": "issue with its comments",
    "jira": "ticket with its comments",
    "confluence": "page or blog post",
    "slack": "thread, or the other messages of a channel on one day",
    "files": "PDF, DOCX, HTML or TXT file",
    "archive": "project record: session, plan, discussion, decision",
}
"""What one row of a snapshot is."""

CHUNK_DESCRIPTIONS: Mapping[SourceType, str] = {
    "code": "definition in a source file (large ones are split, small neighbours together)",
    "markdown": "section of a document",
    "openapi": "operation of an API, or another part of its file",
    "git_history": "commit, or part of a long one",
    "github_pr": "turns of a pull request, title repeated",
    "github_issues": "turns of an issue, title repeated",
    "jira": "turns of a ticket, key and title repeated",
    "confluence": "section of a page",
    "slack": "turns of a thread or of a channel's day",
    "archive": "section or turns of a record, small JSON whole",
    "files": "passage of a document, with its page",
}
"""What one row of the chunks is."""

_ORIGIN_DESCRIPTIONS: Mapping[SourceType, str] = {
    "code": "the files of a folder or git repository whose language is known",
    "markdown": "the files of a folder or git repository",
    "openapi": "the files of a folder or git repository that describe an API",
    "git_history": "the newest commits of a branch: message, author, changed files, excerpts of the diff",
    "github_pr": "the pull requests of a repository, read by GitHub's API",
    "github_issues": "the issues of a repository, read by GitHub's API",
    "jira": "the tickets of a Jira site, read by its API",
    "confluence": "the pages of a Confluence site, read by its API",
    "slack": "the channels of a Slack workspace, read by its API or from an export",
    "archive": "the project records in a folder, Markdown with front matter or JSON",
    "files": "the files of a folder, their text extracted page by page",
}
_CHANGE_DESCRIPTIONS: Mapping[SourceType, str] = {
    "git_history": "A commit never changes; rewritten history brings new rows and archives the old.",
    **dict.fromkeys(
        ("github_pr", "github_issues", "jira", "confluence", "slack"),
        "Between two whole listings the service is asked for what was updated; what a whole listing no "
        "longer has is archived, not deleted.",
    ),
}
_DEFAULT_CHANGE_DESCRIPTION = (
    "A row changes with its file; what the source no longer has is archived, not deleted."
)

_STAGE_DESCRIPTIONS: Mapping[str, str] = {
    "chunks": "Cut from the redacted text of `snapshot`: an exact slice each, with a header that tells its "
    "place. A document is cut again when it, the chunker or its settings change. Where a document is "
    "missing, `skipped` says why; where it is cut badly, look at `anchor` and at `chunking` of the source.",
    "embeddings": "Made from header and text of `chunks`; what a model embedded once is never embedded "
    "again by it. New rows come with new texts or another model. If search by meaning finds nothing, see "
    "whether every `text_key` of the chunks is here.",
    "index": "Made from `chunks` and `embeddings`, in one table for all sources of the same model, each row "
    "with the source's access. Queries read it only once it is released. If something is not found, look "
    "for its `path` here, then at `archived`, `visibility` and the newest release.",
    "graph": "Read from `snapshot` by tree-sitter, redacted first, and resolved across the files of the "
    "source; edges are in a table beside. A file is resolved again when it, or what it was resolved by, "
    "changed. Queries read it once it is released. Where a use is missing, look at `target_id` and "
    "`confidence` of the edges with its `path`.",
}
_SOURCE_KINDS: Mapping[SourceType, str] = {
    "code": "source",
    "markdown": "markdown",
    "openapi": "yaml",
    "git_history": "git",
    "github_pr": "github",
    "github_issues": "github",
    "jira": "jira",
    "confluence": "confluence",
    "slack": "slack",
    "archive": "markdown",
    "files": "pdf",
}
_TABLE_FOLDERS: Mapping[str, str] = {
    "snapshot": "snapshot/{type}",
    "chunks": "chunks/{type}",
    "embeddings": "embeddings",
    "index": "index",
    "graph": "graph",
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
    "words": ("header", "text"),
    "fingerprint": ("row_hash",),
    "shown": tuple(name for name in index_payload.PAYLOAD_COLUMNS if name in schemas.CHUNKS.names),
}


def list_upstream(stage: str) -> tuple[str, ...]:
    """Last parts of the keys of what a stage is made from: stages first, then settings."""
    return (*_UPSTREAM_STAGES[stage], *STAGE_SETTINGS[stage])


def build_stage_specs(source_type: SourceType, settings: Settings) -> list[dg.AssetSpec]:
    """The assets of a type in their order, each with all that the UI can show of it.

    `skippable`, because a run of many sources logs its materializations itself, each with the
    provenance of its own partition.
    """
    versions = compute_code_versions(source_type)
    return [
        dg.AssetSpec(
            [source_type, stage],
            deps=[[source_type, name] for name in list_upstream(stage)],
            skippable=True,
            description=describe_stage(source_type, stage),
            metadata=_build_metadata(source_type, stage, settings),
            group_name=source_type,
            code_version=versions[stage],
            freshness_policy=build_freshness_policy(source_type, settings) if stage == "index" else None,
            owners=list(settings.owners),
            tags={"knowledge/stage": stage, "knowledge/type": source_type},
            kinds=list_kinds(source_type, stage, settings),
        )
        for stage in select_stages(source_type)
    ]


def describe_stage(source_type: SourceType, stage: str) -> str:
    """What one row is, what it is made from, what changes it, where to look when it is wrong."""
    if stage == "snapshot":
        return (
            f"One row per {DOCUMENT_DESCRIPTIONS[source_type]}, as it was read from {_ORIGIN_DESCRIPTIONS[source_type]}. "
            f"{_CHANGE_DESCRIPTIONS.get(source_type, _DEFAULT_CHANGE_DESCRIPTION)} If one is missing, look at `skipped`, then at "
            "patterns and limits of the source."
        )
    rows = {
        "chunks": f"One row per {CHUNK_DESCRIPTIONS[source_type]}.",
        "embeddings": f"One row per embedded text of sources of the type {source_type}: its vector.",
        "index": f"One row per retrievable chunk: a {CHUNK_DESCRIPTIONS[source_type]}.",
        "graph": "One row per file and definition: a node of the code graph.",
    }
    return f"{rows[stage]} {_STAGE_DESCRIPTIONS[stage]}"


def list_kinds(source_type: SourceType, stage: str, settings: Settings) -> set[str]:
    """At most three words, shown as icons: what the rows are or what makes them, and what keeps them."""
    if stage == "embeddings":
        mine = [source for source in settings.sources if source.type == source_type]
        providers = {settings.resolve_embedding(source).provider for source in mine}
        return {"lancedb", *("openai" if name == "openai" else "huggingface" for name in providers)}
    words = {
        "snapshot": _SOURCE_KINDS[source_type],
        "chunks": "python",
        "index": "table",
        "graph": "treesitter",
    }
    return {"lancedb", words[stage]}


def build_column_lineage(source_type: SourceType, stage: str) -> dg.TableColumnLineage:
    """Which column comes from which of the assets before it; columns that settings decide have none."""
    return dg.TableColumnLineage(
        {
            name: [dg.TableColumnDep([source_type, before], column) for before, column in made_of]
            for name, made_of in _column_origins(stage).items()
        }
    )


def build_code_references(stage: str) -> dg.CodeReferencesMetadataValue:
    """The stage's file and that of its asset: on this machine, or where `KNOWLEDGE_CODE_URL` has them.

    The variable names the root of the code in a browser: `https://<host>/<owner>/<name>/blob/<branch>`.
    """
    root = Path(knowledge_pipeline.__file__).parent
    line = STAGES[stage].__code__.co_firstlineno
    places = ((root / "stages" / f"{stage}.py", line, "stage"), (root / "defs" / "assets.py", 1, "asset"))
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


def build_table_metadata(table: Table) -> dict[str, Any]:
    """Where a materialized table lies and which version it has now."""
    return {"table": dg.MetadataValue.path(str(table.path)), "table_version": table.version}


def _build_metadata(source_type: SourceType, stage: str, settings: Settings) -> dict[str, Any]:
    folder = _TABLE_FOLDERS[stage].format(type=source_type)
    lineage = build_column_lineage(source_type, stage)
    return {
        "dagster/column_schema": table_schema(stage),
        **({"dagster/column_lineage": lineage} if lineage.deps_by_column else {}),
        "dagster/table_name": {"index": "index", "graph": "graph.symbols"}.get(
            stage, f"{stage}.{source_type}"
        ),
        "dagster/storage_kind": "lancedb",
        "dagster/uri": str(Lake(settings.store).root / folder),
        "dagster/code_references": build_code_references(stage),
    }


def _column_origins(stage: str) -> dict[str, Sequence[tuple[str, str]]]:
    if stage == "snapshot":
        return {}
    if stage == "chunks":
        return {
            name: [("snapshot", column) for column in made_of]
            for name, made_of in _CHUNK_COLUMN_ORIGINS.items()
        }
    if stage == "embeddings":
        return {
            "text_key": [("chunks", "text_key")],
            "vector": [("chunks", "header"), ("chunks", "text")],
        }
    if stage == "graph":
        return {
            name: [("snapshot", column) for column in made_of]
            for name, made_of in _GRAPH_COLUMN_ORIGINS.items()
        }
    copied = {name: (name,) for name in arrow_schema("index").names if name in arrow_schema("chunks").names}
    taken = {**copied, **_INDEX_COLUMN_ORIGINS}
    return {
        **{name: [("chunks", column) for column in made_of] for name, made_of in taken.items()},
        "vector": [("embeddings", "vector")],
    }
