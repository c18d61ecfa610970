"""The settings `embedding`: which model computes the vectors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple, cast

from pydantic import Field, SecretStr, model_validator

from knowledge_pipeline.config.model import SettingsModel

Profile = Literal["fast", "balanced", "best"]
Content = Literal["code", "prose"]
"""What a model reads: code and its commits, or everything else."""


class ProfileModels(NamedTuple):
    """The models of a profile, by `Content`."""

    code: str
    prose: str


_OUTLINE = "all-MiniLM-L6-v2:outline+static-v1"
_PAIR = "all-MiniLM-L6-v2+bge-small-en-v1.5"

PROFILES: Mapping[Profile, ProfileModels] = {
    "fast": ProfileModels(code=_OUTLINE, prose=_OUTLINE),
    "balanced": ProfileModels(code=_OUTLINE, prose=_PAIR),
    "best": ProfileModels(code=_PAIR, prose=_PAIR),
}
"""What each costs and finds is in docs/decisions/embedding.md."""

DEFAULT_PROFILE: Profile = "balanced"


def find_content(source_type: str) -> Content:
    """What sources of a type hold, where they do not say otherwise."""
    return "code" if source_type in ("code", "git_history") else "prose"


class RayPool(SettingsModel):
    """Processes of a Ray cluster that embed one partition together; `RAY_ADDRESS` names the cluster."""

    workers: int = Field(ge=1, le=10_000)
    cpus: float = Field(default=1.0, gt=0)  # of each worker; its threads, too
    gpus: float = Field(default=0.0, ge=0)  # of each worker
    min_texts: int = Field(default=2000, ge=1)  # starting workers for fewer takes longer than embedding


class OllamaOptions(SettingsModel):
    """How Ollama runs the model; what is left out, Ollama decides."""

    num_ctx: int | None = Field(default=None, ge=16)  # tokens that it reads of a text; part of the space
    num_batch: int | None = Field(default=None, ge=1)  # tokens it reads at a time
    num_gpu: int | None = Field(default=None, ge=0)  # layers on a GPU
    main_gpu: int | None = Field(default=None, ge=0)
    num_thread: int | None = Field(default=None, ge=1)
    use_mmap: bool | None = None


_OWN_KEYS: Mapping[str, tuple[str, ...]] = {
    "vertex": ("project", "location", "service_account"),
    "ollama": ("keep_alive", "options"),
}
"""Keys that no other provider has."""

CODE_QUERY_TASK = "CODE_RETRIEVAL_QUERY"
QUERY_TASK = "RETRIEVAL_QUERY"
DOCUMENT_TASK = "RETRIEVAL_DOCUMENT"
"""Task types of Vertex AI."""


class EmbeddingSettings(SettingsModel):
    """Which model computes the vectors. Each provider and model is a space of its own."""

    provider: Literal["local", "openai", "vertex", "ollama"] = "local"
    profile: Profile | None = None  # local: chooses the models by what they read; None: `model` does
    model: str = ""  # a name, a hub name, or a folder; or several. By a profile, that of prose
    query_prompt: str | None = Field(default=None, max_length=1000)  # before a question; None: what is known
    document_prompt: str | None = Field(default=None, max_length=1000)  # before a document
    backend: Literal["auto", "torch", "onnx", "onnx-int8"] = "auto"  # local: what runs the model
    base_url: str = "https://api.openai.com/v1"  # of openai; others have their own
    api_key: SecretStr | None = None  # vertex: an access token
    project: str | None = None  # vertex: the ID of the project that pays
    location: str = "us-central1"  # vertex: a region, or "global"
    service_account: SecretStr | None = None  # vertex: its key, or the path of the key's file
    keep_alive: str | None = Field(default=None, pattern=r"^-?\d{1,9}(s|m|h)?$")  # ollama: in memory
    options: OllamaOptions | None = None
    dimensions: int | None = Field(default=None, ge=1, le=16384)  # needed for openai; local: cut to so many
    task_field: Literal["input_type", "task", "task_type"] = "input_type"  # openai: how tasks are sent
    query_task: str | None = None  # openai: of a question, where the endpoint has tasks
    document_task: str | None = None
    max_input_tokens: int = Field(default=8191, ge=16)  # openai: what the endpoint reads of one text
    batch_size: int | None = Field(default=None, ge=1, le=2048)  # None: best where it runs; 128 a request
    max_concurrent: int = Field(default=4, ge=1, le=64)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    price_per_million_tokens: float = Field(default=0.0, ge=0)
    timeout_s: float = Field(default=60.0, gt=0)
    max_tries: int = Field(default=6, ge=1, le=20)
    ray: RayPool | None = None  # None: the process that refreshes embeds

    @model_validator(mode="before")
    @classmethod
    def _choose_models(cls, values: Any) -> Any:
        """Name the models of the profile, or of the default one where neither it nor a model is given."""
        if not isinstance(values, Mapping):
            return values
        settings = cast(Mapping[str, Any], values)
        if settings.get("provider", "local") != "local":
            if settings.get("profile"):
                raise ValueError(
                    "profile chooses models of this machine: remove it, or set provider to local"
                )
            chosen = {key: value for key, value in settings.items() if value is not None}
            return _list_provider_defaults(settings) | chosen
        profile = settings.get("profile") or (None if settings.get("model") else DEFAULT_PROFILE)
        models = PROFILES.get(cast(Profile, profile)) if isinstance(profile, str) else None
        if models is None:  # a model by name, or a wrong profile, which its field reports
            return settings
        if settings.get("model") not in (None, "", *models):
            raise ValueError("profile chooses the models: remove either profile or model")
        return {**settings, "profile": profile, "model": models.prose}

    def resolve(self, source_type: str, content: Content | None = None) -> EmbeddingSettings:
        """The same settings with the one model, or ensemble, that embeds a type, or some content."""
        if self.profile is None:
            return self
        model = getattr(PROFILES[self.profile], content or find_content(source_type))
        return self.model_copy(update={"profile": None, "model": model})

    @model_validator(mode="after")
    def _check_prompts(self) -> EmbeddingSettings:
        """Several models have a prompt each, which their names tell; tasks are sent to endpoints only."""
        prompts = [name for name in ("query_prompt", "document_prompt") if getattr(self, name) is not None]
        is_one_model = self.profile is None and (self.provider != "local" or "+" not in self.model)
        if prompts and not is_one_model:
            raise ValueError(
                f"{prompts[0]} belongs to one model, which `model` names: name it, or remove the key"
            )
        tasks = [name for name in ("query_task", "document_task") if getattr(self, name) is not None]
        if tasks and self.provider == "local":
            raise ValueError(f"{tasks[0]} is sent to an endpoint: use query_prompt and document_prompt")
        if len(tasks) == 1:
            raise ValueError(
                f"{tasks[0]} needs its counterpart: give query_task and document_task, or neither"
            )
        return self

    @model_validator(mode="after")
    def _check_provider_keys(self) -> EmbeddingSettings:
        if self.ray is not None and self.provider != "local":
            raise ValueError("ray spreads models that compute here: remove it, or set provider to local")
        for provider, names in _OWN_KEYS.items():
            defaults = type(self).model_fields
            own = [name for name in names if getattr(self, name) != defaults[name].get_default()]
            if own and self.provider != provider:
                raise ValueError(
                    f"{own[0]} is for the provider {provider}: remove it, or set provider to that"
                )
        if self.provider == "ollama" and self.query_task is not None:
            raise ValueError("query_task is for endpoints with tasks, which Ollama has none of: remove it")
        if self.provider == "vertex" and "task_field" in self.model_fields_set:
            raise ValueError("task_field is for the provider openai: remove it; Vertex AI has one field")
        return self

    def choose_query_task(self, contents: Collection[Content]) -> EmbeddingSettings:
        """The same settings for questions to a space that holds these contents, and nothing else.

        Vertex AI reads a question in another way where code answers it; the vectors of documents stay.
        """
        if self.provider != "vertex" or self.query_task is not None or set(contents) != {"code"}:
            return self
        return self.model_copy(update={"query_task": CODE_QUERY_TASK, "document_task": DOCUMENT_TASK})


def _list_provider_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    if settings.get("provider") == "ollama":
        return {"base_url": "http://localhost:11434"}
    if settings.get("provider") == "vertex":
        location = settings.get("location") or "us-central1"
        host = "aiplatform" if location == "global" else f"{location}-aiplatform"
        return {"base_url": f"https://{host}.googleapis.com/v1", "max_input_tokens": 2048}
    return {}


class EmbeddingByContent(SettingsModel):
    """A model for each type of content; without one, that of the whole file."""

    code: EmbeddingSettings | None = None
    prose: EmbeddingSettings | None = None
