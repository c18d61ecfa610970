"""Arguments of tools: typed, bounded, and read leniently where the meaning is clear.

Models that call tools send `null` or an empty text for what they do not need, words with commas in place of
a list, or a list as JSON in a string. All of that is accepted. An unknown name never is, since a filter that
is silently dropped answers another question. The docstring of a model that one tool alone takes is what
agents read of the tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from knowledge_pipeline.contract.aliases import rename_aliases
from knowledge_pipeline.contract.arguments import drop_unset, split_values, suggest_name
from knowledge_pipeline.contract.base import JsonResponse
from knowledge_pipeline.contract.filters import (
    FILTER_NAMES,
    CallDirection,
    ContentType,
    DocumentType,
    Filters,
    Name,
    SearchMode,
    SearchType,
    SourceType,
    TaskKind,
    build_filters,
    split_filter,
)
from knowledge_pipeline.contract.requests import ChatTurn
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.text import is_list, is_object

FilterValues = Annotated[tuple[Name, ...], BeforeValidator(split_values)]
WholeTexts = Annotated[tuple[Name, ...], BeforeValidator(partial(split_values, at_commas=False))]
SourceTypes = Annotated[tuple[SourceType, ...], BeforeValidator(partial(split_filter, "source_types"))]
Limit = Annotated[int, Field(ge=1, description="At most this many results.")]
MaxAge = Annotated[str | None, Field(max_length=20)]
DOCUMENT_TYPES: tuple[SourceType, ...] = get_args(DocumentType)
_UNLISTED = ("org_id", "content_type", "max_age")  # no model has to read of them for each tool
DateText = Annotated[str, Field(min_length=1, max_length=40)]


def filter_field(name: str) -> Any:
    """A field for the filter of that name, with its description from the contract."""
    description: str = Filters.__dataclass_fields__[name].metadata["description"]
    return Field(default=(), description=f"Only these {description[:1].lower()}{description[1:]}")


class ToolInput(BaseModel):
    """Base of the arguments of a tool; an unknown name is an error."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_unset(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        required = (name for name, field in cls.model_fields.items() if field.is_required())
        return rename_aliases(cls, drop_unset(cast("Mapping[str, Any]", data), required))

    def to_filters(self) -> Filters:
        """The filters among the arguments. Raises `InvalidQuery` for an invalid date."""
        names = (name for name in FILTER_NAMES if name in type(self).model_fields)
        return build_filters({name: getattr(self, name) for name in names})


class QueryInput(ToolInput):
    """A query in words."""

    query: str = Field(
        min_length=1,
        description="A question, keywords, names or error messages. Say what is "
        "meant, not one word: meaning and words are searched.",
        examples=["how are sessions signed", "retry with exponential backoff in the payment client"],
    )
    org_id: Name | None = Field(
        default=None, max_length=200, description="Only what is public or of this tenant."
    )
    max_age: MaxAge = None


class DatedQueryInput(QueryInput):
    """A query that time can narrow."""

    since: DateText | None = Field(
        default=None,
        description="Last modified then or later: a date (2025-01-31, 2025), or a span before now "
        "(7d, 4w, 6m, 1y).",
    )
    until: DateText | None = Field(
        default=None, description="Last modified before then; written like `since`."
    )


class KnowledgeQueryInput(DatedQueryInput):
    """A query of everything."""

    type: Literal["semantic", "code", "docs", "historical"] = Field(
        default="semantic",
        description="code: code alone, deeper; docs: documents alone; historical: commits, pull requests. "
        "Of these, newer ones come first if they fit as well; semantic: everything.",
    )
    mode: SearchMode = Field(
        default="hybrid",
        description="words: words alone; vectors: meaning alone; exact: the query as it is written, as grep; "
        "regex: by a regular expression.",
    )
    source_types: SourceTypes = filter_field("source_types")
    sources: FilterValues = filter_field("sources")
    repos: FilterValues = filter_field("repos")
    languages: FilterValues = filter_field("languages")
    paths: FilterValues = filter_field("paths")
    authors: WholeTexts = filter_field("authors")
    record_kinds: FilterValues = filter_field("record_kinds")
    limit: Limit = 5

    @property
    def search_type(self) -> SearchType:
        """How to search: documents are searched like everything, of sources of their types."""
        return "semantic" if self.type == "docs" else self.type

    def to_filters(self) -> Filters:
        """See `ToolInput.to_filters`; raises `InvalidQuery` for documents of sources that have none."""
        filters = super().to_filters()
        if self.type != "docs":
            return filters
        chosen = filters.source_types or DOCUMENT_TYPES
        if not set(chosen) & set(DOCUMENT_TYPES):
            allowed = ", ".join(DOCUMENT_TYPES)
            raise InvalidQuery(f"found docs of source_types {', '.join(chosen)}; documents are of {allowed}")
        return replace(filters, source_types=tuple(type_ for type_ in chosen if type_ in DOCUMENT_TYPES))


