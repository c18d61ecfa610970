"""Arguments of the tools, except the search of everything: see `serve.tool_inputs`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field, model_validator

from knowledge_pipeline.contract.chat import ChatTurn
from knowledge_pipeline.contract.types import (
    CallDirection,
    Name,
    TaskKind,
)
from knowledge_pipeline.serve.tool_inputs import (
    DatedQueryInput,
    FilterValues,
    KnowledgeQueryInput,
    Limit,
    QueryInput,
    ToolInput,
    filter_field,
)

MAX_OFFSET = 10_000
DEFAULT_NODES = 50  # fewer than other interfaces: a model has to read them


Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET)]


class PagedInput(ToolInput):
    """Where a long answer goes on, and whether it is places and signatures alone."""

    offset: Offset = 0
    compact: bool = False


class KnowledgeSearchInput(KnowledgeQueryInput, PagedInput):
    """A query of everything, in pages."""


class CodeSearchInput(QueryInput, PagedInput):
    """A query of source code."""

    languages: FilterValues = filter_field("languages")
    repos: FilterValues = filter_field("repos")
    paths: FilterValues = filter_field("paths")
    kinds: FilterValues = filter_field("kinds")
    classes: FilterValues = filter_field("classes")
    imports: FilterValues = filter_field("imports")
    sources: FilterValues = filter_field("sources")
    limit: Limit = 10


class SimilarCodeInput(PagedInput):
    """An example of code."""

    query: str | None = Field(
        default=None,
        min_length=1,
        description="A piece of code, searched for as it is.",
        examples=["for attempt in range(times):\n    try:\n        return send()\n    except TimeoutError:"],
    )
    file: Name | None = Field(
        default=None,
        description="The path of an indexed file: alone, files like it are found; with `query`, where the "
        "code is from. Its own chunks are left out.",
    )
    languages: FilterValues = filter_field("languages")
    repos: FilterValues = filter_field("repos")
    paths: FilterValues = filter_field("paths")
    source: Name | None = Field(
        default=None, description="The source of `file`, if several have such a path."
    )
    limit: Limit = 5

    @model_validator(mode="after")
    def _require_query_or_file(self) -> SimilarCodeInput:
        if self.query is None and self.file is None:
            raise ValueError("give `query`, a piece of code, or `file`, a path")
        return self


class TicketSearchInput(DatedQueryInput, PagedInput):
    """A query of Jira."""

    projects: FilterValues = filter_field("projects")
    statuses: FilterValues = filter_field("statuses")
    labels: FilterValues = filter_field("labels")
    limit: Limit = 5


class WikiSearchInput(DatedQueryInput, PagedInput):
    """A query of Confluence."""

    spaces: FilterValues = filter_field("spaces")
    labels: FilterValues = filter_field("labels")
    authors: FilterValues = filter_field("authors")
    limit: Limit = 5


SearchInput = KnowledgeSearchInput | CodeSearchInput | TicketSearchInput | WikiSearchInput


class GraphTargetInput(PagedInput):
    """A piece of code; the filters say where to look for it."""

    target: str = Field(
        min_length=1,
        description="A name, `path:name`, `path:line`, a file or a folder. A name is `Store.get`, or the "
        "full one as an import writes it; a line stands for the definition around it.",
        examples=["Store.get", "src/store.py:Store.get", "src/store.py:120", "src/store.py"],
    )
    sources: FilterValues = filter_field("sources")
    repos: FilterValues = filter_field("repos")
    languages: FilterValues = filter_field("languages")
    paths: FilterValues = filter_field("paths")
    limit: int | None = Field(
        default=None,
        ge=1,
        description="At most this many definitions in addition to the target; by default 50, or 20 of "
        "related code.",
    )


class GraphTraversalInput(GraphTargetInput):
    """A piece of code, and how far to follow its edges."""

    depth: int | None = Field(
        default=None,
        ge=1,
        description="Steps at most; by default 1, for a hierarchy 5, for the impact of a change 3.",
    )


class CallGraphInput(GraphTraversalInput):
    """A piece of code, and how far to follow its calls."""

    direction: CallDirection = Field(
        default="both", description="callers: what calls the target; callees: what it calls."
    )


class DocumentInput(ToolInput):
    """A document, or one chunk of it."""

    id: str = Field(
        min_length=1,
        description="The `id` of a result, or the `document_id` for all of its document.",
    )
    offset: int = Field(default=0, ge=0)
    compact: bool = False
    blame: bool = Field(default=False, description="Say who last changed the lines.")
    limit: int = Field(default=40, ge=1, le=500, description="At most this many chunks.")


class ContextInput(PagedInput):
    """A task."""

    task: str = Field(
        min_length=1,
        description="What to do. A sentence, a question, or a whole ticket.",
        examples=["add retries to the payment client"],
    )
    kind: TaskKind = "code_generation"
    files: FilterValues = Field(
        default=(),
        validation_alias=AliasChoices("files", "file"),  # one, as other tools call it
        description="Paths that it is about.",
    )
    source: Name | None = Field(default=None, description="Of the files. Where several have such a path.")
    snippet: str | None = Field(
        default=None,
        description="Code: its subject, or before the cursor. A selection, a diff, a conflict; for "
        "`complete_code`, the code before the cursor.",
    )
    suffix: str | None = Field(default=None, description="Code after the cursor. For `complete_code` alone.")
    history: tuple[ChatTurn, ...] = Field(
        default=(),
        description="Turns: role, content. For `chat` alone, oldest first.",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=100,
        description="Budget of the text. By default the server's, usually 4,000.",
    )
    sources: FilterValues = filter_field("sources")
    repos: FilterValues = filter_field("repos")
    languages: FilterValues = filter_field("languages")
