"""A model that cannot be copied after its export is run by torch as before."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from knowledge_pipeline.embedding import local
from knowledge_pipeline.embedding.local import LoadedModel


class _Transformer:
    """As much of a sentence-transformers model as a `LoadedModel` uses."""

    def __init__(self) -> None:
        self.device = SimpleNamespace(type="cpu")
        self.inner = SimpleNamespace(model=SimpleNamespace(config=None))

    def __getitem__(self, index: int) -> Any:
        return self.inner

    def preprocess(self, texts: list[str]) -> dict[str, Any]:
        return {"input_ids": np.zeros(len(texts))}

    def encode_document(self, texts: list[str], **_: Any) -> np.ndarray:
        return np.ones((len(texts), 2))


class _Uncopyable:
    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise MemoryError


def test_a_failed_switch_to_onnx_leaves_the_model_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "export_to_onnx", lambda *_, **__: None)
    monkeypatch.setattr(local, "build_onnx_module", lambda *_: _Uncopyable())
    monkeypatch.setattr(local, "count_usable_cores", lambda: 2)
    transformer: Any = _Transformer()
    torch_model = transformer.inner.model
    model = LoadedModel(transformer)
    with pytest.raises(MemoryError):
        model.switch_to_onnx(Path("model.onnx"), int8=False)
    assert transformer.inner.model is torch_model and not model.uses_onnx
    assert model.encode(["a", "b"], "encode_document", None)[0].shape == (2, 2)
