"""Options that several commands share, and groups of options declared as dataclasses."""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer import Option


def expand_option_group(group: type[Any]) -> list[inspect.Parameter]:
    """One keyword-only parameter for each annotated field of a dataclass, as Typer reads them.

    `Any`: fields of any dataclass.
    """
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
        for field in fields(group)
        if field.init
    ]


def complete_source_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the ids of configured sources; none if the file is missing or invalid."""
    from knowledge_pipeline.config.file import find_config, load_settings
    from knowledge_pipeline.errors import KnowledgeError

    config = context.params.get("config")
    with suppress(KnowledgeError, OSError):
        sources = load_settings(Path(config) if config else find_config(Path.cwd()), allow_unset=True).sources
        return [source.id for source in sources if source.id.startswith(incomplete)]
    return []


Names = list[str] | None
"""The values of an option that may be repeated."""

Source = Annotated[
    str, Option("--source", "-s", metavar="ID", help="The source.", autocompletion=complete_source_ids)
]
Sources = Annotated[
    Names,
    Option(
        "--source",
        "-s",
        metavar="ID",
        help="Only this source (repeatable).",
        autocompletion=complete_source_ids,
    ),
]
Dagster = Annotated[bool, Option("--dagster", help="Record the run in Dagster.")]
AllowEmpty = Annotated[
    bool, Option("--allow-empty", help="Accept an empty listing from a source that had documents.")
]
Documents = Annotated[
    Names,
    Option(
        "--document",
        metavar="SOURCE/URI",
        help="Of a service: read this document and no others, or archive it if it is gone (repeatable).",
    ),
]
Relist = Annotated[bool, Option("--relist", help="List services in full, to detect deletions now.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")]
TokenVariable = Annotated[
    str | None,
    Option("--token-env", metavar="NAME", help="Environment variable that holds the token for --url."),
]

Blame = Annotated[bool, Option("--blame", help="Say who last changed the lines of each result, by git.")]
