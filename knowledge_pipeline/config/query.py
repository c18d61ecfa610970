"""How questions are answered: the settings `query` and `language_model`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from knowledge_pipeline.config.model import SettingsModel


class LanguageModelSettings(SettingsModel):
    """A language model at an OpenAI-compatible endpoint. Nothing needs one."""

    model: str = Field(min_length=1)
    base_url: str = "https://api.openai.com/v1"
    api_key: SecretStr | None = None
    price_per_million_input_tokens: float = Field(default=0.0, ge=0)
    price_per_million_output_tokens: float = Field(default=0.0, ge=0)
    max_input_tokens: int = Field(default=4000, ge=512)  # a longer prompt is never sent
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None  # None: not sent
    timeout_s: float = Field(default=60.0, gt=0)
    max_tries: int = Field(default=3, ge=1, le=20)
    max_concurrent: int = Field(default=4, ge=1, le=64)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)


class RerankSettings(SettingsModel):
    """Which search types are reranked, by what, and how long it may take."""

    kind: Literal["cross_encoder", "llm"] = "cross_encoder"
    model: str | None = None  # a cross-encoder's name or folder; None: no reranking by one
    types: tuple[Literal["semantic", "code", "similar", "historical"], ...] = ()
    budget_s: float = Field(default_factory=lambda data: 8.0 if data.get("kind") == "llm" else 0.4, gt=0)


class SearchGraphSettings(SettingsModel):
    """What the code graph adds to the results of a search."""

    enrich: bool = True  # add to the best code hits what they call, what calls them, ...


class CacheSettings(SettingsModel):
    """How long answers are kept for callers who ask the same and may see the same."""

    ttl_minutes: float = Field(default=15.0, ge=0)  # 0: no cache
    max_megabytes: int = Field(default=32, ge=1)  # approximate


class SearchDepth(SettingsModel):
    """How deep a search of one type looks. None: the default of the type."""

    candidates: int | None = Field(default=None, ge=10, le=1000)  # by words, and by vectors, of each space
    rerank_k: int | None = Field(default=None, ge=1, le=500)  # hits that are reranked, at least
    default_k: int | None = Field(default=None, ge=1, le=100)  # results of a question without a limit


class SearchDepths(SettingsModel):
    """The depths of each type of search."""

    semantic: SearchDepth = SearchDepth.defaults()
    code: SearchDepth = SearchDepth.defaults()
    similar: SearchDepth = SearchDepth.defaults()
    historical: SearchDepth = SearchDepth.defaults()

    @property
    def is_default(self) -> bool:
        """Whether every type has its defaults: then stored scores stay comparable."""
        return self == SearchDepths.defaults()


class QuerySettings(SettingsModel):
    """How questions are answered."""

    fusion: Literal["following", "weighted", "reciprocal_rank"] = "following"
    vector_weight: float = Field(default=0.5, ge=0, le=1)
    feedback: float = Field(default=0.7, ge=0, le=2)  # of the best prose found, in a second look; 0: none
    floor: float = Field(default=0.0, ge=0, le=1)  # following: a result below this score is not relevant
    expansion: Literal["off", "llm"] = "off"
    decompose: Literal["off", "rules", "llm"] = "off"
    hyde: bool = False
    max_related: int = Field(default=3, ge=0, le=100)  # relations shown with a result
    llm_budget_s: float = Field(default=5.0, gt=0)  # for expansion, decomposition and HyDE together
    depth: SearchDepths = Field(default=SearchDepths.defaults(), exclude_if=lambda depth: depth.is_default)
    graph: SearchGraphSettings = SearchGraphSettings.defaults()
    rerank: RerankSettings = RerankSettings.defaults()
    cache: CacheSettings = CacheSettings.defaults()

    @property
    def rewrites_queries(self) -> bool:
        """Whether questions are rewritten before they are searched for."""
        return self.hyde or self.expansion == "llm" or self.decompose != "off"

    def list_language_model_keys(self) -> tuple[str, ...]:
        """Keys whose values need a language model."""
        uses = {
            "query.expansion": self.expansion == "llm",
            "query.decompose": self.decompose == "llm",
            "query.hyde": self.hyde,
            "query.rerank.kind": self.rerank.kind == "llm",
        }
        return tuple(name for name, used in uses.items() if used)
