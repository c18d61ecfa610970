"""Requests and the operations of the code graph, declared once for every interface.

The metadata of a field is what pydantic reads of a dataclass: a description, examples, what a value is at
least. How much a question may ask for is a setting: `query.limits` refuses more, with a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Literal, get_args

from knowledge_pipeline.contract.arguments import lenient_schema, normalize_request
from knowledge_pipeline.contract.filters import (
    NAMESPACE_PREFIX,
    CallDirection,
    ChatRole,
    ContentType,
    DocumentFilters,
    Filters,
    Judgement,
    Name,
    Names,
    RankedMode,
    SearchMode,
    SearchType,
    TaskKind,
    TicketFilters,
    about,
    build_filters,
    described,
    mark_limits,
)
from knowledge_pipeline.contract.usage_labels import LABEL_PATTERN, MAX_LABEL_CHARS
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.file_languages import LANGUAGES
from knowledge_pipeline.records import ABSENT_TAG, VARIANT_TAG
from knowledge_pipeline.text import is_list


class ClosedRequest:
    """Base of what callers send: an unknown key is an error, an empty text is not set."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Without what is not set."""
        return lenient_schema(source, handler, partial(normalize_request, source))


@dataclass(frozen=True, slots=True)
class ChatTurn(ClosedRequest):
    """A message of the conversation so far."""

    role: ChatRole
    content: str = field(metadata={"min_length": 1, **mark_limits("task_chars")})

    def __post_init__(self) -> None:
        """Raise `InvalidQuery` for an unknown role."""
        if self.role not in get_args(ChatRole):
            allowed = ", ".join(get_args(ChatRole))
            raise InvalidQuery(f"found the role {self.role!r} in the history; allowed: {allowed}")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message for a language model."""

    role: Literal["system", "user", "assistant"]
    content: str


def parse_history(text: str) -> tuple[ChatTurn, ...]:
    """The messages of a conversation from JSON: one object with a role and a content, or a list of them.

    Raises `InvalidQuery` for anything else.
    """
    try:
        history: Any = json.loads(text)
        turns = tuple(ChatTurn(**turn) for turn in (history if is_list(history) else [history]))
        if not all(turn.content and type(turn.content) is str for turn in turns):
            raise ValueError(text)
        return turns
    except (TypeError, ValueError) as error:
        raise InvalidQuery(
            'the history is not what it should be: a JSON list of {"role": "user", "content": "…"}, with the '
            f"roles {' and '.join(get_args(ChatRole))}"
        ) from error


_LIMIT = about(
    "At most this many results; by default as the type of search has it.", ge=1, **mark_limits("results")
)
_RANKED_MODE = about("hybrid: by words and by meaning; words: full text alone; vectors: meaning alone.")
_MODE = about(
    "hybrid: by words and by meaning; words: full text alone; vectors: meaning alone; exact: the query as it "
    "is written, as grep; regex: the query as a regular expression (RE2)."
)
_EXPLAIN = about("Explain where each score comes from.")
_BLAME = about("Say who last changed the lines of each result, by git.")
MAX_AGE = about(
    "Name the sources that are not known to be as new: `15m`, `2h`. Their results stay.",
    examples=["15m"],
    max_length=20,
)
_FILE_SOURCE = about("The file's source, if several have such a path.", **mark_limits("name_chars"))


@dataclass(frozen=True, slots=True)
class QueryRequest(ClosedRequest):
    """A query to the live release, or to a part of it."""

    query: str = field(
        metadata=about(
            "A question, keywords, or a name; `lang:go path:src/ since:30d` filter.",
            examples=["how are sessions signed"],
            min_length=1,
            **mark_limits("query_chars"),
        )
    )
    filters: Filters = field(default_factory=Filters)
    limit: int | None = field(default=None, metadata=_LIMIT)
    explain: bool = field(default=False, metadata=_EXPLAIN)
    mode: SearchMode = field(default="hybrid", metadata=_MODE)
    blame: bool = field(default=False, metadata=_BLAME)
    include_metadata: bool = described("Give the metadata of results.", True)
    org_id: Name | None = described(
        "Only what is public or of this tenant, of what the caller may see.", None, max_length=200
    )
    max_age: str | None = field(default=None, metadata=MAX_AGE)


@dataclass(frozen=True, slots=True)
class SearchRequest(QueryRequest):
    """A query, and how to search for it."""

    type: SearchType = described(
        "semantic: everything; code: source code; similar: what is like a text; "
        "historical: commits and pull requests.",
        "semantic",
    )


@dataclass(frozen=True, slots=True)
class TicketQueryRequest(QueryRequest):
    """A query of issues, discussions, tickets and pull requests."""

    filters: TicketFilters = field(default_factory=TicketFilters)


@dataclass(frozen=True, slots=True)
class DocumentQueryRequest(QueryRequest):
    """A query of documents."""

    filters: DocumentFilters = field(default_factory=DocumentFilters)


@dataclass(frozen=True, slots=True)
class SimilarRequest(ClosedRequest):
    """An example to find similar results for: a text, or an indexed file, whose own chunks are left out."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        **ClosedRequest.__pydantic_config__,
        "json_schema_extra": {
            "anyOf": [
                {"required": [name], "properties": {name: {"type": "string"}}}
                for name in ("text", "path", "content")
            ]
        },
    }

    text: str | None = described(
        "Code or prose. With `path` too, the path says which file it is from.",
        None,
        min_length=1,
        **mark_limits("example_chars"),
    )
    path: Name | None = described(
        "A file within its source.", None, examples=["src/auth.py"], **mark_limits("name_chars")
    )
    source: Name | None = field(default=None, metadata=_FILE_SOURCE)
    content_type: ContentType | None = described(
        "What is searched; by default code where the text is code and no filter says where.", None
    )
    filters: Filters = field(default_factory=Filters)
    limit: int | None = field(default=None, metadata=_LIMIT)
    explain: bool = field(default=False, metadata=_EXPLAIN)
    mode: RankedMode = field(default="hybrid", metadata=_RANKED_MODE)
    max_age: str | None = field(default=None, metadata=MAX_AGE)

    def __post_init__(self) -> None:
        if self.text is None and self.path is None:
            raise InvalidQuery("nothing to be similar to: give a text or a path")


