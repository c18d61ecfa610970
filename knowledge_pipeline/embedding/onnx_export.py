"""Exports transformers to ONNX, once on each machine, for onnxruntime to run instead of torch.

The files are in the user's cache, named after everything that determines their bytes. They are derived
from the model and can be deleted at any time.
"""

from __future__ import annotations

import inspect
import logging
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from knowledge_pipeline.embedding.parallel import open_onnx_session
from knowledge_pipeline.embedding.spaces import space_name
from knowledge_pipeline.errors import ModelError

if TYPE_CHECKING:
    import torch

_MODEL_TYPES = frozenset({"bert", "distilbert", "mpnet", "roberta", "xlm-roberta"})
_MAX_WEIGHT_BYTES = 1 << 30  # ONNX holds no more in one file
_OPSET = 20  # the first with Gelu as one operation
_RECIPE = f"opset {_OPSET}, eager attention, int8 per channel"
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_MIN_COSINE = {False: 0.9999, True: 0.9}  # by whether it is quantised; below it, the export is broken
_SAMPLE_TOKENS = (7, 60)


def build_export_path(name: str, *identity: object, int8: bool) -> Path:
    """The path of a model's exported file, whether it exists or not.

    Args:
        name: the model's.
        identity: everything that determines its vectors.
        int8: whether the weights are quantised.
    """
    from platformdirs import user_cache_path

    stem = space_name(name, _RECIPE, *identity)
    return user_cache_path("knowledge_pipeline") / "onnx" / f"{stem}{'-int8' if int8 else ''}.onnx"


def is_exportable(transformer: Any) -> bool:
    """Whether the first module of a sentence-transformers model is a transformer of a known kind."""
    model = getattr(transformer, "model", None)
    if getattr(getattr(model, "config", None), "model_type", None) not in _MODEL_TYPES or model is None:
        return False
    return sum(each.numel() * each.element_size() for each in model.parameters()) <= _MAX_WEIGHT_BYTES


def export_to_onnx(transformer: Any, path: Path, *, int8: bool) -> None:
    """Write the ONNX file of a transformer, whole or not at all; one process at a time.

    Args:
        transformer: the first module of a sentence-transformers model, on the CPU.
        path: see `build_export_path`.
        int8: quantise the weights, channel by channel.

    Raises:
        ModelError: the export fails, gives other vectors, or cannot be written.
    """
    from filelock import FileLock

    try:
        if path.is_file():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.is_file():
                _export_verified(transformer.model, path, int8=int8)
    except ModelError:
        raise
    except Exception as error:  # whatever torch, onnx and onnxruntime raise, and a full disk
        raise ModelError(
            f"the model cannot be exported to {path.name} ({type(error).__name__}): make sure that the "
            "user's cache folder can be written and the disk is not full, or set embedding.backend to torch"
        ) from error


def _export_verified(model: torch.nn.Module, path: Path, *, int8: bool) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        exported = Path(folder) / "model.onnx"
        with _silence_exporters(), _use_eager_attention(model):
            input_names = _write_onnx(model, exported)
            if int8:
                exported = _quantize(exported)
            _require_similar_vectors(model, exported, input_names, min_cosine=_MIN_COSINE[int8])
        exported.replace(path)


def _write_onnx(model: Any, path: Path) -> list[str]:
    """Export a model; the names of its inputs."""
    import torch

    class Hidden(torch.nn.Module):
        """The last hidden states alone, of inputs by position."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *given: torch.Tensor) -> torch.Tensor:
            return self.model(**dict(zip(names, given, strict=True))).last_hidden_state

    known = inspect.signature(model.forward).parameters
    names = [name for name in _INPUTS if name in known]
    ones = torch.ones((2, 6), dtype=torch.int64)
    samples = {"input_ids": ones + 1, "attention_mask": ones, "token_type_ids": ones - 1}
    axes = {0: torch.export.Dim("texts", min=1, max=4096), 1: torch.export.Dim("tokens", min=2, max=512)}
    torch.onnx.export(  # pyright: ignore[reportUnknownMemberType]  # a bare PathLike
        Hidden().eval(),
        tuple(samples[name] for name in names),
        str(path),
        dynamo=True,
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_shapes=((axes,) * len(names),),
        external_data=False,
        opset_version=_OPSET,
        verbose=False,
    )
    return names


def _quantize(path: Path) -> Path:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]  # it has none

    model = onnx.load(str(path))  # pyright: ignore[reportUnknownMemberType]  # a bare PathLike
    note = model.metadata_props.add()
    note.key, note.value = "onnx.quant.pre_process", "onnxruntime.quant"  # otherwise the root logger is used
    target = path.with_name("int8.onnx")
    operations = ["MatMul", "Gemm"]
    quantize_dynamic(
        model, str(target), per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=operations
    )
    return target


def _require_similar_vectors(model: Any, path: Path, names: list[str], *, min_cosine: float) -> None:
    """Raise `ModelError` unless both give a few arbitrary texts similar vectors."""
    import torch

    session: Any = open_onnx_session(str(path))
    for length in _SAMPLE_TOKENS:
        ids = 1 + np.arange(length, dtype=np.int64)[None] * 7 % (model.config.vocab_size - 2)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        fed = {name: given[name] for name in names}
        with torch.inference_mode():
            expected = model(**{name: torch.from_numpy(value) for name, value in fed.items()})  # pyright: ignore[reportUnknownMemberType]  # it has no types
        reference = expected.last_hidden_state.numpy().mean(axis=1)[0]
        vector = session.run(None, fed)[0].mean(axis=1)[0]
        cosine = float(reference @ vector / (np.linalg.norm(reference) * np.linalg.norm(vector)))
        if not cosine >= min_cosine:  # NaN compares false
            raise ModelError(
                f"the model exported to {path.name} gives other vectors (cosine {cosine:.4f}): "
                "set embedding.backend to torch"
            )


@contextmanager
def _use_eager_attention(model: Any) -> Generator[None]:
    """Attention as separate operations, which onnxruntime fuses."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def _silence_exporters() -> Generator[None]:
    """Exporters log operators that no text model has."""
    logger = logging.getLogger("torch")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
