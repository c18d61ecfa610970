"""Options that several commands have, and the choices that Typer must know before anything is imported."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

SourceKind = Literal[
    "code",
    "markdown",
    "openapi",
    "git_history",
    "github_pr",
    "github_issues",
    "jira",
    "confluence",
    "slack",
    "files",
    "archive",
]
SearchKind = Literal["semantic", "code", "similar", "historical"]
TaskChoice = Literal["code_generation", "code_review", "merge_resolution", "issue_resolution"]


def complete_source_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Configured ids, for shell completion; none where the file is missing or wrong."""
    from knowledge_pipeline.config.file import find_config, load_settings
    from knowledge_pipeline.errors import KnowledgeError

    named = context.params.get("config")
    with suppress(KnowledgeError, OSError):
        sources = load_settings(Path(named) if named else find_config(Path.cwd()), allow_unset=True).sources
        return [source.id for source in sources if source.id.startswith(incomplete)]
    return []


Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        "-s",
        metavar="ID",
        help="Only this source (repeatable).",
        autocompletion=complete_source_ids,
    ),
]
Dagster = Annotated[bool, typer.Option("--dagster", help="Record the run in Dagster.")]
AllowEmpty = Annotated[
    bool, typer.Option("--allow-empty", help="Believe a source that lists nothing where it had documents.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
TokenVariable = Annotated[
    str | None,
    typer.Option(
        "--token-env", metavar="NAME", help="The environment variable that holds the token for --url."
    ),
]