@dataclass(frozen=True, slots=True)
class Task(ClosedRequest):
    """What an agent is about to do."""

    text: str = field(
        metadata={
            "alias": "task",
            "description": "What to do, in a sentence or a whole ticket.",
            "examples": ["add retries to the payment client"],
            "min_length": 1,
            **mark_limits("task_chars"),
        }
    )
    kind: TaskKind = described(
        "Decides how much each type of source counts, and the prompt.", "code_generation"
    )
    file: Name | None = described(
        "The path of the file that the task is about, in its source.", None, **mark_limits("name_chars")
    )
    files: tuple[Name, ...] = described(
        "Paths of several such files, or of more.", (), **mark_limits("task_files", "name_chars")
    )
    source: Name | None = field(default=None, metadata=_FILE_SOURCE)
    snippet: str | None = described(
        "Code or prose that the task is about: a selection, a diff, a conflict; for `complete_code`, the "
        "code before the cursor.",
        None,
        **mark_limits("example_chars"),
    )
    suffix: str | None = described(
        "For `complete_code`: the code after the cursor.", None, **mark_limits("example_chars")
    )
    history: tuple[ChatTurn, ...] = described(
        "For `chat`: the conversation so far, oldest message first.", ()
    )
    filters: Filters = field(default_factory=Filters)

    @property
    def paths(self) -> tuple[str, ...]:
        """Of all files that it is about."""
        return tuple(dict.fromkeys((*filter(None, [self.file]), *self.files)))

    def __post_init__(self) -> None:
        """Raise `InvalidQuery` for a task that is empty, of an unknown kind, or not of its kind."""
        object.__setattr__(self, "filters", build_filters(self.filters))
        if self.kind not in get_args(TaskKind):
            raise InvalidQuery(f"found the task {self.kind!r}; allowed: {', '.join(get_args(TaskKind))}")
        if not self.text.strip():
            raise InvalidQuery("the task is empty: say what is to be done")
        if self.suffix is not None and self.kind != "complete_code":
            raise InvalidQuery(f"a task of the kind {self.kind} has no suffix: choose complete_code")
        if self.history and self.kind != "chat":
            raise InvalidQuery(f"a task of the kind {self.kind} has no history: choose chat")


@dataclass(frozen=True, slots=True)
class ContextRequest(Task):
    """A task that context is built for, and the size and shape of that context."""

    max_tokens: int | None = described(
        "The budget of the whole text; by default the server's, usually 4,000.",
        None,
        ge=1,
        **mark_limits("context_tokens"),
    )
    template: str | None = described(
        "The name of a template; by default that of the task's kind.",
        None,
        min_length=1,
        max_length=200,
        pattern=r"^\w[\w.-]*$",
    )
    max_age: str | None = field(default=None, metadata=MAX_AGE)
    include_text: bool = described("Give the text of each excerpt beside the prompt that has it.", False)
    include_metadata: bool = described("Give the metadata of each excerpt.", False)


