"""The settings `embedding`: which model computes the vectors."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, model_validator

from knowledge_pipeline.config.operation import SettingsModel

Profile = Literal["fast", "balanced", "best"]


class RayPool(SettingsModel):
    """Processes of a Ray cluster that embed one partition together; `RAY_ADDRESS` names the cluster."""

    workers: int = Field(ge=1, le=10_000)
    cpus: float = Field(default=1.0, gt=0)  # of each worker; its threads, too
    gpus: float = Field(default=0.0, ge=0)  # of each worker
    min_texts: int = Field(default=2000, ge=1)  # starting workers for fewer takes longer than embedding


class EmbeddingSettings(SettingsModel):
    """Which model computes the vectors. Each provider and model is a space of its own."""

    provider: Literal["local", "openai"] = "local"
    model: str = "all-MiniLM-L6-v2+bge-small-en-v1.5"  # a name, a hub name, or a folder; or several
    backend: Literal["auto", "torch", "onnx", "onnx-int8"] = "auto"  # local: what runs the model
    base_url: str = "https://api.openai.com/v1"
    api_key: SecretStr | None = None
    dimensions: int | None = Field(default=None, ge=1, le=16384)  # needed for openai; local: cut to so many
    max_input_tokens: int = Field(default=8191, ge=16)  # openai: what the endpoint reads of one text
    batch_size: int | None = Field(default=None, ge=1, le=2048)  # None: best where it runs; 128 a request
    max_concurrent: int = Field(default=4, ge=1, le=64)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    price_per_million_tokens: float = Field(default=0.0, ge=0)
    timeout_s: float = Field(default=60.0, gt=0)
    max_tries: int = Field(default=6, ge=1, le=20)
    ray: RayPool | None = None  # None: the process that refreshes embeds

    @model_validator(mode="after")
    def _check_ray_provider(self) -> EmbeddingSettings:
        if self.ray is not None and self.provider != "local":
            raise ValueError("ray spreads models that compute here: remove it, or set provider to local")
        return self
