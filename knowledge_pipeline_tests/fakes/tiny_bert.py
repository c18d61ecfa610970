"""A real BERT encoder of random weights and a few hundred kilobytes, written without torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from knowledge_pipeline_tests.fakes.tiny_model import list_pieces

HIDDEN, LAYERS, HEADS, INNER, WINDOW = 48, 2, 4, 96, 40
_SPECIAL = ["[PAD]", "[CLS]", "[SEP]"]
CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": WINDOW,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}


def build_tiny_bert(folder: Path, *, pooling: str | None = "mean", dtype: type = np.float32) -> Path:
    """Write the model into `folder`, which is made, and return it.

    Args:
        folder: where.
        pooling: "mean" or "cls"; None: the transformer alone, without `modules.json`.
        dtype: of the weights.
    """
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = [*_SPECIAL, *list_pieces()]
    _build_tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    _write(
        folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizerFast", "model_max_length": WINDOW}
    )
    _write(folder / "config.json", {**CONFIG, "vocab_size": len(vocabulary)})
    save_file(
        {name: value.astype(dtype) for name, value in _build_weights(len(vocabulary)).items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    if pooling:
        base = "sentence_transformers.models"
        steps = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
        listed = [
            {"idx": number, "name": str(number), "path": place, "type": f"{base}.{kind}"}
            for number, (kind, place) in enumerate(steps)
        ]
        _write(folder / "modules.json", listed)
        (folder / "1_Pooling").mkdir(exist_ok=True)
        chosen = {"word_embedding_dimension": HIDDEN}
        for mode in ("cls_token", "mean_tokens", "max_tokens"):
            chosen[f"pooling_mode_{mode}"] = mode.startswith(pooling)
        _write(folder / "1_Pooling/config.json", chosen)
        _write(folder / "sentence_bert_config.json", {"max_seq_length": WINDOW, "do_lower_case": False})
    return folder


def _build_tokenizer(vocabulary: list[str]):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=200))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = [("[CLS]", numbers["[CLS]"]), ("[SEP]", numbers["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=marks
    )
    return tokenizer


def _build_weights(vocabulary: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(11)

    def table(*shape: int) -> np.ndarray:
        return random.standard_normal(shape) * 0.2

    def norm(name: str) -> dict[str, np.ndarray]:
        return {f"{name}.weight": 1 + table(HIDDEN), f"{name}.bias": table(HIDDEN)}

    def dense(name: str, given: int, made: int) -> dict[str, np.ndarray]:
        return {f"{name}.weight": table(made, given), f"{name}.bias": table(made)}

    weights = {
        "embeddings.word_embeddings.weight": table(vocabulary, HIDDEN),
        "embeddings.position_embeddings.weight": table(WINDOW, HIDDEN),
        "embeddings.token_type_embeddings.weight": table(2, HIDDEN),
        **norm("embeddings.LayerNorm"),
    }
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            weights |= dense(f"{layer}.attention.self.{part}", HIDDEN, HIDDEN)
        weights |= dense(f"{layer}.attention.output.dense", HIDDEN, HIDDEN)
        weights |= norm(f"{layer}.attention.output.LayerNorm")
        weights |= dense(f"{layer}.intermediate.dense", HIDDEN, INNER)
        weights |= dense(f"{layer}.output.dense", INNER, HIDDEN)
        weights |= norm(f"{layer}.output.LayerNorm")
    return weights


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))
