"""The names by which other systems ask for the same and know what is answered: all that there are.

An alias stands for an argument of the contract, never for another alias. Each argument and each alias may
also be written in camelCase. Answers have further names below `PREFIX` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Any, cast

from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.records import hash_strings

PREFIX = "/v1/knowledge"
"""Of the same routes as below `/api/v1/knowledge`."""

SINGULAR_FILTERS: Mapping[str, str] = {
    **{"language": "languages", "extension": "extensions", "file_type": "extensions", "source": "sources"},
    **{"source_type": "source_types", "repo": "repos", "branch": "branches", "path": "paths"},
    **{"author": "authors", "tag": "tags", "label": "labels", "project": "projects", "status": "statuses"},
    **{"component": "components", "fix_version": "fix_versions", "space": "spaces", "channel": "channels"},
    **{"kind": "kinds", "class": "classes", "import": "imports", "title": "titles", "section": "sections"},
    **{"namespace": "namespaces", "symbol": "symbols", "export": "exports", "record_kind": "record_kinds"},
}

_SHARED = {**SINGULAR_FILTERS, "top_k": "limit", "max_results": "limit"}  # where there is such an argument
_OWN: Mapping[str, Mapping[str, str]] = {  # of a class of requests, and of those below it
    "QueryRequest": {"source_types": "filters.source_types"},
    "SearchParameters": {"q": "query"},
    "ContextParameters": {"prompt": "task"},
    "SimilarRequest": {"content": "text", "type": "content_type"},
    "SimilarCodeInput": {"content": "query", "type": "content_type"},
    "ContextInput": {"file": "files"},
}

_MAX_SHOWN_CHARS = 40  # of a value, in a sentence


def list_names(request: type[Any]) -> list[str]:
    """The arguments of a class of requests or filters."""
    if is_dataclass(request):
        return [str(declared.metadata.get("alias", declared.name)) for declared in fields(request)]
    return [declared.alias or name for name, declared in getattr(request, "model_fields", {}).items()]


@cache
def list_aliases(request: type[Any]) -> Mapping[str, str]:
    """Every alias of a class of requests or filters: of an argument, or of one in `filters`."""
    names, declared = list_names(request), dict(_SHARED)
    for base in reversed(request.__mro__):
        declared |= _OWN.get(base.__name__, {})
    aliases = {alias: name for alias, name in declared.items() if name.partition(".")[0] in names}
    aliases |= {
        _to_camel_case(alias): name for alias, name in {**aliases, **{it: it for it in names}}.items()
    }
    return {alias: name for alias, name in aliases.items() if alias not in names}


def _to_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def rename_aliases(request: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by their own names. Raises `InvalidQuery`: one is given by two, with different values."""
    aliases, renamed, given_as = list_aliases(request), dict[str, Any](), dict[str, str]()
    for alias, value in values.items():
        name = aliases.get(alias, alias)
        _set_once(renamed, given_as, name, alias, value)
    for name in [name for name in given_as if "." in name and given_as[name] != name]:
        outer, _, inner = name.partition(".")
        filters: Any = renamed.get(outer) or {}
        if isinstance(filters, Mapping):
            renamed[outer] = merged = {**cast("Mapping[str, Any]", filters)}
            _set_once(merged, {inner: name}, inner, given_as[name], renamed.pop(name))
    return renamed


def _set_once(values: dict[str, Any], given_as: dict[str, str], name: str, alias: str, value: Any) -> None:
    if name in values and values[name] != value:
        both = (
            f"{it} {str(of)[:_MAX_SHOWN_CHARS]}"
            for it, of in ((given_as[name], values[name]), (alias, value))
        )
        raise InvalidQuery(f"found {', '.join(both)}, which mean the same: give one of them")
    values[name] = value
    given_as.setdefault(name, alias)


ANSWER_FIELDS: Mapping[str, Mapping[str, str]] = {
    "StatusResponse": {
        "total_documents": "Documents that the caller may see.",
        "last_updated": "The same as `released_at`.",
        "indexing_status": "complete, or in_progress: chunks have no vector yet.",
    },
    "SearchResponse": {
        "id": "Of the chunk or document that was asked for by its id.",
        "content": "Its text.",
        "source": "Its source.",
        "metadata": "What its chunks have in common.",
    },
    "DocumentResponse": {"content": "The same as `text`."},
}
"""What answers have below `PREFIX` beside their own fields, by their class, and what it is."""

METADATA_FIELDS = (
    "`line_start`, `line_end`, `file_type`, `content_hash`, `embedding_model`; of tickets `summary`, "
    "`updated`; of wiki pages `page_id`, `page_title`, `space`, `chunk_index`"
)
"""What the metadata of results have there as well."""


def extend_status(status: dict[str, Any], documents: int) -> None:
    """Add the further names of a status; `documents` are those that the caller may see."""
    status["total_documents"], status["last_updated"] = documents, status["released_at"]
    status["indexing_status"] = "in_progress" if any(status["unembedded_rows"].values()) else "complete"


def extend_results(
    results: Sequence[dict[str, Any]], models: Mapping[str, str], positions: Mapping[str, int]
) -> None:
    """Add the further names to the metadata of results, where they have any.

    Args:
        results: of a search, or the excerpts of a context.
        models: the embedding model of each source.
        positions: of chunks of wiki pages, within their pages.
    """
    for result in results:
        if not (metadata := result["metadata"]):
            continue
        citation, text = result["citation"], result.get("content") or result.get("text")
        first, _, last = citation["lines"].replace("L", "").partition("-")
        metadata |= {
            "line_start": int(first),
            "line_end": int(last or first),
            "file_type": PurePosixPath(citation["path"]).suffix.removeprefix("."),
            **({"content_hash": hash_strings(text)} if text else {}),
            "embedding_model": models[citation["source"]],
        }
        if metadata.get("source_type") == "jira":
            summary = str(metadata.get("title", "")).removeprefix(f"{metadata.get('key')} ")
            metadata |= {"summary": summary, "updated": metadata.get("last_modified")}
        elif metadata.get("source_type") == "confluence":
            metadata |= {
                "page_id": str(metadata["uri"]).partition("/")[2],
                "page_title": metadata.get("title"),
                "space": metadata.get("wiki_space"),
                "chunk_index": positions.get(result.get("id") or result["chunks"][0]),
            }


def extend_document(answer: dict[str, Any], id: str) -> None:
    """Add what one chunk or document is as a whole to the chunks that an id has."""
    results = answer["results"]
    shared = {
        name: value
        for name, value in results[0]["metadata"].items()
        if all(result["metadata"].get(name) == value for result in results)
    }
    content = "\n\n".join(result["content"] for result in results)
    answer |= {"id": id, "content": content, "source": results[0]["citation"]["source"], "metadata": shared}
