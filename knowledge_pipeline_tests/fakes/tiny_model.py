"""A real sentence-transformers model of a few hundred kilobytes: averaged vectors of letter pairs.

It is written without torch, and always with the same bytes.
"""

from __future__ import annotations

import json
import string
from itertools import product
from pathlib import Path

import numpy as np

DIMENSIONS = 32


def build_tiny_model(folder: Path) -> Path:
    """Write the model into `folder`, which is made, and return it."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    vocabulary = {piece: number for number, piece in enumerate(list_pieces())}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=200))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    weights = np.random.default_rng(7).standard_normal((len(vocabulary), DIMENSIONS), dtype=np.float32)

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({"embedding.weight": weights}, folder / "model.safetensors")
    module = "sentence_transformers.sentence_transformer.modules.StaticEmbedding"
    steps = [{"idx": 0, "name": "0", "path": "", "type": module}]
    (folder / "modules.json").write_text(json.dumps(steps))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"similarity_fn_name": "cosine"}))
    return folder


def list_pieces() -> list[str]:
    """Its vocabulary: letters, digits, pairs of letters, and punctuation."""
    single = [*string.ascii_lowercase, *string.digits]
    pairs = ["".join(pair) for pair in product(string.ascii_lowercase, repeat=2)]
    inside = [f"##{piece}" for piece in (*single, *pairs)]
    return ["[UNK]", *string.punctuation, *single, *pairs, *inside]