@dataclass(frozen=True, slots=True)
class RelationsRequest(ClosedRequest):
    """A document whose relations are wanted."""

    target: str = field(
        metadata=about(
            "A ticket's key, `owner/name#12`, a commit, an address, a path, an id, or a record's own id.",
            examples=["PAY-12"],
            min_length=1,
            **mark_limits("id_chars"),
        )
    )
    max_age: str | None = field(default=None, metadata=MAX_AGE)


@dataclass(frozen=True, slots=True)
class GraphTargetRequest(ClosedRequest):
    """A request for what has to do with a piece of code."""

    target: str = field(
        metadata=about(
            "A definition (`Store.get`, or its full name as an import writes it), "
            "`path:name`, `path:line` (the definition around the line), a file, or a folder; or a route "
            "(`POST /orders`), or a `topic`, `table`, `variable` or `flag` with its name.",
            examples=["Store.get", "src/store.py:Store.get", "src/store.py:120", "src/store.py"],
            min_length=1,
            **mark_limits("name_chars"),
        )
    )
    filters: Filters = field(
        default_factory=Filters,
        metadata=about(
            "Where to look for the target; the code graph takes languages, sources, "
            "source_types, repos, branches, paths and tags."
        ),
    )
    limit: int | None = described(
        "At most this many nodes in addition to the target; by default 100, or 20 of related code.",
        None,
        ge=1,
        **mark_limits("graph_nodes"),
    )
    max_age: str | None = field(default=None, metadata=MAX_AGE)


@dataclass(frozen=True, slots=True)
class GraphTraversalRequest(GraphTargetRequest):
    """A request that follows edges step by step."""

    depth: int | None = described(
        "At most this many steps from the target; by default 1, for a hierarchy 5, for "
        "the impact of a change 3.",
        None,
        ge=1,
        **mark_limits("graph_depth"),
    )


@dataclass(frozen=True, slots=True)
class CallGraphRequest(GraphTraversalRequest):
    """A request that follows calls."""

    direction: CallDirection = described("callers: what calls the target; callees: what it calls.", "both")


@dataclass(frozen=True, slots=True)
class FeedbackRequest(ClosedRequest):
    """What a reader thought of a result."""

    query_id: str = field(metadata=about("Of an answer.", min_length=1, max_length=500))
    result_id: str = field(metadata=about("Of one of its results.", min_length=1, max_length=500))
    judgement: Judgement


_LABEL: Mapping[str, Any] = {"max_length": MAX_LABEL_CHARS, "pattern": LABEL_PATTERN}
MAX_REPORTED_TOKENS = 1_000_000_000
MAX_REPORTED_COST = 1_000_000.0
MAX_REPORTED_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class ModelCallRequest(ClosedRequest):
    """A call of a language model that an agent made itself."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        **ClosedRequest.__pydantic_config__,
        "allow_inf_nan": False,
    }

    provider: str = field(metadata=about("Whose model it is.", examples=["openai"], **_LABEL))
    model: str = field(metadata=about("As `costs.prices` names it.", examples=["gpt-4o-mini"], **_LABEL))
    input_tokens: int = described("Of the prompt.", 0, ge=0, le=MAX_REPORTED_TOKENS)
    output_tokens: int = described("Of the response.", 0, ge=0, le=MAX_REPORTED_TOKENS)
    cost: float | None = described(
        "In the currency of the prices; by default by `costs.prices`, or else 0.",
        None,
        ge=0,
        le=MAX_REPORTED_COST,
    )
    seconds: float = described("How long it took.", 0.0, ge=0, le=MAX_REPORTED_SECONDS)
    error: str | None = described(
        "The kind of error that it ended in; by default it was answered.",
        None,
        examples=["rate_limited"],
        **_LABEL,
    )
    prompt: str | None = described(
        "Kept without its secrets if `costs.keep_texts` is on, else dropped.", None
    )
    response: str | None = described("The same for the response.", None)


@dataclass(frozen=True, slots=True)
class RefreshRequest(ClosedRequest):
    """Sources to refresh."""

    sources: tuple[Name, ...] = described("By id; empty: all that the caller manages.", (), max_length=200)


MAX_DOCUMENT_ID_CHARS = 500
MAX_PUSHED_BYTES = 1_000_000
"""Of a document's text, where its source does not say."""

_DOCUMENT_ID = re.compile(r"[^\s/%\\\x00-\x1f\x7f](?:[^%\\\x00-\x1f\x7f]*[^\s/%\\\x00-\x1f\x7f])?")
_MAX_METADATA_KEYS = 50
_METADATA_KEY = re.compile(r"[A-Za-z][\w-]{0,63}", re.ASCII)
_RESERVED_TAGS = frozenset({NAMESPACE_PREFIX.rstrip(":"), VARIANT_TAG, ABSENT_TAG})


