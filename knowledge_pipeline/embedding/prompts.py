"""What some models want to read before a question or a document, and who adds it.

A model that was trained with a prompt finds less without it. The settings' prompts come first, then those
of a model's own folder, which sentence-transformers adds, then what is known of the model's name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import BatchEmbedder, Embedder, Space, Usage
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.endpoints.token_estimates import estimate_token_starts
from knowledge_pipeline.records import Tokenize


@dataclass(frozen=True, slots=True)
class Prompts:
    """What stands before a question and before a document; "" for nothing."""

    query: str = ""
    document: str = ""


_PASSAGES = "Represent this sentence for searching relevant passages: "
_WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

KNOWN_PROMPTS: tuple[tuple[str, Prompts], ...] = (
    (r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?", Prompts("query: ", "passage: ")),
    (r"multilingual-e5-large-instruct|e5-mistral-7b-instruct", Prompts(f"{_WEB_SEARCH} ")),
    (
        r"nomic-embed-text(-v1|-v1\.5|-v2-moe|-v1-unsupervised)?",
        Prompts("search_query: ", "search_document: "),
    ),
    (r"nomic-embed-code|coderankembed", Prompts("Represent this query for searching relevant code: ")),
    (r"qwen3-embedding(-(0\.6|4|8)b)?", Prompts(_WEB_SEARCH)),
    (r"gte-qwen2-(1\.5|7)b-instruct", Prompts(f"{_WEB_SEARCH} ")),
    (
        r"embeddinggemma(-300m)?|gemini-embedding-2(-preview)?",
        Prompts("task: search result | query: ", "title: none | text: "),
    ),
    (r"snowflake-arctic-embed-[ml]-v2\.0|snowflake-arctic-embed2", Prompts("query: ")),
    (r"snowflake-arctic-embed(-(xs|s|m|l|m-long|m-v1\.5))?", Prompts(_PASSAGES)),
    (r"bge-(small|base|large)-en(-v1\.5)?|mxbai-embed-(large|xsmall)(-v1)?", Prompts(_PASSAGES)),
    (r"bge-(small|base|large)-zh(-v1\.5)?", Prompts("为这个句子生成表示以用于检索相关文章：")),
)
"""By the last part of a model's name, in lower case; where each is from: docs/decisions/embedding.md."""


@lru_cache(maxsize=64)
def find_known_prompts(model: str) -> Prompts:
    """What the authors of a model put before texts; nothing for a model that is not known.

    Args:
        model: a name, a hub name ("owner/name"), a folder, or as Ollama writes it ("name:0.6b").
    """
    name = re.split(r"[/\\]", model.rstrip("/\\"))[-1].partition(":")[0].lower()
    return next((prompts for pattern, prompts in KNOWN_PROMPTS if re.fullmatch(pattern, name)), Prompts())


def resolve_prompts(settings: EmbeddingSettings, *, has_own: bool) -> Prompts:
    """What to put before texts.

    Args:
        settings: of one model.
        has_own: whether its folder has prompts, which are added where the settings have none.
    """
    known = Prompts() if has_own else find_known_prompts(settings.model)
    query, document = settings.query_prompt, settings.document_prompt
    return Prompts(known.query if query is None else query, known.document if document is None else document)


def list_former_settings(settings: EmbeddingSettings) -> list[EmbeddingSettings]:
    """What may have made vectors before the model's prompt was known, or before it was switched off."""
    if not settings.document_prompt and not find_known_prompts(settings.model).document:
        return []
    known, bare = {"query_prompt": None, "document_prompt": None}, {"query_prompt": "", "document_prompt": ""}
    return [settings.model_copy(update=update) for update in (known, bare)]


def describe_missing_prompts(settings: EmbeddingSettings) -> str | None:
    """A sentence where the settings leave out what a known model was trained with; None if they do not."""
    known = find_known_prompts(settings.model)
    missing = [
        f"embedding.{name}_prompt {value!r}"
        for name, value, given in (
            ("query", known.query, settings.query_prompt),
            ("document", known.document, settings.document_prompt),
        )
        if value and given is not None and not given.strip()
    ]
    if not missing:
        return None
    return (
        f"the model {settings.model!r} was trained with {' and '.join(missing)}, which the settings "
        "switch off: remove the empty keys, unless the endpoint adds prompts by itself"
    )


def build_prompted_space(inner: Space, prompts: Prompts, *, replaces_own: bool) -> Space:
    """The space of documents that a prompt stands before; the question's changes no vector that is stored.

    Args:
        inner: the space of the model without a prompt from here.
        prompts: what stands before texts.
        replaces_own: whether the document's prompt stands in the place of one in the model's folder.
    """
    if not prompts.document and not replaces_own:
        return inner
    name = space_name(inner.model, inner.name, "document_prompt", prompts.document)
    read_before = len(estimate_token_starts(prompts.document))
    return replace(inner, name=name, max_tokens=max(16, inner.max_tokens - read_before))


class PromptedEmbedder:
    """A model whose texts get a prompt before them."""

    def __init__(self, inner: Embedder, prompts: Prompts, space: Space) -> None:
        self._inner, self._prompts, self.space = inner, prompts, space

    @property
    def usage(self) -> Usage:
        """Tokens with those of the prompts."""
        return self._inner.usage

    def tokenizer(self) -> Tokenize:
        """The model's own tokenizer."""
        return self._inner.tokenizer()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`."""
        return self._inner.embed([self._prompts.document + text for text in texts])

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`."""
        return self._inner.embed_query(self._prompts.query + text)

    @property
    def max_queries(self) -> int:
        """See `base.BatchEmbedder.max_queries`; 1 for a model that takes one after the other."""
        return self._inner.max_queries if isinstance(self._inner, BatchEmbedder) else 1

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.BatchEmbedder.embed_queries`."""
        prompted = [self._prompts.query + text for text in texts]
        if isinstance(self._inner, BatchEmbedder):
            return self._inner.embed_queries(prompted)
        return np.stack([self._inner.embed_query(text) for text in prompted])
