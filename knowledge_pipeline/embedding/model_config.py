"""What the small files of a model in sentence-transformers layout say of it, without loading its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from knowledge_pipeline.embedding.safetensors_file import read_tensors
from knowledge_pipeline.embedding.tokenizer import SPECIAL_TOKENS

_UNBOUNDED_TOKENS = 8192  # for a model that averages all tokens of a text, however many

_POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is no file. Raises ValueError: it is not JSON."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def read_modules(folder: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each step of the model; sentence-transformers averages a bare transformer."""
    path = folder / "modules.json"
    if not path.is_file():
        return [("Transformer", folder)]
    steps = json.loads(path.read_text(encoding="utf-8"))
    return [(step["type"].rpartition(".")[2], folder / step["path"]) for step in steps]


def read_dimensions(modules: list[tuple[str, Path]]) -> int:
    """The length of the model's vectors. Raises KeyError: no step says it."""
    for kind, place in reversed(modules):
        config = read_json(place / "config.json")
        if kind == "Dense":
            return config["out_features"]
        if kind == "StaticEmbedding":
            return _read_table_width(place / "model.safetensors")
        if kind == "Pooling":
            width = config.get("embedding_dimension") or config["word_embedding_dimension"]
            return width * max(len(read_pooling_modes(place)), 1)
        if kind == "Transformer":
            return config.get("hidden_size") or config.get("dim") or config["d_model"]
    raise KeyError("no module of the model gives vectors")


def read_pooling_modes(pooling: Path) -> list[str]:
    """How the tokens' vectors become one: "mean", "cls", ...; several are concatenated.

    Before sentence-transformers 6, each had a switch of its own.
    """
    config = read_json(pooling / "config.json")
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [name for switch, name in _POOLING_SWITCHES.items() if config.get(switch) is True]
    return [modes] if isinstance(modes, str) else list(modes)


def read_max_tokens(modules: list[tuple[str, Path]]) -> int:
    """How many tokens the model reads of a text, special ones left out."""
    kind, place = modules[0]
    window = read_json(place / "sentence_bert_config.json").get("max_seq_length")
    if kind == "StaticEmbedding":
        return int(window) if window else _UNBOUNDED_TOKENS
    if not window:
        limits = (
            read_json(place / "config.json").get("max_position_embeddings"),
            read_json(place / "tokenizer_config.json").get("model_max_length"),
        )
        window = min((limit for limit in limits if limit), default=512)
    return int(window) - SPECIAL_TOKENS


def has_prompts(folder: Path) -> bool:
    """Whether the model puts words of its own before some texts."""
    prompts: dict[str, str] | None = read_json(folder / "config_sentence_transformers.json").get("prompts")
    return any((prompts or {}).values())


def _read_table_width(weights: Path) -> int:
    tensors = read_tensors(weights).items()
    tables = [each for name, each in tensors if name.startswith("embedding") and len(each.shape) == 2]
    if not tables:
        raise KeyError(f"{weights.name} has no table of vectors")
    return tables[0].shape[1]