_InputT = TypeVar("_InputT", bound=ToolInput)


def parse_input(model: type[_InputT], arguments: object) -> _InputT:
    """The arguments of a call. Raises `InvalidQuery`: one sentence with every name that is wrong, and why."""
    if arguments is not None and not isinstance(arguments, Mapping):
        raise InvalidQuery(f"the arguments are not an object: send one with {', '.join(_list_names(model))}")
    try:
        return model.model_validate(arguments or {})
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        messages = [_format_field_error(error["loc"], error["msg"], error["type"]) for error in errors]
        message = "; ".join(dict.fromkeys(messages))
        if unknown := [str(error["loc"][-1]) for error in errors if error["type"] == "extra_forbidden"]:
            message += f"; allowed: {', '.join(_list_names(model))}{suggest_name(unknown[0], model)}"
        raise InvalidQuery(message) from None


def _list_names(model: type[ToolInput]) -> list[str]:
    """The arguments that models read of, those that are needed first."""
    names = (name for name in model.model_fields if name not in _UNLISTED)
    return sorted(names, key=lambda name: not model.model_fields[name].is_required())


def input_schema_of(model: type[ToolInput]) -> dict[str, Any]:
    """The JSON schema of arguments, without titles, `null` as an alternative, and references.

    Many clients do not resolve references, and then know nothing of what they stand for.
    """
    schema = model.model_json_schema()
    schema = _resolve_references(schema, schema.pop("$defs", {}))
    properties = {name: _simplify_property(schema["properties"][name]) for name in _list_names(model)}
    return _strip_titles({**schema, "properties": properties})


def brief_schema_of(model: type[ToolInput]) -> dict[str, Any]:
    """The same without what a model need not read to call a tool: limits, examples, and what filters mean.

    `parse_input` holds arguments to the limits, whatever a schema says.
    """
    schema = input_schema_of(model)
    properties = {
        name: _keep_essentials(property_schema, described=name not in (*FILTER_NAMES, "limit", "mode"))
        for name, property_schema in schema["properties"].items()
    }
    required = {"required": schema["required"]} if schema.get("required") else {}
    return {"type": "object", "properties": properties, **required}


def output_schema_of(response: type[JsonResponse]) -> dict[str, Any]:
    """The JSON schema of a response, without titles."""
    return _strip_titles(TypeAdapter(response).json_schema(mode="serialization"))


def _format_field_error(location: tuple[int | str, ...], message: str, error_type: str) -> str:
    name = ".".join(str(part) for part in location if not str(part).startswith("function-"))
    if error_type == "extra_forbidden":
        return f"there is no argument {name!r}"
    if error_type == "missing":
        return f"{name} is missing"
    message = message.removeprefix("Value error, ")
    return f"{name}: {message[:1].lower()}{message[1:]}" if name else message


def _strip_titles(schema: Any) -> Any:
    if is_list(schema):
        return [_strip_titles(item) for item in schema]
    if not is_object(schema):
        return schema
    return {
        name: _strip_titles(value)
        for name, value in schema.items()
        if not (name == "title" and isinstance(value, str))
    }


def _resolve_references(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """A schema with each definition in place of what refers to it; none of ours refers to itself."""
    if is_list(schema):
        return [_resolve_references(item, definitions) for item in schema]
    if not is_object(schema):
        return schema
    if isinstance(name := schema.get("$ref"), str):
        return _resolve_references(definitions[name.removeprefix("#/$defs/")], definitions)
    return {name: _resolve_references(value, definitions) for name, value in schema.items()}


def _simplify_property(property_schema: dict[str, Any]) -> dict[str, Any]:
    """Hide that `null` and `[]` are accepted: a model omits an argument that it does not need."""
    if property_schema.get("type") == "array":
        return {name: value for name, value in property_schema.items() if name != "default"}
    types = [option for option in property_schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(types) != 1 or property_schema.get("default", ...) is not None:
        return property_schema
    return {
        **types[0],
        **{name: value for name, value in property_schema.items() if name not in ("anyOf", "default")},
    }


def _keep_essentials(schema: dict[str, Any], *, described: bool) -> dict[str, Any]:
    kept = ("type", "enum", "const", *(("description",) if described else ()))
    brief = {name: schema[name] for name in kept if name in schema}
    if "description" in brief:
        brief["description"] = brief["description"].partition(". ")[0].rstrip(".")
    if "items" in schema:
        brief["items"] = _keep_essentials(schema["items"], described=False)
    if inner := schema.get("properties"):
        brief["properties"] = {name: _keep_essentials(of, described=False) for name, of in inner.items()}
    return brief


MAX_OFFSET = 10_000
DEFAULT_NODES = 50  # fewer than other interfaces: a model has to read them

Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET)]


