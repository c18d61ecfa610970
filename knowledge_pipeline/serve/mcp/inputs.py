"""What the tools take, beside the search of everything: see `serve.arguments`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from knowledge_pipeline.contract.types import (
    MAX_BUDGET_TOKENS,
    MAX_DEPTH,
    MAX_EXAMPLE_CHARS,
    MAX_NODES,
    MAX_TASK_CHARS,
    TaskKind,
)
from knowledge_pipeline.contract.types import MAX_TARGET_CHARS as MAX_TARGET_CHARS
from knowledge_pipeline.serve.tool_inputs import (
    MAX_NAME_CHARS,
    DatedQueryInput,
    FilterValues,
    Limit,
    Name,
    QueryInput,
    ToolInput,
)


class CodeSearchInput(QueryInput):
    """A question to source code."""

    languages: FilterValues = Field(
        default=(), description="Only these programming languages: `python`, `go`."
    )
    repos: FilterValues = Field(
        default=(), description="Only these repositories: `flask` or `pallets/flask`."
    )
    paths: FilterValues = Field(
        default=(), description="Only these paths: `src/auth`, or globs, `**/*_test.go`."
    )
    sources: FilterValues = Field(default=(), description="Only these sources, by id, as results name them.")
    limit: Limit = 10


class SimilarCodeInput(ToolInput):
    """Code that others shall be like."""

    query: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_EXAMPLE_CHARS,
        description="A piece of code, taken as it is.",
        examples=["for attempt in range(times):\n    try:\n        return send()\n    except TimeoutError:"],
    )
    file: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_NAME_CHARS,
        description="The path of an indexed file: alone, files like it are found; with `query`, where the "
        "piece is from. Its own passages are left out.",
    )
    languages: FilterValues = Field(default=(), description="Only these programming languages.")
    repos: FilterValues = Field(default=(), description="Only these repositories.")
    paths: FilterValues = Field(default=(), description="Only these paths, or globs.")
    source: Name | None = Field(
        default=None, description="The source of `file`, where several have such a path."
    )
    limit: Limit = 5

    @model_validator(mode="after")
    def _require_query_or_file(self) -> SimilarCodeInput:
        if self.query is None and self.file is None:
            raise ValueError("give `query`, a piece of code, or `file`, a path")
        return self


class TicketSearchInput(DatedQueryInput):
    """A question to Jira."""

    projects: FilterValues = Field(default=(), description="Only these projects, by key: `PAY`.")
    statuses: FilterValues = Field(default=(), description="Only in these states: `In Progress`, `Done`.")
    labels: FilterValues = Field(default=(), description="Only with one of these labels.")
    limit: Limit = 5


class WikiSearchInput(DatedQueryInput):
    """A question to Confluence."""

    spaces: FilterValues = Field(default=(), description="Only these spaces, by key: `OPS`.")
    labels: FilterValues = Field(default=(), description="Only with one of these labels.")
    authors: FilterValues = Field(default=(), description="Only by these authors, by whole words of a name.")
    limit: Limit = 5


class GraphTargetInput(ToolInput):
    """A question about a piece of code."""

    target: str = Field(
        min_length=1,
        max_length=MAX_TARGET_CHARS,
        description="What it is about: a name (`Store.get`, or its full name as an import writes it), "
        "`path:name`, `path:line` (the definition around the line), a file, or a folder.",
        examples=["Store.get", "src/store.py:Store.get", "src/store.py:120", "src/store.py"],
    )
    sources: FilterValues = Field(
        default=(), description="Look for the target in these sources alone, by id."
    )
    repos: FilterValues = Field(default=(), description="Look for the target in these repositories alone.")
    languages: FilterValues = Field(default=(), description="Look for the target in these languages alone.")
    paths: FilterValues = Field(default=(), description="Look for the target in these paths alone, or globs.")
    limit: int = Field(
        default=50, ge=1, le=MAX_NODES, description="How many definitions beside the target at most."
    )


class RelatedCodeInput(GraphTargetInput):
    """Definitions that have most to do with one."""

    limit: int = Field(default=20, ge=1, le=MAX_NODES, description="How many definitions at most.")


class GraphTraversalInput(GraphTargetInput):
    """A walk of one step, unless more are asked for."""

    depth: int = Field(default=1, ge=1, le=MAX_DEPTH, description="How many steps away from the target.")


class ImpactInput(GraphTraversalInput):
    """A walk that goes on."""

    depth: int = Field(default=3, ge=1, le=MAX_DEPTH, description="How many steps away from the target.")


class ClassHierarchyInput(GraphTraversalInput):
    """A walk along inheritance."""

    depth: int = Field(default=5, ge=1, le=MAX_DEPTH, description="How many levels up and down.")


class CallGraphInput(GraphTraversalInput):
    """A walk along calls."""

    direction: Literal["callers", "callees", "both"] = Field(
        default="both", description="callers: what calls the target; callees: what it calls."
    )


class DocumentInput(ToolInput):
    """A document, or one chunk of it."""

    id: str = Field(
        min_length=1,
        max_length=4_000,
        description="An `id` of a result (that passage alone), or `source:uri` of a document, as results "
        "tell it under `document` (all of it).",
    )
    offset: int = Field(default=0, ge=0, description="How many passages to skip: for long documents.")
    limit: int = Field(default=40, ge=1, le=500, description="How many passages at most.")


class ContextInput(ToolInput):
    """A task that is to be done."""

    task: str = Field(
        min_length=1,
        max_length=MAX_TASK_CHARS,
        description="What is to be done, in a sentence or a whole ticket.",
        examples=["add retries to the payment client"],
    )
    kind: TaskKind = Field(default="code_generation", description="Which searches suit it.")
    file: Name | None = Field(default=None, description="The path of the file that the task is about.")
    source: Name | None = Field(
        default=None, description="The source of `file`, where several have such a path."
    )
    snippet: str | None = Field(
        default=None,
        max_length=MAX_EXAMPLE_CHARS,
        description="Code that the task is about: a selection, a diff, a conflict.",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=100,
        le=MAX_BUDGET_TOKENS,
        description="What the whole text may cost; by default as the operator says, as a rule 4,000.",
    )
    sources: FilterValues = Field(default=(), description="Only these sources, by id.")
    repos: FilterValues = Field(default=(), description="Only these repositories.")
    languages: FilterValues = Field(default=(), description="Only these programming languages.")