@dataclass(frozen=True, slots=True)
class PushRequest(ClosedRequest):
    """A document as it is to be indexed; it replaces the one that its source has under the same id."""

    source: str = field(metadata=about("A source of type `push`.", min_length=1, max_length=64))
    id: str = field(
        metadata=about(
            "Names it in its source, as a path does.",
            examples=["guides/deploy.md"],
            min_length=1,
            max_length=MAX_DOCUMENT_ID_CHARS,
        )
    )
    text: str = field(metadata=about("The whole document."))
    title: str | None = described("By default its first heading, or else the last part of its id.", None)
    url: str | None = described("Where people open it.", None, pattern="^https?://", max_length=2_000)
    author: str | None = described("Who wrote it.", None)
    updated: datetime | None = described("When its content changed last; without a zone in UTC.", None)
    created: datetime | None = described("When it was written.", None)
    language: str | None = described(
        "Of the text; by default that of the id's extension, or else Markdown.", None, examples=["python"]
    )
    labels: Names = described("What the filter `labels` finds.", ())
    project: str | None = described("What the filter `projects` finds.", None)
    status: str | None = described("What the filter `statuses` finds.", None)
    metadata: Mapping[str, str | int | float | bool | Names] = field(
        default_factory=dict[str, Any],
        metadata=about("What the filter `tags` finds, as `key:value`.", examples=[{"region": "emea"}]),
    )

    def __post_init__(self) -> None:
        """Raise `InvalidQuery` for an id, a text, a language or metadata that no document can have."""
        if len(self.id) > MAX_DOCUMENT_ID_CHARS or not _DOCUMENT_ID.fullmatch(self.id):
            raise InvalidQuery(
                f"the id {self.id[:80]!r} names no document: give up to {MAX_DOCUMENT_ID_CHARS} characters, "
                "without %, backslashes and control characters, and no space or slash at their ends"
            )
        if not self.text.strip():
            raise InvalidQuery("the text is empty: delete the document, if it is gone")
        if self.language and self.language.lower() not in LANGUAGES:
            raise InvalidQuery(
                f"the language {self.language[:40]!r} is not known: give one such as markdown, python or text"
            )
        if len(self.metadata) > _MAX_METADATA_KEYS:
            raise InvalidQuery(f"metadata has {len(self.metadata)} keys: give at most {_MAX_METADATA_KEYS}")
        own = {column.name for column in fields(type(self))}
        for key in self.metadata:
            if key in own or key.lower() in _RESERVED_TAGS or not _METADATA_KEY.fullmatch(key):
                raise InvalidQuery(
                    f"metadata cannot have the key {key[:64]!r}: give one of letters, digits, - and _ that "
                    "begins with a letter and is no field of a document"
                )


GraphMethod = Literal[
    "find_usages",
    "find_references",
    "get_call_graph",
    "get_class_hierarchy",
    "get_dependencies",
    "analyze_dependencies",
    "find_related_code",
]
"""A method of `KnowledgeBase.graph`, and a tool of MCP."""


@dataclass(frozen=True, slots=True)
class GraphOperation:
    """One operation; the defaults hold where a request does not say."""

    path: str  # of the HTTP API, below /graph; the name that a response carries
    title: str
    summary: str
    default_depth: int | None = None  # None: it does not follow edges step by step
    has_direction: bool = False
    default_limit: int = 100


GRAPH_OPERATIONS: Mapping[GraphMethod, GraphOperation] = {
    "find_usages": GraphOperation(
        "usages", "Find usages", "What uses a definition, or anything defined in it."
    ),
    "find_references": GraphOperation(
        "references", "Find references", "Every place that names exactly this definition or file."
    ),
    "get_call_graph": GraphOperation(
        "calls",
        "Show calls",
        "What calls a function and what it calls, step by step.",
        default_depth=1,
        has_direction=True,
    ),
    "get_class_hierarchy": GraphOperation(
        "hierarchy",
        "Show inheritance",
        "What a class extends or implements, and what extends or implements it.",
        default_depth=5,
    ),
    "get_dependencies": GraphOperation(
        "dependencies", "Show dependencies", "What a definition, file or folder depends on.", default_depth=1
    ),
    "analyze_dependencies": GraphOperation(
        "impact",
        "Show the impact of a change",
        "What a change could break, directly and indirectly, and what the target depends on.",
        default_depth=3,
    ),
    "find_related_code": GraphOperation(
        "related",
        "Find related code",
        "The definitions most closely related to one, ranked.",
        default_limit=20,
    ),
}