class PagedInput(ToolInput):
    """Where a long answer goes on, and whether it is places and signatures alone."""

    offset: Offset = 0
    compact: bool = False


class KnowledgeSearchInput(KnowledgeQueryInput, PagedInput):
    """Search everything, if you do not know where the answer is."""


class CodeSearchInput(QueryInput, PagedInput):
    """Search source code for what it does, in words, or by name; says what each result calls."""

    languages: FilterValues = filter_field("languages")
    repos: FilterValues = filter_field("repos")
    paths: FilterValues = filter_field("paths")
    kinds: FilterValues = filter_field("kinds")
    classes: FilterValues = filter_field("classes")
    imports: FilterValues = filter_field("imports")
    sources: FilterValues = filter_field("sources")
    limit: Limit = 10


class SimilarCodeInput(PagedInput):
    """Find code similar to a piece of code or an indexed file, such as what exists already."""

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
    content_type: ContentType = "code"
    max_age: MaxAge = None
    limit: Limit = 5

    @model_validator(mode="after")
    def _require_query_or_file(self) -> SimilarCodeInput:
        if self.query is None and self.file is None:
            raise ValueError("give `query`, a piece of code, or `file`, a path")
        return self


class TicketSearchInput(DatedQueryInput, PagedInput):
    """Search Jira tickets and their comments; returns status and related documents as well."""

    projects: FilterValues = filter_field("projects")
    statuses: WholeTexts = filter_field("statuses")
    labels: WholeTexts = filter_field("labels")
    limit: Limit = 5


class WikiSearchInput(DatedQueryInput, PagedInput):
    """Search Confluence pages: how-tos, designs, decisions, runbooks."""

    spaces: FilterValues = filter_field("spaces")
    labels: WholeTexts = filter_field("labels")
    authors: WholeTexts = filter_field("authors")
    limit: Limit = 5


SearchInput = KnowledgeSearchInput | CodeSearchInput | TicketSearchInput | WikiSearchInput


class GraphTargetInput(PagedInput):
    """A piece of code; the filters say where to look for it."""

    target: str = Field(
        min_length=1,
        description="Name, `path:name`, `path:line`, path, `POST /orders`. A name is `Store.get`, or the "
        "full one as an import writes it, or `topic NAME`, `table NAME`, `variable NAME`; a path is of "
        "a file or a folder; a line stands for the definition around it.",
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
    max_age: MaxAge = None


class GraphTraversalInput(GraphTargetInput):
    """A piece of code, and how far to follow its edges."""

    depth: int | None = Field(
        default=None,
        ge=1,
        description="Steps at most. By default 1, for a hierarchy 5, for the impact of a change 3.",
    )


class CallGraphInput(GraphTraversalInput):
    """A piece of code, and how far to follow its calls."""

    direction: CallDirection = Field(
        default="both", description="What to follow. callers: what calls it; callees: what it calls."
    )


class DocumentInput(ToolInput):
    """Read a chunk, or a whole document in pages."""

    id: str = Field(
        min_length=1,
        description="An `id` of a result, a `document_id`, or a key: PAY-12. The last two give a document.",
    )
    offset: int = Field(default=0, ge=0)
    compact: bool = False
    blame: bool = Field(default=False, description="Who last changed the lines.")
    max_age: MaxAge = None
    limit: int = Field(default=40, ge=1, le=500, description="At most this many chunks.")


class ContextInput(PagedInput):
    """Gather what to read before a task, within a token budget."""

    task: str = Field(
        min_length=1,
        description="What to do. A sentence, a question, or a whole ticket.",
        examples=["add retries to the payment client"],
    )
    kind: TaskKind = "code_generation"
    files: FilterValues = Field(default=(), description="Paths that it is about.")
    source: Name | None = Field(default=None, description="Of the files. Where several have such a path.")
    snippet: str | None = Field(
        default=None,
        description="Code: its subject, or before the cursor. A selection, a diff, a conflict; for "
        "`complete_code`, the code before the cursor.",
    )
    suffix: str | None = Field(default=None, description="Code after the cursor. For `complete_code` alone.")
    history: tuple[ChatTurn, ...] = Field(
        default=(), description="Oldest first. For `chat` alone: the conversation so far."
    )
    max_tokens: int | None = Field(
        default=None, ge=100, description="Budget of the text. By default the server's, usually 4,000."
    )
    max_age: MaxAge = None
    sources: FilterValues = filter_field("sources")
    repos: FilterValues = filter_field("repos")
    languages: FilterValues = filter_field("languages")


class SourcesInput(PagedInput):
    """List what can be searched: sources, repositories, languages."""

    repos: FilterValues = filter_field("repos")
    languages: FilterValues = filter_field("languages")
