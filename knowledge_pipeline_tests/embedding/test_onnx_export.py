"""What is exported, and what is said where it cannot be; that the vectors stay is in `test_backends`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from knowledge_pipeline.embedding import onnx_export
from knowledge_pipeline.embedding.onnx_export import export_to_onnx, is_exportable
from knowledge_pipeline.errors import ModelError


@pytest.mark.pytorch
def test_a_model_of_a_known_kind_is_exported_up_to_the_bytes_that_one_file_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch  # takes seconds, which who collects this file has no use for

    model = torch.nn.Linear(4, 2, bias=False)  # 8 weights of 4 bytes
    allowed = []
    for kind, limit in (("bert", 32), ("bert", 31), ("gpt2", 32)):
        monkeypatch.setattr(onnx_export, "_MAX_WEIGHT_BYTES", limit)
        model.config = SimpleNamespace(model_type=kind)
        allowed.append(is_exportable(SimpleNamespace(model=model)))
    assert allowed == [True, False, False]
    assert not is_exportable(torch.nn.Identity())


def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"model\.onnx \(.*Error\): make sure .* or set embedding\.backend"):
        export_to_onnx(SimpleNamespace(model=None), tmp_path / "file" / "model.onnx", int8=False)
